/* Any bytes as the names of a registry, and as a list of functions to put into one. */
#include "fuzz.h"

#include <string.h>
#include <tvm/runtime/crt/func_registry.h>
#include <tvm/runtime/crt/internal/common/func_names.h>

static int some_function(TVMValue *args, int *tcodes, int n, TVMValue *ret, int *rcode,
                         void *resource) {
  (void)args;
  (void)tcodes;
  (void)n;
  (void)ret;
  (void)rcode;
  (void)resource;
  return 0;
}

static void walk(const uint8_t *data, size_t size) {
  TVMFuncNames names;
  const char *name;
  size_t used = 0;
  if (TVMFuncNames_Open(&names, (const char *)data, size) != 0) {
    REQUIRE(size < 2);
    return;
  }
  while ((name = TVMFuncNames_Next(&names)) != NULL) {
    used += strlen(name) + 1;
  }
  REQUIRE(used <= size && used + names.left <= size);
}

/* The first byte is the size of the registry, the rest are names, each after a byte of flags. */
static void fill(const uint8_t *data, size_t size) {
  const size_t room = size > 0 ? data[0] : 0;
  uint8_t *const buffer = malloc(room > 0 ? room : 1);
  TVMMutableFuncRegistry registry;
  char name[64];
  size_t at = 1;
  REQUIRE(buffer != NULL);
  if (TVMMutableFuncRegistry_Create(&registry, buffer, room) == kTvmErrorNoError) {
    while (at + 1 < size) {
      const int override = data[at++] & 1;
      const uint16_t before = TVMFuncRegistry_GetNumFuncs(&registry.registry);
      tvm_function_index_t index = 0;
      TVMBackendPackedCFunc found = NULL;
      tvm_crt_error_t code;
      size_t length = 0;
      while (at < size && data[at] != 0 && length + 1 < sizeof name) {
        name[length++] = (char)data[at++];
      }
      name[length] = '\0';
      at++;
      code = TVMMutableFuncRegistry_Set(&registry, name, some_function, override);
      if (code == kTvmErrorNoError) {
        REQUIRE(TVMFuncRegistry_Lookup(&registry.registry, name, &index) == kTvmErrorNoError);
        REQUIRE(TVMFuncRegistry_GetByIndex(&registry.registry, index, &found) == kTvmErrorNoError);
        REQUIRE(found == some_function);
      } else {
        REQUIRE(TVMFuncRegistry_GetNumFuncs(&registry.registry) == before);
      }
      REQUIRE(TVMFuncRegistry_GetNumFuncs(&registry.registry) <= registry.max_functions);
    }
  }
  free(buffer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  walk(data, size);
  fill(data, size);
  return 0;
}

#define SEED(text)                                                                                 \
  { text, sizeof(text) - 1 }

const fuzz_seed fuzz_seeds[] = {
    SEED("\002\000tvmgen_a_run\0tvmgen_a_add\0\0"),
    SEED("\002tvmgen_a_run\0tvmgen_a_add\0\0"),
    SEED("\000\002tvmgen_a_run\0tvmgen_a_add\0\0"),
    SEED("\xc8\1a\0\0b\0\1a\0\1long name\0"),
    SEED("\x20\1a\0\0b\0\1a\0"),
};
const size_t fuzz_seed_count = sizeof fuzz_seeds / sizeof fuzz_seeds[0];
