/* Memory and copies by the names of TVM's device interface. There is one device, the CPU. */
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/internal/common/modules.h>
#include <tvm/runtime/crt/internal/common/ndarray.h>
#include <tvm/runtime/crt/platform.h>
#include <tvm/runtime/crt/stack_allocator.h> /* TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES */

int TVMArrayAlloc(const tvm_index_t *shape, int ndim, int dtype_code, int dtype_bits,
                  int dtype_lanes, int device_type, int device_id, TVMArrayHandle *out) {
  DLDataType dtype;
  DLDevice device;
  TVMNDArray *array;
  void *block = NULL;
  int code;
  *out = NULL;
  dtype.code = (uint8_t)dtype_code;
  dtype.bits = (uint8_t)dtype_bits;
  dtype.lanes = (uint16_t)dtype_lanes;
  device.device_type = (DLDeviceType)device_type;
  device.device_id = device_id;
  if (dtype.code != dtype_code || dtype.bits != dtype_bits || dtype.lanes != dtype_lanes) {
    return kTvmErrorFunctionCallInvalidArg;
  }
  code = (int)TVMMemoryAllocate(sizeof *array, device, &block);
  if (code != 0) {
    return code;
  }
  array = block;
  code = TVMNDArray_Empty(ndim, shape, dtype, device, array);
  if (code != 0) {
    (void)TVMPlatformMemoryFree(block, device);
    return code;
  }
  *out = &array->dl_tensor; /* the first member: TVMArrayFree goes back from it */
  return 0;
}

int TVMArrayFree(TVMArrayHandle handle) {
  TVMNDArray *const array = (TVMNDArray *)handle;
  const DLDevice device = array->dl_tensor.device;
  const int code = TVMNDArray_Release(array);
  const int last = (int)TVMPlatformMemoryFree(array, device);
  return code != 0 ? code : last;
}

int TVMDeviceAllocDataSpace(DLDevice dev, size_t nbytes, size_t alignment, DLDataType type_hint,
                            void **out_data) {
  (void)type_hint;
  *out_data = NULL;
  if (alignment > TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES) {
    TVMAPISetLastError("a larger alignment than TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES");
    return kTvmErrorFunctionCallInvalidArg;
  }
  return (int)TVMMemoryAllocate(nbytes, dev, out_data);
}

int TVMDeviceAllocDataSpaceWithScope(DLDevice dev, int ndim, const int64_t *shape, DLDataType dtype,
                                     const char *mem_scope, void **out_data) {
  size_t bytes;
  *out_data = NULL;
  if ((mem_scope != NULL && mem_scope[0] != '\0' && strcmp(mem_scope, "global") != 0) ||
      TVMTensor_SizeBytes(ndim, shape, dtype, &bytes) != 0) {
    return kTvmErrorFunctionCallInvalidArg;
  }
  return (int)TVMMemoryAllocate(bytes, dev, out_data);
}

int TVMDeviceFreeDataSpace(DLDevice dev, void *ptr) {
  return (int)TVMPlatformMemoryFree(ptr, dev);
}

int TVMDeviceCopyDataFromTo(DLTensor *from, DLTensor *to, TVMStreamHandle stream) {
  size_t from_bytes;
  size_t to_bytes;
  (void)stream;
  if (TVMTensor_SizeBytes(from->ndim, from->shape, from->dtype, &from_bytes) != 0 ||
      TVMTensor_SizeBytes(to->ndim, to->shape, to->dtype, &to_bytes) != 0 ||
      from_bytes != to_bytes || !TVMTensor_IsCompact(from) || !TVMTensor_IsCompact(to)) {
    TVMAPISetLastError("tensors of different sizes, or not compact");
    return kTvmErrorFunctionCallInvalidArg;
  }
  if (from_bytes > 0) {
    memmove((uint8_t *)to->data + to->byte_offset, (const uint8_t *)from->data + from->byte_offset,
            from_bytes);
  }
  return 0;
}

int TVMStreamCreate(int device_type, int device_id, TVMStreamHandle *out) {
  (void)device_type;
  (void)device_id;
  *out = NULL;
  return 0;
}

int TVMStreamFree(int device_type, int device_id, TVMStreamHandle stream) {
  (void)device_type;
  (void)device_id;
  (void)stream;
  return 0;
}

int TVMSetStream(int device_type, int device_id, TVMStreamHandle stream) {
  (void)device_type;
  (void)device_id;
  (void)stream;
  return 0;
}

int TVMSynchronize(int device_type, int device_id, TVMStreamHandle stream) {
  (void)device_type;
  (void)device_id;
  (void)stream;
  return 0;
}

int TVMStreamStreamSynchronize(int device_type, int device_id, TVMStreamHandle src,
                               TVMStreamHandle dst) {
  (void)device_type;
  (void)device_id;
  (void)src;
  (void)dst;
  return 0;
}
