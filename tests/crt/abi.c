/* Sizes and offsets of TVM's types as this compiler lays them out, for test_abi.py to read from the
 * object file: the order is the order of its table. Compiling is part of the test: the enumerators
 * that others rely on are asserted here. */
#include <stddef.h>
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/crt/aot_executor.h>
#include <tvm/runtime/crt/error_codes.h>
#include <tvm/runtime/crt/module.h>
#include <tvm/runtime/crt/packed_func.h>
#include <tvm/runtime/crt/page_allocator.h>
#include <tvm/runtime/crt/platform.h>
#include <tvm/runtime/crt/stack_allocator.h>

#define ALIGN_OF(type)                                                                             \
  offsetof(                                                                                        \
      struct {                                                                                     \
        char c;                                                                                    \
        type t;                                                                                    \
      },                                                                                           \
      t)
#define ASSERT_VALUE(name, value) typedef char assert_##name[(name) == (value) ? 1 : -1]

ASSERT_VALUE(kDLCPU, 1);
ASSERT_VALUE(kDLExtDev, 12);
ASSERT_VALUE(kDLHexagon, 16);
ASSERT_VALUE(kDLMicroDev, 35);
ASSERT_VALUE(kDLBfloat, 4);
ASSERT_VALUE(kTVMArgInt, 0);
ASSERT_VALUE(kTVMArgFloat, 2);
ASSERT_VALUE(kTVMOpaqueHandle, 3);
ASSERT_VALUE(kTVMNullptr, 4);
ASSERT_VALUE(kTVMDLTensorHandle, 7);
ASSERT_VALUE(kTVMBytes, 12);
ASSERT_VALUE(kTVMNDArrayHandle, 13);
ASSERT_VALUE(kTVMObjectRValueRefArg, 14);
ASSERT_VALUE(kTvmErrorBufferTooSmall, 0x0104);
ASSERT_VALUE(kTvmErrorFramingPayloadIncomplete, 0x0204);
ASSERT_VALUE(kTvmErrorWriteStreamLongWrite, 0x0301);
ASSERT_VALUE(kTvmErrorSessionReceiveBufferShortWrite, 0x0402);
ASSERT_VALUE(kTvmErrorPlatformCheckFailure, 0x0500);
ASSERT_VALUE(kTvmErrorPlatformNoMemory, 0x0503);
ASSERT_VALUE(kTvmErrorPlatformStackAllocBadFree, 0x0505);
ASSERT_VALUE(kTvmErrorGeneratedInvalidStorageId, 0x0600);
ASSERT_VALUE(kTvmErrorExecutorModuleNoSuchInput, 0x0702);
ASSERT_VALUE(kTvmErrorFunctionCallInvalidArg, 0x0803);
ASSERT_VALUE(kTvmErrorTimeEvaluatorBadHandle, 0x0900);
ASSERT_VALUE(TVM_METADATA_VERSION, 1);
ASSERT_VALUE(TVM_AVERAGE_FUNCTION_NAME_SIZE_BYTES, 10);
ASSERT_VALUE(STACK_ALLOCATOR_TAG, 0xabcd1234);
typedef char assert_system_error[kTvmErrorSystemErrorMask < 0 ? 1 : -1];

extern const uint32_t abi[];
const uint32_t abi[] = {
    sizeof(DLDevice),
    offsetof(DLDevice, device_id),
    sizeof(DLDataType),
    offsetof(DLDataType, bits),
    offsetof(DLDataType, lanes),
    sizeof(TVMValue),
    ALIGN_OF(TVMValue),
    offsetof(DLTensor, data),
    offsetof(DLTensor, device),
    offsetof(DLTensor, ndim),
    offsetof(DLTensor, dtype),
    offsetof(DLTensor, shape),
    offsetof(DLTensor, strides),
    offsetof(DLTensor, byte_offset),
    sizeof(DLTensor),
    ALIGN_OF(DLTensor),
    sizeof(tvm_index_t),
    offsetof(TVMByteArray, size),
    sizeof(struct TVMTensorInfo),
    offsetof(struct TVMTensorInfo, num_shape),
    offsetof(struct TVMTensorInfo, dtype),
    sizeof(struct TVMConstantInfo),
    sizeof(struct TVMMetadata),
    offsetof(struct TVMMetadata, inputs),
    offsetof(struct TVMMetadata, num_inputs),
    offsetof(struct TVMMetadata, mod_name),
    sizeof(TVMFuncRegistry),
    sizeof(TVMModule),
    offsetof(TVMAotExecutor, args),
    offsetof(TVMAotExecutor, num_args),
    offsetof(TVMPackedFunc, fexec),
    offsetof(TVMPackedFunc, args),
    offsetof(TVMArgs, values_count),
    offsetof(MemoryManagerInterface, vleak_size),
};
