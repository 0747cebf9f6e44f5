/* What a shared library of `mlftool library` offers to any program, under the name
 * tvmgen_<module>_library:
 *
 *     void *handle = dlopen("./model.so", RTLD_NOW | RTLD_LOCAL);
 *     const struct mlf_library *model = dlsym(handle, "tvmgen_model_library");
 */
#ifndef MLF_LIBRARY_H_
#define MLF_LIBRARY_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of the structures below. A program asks for the version that it was compiled with. */
#define MLF_LIBRARY_VERSION 1

/* An input or output. */
struct mlf_library_tensor {
  const char *name;     /* the model's own, in UTF-8 */
  const char *dtype;    /* such as "float32" */
  const int64_t *shape; /* `rank` extents */
  size_t rank;
  size_t bytes;
};

struct mlf_library {
  uint32_t version;   /* MLF_LIBRARY_VERSION */
  const char *module; /* its name */
  const struct mlf_library_tensor *inputs;
  size_t num_inputs;
  const struct mlf_library_tensor *outputs;
  size_t num_outputs;
  /* One inference: the elements of each input and output, row-major, each aligned to its type.
   * 0 when it went well. Calls from several threads wait for each other. */
  int32_t (*run)(const void *const *inputs, void *const *outputs);
  /* What the module keeps from one run to the next is as before the first; NULL if it keeps
   * nothing. The library keeps one state for the process. */
  void (*reset)(void);
};

#ifdef __cplusplus
}
#endif

#endif /* MLF_LIBRARY_H_ */
