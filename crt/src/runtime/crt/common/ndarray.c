/* Tensors that own their memory. */
#include <tvm/runtime/crt/internal/common/modules.h>
#include <tvm/runtime/crt/internal/common/ndarray.h>
#include <tvm/runtime/crt/platform.h>
#include <tvm/runtime/crt/stack_allocator.h> /* TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES */

/* Where data starts in a block that begins with a shape: the block is aligned for any tensor. */
static int data_offset(int32_t ndim, size_t *offset) {
  if (ndim < 0 || ndim > kTvmMostDimensions) {
    return -1;
  }
  return TVMSize_AlignUp((size_t)ndim * sizeof(tvm_index_t), TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES,
                         offset);
}

/* One block for the shape and `data_bytes` of data. */
static int make(int32_t ndim, const tvm_index_t *shape, DLDataType dtype, DLDevice dev,
                size_t data_bytes, TVMNDArray *array) {
  void *block = NULL;
  size_t offset;
  size_t total;
  tvm_crt_error_t code;
  int32_t i;
  if (data_offset(ndim, &offset) != 0 || TVMSize_Add(offset, data_bytes, &total) != 0) {
    return kTvmErrorFunctionCallInvalidArg;
  }
  code = TVMMemoryAllocate(total > 0 ? total : 1, dev, &block);
  if (code != kTvmErrorNoError) {
    return (int)code;
  }
  array->reference_count = 1;
  array->dl_tensor.shape = block;
  array->dl_tensor.data = data_bytes > 0 ? (uint8_t *)block + offset : NULL;
  array->dl_tensor.device = dev;
  array->dl_tensor.ndim = ndim;
  array->dl_tensor.dtype = dtype;
  array->dl_tensor.strides = NULL;
  array->dl_tensor.byte_offset = 0;
  for (i = 0; i < ndim; i++) {
    array->dl_tensor.shape[i] = shape[i];
  }
  return 0;
}

int TVMNDArray_Create(int32_t ndim, const tvm_index_t *shape, DLDataType dtype, DLDevice dev,
                      TVMNDArray *array) {
  size_t bytes;
  if (TVMTensor_SizeBytes(ndim, shape, dtype, &bytes) != 0) {
    return kTvmErrorFunctionCallInvalidArg;
  }
  return make(ndim, shape, dtype, dev, 0, array);
}

int TVMNDArray_Empty(int32_t ndim, const tvm_index_t *shape, DLDataType dtype, DLDevice dev,
                     TVMNDArray *array) {
  size_t bytes;
  if (TVMTensor_SizeBytes(ndim, shape, dtype, &bytes) != 0) {
    return kTvmErrorFunctionCallInvalidArg;
  }
  return make(ndim, shape, dtype, dev, bytes, array);
}

int TVMNDArray_LoadBytes(TVMNDArray *array, TVMByteCursor *cursor) {
  TVMArrayRecord record;
  DLDevice cpu;
  int code;
  cpu.device_type = kDLCPU;
  cpu.device_id = 0;
  if (TVMArrayRecord_Read(cursor, &record) != 0) {
    return -1;
  }
  code = make(record.ndim, record.shape, record.dtype, cpu, record.data_bytes, array);
  if (code == 0) {
    TVMCopyFromLittleEndian(array->dl_tensor.data, record.data, record.data_bytes,
                            TVMDataType_ElementBytes(record.dtype));
  }
  return code;
}

int TVMNDArray_Load(TVMNDArray *array, const char **strm) {
  TVMByteCursor cursor;
  int code;
  cursor.at = (const uint8_t *)*strm;
  cursor.left = SIZE_MAX; /* its end is unknown */
  code = TVMNDArray_LoadBytes(array, &cursor);
  *strm = (const char *)cursor.at;
  return code;
}

int TVMNDArray_CreateView(TVMNDArray *array, const tvm_index_t *shape, int32_t ndim,
                          DLDataType dtype, TVMNDArray *array_view) {
  const DLTensor *const base = &array->dl_tensor;
  size_t base_bytes;
  size_t bytes;
  int code;
  if (TVMTensor_SizeBytes(base->ndim, base->shape, base->dtype, &base_bytes) != 0 ||
      TVMTensor_SizeBytes(ndim, shape, dtype, &bytes) != 0 || bytes > base_bytes) {
    return kTvmErrorFunctionCallInvalidArg;
  }
  code = make(ndim, shape, dtype, base->device, 0, array_view);
  if (code == 0) {
    array_view->dl_tensor.data = base->data;
    array_view->dl_tensor.byte_offset = base->byte_offset;
  }
  return code;
}

int64_t TVMNDArray_DataSizeBytes(TVMNDArray *array) {
  const DLTensor *const t = &array->dl_tensor;
  size_t bytes;
  if (TVMTensor_SizeBytes(t->ndim, t->shape, t->dtype, &bytes) != 0) {
    return -1;
  }
  return (int64_t)bytes;
}

/* Random bits to random numbers, one element. */
static void make_number(uint8_t *element, DLDataType dtype) {
  if (dtype.code == kDLUInt && dtype.bits == 1) {
    *element &= 1;
  } else if (dtype.code == kDLFloat && dtype.bits == 32) {
    uint32_t bits;
    float number;
    memcpy(&bits, element, sizeof bits);
    number = (float)(bits >> 8) / 16777216.0f;
    memcpy(element, &number, sizeof number);
  } else if (dtype.code == kDLFloat && dtype.bits == 64) {
    uint64_t bits;
    double number;
    memcpy(&bits, element, sizeof bits);
    number = (double)(bits >> 11) / 9007199254740992.0;
    memcpy(element, &number, sizeof number);
  }
}

int TVMTensor_RandomFill(DLTensor *tensor) {
  const size_t element_bytes = TVMDataType_ElementBytes(tensor->dtype);
  uint8_t *const data = (uint8_t *)tensor->data + tensor->byte_offset;
  tvm_crt_error_t code;
  size_t bytes;
  size_t i;
  if (TVMTensor_SizeBytes(tensor->ndim, tensor->shape, tensor->dtype, &bytes) != 0 ||
      tensor->dtype.lanes != 1 || !TVMTensor_IsCompact(tensor)) {
    return kTvmErrorFunctionCallInvalidArg;
  }
  code = TVMPlatformGenerateRandom(data, bytes);
  for (i = 0; code == kTvmErrorNoError && i < bytes; i += element_bytes) {
    make_number(data + i, tensor->dtype);
  }
  return (int)code;
}

int TVMNDArray_RandomFill(TVMNDArray *array) {
  return TVMTensor_RandomFill(&array->dl_tensor);
}

void TVMNDArray_IncrementReference(TVMNDArray *array) {
  array->reference_count++;
}

uint32_t TVMNDArray_DecrementReference(TVMNDArray *array) {
  if (array->reference_count > 0) {
    array->reference_count--;
  }
  return array->reference_count;
}

int TVMNDArray_Release(TVMNDArray *array) {
  void *const block = array->dl_tensor.shape;
  if (block == NULL || TVMNDArray_DecrementReference(array) > 0) {
    return 0;
  }
  array->dl_tensor.shape = NULL;
  array->dl_tensor.data = NULL;
  return (int)TVMPlatformMemoryFree(block, array->dl_tensor.device);
}
