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

/* One argument or result of a packed function; a type code beside it says which member is set. */
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

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_C_RUNTIME_API_H_ */
