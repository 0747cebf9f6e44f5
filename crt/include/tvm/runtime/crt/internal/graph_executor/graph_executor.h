/* The inside of a graph executor: shared by its reader, its runner and its module form. */
#ifndef TVM_RUNTIME_CRT_INTERNAL_GRAPH_EXECUTOR_GRAPH_EXECUTOR_H_
#define TVM_RUNTIME_CRT_INTERNAL_GRAPH_EXECUTOR_GRAPH_EXECUTOR_H_

#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/crt/graph_executor.h>
#include <tvm/runtime/crt/internal/common/ndarray.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The `index`-th output of a node. */
typedef struct {
  uint32_t node;
  uint32_t index;
} TVMGraphNodeEntry;

typedef enum {
  kTVMGraphNull, /* an input or a parameter */
  kTVMGraphOp,   /* a call */
  kTVMGraphNop   /* "__nop": its output is its input under another shape */
} TVMGraphNodeKind;

typedef struct {
  TVMGraphNodeKind kind;
  TVMFunctionHandle function;
  uint32_t first_input; /* in TVMGraph.inputs */
  uint32_t num_inputs;
  uint32_t num_outputs;
  uint32_t name; /* of a kTVMGraphNull: where it starts in TVMGraph.names */
} TVMGraphNode;

/* How many rows a graph has of each kind. */
typedef struct {
  uint32_t nodes;
  uint32_t inputs; /* of all nodes together */
  uint32_t outputs;
  uint32_t arg_nodes;
  uint32_t heads;
  uint32_t node_row_ptr;
  uint32_t dltypes;
  uint32_t storage_ids;
  uint32_t shapes;
  uint32_t dims; /* of all shapes together */
  uint32_t name_bytes;
  uint32_t max_args; /* of one call */
} TVMGraphCounts;

/* A graph as tables. An entry is an output of a node; node n's first has the number
 * node_row_ptr[n]. */
typedef struct {
  TVMGraphCounts counts;
  TVMGraphNode *nodes;
  TVMGraphNodeEntry *inputs;
  uint32_t *arg_nodes;
  TVMGraphNodeEntry *heads;
  uint32_t *node_row_ptr;
  DLTensor *entries; /* shapes point into dims */
  uint32_t *storage_ids;
  int64_t *dims;
  char *names;
} TVMGraph;

/* Reads a text once: its counts, and its rows if the tables exist; `module_handle` is where
 * functions are looked up then. 0, -1, or kTvmErrorFunctionNameNotFound. The numbers are not
 * compared with each other yet. */
int TVMGraph_Read(TVMGraph *graph, const char *text, size_t length, TVMModuleHandle module_handle);

/* The counts fit each other. To be called before tables are made. */
int TVMGraph_CheckCounts(const TVMGraphCounts *counts);

/* Every number in the tables points to something. */
int TVMGraph_Check(const TVMGraph *graph);

typedef struct {
  uint8_t *data;
  size_t bytes;
} TVMGraphStorage;

struct TVMGraphExecutor {
  TVMGraph graph;
  DLDevice device;
  TVMValue *args; /* of one call, with their type codes */
  int *arg_tcodes;
  TVMGraphStorage *storage; /* by storage id */
  void *pool;               /* the block with all storage */
};

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_INTERNAL_GRAPH_EXECUTOR_GRAPH_EXECUTOR_H_ */
