/* Tensors that own their memory, and the sizes and types of tensors in general. */
#ifndef TVM_RUNTIME_CRT_INTERNAL_COMMON_NDARRAY_H_
#define TVM_RUNTIME_CRT_INTERNAL_COMMON_NDARRAY_H_

#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/internal/common/bytes.h>

#include "crt_config.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of tensors that own their memory: a shape is as long as its tensor's rank, so TVM_CRT_MAX_NDIM is
 * no limit of theirs. */
enum { kTvmMostDimensions = 32 };

/* What starts an array record and a parameter file (little-endian). */
#define TVM_NDARRAY_MAGIC      UINT64_C(0xDD5E40F096B4A13F)
#define TVM_NDARRAY_LIST_MAGIC UINT64_C(0xF7E58D4F05049CB7)

/* No tensor is larger, on any machine: sizes fit an int32_t. */
#define TVM_CRT_MAX_TENSOR_BYTES ((size_t)INT32_MAX)

/* The shape, and the data if it is the array's own, lie in one block that starts at
 * dl_tensor.shape; so there is one thing to free. */
typedef struct TVMNDArray {
  DLTensor dl_tensor;
  uint32_t reference_count;
} TVMNDArray;

/* Parses the name of a type of 1 to 64 bits. 0, or -1 if it is not a type. */
int TVMDataType_Parse(const char *text, DLDataType *dtype);

/* Bytes of one element: a bool takes one. 0 for a type without size. */
size_t TVMDataType_ElementBytes(DLDataType dtype);

/* Bytes of a compact tensor. 0, or -1 for a negative extent or rank, a type without size, or more
 * than TVM_CRT_MAX_TENSOR_BYTES. */
int TVMTensor_SizeBytes(int32_t ndim, const int64_t *shape, DLDataType dtype, size_t *bytes);

/* 1 if the elements are contiguous in row-major order. */
int TVMTensor_IsCompact(const DLTensor *tensor);

/* An array record (see docs: .params): the description of its tensor, and the address of its data.
 * */
typedef struct {
  DLDataType dtype;
  int32_t ndim;
  int64_t shape[TVM_CRT_MAX_NDIM];
  const uint8_t *data;
  size_t data_bytes;
} TVMArrayRecord;

/* Reads one record. 0, or -1 for malformed bytes; `record` is then undefined. */
int TVMArrayRecord_Read(TVMByteCursor *cursor, TVMArrayRecord *record);

/* An array without data (NULL), with data of its own, with those of a record, or with those of
 * another array of at least its size. 0 or a code; a failed one needs no release. */
int TVMNDArray_Create(int32_t ndim, const tvm_index_t *shape, DLDataType dtype, DLDevice dev,
                      TVMNDArray *array);
int TVMNDArray_Empty(int32_t ndim, const tvm_index_t *shape, DLDataType dtype, DLDevice dev,
                     TVMNDArray *array);
int TVMNDArray_LoadBytes(TVMNDArray *array, TVMByteCursor *cursor);
int TVMNDArray_CreateView(TVMNDArray *array, const tvm_index_t *shape, int32_t ndim,
                          DLDataType dtype, TVMNDArray *array_view);

/* TVM's form of LoadBytes, for records known to be whole: `*strm` moves past it. */
int TVMNDArray_Load(TVMNDArray *array, const char **strm);

/* Its size, or -1. */
int64_t TVMNDArray_DataSizeBytes(TVMNDArray *array);

/* Fills a compact tensor with random numbers of TVMPlatformGenerateRandom: any bits for integers,
 * [0, 1) for float32 and float64, 0 or 1 for bool. */
int TVMTensor_RandomFill(DLTensor *tensor);
int TVMNDArray_RandomFill(TVMNDArray *array);

void TVMNDArray_IncrementReference(TVMNDArray *array);
/* The number of references left. */
uint32_t TVMNDArray_DecrementReference(TVMNDArray *array);

/* Gives up a reference; the last one frees the array's block. */
int TVMNDArray_Release(TVMNDArray *array);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_INTERNAL_COMMON_NDARRAY_H_ */
