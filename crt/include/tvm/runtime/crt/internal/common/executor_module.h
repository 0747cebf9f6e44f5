/* What the packed functions of both executors' modules have in common.
 *
 * A module includes this once, after its own
 *   EXECUTOR(name)               the name of one of its executor's functions
 *   Executor                     its executor's type
 *   static Executor *executor    the one that a function was called for, or NULL
 *   input_of, output_of          its tensors by their number
 *   write_input, read_output     copies to and from them
 *   end_executor                 gives back an executor's memory */
#ifndef TVM_RUNTIME_CRT_INTERNAL_COMMON_EXECUTOR_MODULE_H_
#define TVM_RUNTIME_CRT_INTERNAL_COMMON_EXECUTOR_MODULE_H_

#include <string.h>
#include <tvm/runtime/crt/internal/common/modules.h>
#include <tvm/runtime/crt/internal/common/packed_args.h>

#ifdef EXECUTOR /* else there is nothing to make functions of */

/* A module for each executor. There is a place less than there are for modules: one of those is the
 * system library's. */
enum {
  kMaxExecutors = TVM_CRT_MAX_REGISTERED_MODULES > 1 ? TVM_CRT_MAX_REGISTERED_MODULES - 1 : 1
};

typedef struct {
  TVMModule module;
  TVMFuncRegistry registry;
  TVMModuleHandle handle;
  Executor *executor; /* NULL: the place is free */
  uint32_t age;
} ExecutorModule;

static ExecutorModule executor_modules[kMaxExecutors];

static int delete_executor(ExecutorModule *m) {
  Executor *const ended = m->executor;
  m->executor = NULL;
  return ended != NULL ? end_executor(ended) : 0;
}

static int delete_module(const TVMModule *module) {
  int code = 0;
  size_t i;
  for (i = 0; i < kMaxExecutors; i++) {
    if (module == &executor_modules[i].module) {
      code = delete_executor(&executor_modules[i]);
    }
  }
  return code;
}

static int delete_all_executors(void) {
  int first = 0;
  size_t i;
  for (i = 0; i < kMaxExecutors; i++) {
    const int code = delete_executor(&executor_modules[i]);
    first = first != 0 ? first : code;
  }
  return first;
}

/* Sets `executor` to that of the module whose function was called. */
static void select_executor(const void *resource) {
  size_t i;
  executor = NULL;
  for (i = 0; i < kMaxExecutors; i++) {
    if (resource == &executor_modules[i].registry) {
      executor = executor_modules[i].executor;
    }
  }
}

/* A free place; if there is none, the oldest executor's, which is freed: a host that makes one
 * executor after the other drops them later than it makes the next. */
static ExecutorModule *make_room(void) {
  ExecutorModule *oldest = &executor_modules[0];
  size_t i;
  for (i = 0; i < kMaxExecutors; i++) {
    if (executor_modules[i].executor == NULL) {
      return &executor_modules[i];
    }
    if (executor_modules[i].age < oldest->age) {
      oldest = &executor_modules[i];
    }
  }
  (void)TVMModFree(oldest->handle);
  (void)delete_executor(oldest); /* its handle may be one of before TVMInitializeRuntime */
  return oldest;
}

/* Makes `made` a module, the result of the function that created it, or ends it. */
static int return_module(ExecutorModule *m, Executor *made, const TVMFuncRegistry *exports,
                         TVMValue *ret, int *ret_tcode) {
  static uint32_t count;
  int code;
  m->registry = *exports;
  m->module.registry = &m->registry;
  m->executor = made;
  m->age = count++;
  code = TVMModCreateOwned(&m->module, delete_module, &m->handle);
  if (code != 0) {
    (void)delete_executor(m);
    return code;
  }
  ret[0].v_handle = m->handle;
  *ret_tcode = kTVMModuleHandle;
  return 0;
}

/* The input that an argument names, or counts to. */
static int find_input(const void *resource, const TVMValue *arg, int tcode, int *index) {
  select_executor(resource);
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
  if (nargs != 1) {
    return kTvmErrorFunctionCallNumArguments;
  }
  code = find_input(resource, &args[0], tcodes[0], &index);
  if (code != 0) {
    return code;
  }
  return TVMPacked_ReturnTensor(ret, ret_tcode, input_of(index));
}

static int get_input_index(TVM_PACKED_ARGS) {
  int index;
  int code;
  if (nargs != 1) {
    return kTvmErrorFunctionCallNumArguments;
  }
  if (tcodes[0] != kTVMStr) {
    return kTvmErrorFunctionCallWrongArgType;
  }
  code = find_input(resource, &args[0], tcodes[0], &index);
  return code != 0 ? code : TVMPacked_ReturnInt(ret, ret_tcode, index);
}

static int not_implemented(TVM_PACKED_ARGS) {
  TVM_PACKED_UNUSED;
  return kTvmErrorFunctionCallNotImplemented;
}

/* What functions without arguments have in common. */
static int check_no_args(const void *resource, int nargs) {
  select_executor(resource);
  if (executor == NULL) {
    return kTvmErrorExecutorModuleBadContext;
  }
  return nargs != 0 ? kTvmErrorFunctionCallNumArguments : 0;
}

static int get_num_inputs(TVM_PACKED_ARGS) {
  const int code = check_no_args(resource, nargs);
  TVM_PACKED_UNUSED;
  return code != 0 ? code : TVMPacked_ReturnInt(ret, ret_tcode, EXECUTOR(GetNumInputs)(executor));
}

static int get_num_outputs(TVM_PACKED_ARGS) {
  const int code = check_no_args(resource, nargs);
  TVM_PACKED_UNUSED;
  return code != 0 ? code : TVMPacked_ReturnInt(ret, ret_tcode, EXECUTOR(GetNumOutputs)(executor));
}

/* (index) -> the tensor itself, or (index, tensor) to copy to it. */
static int get_output(TVM_PACKED_ARGS) {
  select_executor(resource);
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
  const int code = check_no_args(resource, nargs);
  TVM_PACKED_UNUSED;
  return code != 0 ? code : EXECUTOR(Run)(executor);
}

static int set_input(TVM_PACKED_ARGS) {
  int index;
  int code;
  (void)ret;
  (void)ret_tcode;
  if (nargs != 2) {
    return kTvmErrorFunctionCallNumArguments;
  }
  if (!TVMPacked_IsTensor(tcodes[1])) {
    return kTvmErrorFunctionCallWrongArgType;
  }
  code = find_input(resource, &args[0], tcodes[0], &index);
  if (code != 0) {
    return code;
  }
  return write_input(index, args[1].v_handle);
}

#endif /* EXECUTOR */

#endif /* TVM_RUNTIME_CRT_INTERNAL_COMMON_EXECUTOR_MODULE_H_ */
