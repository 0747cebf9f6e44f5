/* What the packed functions of both executors' modules have in common.
 *
 * A module includes this once, behind its own
 *   EXECUTOR(name)               the name of one of its executor's functions
 *   static ... *executor         the one executor, NULL while there is none
 *   input_of, output_of          its tensors by their number
 *   write_input, read_output     copies to and from them */
#ifndef TVM_RUNTIME_CRT_INTERNAL_COMMON_EXECUTOR_MODULE_H_
#define TVM_RUNTIME_CRT_INTERNAL_COMMON_EXECUTOR_MODULE_H_

#include <tvm/runtime/crt/internal/common/packed_args.h>

#ifdef EXECUTOR /* else there is nothing to make functions of */

/* The input that an argument names, or counts to. */
static int find_input(const TVMValue *arg, int tcode, int *index) {
  if (executor == NULL) {
    return kTvmErrorExecutorModuleBadContext;
  }
  if (tcode != kTVMStr && tcode != kTVMArgInt) {
    return kTvmErrorFunctionCallWrongArgType;
  }
  if (tcode == kTVMStr) {
    *index = EXECUTOR(GetInputIndex)(executor, arg->v_str);
  } else {
    const int64_t count = EXECUTOR(GetNumInputs)(executor);
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
  return TVMPacked_ReturnTensor(ret, ret_tcode, input_of(index));
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
  return code != 0 ? code : TVMPacked_ReturnInt(ret, ret_tcode, EXECUTOR(GetNumInputs)(executor));
}

static int get_num_outputs(TVM_PACKED_ARGS) {
  const int code = check_no_args(nargs);
  TVM_PACKED_UNUSED;
  return code != 0 ? code : TVMPacked_ReturnInt(ret, ret_tcode, EXECUTOR(GetNumOutputs)(executor));
}

/* (index) -> the tensor itself, or (index, tensor) to copy to it. */
static int get_output(TVM_PACKED_ARGS) {
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
  if (args[0].v_int64 < 0 || args[0].v_int64 >= EXECUTOR(GetNumOutputs)(executor)) {
    return kTvmErrorExecutorModuleNoSuchInput;
  }
  if (nargs == 2) {
    return read_output((int)args[0].v_int64, args[1].v_handle);
  }
  return TVMPacked_ReturnTensor(ret, ret_tcode, output_of((int)args[0].v_int64));
}

static int run(TVM_PACKED_ARGS) {
  const int code = check_no_args(nargs);
  TVM_PACKED_UNUSED;
  return code != 0 ? code : EXECUTOR(Run)(executor);
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
  return write_input(index, args[1].v_handle);
}

#endif /* EXECUTOR */

#endif /* TVM_RUNTIME_CRT_INTERNAL_COMMON_EXECUTOR_MODULE_H_ */
