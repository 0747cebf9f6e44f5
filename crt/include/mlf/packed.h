/* Arguments of packed functions, as generated sources read and make them.
 *
 * Includes the C runtime's types, so it needs runtime/include of the archive on the include path;
 * it needs no library.
 */
#ifndef MLF_PACKED_H_
#define MLF_PACKED_H_

#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The handle in argument `k`, or NULL if it has none. */
static inline void *mlf_packed_handle(const TVMValue *args, const int *type_codes, int num_args,
                                      int k) {
  return k < num_args && type_codes[k] == kTVMOpaqueHandle ? args[k].v_handle : NULL;
}

/* The first element of the tensor that argument `k` is, or NULL where there is none. Callers mark
 * tensors as arrays (TVM's CRT graph executor), DLTensors (its other executors) or mere handles. */
static inline void *mlf_packed_data(const TVMValue *args, const int *type_codes, int num_args,
                                    int k) {
  const DLTensor *tensor = NULL;
  if (k < num_args && (type_codes[k] == kTVMDLTensorHandle || type_codes[k] == kTVMNDArrayHandle ||
                       type_codes[k] == kTVMOpaqueHandle || type_codes[k] == kTVMNullptr)) {
    tensor = (const DLTensor *)args[k].v_handle;
  }
  return tensor != NULL && tensor->data != NULL ? (uint8_t *)tensor->data + tensor->byte_offset
                                                : NULL;
}

/* Makes argument `k` a row-major tensor on the CPU. `tensors`, `args` and `type_codes` have a place
 * for each argument; `shape` has `ndim` extents, which callees only read. */
static inline void mlf_packed_tensor(DLTensor *tensors, TVMValue *args, int *type_codes, int k,
                                     void *data, int ndim, const int64_t *shape, uint8_t code,
                                     uint8_t bits) {
  DLTensor *const tensor = &tensors[k];
  tensor->data = data;
  tensor->device.device_type = kDLCPU;
  tensor->device.device_id = 0;
  tensor->ndim = ndim;
  tensor->dtype.code = code;
  tensor->dtype.bits = bits;
  tensor->dtype.lanes = 1;
  tensor->shape = (int64_t *)shape;
  tensor->strides = NULL;
  tensor->byte_offset = 0;
  args[k].v_handle = tensor;
  type_codes[k] = kTVMDLTensorHandle;
}

/* Makes argument `k` the address of some memory. */
static inline void mlf_packed_memory(TVMValue *args, int *type_codes, int k, void *memory) {
  args[k].v_handle = memory;
  type_codes[k] = kTVMOpaqueHandle;
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_PACKED_H_ */
