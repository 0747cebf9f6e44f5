/* The numbers of a graph point to something: after this, running it indexes no table wrongly. */
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/error_codes.h>
#include <tvm/runtime/crt/internal/graph_executor/graph_executor.h>

static int fail(int code, const char *what) {
  TVMAPIErrorf("graph: %s", what);
  return code;
}

int TVMGraph_CheckCounts(const TVMGraphCounts *counts) {
  const uint32_t entries = counts->outputs;
  if (counts->nodes == 0 || counts->heads == 0) {
    return fail(-1, "no nodes or no heads");
  }
  if (counts->node_row_ptr != counts->nodes + 1) {
    return fail(-1, "node_row_ptr has not one number more than there are nodes");
  }
  if (counts->dltypes != entries || counts->storage_ids != entries || counts->shapes != entries) {
    return fail(-1, "dltype, storage_id and shape have not one item for each output of a node");
  }
  return 0;
}

/* `entry` is an output of one of the first `nodes` nodes. */
static int is_entry(const TVMGraph *g, TVMGraphNodeEntry entry, uint32_t nodes) {
  return entry.node < nodes && entry.index < g->nodes[entry.node].num_outputs;
}

/* A __nop gives its one input another shape, at the same place. */
static int check_nop(const TVMGraph *g, uint32_t n) {
  const TVMGraphNode *const node = &g->nodes[n];
  const TVMGraphNodeEntry in = g->inputs[node->first_input];
  const uint32_t from = g->node_row_ptr[in.node] + in.index;
  const uint32_t to = g->node_row_ptr[n];
  size_t from_bytes;
  size_t to_bytes;
  if (g->storage_ids[from] != g->storage_ids[to] ||
      TVMTensor_SizeBytes(g->entries[from].ndim, g->entries[from].shape, g->entries[from].dtype,
                          &from_bytes) != 0 ||
      TVMTensor_SizeBytes(g->entries[to].ndim, g->entries[to].shape, g->entries[to].dtype,
                          &to_bytes) != 0 ||
      from_bytes != to_bytes) {
    return fail(-1, "a __nop whose input and output are not the same bytes");
  }
  return 0;
}

static int check_nodes(const TVMGraph *g) {
  uint32_t entries = 0;
  uint32_t n;
  uint32_t i;
  for (n = 0; n < g->counts.nodes; n++) {
    if (g->node_row_ptr[n] != entries) {
      return fail(-1, "node_row_ptr does not add up");
    }
    entries += g->nodes[n].num_outputs;
  }
  if (g->node_row_ptr[n] != entries) {
    return fail(-1, "node_row_ptr does not add up");
  }
  for (n = 0; n < g->counts.nodes; n++) {
    const TVMGraphNode *const node = &g->nodes[n];
    for (i = 0; i < node->num_inputs; i++) {
      if (!is_entry(g, g->inputs[node->first_input + i], n)) {
        return fail(-1, "an input that is no output of an earlier node");
      }
    }
    if (node->kind == kTVMGraphNop) {
      if (node->num_inputs != 1 || node->num_outputs != 1) {
        return fail(-1, "a __nop with other than one input and one output");
      }
      if (check_nop(g, n) != 0) {
        return -1;
      }
    }
  }
  return 0;
}

static int check_ends(const TVMGraph *g) {
  uint32_t i;
  for (i = 0; i < g->counts.arg_nodes; i++) {
    const uint32_t n = g->arg_nodes[i];
    if (n >= g->counts.nodes || g->nodes[n].kind != kTVMGraphNull ||
        (i > 0 && n <= g->arg_nodes[i - 1])) {
      return fail(-1, "arg_nodes are not input nodes in order");
    }
  }
  for (i = 0; i < g->counts.heads; i++) {
    if (!is_entry(g, g->heads[i], g->counts.nodes)) {
      return fail(-1, "a head that is no output of a node");
    }
  }
  return 0;
}

static int check_storage(const TVMGraph *g) {
  uint32_t i;
  for (i = 0; i < g->counts.outputs; i++) {
    size_t bytes;
    /* Ids are few: a plan that shares storage has fewer than entries, one that does not as many. */
    if (g->storage_ids[i] >= g->counts.outputs) {
      return fail(kTvmErrorGeneratedInvalidStorageId, "a storage id as large as there are tensors");
    }
    if (TVMTensor_SizeBytes(g->entries[i].ndim, g->entries[i].shape, g->entries[i].dtype, &bytes) !=
        0) {
      return fail(-1, "a tensor that is too large");
    }
  }
  return 0;
}

int TVMGraph_Check(const TVMGraph *graph) {
  int code = check_storage(graph);
  if (code == 0) {
    code = check_nodes(graph);
  }
  return code != 0 ? code : check_ends(graph);
}
