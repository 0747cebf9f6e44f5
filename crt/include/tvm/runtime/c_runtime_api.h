/* The types that generated code and the C runtime share, with TVM's names, values and layouts.
 *
 * Generated sources (ours and TVM's) include this file. tests/crt/abi.c measures every layout on
 * 64-bit x86 and on Arm.
 */
#ifndef TVM_RUNTIME_C_RUNTIME_API_H_
#define TVM_RUNTIME_C_RUNTIME_API_H_

#ifndef TVM_DLL
#define TVM_DLL __attribute__((visibility("default")))
#endif

/* The release of TVM whose interface this is. */
#define TVM_VERSION "0.14.0"

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An extent or an index of a tensor. */
typedef int64_t tvm_index_t;

/* Devices beyond DLPack's list. */
typedef enum { kDLAOCL = 32, kDLSDAccel = 33, kOpenGL = 34, kDLMicroDev = 35 } TVMDeviceExtType;

/* What a TVMValue holds. The first values are DLDataTypeCode's. */
typedef enum {
  kTVMArgInt = kDLInt,
  kTVMArgFloat = kDLFloat,
  kTVMOpaqueHandle = 3U,
  kTVMNullptr = 4U,
  kTVMDataType = 5U,
  kDLDevice = 6U,
  kTVMDLTensorHandle = 7U,
  kTVMObjectHandle = 8U,
  kTVMModuleHandle = 9U,
  kTVMPackedFuncHandle = 10U,
  kTVMStr = 11U,
  kTVMBytes = 12U,
  kTVMNDArrayHandle = 13U,
  kTVMObjectRValueRefArg = 14U,
  kTVMExtBegin = 15U,
  kTVMNNVMFirst = 16U,
  kTVMNNVMLast = 20U,
  kTVMExtReserveEnd = 64U,
  kTVMExtEnd = 128U
} TVMArgTypeCode;

typedef DLTensor *TVMArrayHandle;

/* One argument or result of a packed function; a separate type code says which member is set. */
typedef union {
  int64_t v_int64;
  double v_float64;
  void *v_handle;
  const char *v_str;
  DLDataType v_type;
  DLDevice v_device;
} TVMValue;

typedef struct {
  const char *data;
  size_t size;
} TVMByteArray;

typedef void *TVMModuleHandle;
typedef void *TVMFunctionHandle;
typedef void *TVMRetValueHandle;
typedef void *TVMStreamHandle;
typedef void *TVMObjectHandle;

/* A C function in the shape that TVMFuncRegisterGlobal takes and TVMFuncCall calls. */
typedef int (*TVMPackedCFunc)(TVMValue *args, int *type_codes, int num_args, TVMRetValueHandle ret,
                              void *resource_handle);

/* Functions return 0, or a tvm_crt_error_t, or -1; TVMGetLastError then tells more. Handles are
 * small numbers, not addresses: nothing is freed with them. */

/* The message of the last error, at most 1023 characters; empty before the first. */
TVM_DLL void TVMAPISetLastError(const char *msg);
TVM_DLL const char *TVMGetLastError(void);
#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
TVM_DLL void
TVMAPIErrorf(const char *msg, ...);

/* Forgets a module: its handle, and those of its functions, are invalid from now on. */
TVM_DLL int TVMModFree(TVMModuleHandle mod);

/* The function `func_name` of a module. A name it lacks is kTvmErrorFunctionNameNotFound and leaves
 * NULL in `*out`. Modules here have no imports to query. */
TVM_DLL int TVMModGetFunction(TVMModuleHandle mod, const char *func_name, int query_imports,
                              TVMFunctionHandle *out);

/* The global function `name`, or NULL in `*out` (and 0) when there is none. */
TVM_DLL int TVMFuncGetGlobal(const char *name, TVMFunctionHandle *out);

/* Makes the C function at `f` (a TVMBackendPackedCFunc) global. The name is copied. */
TVM_DLL int TVMFuncRegisterGlobal(const char *name, TVMFunctionHandle f, int override);

/* Calls a function. `ret_val` and `ret_type_code` receive its one result (kTVMNullptr if none).
 * What the function returns is returned. */
TVM_DLL int TVMFuncCall(TVMFunctionHandle func, TVMValue *arg_values, int *type_codes, int num_args,
                        TVMValue *ret_val, int *ret_type_code);
TVM_DLL int TVMFuncFree(TVMFunctionHandle func);

/* Where TVMCFuncSetReturn puts results: a TVMRetValueHandle points to one of these. */
typedef struct TVMCReturnValue {
  TVMValue *ret_val_value;
  int *ret_val_type_code;
} TVMCReturnValue;

TVM_DLL int TVMCFuncSetReturn(TVMRetValueHandle ret, TVMValue *value, int *type_code, int num_ret);

/* Gives back what a function returned as kTVMBytes. */
TVM_DLL int TVMByteArrayFree(TVMByteArray *arr);

/* A tensor with its own shape and (uninitialised) data; TVMArrayFree gives back all of it. */
TVM_DLL int TVMArrayAlloc(const tvm_index_t *shape, int ndim, int dtype_code, int dtype_bits,
                          int dtype_lanes, int device_type, int device_id, TVMArrayHandle *out);
TVM_DLL int TVMArrayFree(TVMArrayHandle handle);

/* Memory of a device: TVMPlatformMemoryAllocate by another name. `alignment` can be no more than
 * what the platform gives to every block. */
TVM_DLL int TVMDeviceAllocDataSpace(DLDevice dev, size_t nbytes, size_t alignment,
                                    DLDataType type_hint, void **out_data);
/* The same for a tensor; the only scope is "global", which NULL and "" mean as well. */
TVM_DLL int TVMDeviceAllocDataSpaceWithScope(DLDevice dev, int ndim, const int64_t *shape,
                                             DLDataType dtype, const char *mem_scope,
                                             void **out_data);
TVM_DLL int TVMDeviceFreeDataSpace(DLDevice dev, void *ptr);

/* Copies the elements of one compact tensor to another of the same size in bytes. */
TVM_DLL int TVMDeviceCopyDataFromTo(DLTensor *from, DLTensor *to, TVMStreamHandle stream);

/* There is one stream and it is always done: these succeed and do nothing. */
TVM_DLL int TVMStreamCreate(int device_type, int device_id, TVMStreamHandle *out);
TVM_DLL int TVMStreamFree(int device_type, int device_id, TVMStreamHandle stream);
TVM_DLL int TVMSetStream(int device_type, int device_id, TVMStreamHandle stream);
TVM_DLL int TVMSynchronize(int device_type, int device_id, TVMStreamHandle stream);
TVM_DLL int TVMStreamStreamSynchronize(int device_type, int device_id, TVMStreamHandle src,
                                       TVMStreamHandle dst);

/* There are no objects to free. */
TVM_DLL int TVMObjectFree(TVMObjectHandle obj);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_C_RUNTIME_API_H_ */
