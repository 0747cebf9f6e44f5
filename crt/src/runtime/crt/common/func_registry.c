/* Function registries. Names are found by walking them: there are a few dozen at most, looked up
 * once each. */
#include <string.h>
#include <tvm/runtime/crt/func_registry.h>

/* Function names are printable, so this tells the one-byte form: the second byte of a count is not,
 * unless there are more than 8000 functions. */
static int has_one_byte_count(const uint8_t *names) {
  return names[0] != 0 && names[1] > 0x20 && names[1] < 0x7f;
}

static const char *first_name(const char *names) {
  return names + (has_one_byte_count((const uint8_t *)names) ? 1 : 2);
}

uint16_t TVMFuncRegistry_GetNumFuncs(const TVMFuncRegistry *reg) {
  const uint8_t *const bytes = (const uint8_t *)reg->names;
  const char *name = reg->names + 2;
  uint16_t walked = 0;
  if (has_one_byte_count(bytes)) {
    return bytes[0];
  }
  if (bytes[0] != 0 || bytes[1] == 0) {
    return (uint16_t)(bytes[0] | bytes[1] << 8);
  }
  /* 00 03: 768 functions, or 3 with the high byte first. The empty name at the end decides. */
  while (walked < bytes[1] && *name != '\0') {
    name += strlen(name) + 1;
    walked++;
  }
  if (walked == bytes[1] && *name == '\0') {
    return walked;
  }
  return (uint16_t)(bytes[1] << 8);
}

int TVMFuncRegistry_SetNumFuncs(const TVMFuncRegistry *reg, const uint16_t num_funcs) {
  /* `names` is const for the registries of generated code; this one is in RAM. */
  union {
    const char *constant;
    char *variable;
  } names;
  names.constant = reg->names;
  names.variable[0] = (char)(num_funcs & 0xff);
  names.variable[1] = (char)(num_funcs >> 8);
  return 0;
}

const char *TVMFuncRegistry_Get0thFunctionName(const TVMFuncRegistry *reg) {
  return first_name(reg->names);
}

tvm_crt_error_t TVMFuncRegistry_Lookup(const TVMFuncRegistry *reg, const char *name,
                                       tvm_function_index_t *function_index) {
  const uint16_t count = TVMFuncRegistry_GetNumFuncs(reg);
  const char *candidate = first_name(reg->names);
  uint16_t i;
  /* An empty name ends the list, whatever the count says. */
  for (i = 0; i < count && *candidate != '\0'; i++) {
    if (strcmp(candidate, name) == 0) {
      *function_index = i;
      return kTvmErrorNoError;
    }
    candidate += strlen(candidate) + 1;
  }
  return kTvmErrorFunctionNameNotFound;
}

tvm_crt_error_t TVMFuncRegistry_GetByIndex(const TVMFuncRegistry *reg, tvm_function_index_t index,
                                           TVMBackendPackedCFunc *out_func) {
  if (index >= TVMFuncRegistry_GetNumFuncs(reg)) {
    return kTvmErrorFunctionIndexInvalid;
  }
  *out_func = reg->funcs[index];
  return kTvmErrorNoError;
}

tvm_crt_error_t TVMMutableFuncRegistry_Create(TVMMutableFuncRegistry *reg, uint8_t *buffer,
                                              size_t buffer_size_bytes) {
  const size_t alignment = sizeof(TVMBackendPackedCFunc);
  const size_t max_functions = buffer_size_bytes / kTvmAverageFuncEntrySizeBytes;
  const uintptr_t end = ((uintptr_t)buffer + buffer_size_bytes) / alignment * alignment;
  const size_t bytes = (size_t)(end - (uintptr_t)buffer);
  if (max_functions == 0 || bytes > buffer_size_bytes ||
      bytes < max_functions * sizeof(TVMBackendPackedCFunc) + 4) {
    return kTvmErrorBufferTooSmall;
  }
  memset(buffer, 0, buffer_size_bytes);
  reg->max_functions = max_functions < UINT16_MAX ? max_functions : UINT16_MAX;
  reg->registry.names = (const char *)buffer;
  reg->registry.funcs =
      (const TVMBackendPackedCFunc *)(const void *)(buffer + bytes -
                                                    reg->max_functions *
                                                        sizeof(TVMBackendPackedCFunc));
  return kTvmErrorNoError;
}

/* Stores through the registry's pointers, which are const for those who only look up. */
static void store(TVMMutableFuncRegistry *reg, tvm_function_index_t index,
                  TVMBackendPackedCFunc func) {
  union {
    const TVMBackendPackedCFunc *constant;
    TVMBackendPackedCFunc *variable;
  } funcs;
  funcs.constant = reg->registry.funcs;
  funcs.variable[index] = func;
}

tvm_crt_error_t TVMMutableFuncRegistry_Set(TVMMutableFuncRegistry *reg, const char *name,
                                           TVMBackendPackedCFunc func, int override) {
  const uint16_t count = TVMFuncRegistry_GetNumFuncs(&reg->registry);
  const size_t name_bytes = strlen(name) + 1;
  tvm_function_index_t index;
  union {
    const char *constant;
    char *variable;
  } end;
  size_t room;
  uint16_t i;
  if (TVMFuncRegistry_Lookup(&reg->registry, name, &index) == kTvmErrorNoError) {
    if (!override) {
      return kTvmErrorFunctionAlreadyDefined;
    }
    store(reg, index, func);
    return kTvmErrorNoError;
  }
  end.constant = first_name(reg->registry.names);
  for (i = 0; i < count; i++) {
    end.constant += strlen(end.constant) + 1;
  }
  room = (size_t)((const char *)reg->registry.funcs - end.constant);
  /* An empty name would end the list; one NUL has to stay behind the last name. */
  if (count >= reg->max_functions || name_bytes >= room) {
    return kTvmErrorFunctionRegistryFull;
  }
  if (name_bytes == 1) {
    return kTvmErrorFunctionNameNotFound;
  }
  memcpy(end.variable, name, name_bytes);
  end.variable[name_bytes] = '\0';
  store(reg, count, func);
  (void)TVMFuncRegistry_SetNumFuncs(&reg->registry, (uint16_t)(count + 1));
  return kTvmErrorNoError;
}
