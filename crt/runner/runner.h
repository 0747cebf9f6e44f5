/* What runner.c needs to know of a module; `mlftool runner` writes it as C. */
#ifndef MLF_RUNNER_H_
#define MLF_RUNNER_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes before and after each tensor that no kernel may touch: two cache lines of a Cortex-M7. */
enum { kGuardBytes = 64 };

/* The memory of a tensor of `bytes` bytes, with its guards. */
#define MLF_RUNNER_BUFFER(name, bytes)                                                             \
  __attribute__((aligned(64))) static uint8_t name[kGuardBytes + (bytes) + kGuardBytes]

struct runner_tensor {
  const char *name; /* as in the model, escaped */
  uint8_t *buffer;  /* of MLF_RUNNER_BUFFER */
  size_t bytes;
};

/* Remember a module's state, go back to the one that is remembered, or to the first one. */
enum { kRemember = 0, kGoBack = 1, kReset = 2 };

struct runner_module {
  const char *name;
  const struct runner_tensor *inputs; /* in call order */
  size_t num_inputs;
  const struct runner_tensor *outputs;
  size_t num_outputs;
  int32_t (*run)(void);        /* one inference from and to the buffers; 0 when it went well */
  void (*state)(int32_t what); /* what to do with the state that it keeps; null if it keeps none */
};

/* Defined by the module's descriptor, which is linked with runner.c. */
extern const struct runner_module runner_module;

/* What a module that calls the C runtime may allocate; defined by the descriptor of such a module.
 */
extern uint8_t runner_pool[];
extern const size_t runner_pool_bytes;

#ifdef __cplusplus
}
#endif

#endif /* MLF_RUNNER_H_ */
