/* Two libraries in one program, through mlf/library.h alone: argv has each one's file and module,
 * and the program checks that the first gives the same bytes before and after the second ran. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mlf/library.h"

struct model {
  const struct mlf_library *library;
  void **inputs;
  void **outputs;
};

static void *odd(size_t bytes) {
  /* Aligned to 8 and no more. */
  unsigned char *at = malloc(bytes + 72);
  at += 64 - (size_t)at % 64 + 8;
  memset(at, 1, bytes);
  return at;
}

static struct model opened(const char *file, const char *module) {
  struct model made;
  char symbol[200];
  size_t i;
  void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(2);
  }
  snprintf(symbol, sizeof symbol, "tvmgen_%s_library", module);
  made.library = dlsym(handle, symbol);
  if (made.library == NULL || made.library->version != MLF_LIBRARY_VERSION ||
      strcmp(made.library->module, module) != 0) {
    exit(3);
  }
  made.inputs = calloc(made.library->num_inputs + 1, sizeof(void *));
  made.outputs = calloc(made.library->num_outputs + 1, sizeof(void *));
  for (i = 0; i < made.library->num_inputs; i++) {
    made.inputs[i] = odd(made.library->inputs[i].bytes);
  }
  for (i = 0; i < made.library->num_outputs; i++) {
    made.outputs[i] = odd(made.library->outputs[i].bytes);
  }
  return made;
}

static void run(const struct model *m) {
  if (m->library->run((const void *const *)m->inputs, m->outputs) != 0) {
    exit(4);
  }
}

int main(int argc, char **argv) {
  struct model first, second;
  void *before;
  size_t bytes;
  if (argc != 5) {
    return 1;
  }
  first = opened(argv[1], argv[2]);
  second = opened(argv[3], argv[4]);
  run(&first);
  bytes = first.library->outputs[0].bytes;
  before = malloc(bytes);
  memcpy(before, first.outputs[0], bytes);
  run(&second);
  run(&first);
  fwrite(before, 1, bytes, stdout);
  return memcmp(before, first.outputs[0], bytes) == 0 ? 0 : 5;
}
