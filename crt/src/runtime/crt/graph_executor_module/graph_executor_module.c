/* The graph executor as packed functions. */
#include <tvm/runtime/crt/func_registry.h>
#include <tvm/runtime/crt/graph_executor.h>
#include <tvm/runtime/crt/graph_executor_module.h>
#include <tvm/runtime/crt/internal/common/packed_args.h>
#include <tvm/runtime/crt/module.h>

typedef TVMGraphExecutor Executor;
static Executor *executor;

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

static int end_executor(Executor *ended) {
  return TVMGraphExecutor_Release(&ended);
}

#define EXECUTOR(name) TVMGraphExecutor_##name
#include <tvm/runtime/crt/internal/common/executor_module.h>

static int load_params(TVM_PACKED_ARGS) {
  TVMByteArray bytes;
  int code;
  (void)ret;
  (void)ret_tcode;
  select_executor(resource);
  if (executor == NULL) {
    return kTvmErrorExecutorModuleBadContext;
  }
  if (nargs != 1) {
    return kTvmErrorFunctionCallNumArguments;
  }
  if (tcodes[0] == kTVMStr) {
    return kTvmErrorFunctionCallWrongArgType;
  }
  code = TVMPacked_Bytes(&args[0], tcodes[0], &bytes);
  if (code == 0 && bytes.size > UINT32_MAX) {
    code = kTvmErrorFunctionCallInvalidArg;
  }
  return code != 0 ? code : TVMGraphExecutor_LoadParams(executor, bytes.data, (uint32_t)bytes.size);
}

static const TVMBackendPackedCFunc kFunctions[] = {
    get_input,       get_input_index, not_implemented, get_num_inputs,
    get_num_outputs, get_output,      load_params,     run,
    set_input,       not_implemented,
};

static const TVMFuncRegistry kExports = {
    "\012\000get_input\0get_input_index\0get_input_info\0get_num_inputs\0get_num_outputs\0"
    "get_output\0load_params\0run\0set_input\0share_params\0",
    kFunctions,
};

/* (graph JSON, module, device type, device id); the JSON may be in a tensor of bytes. */
static int create(TVM_PACKED_ARGS) {
  TVMByteArray json;
  ExecutorModule *place;
  Executor *made = NULL;
  DLDevice device;
  int code;
  (void)resource;
  if (nargs != 4) {
    return kTvmErrorFunctionCallNumArguments;
  }
  if (tcodes[0] == kTVMBytes || tcodes[1] != kTVMModuleHandle || tcodes[2] != kTVMArgInt ||
      tcodes[3] != kTVMArgInt) {
    return kTvmErrorFunctionCallWrongArgType;
  }
  if (args[2].v_int64 != kDLCPU || args[3].v_int64 != 0) {
    return kTvmErrorExecutorModuleBadContext;
  }
  code = TVMPacked_Bytes(&args[0], tcodes[0], &json);
  if (code != 0) {
    return code;
  }
  device.device_type = kDLCPU;
  device.device_id = 0;
  place = make_room();
  code = TVMGraphExecutor_CreateSized(json.data, json.size, args[1].v_handle, &device, &made);
  return code != 0 ? code : return_module(place, made, &kExports, ret, ret_tcode);
}

tvm_crt_error_t TVMGraphExecutorModule_Register(void) {
  union {
    TVMBackendPackedCFunc function;
    TVMFunctionHandle handle;
  } pointer;
  pointer.function = create;
  return (tvm_crt_error_t)TVMFuncRegisterGlobal("tvm.graph_executor.create", pointer.handle, 0);
}

int TVMGraphExecutorModule_Reset(void) {
  return delete_all_executors();
}
