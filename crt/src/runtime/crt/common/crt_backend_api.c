/* The functions generated kernels call, on top of the platform's. */
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/crt/platform.h>

static DLDevice device_of(int device_type, int device_id) {
  DLDevice device;
  device.device_type = (DLDeviceType)device_type;
  device.device_id = device_id;
  return device;
}

void *TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t nbytes, int dtype_code_hint,
                               int dtype_bits_hint) {
  void *block = NULL;
  (void)dtype_code_hint;
  (void)dtype_bits_hint;
  if ((size_t)nbytes != nbytes) { /* on a 32-bit device the size would be cut to its low half */
    return NULL;
  }
  if (TVMPlatformMemoryAllocate((size_t)nbytes, device_of(device_type, device_id), &block) !=
      kTvmErrorNoError) {
    return NULL;
  }
  return block;
}

int TVMBackendFreeWorkspace(int device_type, int device_id, void *ptr) {
  return (int)TVMPlatformMemoryFree(ptr, device_of(device_type, device_id));
}

int TVMBackendParallelLaunch(FTVMParallelLambda flambda, void *cdata, int num_task) {
  TVMParallelGroupEnv env;
  (void)num_task;
  env.sync_handle = NULL;
  env.num_task = 1;
  return flambda(0, &env, cdata);
}
