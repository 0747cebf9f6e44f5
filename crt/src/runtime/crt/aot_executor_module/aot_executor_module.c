/* The AOT executor as packed functions. */
#include <tvm/runtime/crt/aot_executor.h>
#include <tvm/runtime/crt/aot_executor_module.h>
#include <tvm/runtime/crt/func_registry.h>
#include <tvm/runtime/crt/internal/common/packed_args.h>
#include <tvm/runtime/crt/module.h>

typedef TVMAotExecutor Executor;
static Executor *executor;

static DLTensor *input_of(int index) {
  return &executor->args[index].dl_tensor;
}

static DLTensor *output_of(int index) {
  return &executor->args[TVMAotExecutor_GetNumInputs(executor) + index].dl_tensor;
}

/* Copies, unlike the graph executor. */
static int write_input(int index, DLTensor *from) {
  return TVMDeviceCopyDataFromTo(from, input_of(index), NULL);
}

static int read_output(int index, DLTensor *to) {
  return TVMDeviceCopyDataFromTo(output_of(index), to, NULL);
}

static int end_executor(Executor *ended) {
  return TVMAotExecutor_Release(ended, ended->device);
}

#define EXECUTOR(name) TVMAotExecutor_##name
#include <tvm/runtime/crt/internal/common/executor_module.h>

/* get_input_name (index) -> str */
static int get_input_name(TVM_PACKED_ARGS) {
  const char *name;
  int index;
  int code;
  if (nargs != 1) {
    return kTvmErrorFunctionCallNumArguments;
  }
  if (tcodes[0] != kTVMArgInt) {
    return kTvmErrorFunctionCallWrongArgType;
  }
  code = find_input(resource, &args[0], tcodes[0], &index);
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

static const TVMFuncRegistry kExports = {
    "\013\000get_input\0get_input_index\0get_input_info\0get_input_name\0get_num_inputs\0"
    "get_num_outputs\0get_output\0load_params\0run\0set_input\0share_params\0",
    kFunctions,
};

static int create(TVM_PACKED_ARGS) {
  ExecutorModule *place;
  Executor *made = NULL;
  DLDevice device;
  int code;
  (void)resource;
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
  place = make_room();
  code = TVMAotExecutor_Create(args[0].v_handle, device, &made, args[2].v_str);
  return code != 0 ? code : return_module(place, made, &kExports, ret, ret_tcode);
}

tvm_crt_error_t TVMAotExecutorModule_Register(void) {
  union {
    TVMBackendPackedCFunc function;
    TVMFunctionHandle handle;
  } pointer;
  pointer.function = create;
  return (tvm_crt_error_t)TVMFuncRegisterGlobal("tvm.aot_executor.create", pointer.handle, 0);
}

int TVMAotExecutorModule_Reset(void) {
  return delete_all_executors();
}
