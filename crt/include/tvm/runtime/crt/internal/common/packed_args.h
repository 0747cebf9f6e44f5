/* Checks and results of the packed functions that executor modules export. */
#ifndef TVM_RUNTIME_CRT_INTERNAL_COMMON_PACKED_ARGS_H_
#define TVM_RUNTIME_CRT_INTERNAL_COMMON_PACKED_ARGS_H_

#include <string.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/error_codes.h>
#include <tvm/runtime/crt/internal/common/ndarray.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The parameters and names of a TVMBackendPackedCFunc. */
#define TVM_PACKED_ARGS                                                                            \
  TVMValue *args, int *tcodes, int nargs, TVMValue *ret, int *ret_tcode, void *resource

/* For functions that use only some of them. */
#define TVM_PACKED_UNUSED                                                                          \
  (void)args, (void)tcodes, (void)nargs, (void)ret, (void)ret_tcode, (void)resource

static inline int TVMPacked_IsTensor(int tcode) {
  return tcode == kTVMDLTensorHandle || tcode == kTVMNDArrayHandle;
}

/* The bytes of a kTVMBytes, of a kTVMStr, or of a compact tensor: a host that cannot put them into
 * one packet copies them to a tensor first. */
static inline int TVMPacked_Bytes(const TVMValue *arg, int tcode, TVMByteArray *bytes) {
  if (tcode == kTVMStr) {
    bytes->data = arg->v_str;
    bytes->size = strlen(arg->v_str);
    return 0;
  }
  if (tcode == kTVMBytes) {
    *bytes = *(const TVMByteArray *)arg->v_handle;
    return 0;
  }
  if (TVMPacked_IsTensor(tcode)) {
    const DLTensor *const tensor = (const DLTensor *)arg->v_handle;
    bytes->data = (const char *)tensor->data + tensor->byte_offset;
    return TVMTensor_SizeBytes(tensor->ndim, tensor->shape, tensor->dtype, &bytes->size) != 0 ||
                   !TVMTensor_IsCompact(tensor)
               ? kTvmErrorFunctionCallInvalidArg
               : 0;
  }
  return kTvmErrorFunctionCallWrongArgType;
}

static inline int TVMPacked_ReturnInt(TVMValue *ret, int *ret_tcode, int64_t value) {
  ret[0].v_int64 = value;
  *ret_tcode = kTVMArgInt;
  return 0;
}

static inline int TVMPacked_ReturnTensor(TVMValue *ret, int *ret_tcode, DLTensor *tensor) {
  ret[0].v_handle = tensor;
  *ret_tcode = kTVMNDArrayHandle;
  return 0;
}

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_INTERNAL_COMMON_PACKED_ARGS_H_ */
