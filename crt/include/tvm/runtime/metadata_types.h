/* What `tvmgen_<module>_get_c_metadata` returns: the tensors of a module, for TVMAotExecutor. */
#ifndef TVM_RUNTIME_METADATA_TYPES_H_
#define TVM_RUNTIME_METADATA_TYPES_H_

#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The value of TVMMetadata.version. */
#define TVM_METADATA_VERSION 1

struct TVMTensorInfo {
  const char *name;
  const int64_t *shape;
  int64_t num_shape; /* the rank */
  DLDataType dtype;
};

struct TVMConstantInfo {
  const char *name_hint;
  int64_t byte_offset; /* from the start of the pool */
  int64_t data_len;
  const void *data_bytes; /* an array record, as in parameter files */
};

struct TVMMetadata {
  int64_t version;
  const struct TVMTensorInfo *inputs;
  int64_t num_inputs;
  const struct TVMTensorInfo *outputs;
  int64_t num_outputs;
  const struct TVMTensorInfo *workspace_pools;
  int64_t num_workspace_pools;
  const struct TVMConstantInfo *constant_pools;
  int64_t num_constant_pools;
  const char *mod_name; /* with its prefix: "tvmgen_<module>" */
};

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_METADATA_TYPES_H_ */
