/* Function registries. Names are found by walking them: there are a few dozen at most, looked up
 * once each. */
#include <string.h>
#include <tvm/runtime/crt/func_registry.h>
#include <tvm/runtime/crt/internal/common/func_names.h>

/* Function names are printable, so this tells the one-byte form: the second byte of a count is not,
 * unless there are more than 8000 functions. */
static int has_one_byte_count(const uint8_t *names) {
  return names[0] != 0 && names[1] > 0x20 && names[1] < 0x7f;
}

/* 1 if just `count` names stand before the empty one at the end. */
static int holds(const TVMFuncNames *names, uint16_t count) {
  TVMFuncNames walk = *names;
  walk.count = count;
  while (walk.count > 0) {
    if (TVMFuncNames_Next(&walk) == NULL) {
      return 0;
    }
  }
  return walk.left > 0 && *walk.at == '\0';
}

int TVMFuncNames_Open(TVMFuncNames *names, const char *blob, size_t length) {
  const uint8_t *const bytes = (const uint8_t *)blob;
  const size_t count_bytes = length >= 2 && has_one_byte_count(bytes) ? 1 : 2;
  if (length < 2) {
    return -1;
  }
  names->at = blob + count_bytes;
  names->left = length - count_bytes;
  if (count_bytes == 1) {
    names->count = bytes[0];
  } else if (bytes[0] == 0 && bytes[1] != 0 && holds(names, bytes[1])) {
    names->count = bytes[1]; /* 00 03 are three functions here, not 768 */
  } else {
    names->count = (uint16_t)(bytes[0] | bytes[1] << 8);
  }
  return 0;
}

const char *TVMFuncNames_Next(TVMFuncNames *names) {
  const char *const name = names->at;
  size_t length = 0;
  if (names->count == 0 || names->left == 0 || *name == '\0') {
    return NULL;
  }
  while (name[length] != '\0') {
    if (++length == names->left) {
      return NULL;
    }
  }
  names->count--;
  names->at += length + 1;
  names->left -= length + 1;
  return name;
}

static TVMFuncNames names_of(const TVMFuncRegistry *reg) {
  TVMFuncNames names;
  (void)TVMFuncNames_Open(&names, reg->names, SIZE_MAX);
  return names;
}

uint16_t TVMFuncRegistry_GetNumFuncs(const TVMFuncRegistry *reg) {
  return names_of(reg).count;
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
  return names_of(reg).at;
}

tvm_crt_error_t TVMFuncRegistry_Lookup(const TVMFuncRegistry *reg, const char *name,
                                       tvm_function_index_t *function_index) {
  TVMFuncNames names = names_of(reg);
  tvm_function_index_t index = 0;
  const char *candidate;
  while ((candidate = TVMFuncNames_Next(&names)) != NULL) {
    if (strcmp(candidate, name) == 0) {
      *function_index = index;
      return kTvmErrorNoError;
    }
    index++;
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
  TVMFuncNames names = names_of(&reg->registry);
  tvm_function_index_t index;
  union {
    const char *constant;
    char *variable;
  } end;
  if (TVMFuncRegistry_Lookup(&reg->registry, name, &index) == kTvmErrorNoError) {
    if (!override) {
      return kTvmErrorFunctionAlreadyDefined;
    }
    store(reg, index, func);
    return kTvmErrorNoError;
  }
  if (name_bytes == 1) { /* an empty name would end the list */
    return kTvmErrorFunctionNameNotFound;
  }
  while (TVMFuncNames_Next(&names) != NULL) {
  }
  end.constant = names.at;
  /* One NUL must follow the last name. */
  if (count >= reg->max_functions ||
      name_bytes >= (size_t)((const char *)reg->registry.funcs - end.constant)) {
    return kTvmErrorFunctionRegistryFull;
  }
  memcpy(end.variable, name, name_bytes);
  end.variable[name_bytes] = '\0';
  store(reg, count, func);
  (void)TVMFuncRegistry_SetNumFuncs(&reg->registry, (uint16_t)(count + 1));
  return kTvmErrorNoError;
}
