/* What kernels may ask of the runtime round them. Apart from crt_backend_api.c, because these need
 * the table of global functions, and kernels of a c interface do without. */
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/crt/error_codes.h>

int TVMBackendParallelBarrier(int task_id, TVMParallelGroupEnv *penv) {
  (void)task_id;
  (void)penv;
  return 0;
}

int TVMBackendRunOnce(void **handle, int (*f)(void *), void *cdata, int nbytes) {
  (void)nbytes;
  if (*handle != NULL) {
    return 0;
  }
  *handle = handle; /* anything but NULL */
  return f(cdata);
}

int TVMBackendRegisterSystemLibSymbol(const char *name, void *ptr) {
  return TVMFuncRegisterGlobal(name, ptr, 0);
}

int TVMBackendGetFuncFromEnv(void *mod_node, const char *func_name, TVMFunctionHandle *out) {
  const int code = TVMFuncGetGlobal(func_name, out);
  (void)mod_node;
  if (code == 0 && *out == NULL) {
    TVMAPIErrorf("no global function named %s", func_name);
    return kTvmErrorFunctionNameNotFound;
  }
  return code;
}
