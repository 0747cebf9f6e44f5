/* Calls of functions by name. */
#include <string.h>
#include <tvm/runtime/crt/packed_func.h>

TVMArgs TVMArgs_Create(TVMValue *values, uint32_t *tcodes, uint32_t values_count) {
  TVMArgs args;
  uint32_t i;
  memset(&args, 0, sizeof args);
  args.values_count = values_count < TVM_CRT_MAX_ARGS ? values_count : TVM_CRT_MAX_ARGS;
  for (i = 0; i < args.values_count; i++) {
    args.values[i] = values[i];
    args.tcodes[i] = (int)tcodes[i];
  }
  return args;
}

int TVMPackedFunc_Call(TVMPackedFunc *pf) {
  pf->ret_value.values_count = 1;
  pf->ret_value.tcodes[0] = kTVMNullptr;
  return TVMFuncCall(pf->fexec, pf->args.values, pf->args.tcodes, (int)pf->args.values_count,
                     pf->ret_value.values, pf->ret_value.tcodes);
}

void TVMPackedFunc_SetArgs(TVMPackedFunc *pf, const TVMArgs *args) {
  pf->args = *args;
}

/* Everything but the function itself. */
static int init(TVMPackedFunc *pf, const char *name, const TVMArgs *args) {
  const size_t name_bytes = strlen(name) + 1;
  memset(pf, 0, sizeof *pf);
  if (name_bytes > sizeof pf->name) {
    return kTvmErrorBufferTooSmall;
  }
  memcpy(pf->name, name, name_bytes);
  pf->Call = TVMPackedFunc_Call;
  pf->SetArgs = TVMPackedFunc_SetArgs;
  if (args != NULL) {
    pf->args = *args;
  }
  return 0;
}

int TVMPackedFunc_InitGlobalFunc(TVMPackedFunc *pf, const char *name, const TVMArgs *args) {
  int code = init(pf, name, args);
  if (code == 0) {
    code = TVMFuncGetGlobal(name, &pf->fexec);
  }
  return code == 0 && pf->fexec == NULL ? kTvmErrorFunctionNameNotFound : code;
}

int TVMPackedFunc_InitModuleFunc(TVMPackedFunc *pf, TVMModuleHandle module, const char *name,
                                 const TVMArgs *args) {
  const int code = init(pf, name, args);
  return code != 0 ? code : TVMModGetFunction(module, name, 0, &pf->fexec);
}
