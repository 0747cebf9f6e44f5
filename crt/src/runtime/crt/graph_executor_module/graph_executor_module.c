/* The graph executor as packed functions. */
#include <tvm/runtime/crt/func_registry.h>
#include <tvm/runtime/crt/graph_executor.h>
#include <tvm/runtime/crt/graph_executor_module.h>
#include <tvm/runtime/crt/internal/common/packed_args.h>
#include <tvm/runtime/crt/module.h>

static const TVMModule module;
static TVMGraphExecutor *executor;

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

/* The input that an argument names, or counts to. */
static int find_input(const TVMValue *arg, int tcode, int *index) {
  if (executor == NULL) {
    return kTvmErrorExecutorModuleBadContext;
  }
  if (tcode != kTVMStr && tcode != kTVMArgInt) {
    return kTvmErrorFunctionCallWrongArgType;
  }
  if (tcode == kTVMStr) {
    *index = TVMGraphExecutor_GetInputIndex(executor, arg->v_str);
  } else {
    const int64_t count = TVMGraphExecutor_GetNumInputs(executor);
    *index = arg->v_int64 >= 0 && arg->v_int64 < count ? (int)arg->v_int64 : -1;
  }
  return *index < 0 ? kTvmErrorExecutorModuleNoSuchInput : 0;
}

static int get_input(TVM_PACKED_ARGS) {
  int index;
  int code;
  (void)resource;
  if (nargs != 1) {
    return kTvmErrorFunctionCallNumArguments;
  }
  code = find_input(&args[0], tcodes[0], &index);
  if (code != 0) {
    return code;
  }
  return TVMPacked_ReturnTensor(ret, ret_tcode, TVMGraphExecutor_GetInputTensor(executor, index));
}

static int get_input_index(TVM_PACKED_ARGS) {
  int index;
  int code;
  (void)resource;
  if (nargs != 1) {
    return kTvmErrorFunctionCallNumArguments;
  }
  if (tcodes[0] != kTVMStr) {
    return kTvmErrorFunctionCallWrongArgType;
  }
  code = find_input(&args[0], tcodes[0], &index);
  return code != 0 ? code : TVMPacked_ReturnInt(ret, ret_tcode, index);
}

static int not_implemented(TVM_PACKED_ARGS) {
  TVM_PACKED_UNUSED;
  return kTvmErrorFunctionCallNotImplemented;
}

/* What functions without arguments have in common. */
static int check_no_args(int nargs) {
  if (executor == NULL) {
    return kTvmErrorExecutorModuleBadContext;
  }
  return nargs != 0 ? kTvmErrorFunctionCallNumArguments : 0;
}

static int get_num_inputs(TVM_PACKED_ARGS) {
  const int code = check_no_args(nargs);
  TVM_PACKED_UNUSED;
  return code != 0 ? code
                   : TVMPacked_ReturnInt(ret, ret_tcode, TVMGraphExecutor_GetNumInputs(executor));
}

static int get_num_outputs(TVM_PACKED_ARGS) {
  const int code = check_no_args(nargs);
  TVM_PACKED_UNUSED;
  return code != 0 ? code
                   : TVMPacked_ReturnInt(ret, ret_tcode, TVMGraphExecutor_GetNumOutputs(executor));
}

/* (index) -> the tensor itself, or (index, tensor) to copy to it. */
static int get_output(TVM_PACKED_ARGS) {
  DLTensor *tensor;
  (void)resource;
  if (executor == NULL) {
    return kTvmErrorExecutorModuleBadContext;
  }
  if (nargs != 1 && nargs != 2) {
    return kTvmErrorFunctionCallNumArguments;
  }
  if (tcodes[0] != kTVMArgInt || (nargs == 2 && !TVMPacked_IsTensor(tcodes[1]))) {
    return kTvmErrorFunctionCallWrongArgType;
  }
  if (args[0].v_int64 < 0 || args[0].v_int64 >= TVMGraphExecutor_GetNumOutputs(executor)) {
    return kTvmErrorExecutorModuleNoSuchInput;
  }
  if (nargs == 2) {
    return TVMGraphExecutor_GetOutput(executor, (int32_t)args[0].v_int64, args[1].v_handle);
  }
  tensor = TVMGraphExecutor_GetOutputTensor(executor, (int)args[0].v_int64);
  return TVMPacked_ReturnTensor(ret, ret_tcode, tensor);
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

static int run(TVM_PACKED_ARGS) {
  const int code = check_no_args(nargs);
  TVM_PACKED_UNUSED;
  return code != 0 ? code : TVMGraphExecutor_Run(executor);
}

static int set_input(TVM_PACKED_ARGS) {
  int index;
  int code;
  (void)ret;
  (void)ret_tcode;
  (void)resource;
  if (nargs != 2) {
    return kTvmErrorFunctionCallNumArguments;
  }
  if (!TVMPacked_IsTensor(tcodes[1])) {
    return kTvmErrorFunctionCallWrongArgType;
  }
  code = find_input(&args[0], tcodes[0], &index);
  if (code != 0) {
    return code;
  }
  return TVMGraphExecutor_SetInput(executor, TVMGraphExecutor_GetInputName(executor, index),
                                   args[1].v_handle);
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
