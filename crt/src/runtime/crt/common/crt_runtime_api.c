/* Modules, functions and their handles; memory and the last error. */
#include <stdarg.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/func_registry.h>
#include <tvm/runtime/crt/internal/common/func_names.h>
#include <tvm/runtime/crt/internal/common/modules.h>
#include <tvm/runtime/crt/internal/common/ndarray.h>
#include <tvm/runtime/crt/internal/common/time_evaluator.h>
#include <tvm/runtime/crt/module.h>
#include <tvm/runtime/crt/platform.h>

#include "crt_config.h"

/* An archive without a system library links all the same. */
#if defined(__GNUC__)
#pragma weak TVMSystemLibEntryPoint
#endif

/* A module's number: the flag, how often its place was given away (0 for modules that stay), and
 * its place. A function's: its module's number, the flag and its index. */
enum {
  kHandleFlag = 0x8000, /* in both halves of a handle, so that none is NULL */
  kGenerationBits = 0x7f00,
  kGenerationStep = 0x0100,
  kPlaceBits = 0x00ff,
  kGlobalModule = TVM_CRT_MAX_REGISTERED_MODULES,
  kPacketOverhead = 11,    /* session header and the packet's own length */
  kHostPacketBytes = 2048, /* what a host of TVM can receive, whatever the device can */
  kPacketBytes = TVM_CRT_MAX_PACKET_SIZE_BYTES < kHostPacketBytes ? TVM_CRT_MAX_PACKET_SIZE_BYTES
                                                                  : kHostPacketBytes
};

/* Fails to compile when a place does not fit its bits. */
typedef char places_fit[TVM_CRT_MAX_REGISTERED_MODULES < kPlaceBits ? 1 : -1];

typedef struct {
  const TVMModule *module;
  TVMModuleDeleter deleter; /* NULL: the module stays */
  uint16_t generation;
} Registered;

static Registered registered[TVM_CRT_MAX_REGISTERED_MODULES];
static uint16_t last_generation;

/* The global functions. In memory of its own rather than the platform's: it is needed by everyone
 * who calls TVMInitializeRuntime, as long as the program runs. */
static TVMMutableFuncRegistry global_functions;
static union {
  TVMBackendPackedCFunc alignment;
  uint8_t bytes[TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES];
} global_functions_memory;

static char last_error[1024];

void TVMAPISetLastError(const char *msg) {
  const size_t length = strlen(msg);
  const size_t kept = length < sizeof last_error ? length : sizeof last_error - 1;
  memcpy(last_error, msg, kept);
  last_error[kept] = '\0';
}

void TVMAPIErrorf(const char *msg, ...) {
  va_list args;
  va_start(args, msg);
  last_error[0] = '\0';
  (void)TVMPlatformFormatMessage(last_error, sizeof last_error, msg, args);
  va_end(args);
}

const char *TVMGetLastError(void) {
  return last_error;
}

static void *handle_of(uintptr_t number) {
  return (void *)number;
}

static TVMFunctionHandle function_handle(uintptr_t module, tvm_function_index_t function) {
  return handle_of((module | kHandleFlag) << 16 | function | kHandleFlag);
}

static TVMModuleHandle module_handle(size_t place) {
  return handle_of(place | registered[place].generation | kHandleFlag);
}

/* What a module's number refers to, or NULL. */
static Registered *module_of(uintptr_t number) {
  const size_t place = number & kPlaceBits;
  if ((number & kHandleFlag) == 0 || number > UINT16_MAX ||
      place >= TVM_CRT_MAX_REGISTERED_MODULES) {
    TVMAPIErrorf("invalid module handle: %08lx", (unsigned long)number);
    return NULL;
  }
  if (registered[place].module == NULL ||
      registered[place].generation != (number & kGenerationBits)) {
    TVMAPIErrorf("module %08lx was freed or replaced", (unsigned long)number);
    return NULL;
  }
  return &registered[place];
}

static int add_module(const TVMModule *mod, TVMModuleDeleter deleter, TVMModuleHandle *out_handle) {
  size_t unused = TVM_CRT_MAX_REGISTERED_MODULES;
  size_t i;
  for (i = TVM_CRT_MAX_REGISTERED_MODULES; i-- > 0;) {
    if (registered[i].module == mod) {
      *out_handle = module_handle(i);
      return 0;
    }
    if (registered[i].module == NULL) {
      unused = i;
    }
  }
  if (unused == TVM_CRT_MAX_REGISTERED_MODULES) {
    TVMAPISetLastError("more modules than TVM_CRT_MAX_REGISTERED_MODULES");
    return -1;
  }
  registered[unused].module = mod;
  registered[unused].deleter = deleter;
  registered[unused].generation = 0;
  if (deleter != NULL) {
    last_generation = (uint16_t)(last_generation % kGenerationBits + kGenerationStep);
    registered[unused].generation = last_generation;
  }
  *out_handle = module_handle(unused);
  return 0;
}

int TVMModCreateFromCModule(const TVMModule *mod, TVMModuleHandle *out_handle) {
  return add_module(mod, NULL, out_handle);
}

int TVMModCreateOwned(const TVMModule *mod, TVMModuleDeleter deleter, TVMModuleHandle *out_handle) {
  return add_module(mod, deleter, out_handle);
}

/* Forgets the module first: its deleter may look for free places. */
static int forget(Registered *row) {
  const Registered freed = *row;
  row->module = NULL;
  row->deleter = NULL;
  return freed.deleter != NULL ? freed.deleter(freed.module) : 0;
}

int TVMModFree(TVMModuleHandle mod) {
  Registered *const row = module_of((uintptr_t)mod);
  return row != NULL ? forget(row) : -1;
}

int TVMModFreeIfOwned(TVMModuleHandle mod) {
  Registered *const row = module_of((uintptr_t)mod);
  return row != NULL && row->deleter != NULL ? forget(row) : 0;
}

int TVMModFreeAllOwned(void) {
  int first = 0;
  size_t i;
  for (i = TVM_CRT_MAX_REGISTERED_MODULES; i-- > 0;) {
    if (registered[i].deleter != NULL) {
      const int code = forget(&registered[i]);
      first = first != 0 ? first : code;
    }
  }
  return first;
}

int TVMModGetFunction(TVMModuleHandle mod, const char *func_name, int query_imports,
                      TVMFunctionHandle *out) {
  const Registered *const row = module_of((uintptr_t)mod);
  tvm_function_index_t index;
  tvm_crt_error_t code;
  (void)query_imports;
  *out = NULL;
  if (row == NULL) {
    return -1;
  }
  code = TVMFuncRegistry_Lookup(row->module->registry, func_name, &index);
  if (code != kTvmErrorNoError) {
    TVMAPIErrorf("no function named %s", func_name);
    return (int)code;
  }
  *out = function_handle((uintptr_t)mod, index);
  return 0;
}

int TVMFuncGetGlobal(const char *name, TVMFunctionHandle *out) {
  tvm_function_index_t index;
  *out = NULL;
  if (global_functions.registry.names != NULL &&
      TVMFuncRegistry_Lookup(&global_functions.registry, name, &index) == kTvmErrorNoError) {
    *out = function_handle(kGlobalModule, index);
  }
  return 0;
}

/* C has no conversion between pointers to data and to functions; all our machines do. */
static TVMBackendPackedCFunc function_at(TVMFunctionHandle f) {
  TVMBackendPackedCFunc function;
  memcpy(&function, &f, sizeof function);
  return function;
}

int TVMFuncRegisterGlobal(const char *name, TVMFunctionHandle f, int override) {
  if (global_functions.registry.names == NULL) {
    TVMAPISetLastError("TVMInitializeRuntime has not been called");
    return -1;
  }
  return (int)TVMMutableFuncRegistry_Set(&global_functions, name, function_at(f), override != 0);
}

/* The function of a handle, and the registry it is in; or NULL. */
static TVMBackendPackedCFunc find(TVMFunctionHandle func, const TVMFuncRegistry **registry) {
  const uintptr_t number = (uintptr_t)func;
  const tvm_function_index_t index = (tvm_function_index_t)(number & (kHandleFlag - 1));
  TVMBackendPackedCFunc function = NULL;
  *registry = &global_functions.registry;
  if (number >> 16 != (kGlobalModule | kHandleFlag)) {
    const Registered *const row = module_of(number >> 16);
    if (row == NULL) {
      return NULL;
    }
    *registry = row->module->registry;
  }
  if ((number & kHandleFlag) == 0 || (*registry)->names == NULL ||
      TVMFuncRegistry_GetByIndex(*registry, index, &function) != kTvmErrorNoError) {
    TVMAPIErrorf("invalid function handle: %08lx", (unsigned long)number);
    return NULL;
  }
  return function;
}

const char *TVMFuncName(TVMFunctionHandle func) {
  const TVMFuncRegistry *registry;
  TVMFuncNames names;
  const char *name = NULL;
  uintptr_t index = (uintptr_t)func & (kHandleFlag - 1);
  if (func == kTVMTimeEvaluatorHandle) {
    return "runtime.RPCTimeEvaluator";
  }
  if (find(func, &registry) == NULL || TVMFuncNames_Open(&names, registry->names, SIZE_MAX) != 0) {
    return "a function";
  }
  do {
    name = TVMFuncNames_Next(&names);
  } while (name != NULL && index-- > 0);
  return name != NULL ? name : "a function";
}

int TVMPlainFunction_Call(TVMFunctionHandle func, TVMValue *arg_values, int *type_codes,
                          int num_args, TVMValue *ret_val, int *ret_type_code) {
  const TVMFuncRegistry *registry;
  const TVMBackendPackedCFunc function = find(func, &registry);
  union {
    const TVMFuncRegistry *constant;
    void *handle;
  } resource;
  ret_val[0].v_handle = NULL;
  ret_type_code[0] = kTVMNullptr;
  if (function == NULL) {
    return kTvmErrorFunctionIndexInvalid;
  }
  resource.constant = registry == &global_functions.registry ? NULL : registry;
  return function(arg_values, type_codes, num_args, ret_val, ret_type_code, resource.handle);
}

int TVMFuncCall(TVMFunctionHandle func, TVMValue *arg_values, int *type_codes, int num_args,
                TVMValue *ret_val, int *ret_type_code) {
  if (func == kTVMTimeEvaluatorHandle) {
    ret_val[0].v_handle = NULL;
    ret_type_code[0] = kTVMNullptr;
    return TVMTimeEvaluator_Call(arg_values, type_codes, num_args, ret_val, ret_type_code);
  }
  return TVMPlainFunction_Call(func, arg_values, type_codes, num_args, ret_val, ret_type_code);
}

int TVMFuncFree(TVMFunctionHandle func) {
  (void)func;
  return 0;
}

int TVMCFuncSetReturn(TVMRetValueHandle ret, TVMValue *value, int *type_code, int num_ret) {
  const TVMCReturnValue *const results = (const TVMCReturnValue *)ret;
  int i;
  for (i = 0; i < num_ret; i++) {
    results->ret_val_value[i] = value[i];
    results->ret_val_type_code[i] = type_code[i];
  }
  return 0;
}

int TVMByteArrayFree(TVMByteArray *arr) {
  DLDevice cpu;
  cpu.device_type = kDLCPU;
  cpu.device_id = 0;
  return (int)TVMPlatformMemoryFree(arr, cpu);
}

int TVMObjectFree(TVMObjectHandle obj) {
  (void)obj;
  return 0;
}

static int system_lib(TVMValue *args, int *type_codes, int num_args, TVMValue *ret_value,
                      int *ret_tcode, void *resource_handle) {
  /* Through a variable, because compilers know that functions have addresses. */
  const TVMModule *(*volatile entry_point)(void) = TVMSystemLibEntryPoint;
  TVMModuleHandle module;
  (void)args;
  (void)type_codes;
  (void)num_args;
  (void)resource_handle;
  if (entry_point == NULL) {
    TVMAPISetLastError("no system library is linked");
    return -1;
  }
  if (TVMModCreateFromCModule(entry_point(), &module) != 0) {
    return -1;
  }
  ret_value[0].v_handle = module;
  ret_tcode[0] = kTVMModuleHandle;
  return 0;
}

/* (module, name, query_imports) -> function; nothing, and no error, if there is none: hosts ask for
 * functions that a module may have. */
static int module_get_function(TVMValue *args, int *type_codes, int num_args, TVMValue *ret_value,
                               int *ret_tcode, void *resource_handle) {
  TVMFunctionHandle function;
  int code;
  (void)resource_handle;
  if (num_args != 3) {
    return kTvmErrorFunctionCallNumArguments;
  }
  if (type_codes[0] != kTVMModuleHandle || type_codes[1] != kTVMStr ||
      type_codes[2] != kTVMArgInt) {
    return kTvmErrorFunctionCallWrongArgType;
  }
  code = TVMModGetFunction(args[0].v_handle, args[1].v_str, (int)args[2].v_int64, &function);
  if (code == 0) {
    ret_value[0].v_handle = function;
    ret_tcode[0] = kTVMPackedFuncHandle;
  }
  return code == kTvmErrorFunctionNameNotFound ? 0 : code;
}

/* The longest request or answer, without its length field, that both sides can receive. */
static int max_packet_size(TVMValue *args, int *type_codes, int num_args, TVMValue *ret_value,
                           int *ret_tcode, void *resource_handle) {
  (void)args;
  (void)type_codes;
  (void)num_args;
  (void)resource_handle;
  ret_value[0].v_int64 = kPacketBytes - kPacketOverhead;
  ret_tcode[0] = kTVMArgInt;
  return 0;
}

static int random_fill(TVMValue *args, int *type_codes, int num_args, TVMValue *ret_value,
                       int *ret_tcode, void *resource_handle) {
  (void)ret_value;
  (void)ret_tcode;
  (void)resource_handle;
  if (num_args != 1) {
    return kTvmErrorFunctionCallNumArguments;
  }
  if (type_codes[0] != kTVMDLTensorHandle && type_codes[0] != kTVMNDArrayHandle) {
    return kTvmErrorFunctionCallWrongArgType;
  }
  return TVMTensor_RandomFill((DLTensor *)args[0].v_handle);
}

tvm_crt_error_t TVMInitializeRuntime(void) {
  static const struct {
    const char *name;
    TVMBackendPackedCFunc function;
  } kFunctions[] = {
      {"runtime.SystemLib", system_lib},
      {"tvm.rpc.server.ModuleGetFunction", module_get_function},
      {"runtime.RPCTimeEvaluator", TVMTimeEvaluator_Create},
      {"tvm.rpc.server.GetCRTMaxPacketSize", max_packet_size},
      {"tvm.contrib.random.random_fill", random_fill},
  };
  tvm_crt_error_t code;
  size_t i;
  memset(registered, 0, sizeof registered);
  last_error[0] = '\0';
  TVMTimeEvaluator_Reset();
  code = TVMMutableFuncRegistry_Create(&global_functions, global_functions_memory.bytes,
                                       sizeof global_functions_memory.bytes);
  for (i = 0; code == kTvmErrorNoError && i < sizeof kFunctions / sizeof kFunctions[0]; i++) {
    code = TVMMutableFuncRegistry_Set(&global_functions, kFunctions[i].name, kFunctions[i].function,
                                      0);
  }
  return code;
}
