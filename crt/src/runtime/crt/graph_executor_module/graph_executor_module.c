/* The graph executor as packed functions. */
#include <tvm/runtime/crt/func_registry.h>
#include <tvm/runtime/crt/graph_executor.h>
#include <tvm/runtime/crt/graph_executor_module.h>
#include <tvm/runtime/crt/internal/common/packed_args.h>
#include <tvm/runtime/crt/module.h>

static const TVMModule module;
static TVMGraphExecutor *executor;

static DLTensor *input_of(int index) {
  return TVMGraphExecutor_GetInputTensor(executor, index);
}

static DLTensor *output_of(int index) {
  return TVMGraphExecutor_GetOutputTensor(executor, index);
}

static int write_input(int index, DLTensor *from) {
  return TVMGraphExecutor_SetInput(executor, TVMGraphExecutor_GetInputName(executor, index), from);
}

static int read_output(int index, DLTensor *to) {
  return TVMGraphExecutor_GetOutput(executor, index, to);
}

#define EXECUTOR(name) TVMGraphExecutor_##name
#include <tvm/runtime/crt/internal/common/executor_module.h>

static int create(TVM_PACKED_ARGS) {
  DLDevice device;
  TVMModuleHandle handle;
  int code;
  (void)resource;
  if (executor != NULL) {
    return kTvmErrorExecutorModuleAlreadyCreated;
  }
  if (nargs != 4) {
    return kTvmErrorFunctionCallNumArguments;
  }
  if (tcodes[0] != kTVMStr || tcodes[1] != kTVMModuleHandle || tcodes[2] != kTVMArgInt ||
      tcodes[3] != kTVMArgInt) {
    return kTvmErrorFunctionCallWrongArgType;
  }
  if (args[2].v_int64 != kDLCPU || args[3].v_int64 != 0) {
    return kTvmErrorExecutorModuleBadContext;
  }
  device.device_type = kDLCPU;
  device.device_id = 0;
  code = TVMGraphExecutor_Create(args[0].v_str, args[1].v_handle, &device, &executor);
  if (code != 0) {
    return code;
  }
  code = TVMModCreateFromCModule(&module, &handle);
  if (code != 0) {
    (void)TVMGraphExecutor_Release(&executor);
    return code;
  }
  ret[0].v_handle = handle;
  *ret_tcode = kTVMModuleHandle;
  return 0;
}

static int load_params(TVM_PACKED_ARGS) {
  const TVMByteArray *bytes;
  (void)ret;
  (void)ret_tcode;
  (void)resource;
  if (executor == NULL) {
    return kTvmErrorExecutorModuleBadContext;
  }
  if (nargs != 1) {
    return kTvmErrorFunctionCallNumArguments;
  }
  if (tcodes[0] != kTVMBytes) {
    return kTvmErrorFunctionCallWrongArgType;
  }
  bytes = args[0].v_handle;
  if (bytes->size > UINT32_MAX) {
    return kTvmErrorFunctionCallInvalidArg;
  }
  return TVMGraphExecutor_LoadParams(executor, bytes->data, (uint32_t)bytes->size);
}

static const TVMBackendPackedCFunc kFunctions[] = {
    get_input,       get_input_index, not_implemented, get_num_inputs,
    get_num_outputs, get_output,      load_params,     run,
    set_input,       not_implemented,
};

static const TVMFuncRegistry kRegistry = {
    "\012\000get_input\0get_input_index\0get_input_info\0get_num_inputs\0get_num_outputs\0"
    "get_output\0load_params\0run\0set_input\0share_params\0",
    kFunctions,
};

static const TVMModule module = {&kRegistry};

tvm_crt_error_t TVMGraphExecutorModule_Register(void) {
  union {
    TVMBackendPackedCFunc function;
    TVMFunctionHandle handle;
  } pointer;
  pointer.function = create;
  return (tvm_crt_error_t)TVMFuncRegisterGlobal("tvm.graph_executor.create", pointer.handle, 0);
}

int TVMGraphExecutorModule_Reset(void) {
  return TVMGraphExecutor_Release(&executor);
}
