/* Registries, handles, packed calls, errors and measuring. Prints what failed, exits 1 if
 * any. No system library is linked. */
#include "expect.h"

#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/func_registry.h>
#include <tvm/runtime/crt/internal/common/func_names.h>
#include <tvm/runtime/crt/packed_func.h>

static int calls;

static int first(TVMValue *args, int *tcodes, int n, TVMValue *ret, int *rcode, void *resource) {
  (void)tcodes;
  (void)resource;
  calls++;
  ret[0].v_int64 = n > 0 ? args[0].v_int64 + 1 : 0;
  *rcode = kTVMArgInt;
  return 0;
}

static int second(TVMValue *args, int *tcodes, int n, TVMValue *ret, int *rcode, void *resource) {
  TVMCReturnValue result;
  TVMValue value;
  int tcode = kTVMArgFloat;
  (void)args;
  (void)tcodes;
  (void)n;
  (void)resource;
  result.ret_val_value = ret;
  result.ret_val_type_code = rcode;
  value.v_float64 = 2.5;
  EXPECT(TVMCFuncSetReturn(&result, &value, &tcode, 1) == 0);
  return 0;
}

static int failing(TVMValue *args, int *tcodes, int n, TVMValue *ret, int *rcode, void *resource) {
  (void)args;
  (void)tcodes;
  (void)n;
  (void)ret;
  (void)rcode;
  (void)resource;
  return 77;
}

static const TVMBackendPackedCFunc kFunctions[] = {first, second, failing};
static const TVMBackendPackedCFunc kMeasured[] = {first, failing};

static void *handle_of(TVMBackendPackedCFunc function) {
  void *handle;
  memcpy(&handle, &function, sizeof handle);
  return handle;
}

/* The same three functions in each of the forms that archives come in. */
static void registries_of_all_forms_are_read(void) {
  static const char *const kForms[] = {
      "\003\000first\0second\0failing\0",
      "\003first\0second\0failing\0",
      "\000\003first\0second\0failing\0",
  };
  size_t i;
  for (i = 0; i < 3; i++) {
    TVMFuncRegistry reg;
    tvm_function_index_t index = 9;
    TVMBackendPackedCFunc function = NULL;
    reg.names = kForms[i];
    reg.funcs = kFunctions;
    EXPECT(TVMFuncRegistry_GetNumFuncs(&reg) == 3);
    EXPECT(strcmp(TVMFuncRegistry_Get0thFunctionName(&reg), "first") == 0);
    EXPECT(TVMFuncRegistry_Lookup(&reg, "failing", &index) == kTvmErrorNoError && index == 2);
    EXPECT(TVMFuncRegistry_Lookup(&reg, "fail", &index) == kTvmErrorFunctionNameNotFound);
    EXPECT(TVMFuncRegistry_Lookup(&reg, "", &index) == kTvmErrorFunctionNameNotFound && index == 2);
    EXPECT(TVMFuncRegistry_GetByIndex(&reg, 1, &function) == kTvmErrorNoError);
    EXPECT(function == second);
    EXPECT(TVMFuncRegistry_GetByIndex(&reg, 3, &function) == kTvmErrorFunctionIndexInvalid);
  }
}

/* 256 functions: 00 01, which could be one function with the high byte first. */
static void a_count_of_256_is_not_taken_for_1(void) {
  static char names[2 + 256 * 2 + 1];
  TVMFuncRegistry reg;
  tvm_function_index_t index = 0;
  int i;
  memset(names, 0, sizeof names);
  names[1] = 1;
  for (i = 0; i < 256; i++) {
    names[2 + 2 * i] = (char)(i == 255 ? 'z' : 'a');
  }
  reg.names = names;
  reg.funcs = NULL;
  EXPECT(TVMFuncRegistry_GetNumFuncs(&reg) == 256);
  EXPECT(TVMFuncRegistry_Lookup(&reg, "z", &index) == kTvmErrorNoError && index == 255);
}

static void names_end_with_their_bytes(void) {
  static const char kNames[] = "\002\000ab\0cd";
  TVMFuncNames names;
  EXPECT(TVMFuncNames_Open(&names, "\000\002ab\0cd", 7) == 0 && names.count == 512);
  EXPECT(TVMFuncNames_Open(&names, kNames, 1) == -1);
  EXPECT(TVMFuncNames_Open(&names, kNames, 4) == 0 && TVMFuncNames_Next(&names) == NULL);
  EXPECT(TVMFuncNames_Open(&names, kNames, 7) == 0);
  EXPECT(strcmp(TVMFuncNames_Next(&names), "ab") == 0 && TVMFuncNames_Next(&names) == NULL);
}

static void functions_are_added_and_replaced(void) {
  static union {
    void *alignment;
    uint8_t bytes[4 * (11 + sizeof(void *))];
  } memory;
  TVMMutableFuncRegistry reg;
  TVMBackendPackedCFunc function = NULL;
  EXPECT(TVMMutableFuncRegistry_Create(&reg, memory.bytes, kTvmAverageFuncEntrySizeBytes - 1) ==
         kTvmErrorBufferTooSmall);
  EXPECT(TVMMutableFuncRegistry_Create(&reg, memory.bytes, sizeof memory.bytes) ==
         kTvmErrorNoError);
  EXPECT(reg.max_functions == 4);
  EXPECT(TVMMutableFuncRegistry_Set(&reg, "a", first, 0) == kTvmErrorNoError);
  EXPECT(TVMMutableFuncRegistry_Set(&reg, "a", second, 0) == kTvmErrorFunctionAlreadyDefined);
  EXPECT(TVMFuncRegistry_GetByIndex(&reg.registry, 0, &function) == kTvmErrorNoError);
  EXPECT(function == first);
  EXPECT(TVMMutableFuncRegistry_Set(&reg, "a", second, 1) == kTvmErrorNoError);
  EXPECT(TVMFuncRegistry_GetByIndex(&reg.registry, 0, &function) == kTvmErrorNoError);
  EXPECT(function == second);
  EXPECT(TVMMutableFuncRegistry_Set(&reg, "", first, 1) != kTvmErrorNoError);
  EXPECT(TVMMutableFuncRegistry_Set(
             &reg, "a name so long that it would take up all of the buffer, and then some", first,
             0) == kTvmErrorFunctionRegistryFull);
  EXPECT(TVMMutableFuncRegistry_Set(&reg, "b", first, 0) == kTvmErrorNoError);
  EXPECT(TVMMutableFuncRegistry_Set(&reg, "c", first, 0) == kTvmErrorNoError);
  EXPECT(TVMMutableFuncRegistry_Set(&reg, "d", first, 0) == kTvmErrorNoError);
  EXPECT(TVMMutableFuncRegistry_Set(&reg, "e", first, 0) == kTvmErrorFunctionRegistryFull);
  EXPECT(TVMFuncRegistry_GetNumFuncs(&reg.registry) == 4);
}

static void global_functions_are_called(void) {
  TVMFunctionHandle f = &f;
  TVMArgs args = TVMArgs_Create(NULL, NULL, 0);
  char name[201];
  TVMPackedFunc pf;
  EXPECT(TVMFuncGetGlobal("nowhere", &f) == 0 && f == NULL);
  EXPECT(TVMFuncRegisterGlobal("first", handle_of(first), 0) == 0);
  EXPECT(TVMFuncRegisterGlobal("first", handle_of(first), 0) == kTvmErrorFunctionAlreadyDefined);
  EXPECT(TVMFuncRegisterGlobal("first", handle_of(first), 1) == 0);
  args.values[0].v_int64 = 41;
  args.tcodes[0] = kTVMArgInt;
  args.values_count = 1;
  EXPECT(TVMPackedFunc_InitGlobalFunc(&pf, "first", &args) == 0);
  EXPECT(pf.Call(&pf) == 0 && pf.ret_value.values[0].v_int64 == 42);
  EXPECT(pf.ret_value.tcodes[0] == kTVMArgInt && pf.ret_value.values_count == 1);
  pf.SetArgs(&pf, &pf.ret_value);
  EXPECT(TVMPackedFunc_Call(&pf) == 0 && pf.ret_value.values[0].v_int64 == 43);
  EXPECT(TVMPackedFunc_InitGlobalFunc(&pf, "none", NULL) == kTvmErrorFunctionNameNotFound);
  memset(name, 'x', 200);
  name[200] = '\0';
  EXPECT(TVMPackedFunc_InitGlobalFunc(&pf, name, NULL) == kTvmErrorBufferTooSmall);
  EXPECT(TVMFuncFree(f) == 0);
}

static int count_up(void *cdata) {
  return ++*(int *)cdata;
}

static void kernels_ask_for_what_is_round_them(void) {
  TVMParallelGroupEnv env = {NULL, 1};
  void *handle = NULL;
  TVMFunctionHandle f = NULL;
  int count = 6;
  EXPECT(TVMBackendParallelBarrier(0, &env) == 0);
  EXPECT(TVMBackendRunOnce(&handle, count_up, &count, sizeof count) == 7);
  EXPECT(TVMBackendRunOnce(&handle, count_up, &count, sizeof count) == 0 && count == 7);
  EXPECT(TVMBackendRegisterSystemLibSymbol("symbol", handle_of(first)) == 0);
  EXPECT(TVMBackendGetFuncFromEnv(NULL, "symbol", &f) == 0 && f != NULL);
  EXPECT(TVMBackendGetFuncFromEnv(NULL, "cymbal", &f) == kTvmErrorFunctionNameNotFound);
  EXPECT(f == NULL);
}

/* What a host calls through the serial link. */
static void hosts_look_up_functions(TVMModuleHandle module) {
  TVMArgs args = TVMArgs_Create(NULL, NULL, 0);
  TVMPackedFunc pf;
  args.values[0].v_handle = module;
  args.tcodes[0] = kTVMModuleHandle;
  args.values[1].v_str = "second";
  args.tcodes[1] = kTVMStr;
  args.values[2].v_int64 = 0;
  args.tcodes[2] = kTVMArgInt;
  args.values_count = 3;
  EXPECT(TVMPackedFunc_InitGlobalFunc(&pf, "tvm.rpc.server.ModuleGetFunction", &args) == 0);
  EXPECT(TVMPackedFunc_Call(&pf) == 0 && pf.ret_value.tcodes[0] == kTVMPackedFuncHandle);
  EXPECT((uintptr_t)pf.ret_value.values[0].v_handle == 0x80008001u);
  pf.args.values[1].v_str = "third";
  EXPECT(TVMPackedFunc_Call(&pf) == 0 && pf.ret_value.tcodes[0] == kTVMNullptr);
  pf.args.tcodes[1] = kTVMArgInt;
  EXPECT(TVMPackedFunc_Call(&pf) == kTvmErrorFunctionCallWrongArgType);
  pf.args.values_count = 2;
  EXPECT(TVMPackedFunc_Call(&pf) == kTvmErrorFunctionCallNumArguments);
  EXPECT(TVMPackedFunc_InitGlobalFunc(&pf, "tvm.rpc.server.GetCRTMaxPacketSize", NULL) == 0);
  EXPECT(TVMPackedFunc_Call(&pf) == 0);
  EXPECT(pf.ret_value.values[0].v_int64 == 2048 - 11);
}

static void arguments_are_cut_to_what_fits(void) {
  TVMValue values[TVM_CRT_MAX_ARGS + 1];
  uint32_t tcodes[TVM_CRT_MAX_ARGS + 1];
  TVMArgs args;
  uint32_t i;
  for (i = 0; i <= TVM_CRT_MAX_ARGS; i++) {
    values[i].v_int64 = i;
    tcodes[i] = kTVMArgInt;
  }
  args = TVMArgs_Create(values, tcodes, 2);
  EXPECT(args.values_count == 2 && args.values[1].v_int64 == 1 && args.tcodes[1] == kTVMArgInt);
  args = TVMArgs_Create(values, tcodes, TVM_CRT_MAX_ARGS + 1);
  EXPECT(args.values_count == TVM_CRT_MAX_ARGS);
}

static void modules_come_and_go(void) {
  static const TVMFuncRegistry kRegistry = {"\003\000first\0second\0failing\0", kFunctions};
  static const TVMModule kModules[TVM_CRT_MAX_REGISTERED_MODULES + 1] = {{&kRegistry}};
  TVMModuleHandle handles[TVM_CRT_MAX_REGISTERED_MODULES];
  TVMModuleHandle again;
  TVMPackedFunc pf;
  int i;
  for (i = 0; i < TVM_CRT_MAX_REGISTERED_MODULES; i++) {
    EXPECT(TVMModCreateFromCModule(&kModules[i], &handles[i]) == 0);
    EXPECT((uintptr_t)handles[i] == (0x8000u | (unsigned)i));
  }
  EXPECT(TVMModCreateFromCModule(&kModules[i], &again) == -1);
  EXPECT(TVMModCreateFromCModule(&kModules[0], &again) == 0 && again == handles[0]);
  hosts_look_up_functions(handles[0]);
  EXPECT(TVMPackedFunc_InitModuleFunc(&pf, handles[0], "second", NULL) == 0);
  EXPECT((uintptr_t)pf.fexec == 0x80008001u);
  EXPECT(TVMPackedFunc_Call(&pf) == 0 && pf.ret_value.values[0].v_float64 == 2.5);
  EXPECT(TVMPackedFunc_InitModuleFunc(&pf, handles[0], "failing", NULL) == 0);
  EXPECT(TVMPackedFunc_Call(&pf) == 77 && pf.ret_value.tcodes[0] == kTVMNullptr);
  EXPECT(TVMPackedFunc_InitModuleFunc(&pf, handles[0], "x", NULL) == kTvmErrorFunctionNameNotFound);
  EXPECT(strcmp(TVMGetLastError(), "no function named x") == 0);
  for (i = 0; i < TVM_CRT_MAX_REGISTERED_MODULES; i++) {
    EXPECT(TVMModFree(handles[i]) == 0);
  }
  EXPECT(TVMModFree(handles[0]) == -1);
  EXPECT(TVMPackedFunc_InitModuleFunc(&pf, handles[0], "first", NULL) == -1);
}

static void handles_that_are_none_are_refused(void) {
  static const uintptr_t kNone[] = {0,          1,          0x8000,     0x7fff,    0xffff,
                                    0x80000000, 0x8000ffff, 0x80107fff, 0x80100000};
  size_t i;
  TVMValue value;
  int tcode;
  TVMFunctionHandle f;
  for (i = 0; i < sizeof kNone / sizeof kNone[0]; i++) {
    EXPECT(TVMFuncCall((TVMFunctionHandle)kNone[i], NULL, NULL, 0, &value, &tcode) ==
           kTvmErrorFunctionIndexInvalid);
    EXPECT(TVMModGetFunction((TVMModuleHandle)kNone[i], "first", 0, &f) == -1 && f == NULL);
  }
}

static void a_missing_system_library_is_an_error(void) {
  TVMPackedFunc pf;
  EXPECT(TVMPackedFunc_InitGlobalFunc(&pf, "runtime.SystemLib", NULL) == 0);
  EXPECT(TVMPackedFunc_Call(&pf) == -1);
  EXPECT(strcmp(TVMGetLastError(), "no system library is linked") == 0);
}

static void errors_are_kept(void) {
  char text[2000];
  TVMAPIErrorf("%d and %s", 7, "eight");
  EXPECT(strcmp(TVMGetLastError(), "7 and eight") == 0);
  memset(text, 'e', sizeof text);
  text[sizeof text - 1] = '\0';
  TVMAPISetLastError(text);
  EXPECT(strlen(TVMGetLastError()) == 1023);
  TVMAPIErrorf("%s", text);
  EXPECT(strlen(TVMGetLastError()) == 1023);
}

/* `good` asks for a measurement of `first`. */
static void wrong_measurements_are_refused(const TVMArgs *good) {
  TVMPackedFunc pf;
  TVMPackedFunc timed;
  EXPECT(TVMPackedFunc_InitGlobalFunc(&pf, "runtime.RPCTimeEvaluator", good) == 0);
  pf.args.values_count = 6;
  EXPECT(TVMPackedFunc_Call(&pf) == kTvmErrorFunctionCallNumArguments);
  pf.args = *good;
  pf.args.tcodes[0] = kTVMStr;
  EXPECT(TVMPackedFunc_Call(&pf) == kTvmErrorFunctionCallWrongArgType);
  pf.args = *good;
  pf.args.tcodes[6] = kTVMStr;
  EXPECT(TVMPackedFunc_Call(&pf) == kTvmErrorFunctionCallWrongArgType);
  pf.args = *good;
  pf.args.values[5].v_int64 = INT64_MAX;
  EXPECT(TVMPackedFunc_Call(&pf) == kTvmErrorFunctionCallInvalidArg);
  pf.args = *good;
  pf.args.values[1].v_str = "nobody";
  EXPECT(TVMPackedFunc_Call(&pf) == kTvmErrorFunctionNameNotFound);

  pf.args.values[1].v_str = "failing";
  EXPECT(TVMPackedFunc_Call(&pf) == 0);
  EXPECT(TVMPackedFunc_InitGlobalFunc(&timed, "first", NULL) == 0);
  timed.fexec = pf.ret_value.values[0].v_handle;
  EXPECT(TVMPackedFunc_Call(&timed) == 77);
  EXPECT(TVMPlatformTimerStart() == kTvmErrorNoError); /* or measure could not start it */
  EXPECT(TVMPackedFunc_Call(&timed) == kTvmErrorPlatformTimerBadState);
  EXPECT(TVMPlatformTimerStop(&timed.args.values[0].v_float64) == kTvmErrorNoError);

  pf.args = *good;
  pf.args.values[5].v_int64 = 1;
  pf.args.values[6].v_int64 = 2; /* milliseconds: more calls than asked for */
  EXPECT(TVMPackedFunc_Call(&pf) == 0);
  calls = 0;
  EXPECT(TVMPackedFunc_Call(&timed) == 0 && calls > 5);
  EXPECT(TVMByteArrayFree(timed.ret_value.values[0].v_handle) == 0);
}

static void a_function_is_measured(void) {
  static const TVMFuncRegistry kRegistry = {"\002\000first\0failing\0", kMeasured};
  static const TVMModule kModule = {&kRegistry};
  TVMArgs args = TVMArgs_Create(NULL, NULL, 0);
  TVMModuleHandle module;
  TVMPackedFunc pf;
  TVMByteArray *times;
  int i;
  EXPECT(TVMModCreateFromCModule(&kModule, &module) == 0);
  for (i = 2; i < 7; i++) {
    args.tcodes[i] = kTVMArgInt;
    args.values[i].v_int64 = 0;
  }
  args.values[0].v_handle = module;
  args.tcodes[0] = kTVMModuleHandle;
  args.values[1].v_str = "first";
  args.tcodes[1] = kTVMStr;
  args.values[2].v_int64 = kDLCPU;
  args.values[4].v_int64 = 5; /* calls per measurement */
  args.values[5].v_int64 = 3; /* measurements */
  args.values_count = 7;
  EXPECT(TVMPackedFunc_InitGlobalFunc(&pf, "runtime.RPCTimeEvaluator", &args) == 0);
  EXPECT(TVMPackedFunc_Call(&pf) == 0 && pf.ret_value.tcodes[0] == kTVMPackedFuncHandle);
  pf.fexec = pf.ret_value.values[0].v_handle;
  EXPECT((uintptr_t)pf.fexec >> 16 == 0xffff);
  pf.args.values_count = 0;
  calls = 0;
  EXPECT(TVMPackedFunc_Call(&pf) == 0 && pf.ret_value.tcodes[0] == kTVMBytes);
  EXPECT(calls == 15);
  times = pf.ret_value.values[0].v_handle;
  EXPECT(times->size == 3 * 8);
  EXPECT(((const uint8_t *)times->data)[7] < 0x40); /* non-negative and below 2 seconds */
  EXPECT(TVMByteArrayFree(times) == 0);
  wrong_measurements_are_refused(&args);
  EXPECT(TVMInitializeRuntime() == kTvmErrorNoError);
  EXPECT(TVMPackedFunc_Call(&pf) == kTvmErrorTimeEvaluatorBadHandle);
}

/* What a platform need not define. */
static void platforms_may_say_less(void) {
  EXPECT(TVMPlatformCheckAccess(&failures, sizeof failures) == kTvmErrorNoError);
  EXPECT(TVMPlatformMemoryLeft() == SIZE_MAX);
}

int main(void) {
  platforms_may_say_less();
  EXPECT(TVMFuncRegisterGlobal("early", handle_of(first), 0) == -1);
  EXPECT(TVMPlatformInitialize() == kTvmErrorNoError);
  EXPECT(TVMInitializeRuntime() == kTvmErrorNoError);
  registries_of_all_forms_are_read();
  a_count_of_256_is_not_taken_for_1();
  names_end_with_their_bytes();
  functions_are_added_and_replaced();
  global_functions_are_called();
  kernels_ask_for_what_is_round_them();
  arguments_are_cut_to_what_fits();
  modules_come_and_go();
  handles_that_are_none_are_refused();
  a_missing_system_library_is_an_error();
  errors_are_kept();
  a_function_is_measured();
  return failures != 0;
}
