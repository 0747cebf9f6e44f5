/* The AOT executor as packed functions. */
#include <tvm/runtime/crt/aot_executor.h>
#include <tvm/runtime/crt/aot_executor_module.h>
#include <tvm/runtime/crt/func_registry.h>
#include <tvm/runtime/crt/internal/common/packed_args.h>
#include <tvm/runtime/crt/module.h>

static const TVMModule module;
static TVMAotExecutor *executor;

static int create(TVM_PACKED_ARGS) {
  DLDevice device;
  TVMModuleHandle handle;
  int code;
  (void)resource;
  if (executor != NULL) {
    return kTvmErrorExecutorModuleAlreadyCreated;
  }
  if (nargs != 3) {
    return kTvmErrorFunctionCallNumArguments;
  }
  if (tcodes[0] != kTVMModuleHandle || tcodes[1] != kDLDevice || tcodes[2] != kTVMStr) {
    return kTvmErrorFunctionCallWrongArgType;
  }
  device = args[1].v_device;
  if (device.device_type != kDLCPU || device.device_id != 0) {
    return kTvmErrorExecutorModuleBadContext;
  }
  code = TVMAotExecutor_Create(args[0].v_handle, device, &executor, args[2].v_str);
  if (code != 0) {
    return code;
  }
  code = TVMModCreateFromCModule(&module, &handle);
  if (code != 0) {
    (void)TVMAotExecutorModule_Reset();
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
    *index = TVMAotExecutor_GetInputIndex(executor, arg->v_str);
  } else {
    const int64_t count = TVMAotExecutor_GetNumInputs(executor);
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
  return TVMPacked_ReturnTensor(ret, ret_tcode, &executor->args[index].dl_tensor);
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
                   : TVMPacked_ReturnInt(ret, ret_tcode, TVMAotExecutor_GetNumInputs(executor));
}

static int get_num_outputs(TVM_PACKED_ARGS) {
  const int code = check_no_args(nargs);
  TVM_PACKED_UNUSED;
  return code != 0 ? code
                   : TVMPacked_ReturnInt(ret, ret_tcode, TVMAotExecutor_GetNumOutputs(executor));
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
  if (args[0].v_int64 < 0 || args[0].v_int64 >= TVMAotExecutor_GetNumOutputs(executor)) {
    return kTvmErrorExecutorModuleNoSuchInput;
  }
  tensor = &executor->args[TVMAotExecutor_GetNumInputs(executor) + args[0].v_int64].dl_tensor;
  if (nargs == 2) {
    return TVMDeviceCopyDataFromTo(tensor, args[1].v_handle, NULL);
  }
  return TVMPacked_ReturnTensor(ret, ret_tcode, tensor);
}

static int run(TVM_PACKED_ARGS) {
  const int code = check_no_args(nargs);
  TVM_PACKED_UNUSED;
  return code != 0 ? code : TVMAotExecutor_Run(executor);
}

/* Copies, unlike the graph executor. */
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
  return TVMDeviceCopyDataFromTo(args[1].v_handle, &executor->args[index].dl_tensor, NULL);
}

/* get_input_name (index) -> str */
static int get_input_name(TVM_PACKED_ARGS) {
  const char *name;
  int index;
  int code;
  (void)resource;
  if (nargs != 1) {
    return kTvmErrorFunctionCallNumArguments;
  }
  if (tcodes[0] != kTVMArgInt) {
    return kTvmErrorFunctionCallWrongArgType;
  }
  code = find_input(&args[0], tcodes[0], &index);
  if (code == 0) {
    code = TVMAotExecutor_GetInputName(executor, index, &name);
  }
  if (code == 0) {
    ret[0].v_str = name;
    *ret_tcode = kTVMStr;
  }
  return code;
}

static const TVMBackendPackedCFunc kFunctions[] = {
    get_input,      get_input_index, not_implemented,
    get_input_name, get_num_inputs,  get_num_outputs,
    get_output,     not_implemented, run,
    set_input,      not_implemented,
};

static const TVMFuncRegistry kRegistry = {
    "\013\000get_input\0get_input_index\0get_input_info\0get_input_name\0get_num_inputs\0"
    "get_num_outputs\0get_output\0load_params\0run\0set_input\0share_params\0",
    kFunctions,
};

static const TVMModule module = {&kRegistry};

tvm_crt_error_t TVMAotExecutorModule_Register(void) {
  union {
    TVMBackendPackedCFunc function;
    TVMFunctionHandle handle;
  } pointer;
  pointer.function = create;
  return (tvm_crt_error_t)TVMFuncRegisterGlobal("tvm.aot_executor.create", pointer.handle, 0);
}

int TVMAotExecutorModule_Reset(void) {
  TVMAotExecutor *const ended = executor;
  executor = NULL;
  return ended != NULL ? TVMAotExecutor_Release(ended, ended->device) : 0;
}
