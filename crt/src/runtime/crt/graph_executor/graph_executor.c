/* The graph executor: memory for a checked graph, and its calls in order. */
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/graph_executor.h>
#include <tvm/runtime/crt/internal/common/bytes.h>
#include <tvm/runtime/crt/internal/common/modules.h>
#include <tvm/runtime/crt/internal/graph_executor/graph_executor.h>
#include <tvm/runtime/crt/platform.h>
#include <tvm/runtime/crt/stack_allocator.h> /* TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES */

enum { kTableAlignment = 8, kStorageAlignment = TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES };

/* Hands out parts of a block, or, without one, counts what they take. Counts are below 2^31 and
 * rows below 2^8 bytes, so 64 bits hold any sum of them on any machine. */
typedef struct {
  uint8_t *block;
  uint64_t used;
} Carver;

static void *carve(Carver *carver, uint32_t rows, size_t row_bytes) {
  const uint64_t start = carver->used;
  const uint64_t bytes = (uint64_t)rows * row_bytes;
  carver->used += (bytes + kTableAlignment - 1) / kTableAlignment * kTableAlignment;
  return carver->block != NULL ? carver->block + (size_t)start : NULL;
}

/* `bytes` of memory, zeroed. */
static tvm_crt_error_t allocate(uint64_t bytes, DLDevice device, void **block) {
  tvm_crt_error_t code = kTvmErrorPlatformNoMemory;
  if (bytes <= SIZE_MAX / 2) {
    code = TVMMemoryAllocate((size_t)bytes, device, block);
  }
  if (code != kTvmErrorNoError) {
    *block = NULL;
    TVMAPIErrorf("graph: no memory for %lu KiB", (unsigned long)(bytes / 1024));
    return code;
  }
  memset(*block, 0, (size_t)bytes);
  return kTvmErrorNoError;
}

/* Lays the executor and its tables out in the carver's block. */
static TVMGraphExecutor *lay_out(Carver *carver, const TVMGraphCounts *counts) {
  TVMGraphExecutor scratch;
  TVMGraphExecutor *executor = carve(carver, 1, sizeof(TVMGraphExecutor));
  TVMGraphExecutor *const e = executor != NULL ? executor : &scratch;
  TVMGraph *const g = &e->graph;
  memset(e, 0, sizeof *e);
  g->counts = *counts;
  g->entries = carve(carver, counts->outputs, sizeof *g->entries);
  g->dims = carve(carver, counts->dims, sizeof *g->dims);
  e->args = carve(carver, counts->max_args, sizeof *e->args);
  g->nodes = carve(carver, counts->nodes, sizeof *g->nodes);
  e->storage = carve(carver, counts->outputs, sizeof *e->storage);
  e->arg_tcodes = carve(carver, counts->max_args, sizeof *e->arg_tcodes);
  g->inputs = carve(carver, counts->inputs, sizeof *g->inputs);
  g->heads = carve(carver, counts->heads, sizeof *g->heads);
  g->arg_nodes = carve(carver, counts->arg_nodes, sizeof *g->arg_nodes);
  g->node_row_ptr = carve(carver, counts->node_row_ptr, sizeof *g->node_row_ptr);
  g->storage_ids = carve(carver, counts->storage_ids, sizeof *g->storage_ids);
  g->names = carve(carver, counts->name_bytes, 1);
  return executor;
}

/* The executor with its tables, still empty. */
static tvm_crt_error_t allocate_tables(const TVMGraphCounts *counts, DLDevice device,
                                       TVMGraphExecutor **executor) {
  Carver measure = {NULL, 0};
  Carver cut = {NULL, 0};
  void *block = NULL;
  tvm_crt_error_t code;
  (void)lay_out(&measure, counts);
  code = allocate(measure.used, device, &block);
  if (code != kTvmErrorNoError) {
    return code;
  }
  cut.block = block;
  *executor = lay_out(&cut, counts);
  (*executor)->device = device;
  return kTvmErrorNoError;
}

static size_t tensor_bytes(const DLTensor *tensor) {
  size_t bytes = 0;
  (void)TVMTensor_SizeBytes(tensor->ndim, tensor->shape, tensor->dtype, &bytes); /* was checked */
  return bytes;
}

static size_t align_up(size_t bytes) {
  return (bytes + kStorageAlignment - 1) & ~(size_t)(kStorageAlignment - 1);
}

/* Sizes and places of all storage, in one zeroed block; a storage is as large as its largest
 * tensor. */
static tvm_crt_error_t allocate_storage(TVMGraphExecutor *e) {
  const TVMGraph *const g = &e->graph;
  uint64_t total = kStorageAlignment - 1; /* the block may start between two multiples */
  uint8_t *next;
  tvm_crt_error_t code;
  uint32_t i;
  for (i = 0; i < g->counts.outputs; i++) {
    TVMGraphStorage *const storage = &e->storage[g->storage_ids[i]];
    const size_t bytes = align_up(tensor_bytes(&g->entries[i])); /* of at most 2^31 */
    if (bytes > storage->bytes) {
      total += bytes - storage->bytes;
      storage->bytes = bytes;
    }
  }
  code = allocate(total, e->device, &e->pool);
  if (code != kTvmErrorNoError) {
    return code;
  }
  next = (uint8_t *)e->pool + ((size_t)(-(uintptr_t)e->pool) & (kStorageAlignment - 1));
  for (i = 0; i < g->counts.outputs; i++) {
    e->storage[i].data = next;
    next += e->storage[i].bytes;
  }
  return kTvmErrorNoError;
}

static void bind_storage(TVMGraphExecutor *e) {
  const TVMGraph *const g = &e->graph;
  uint32_t i;
  for (i = 0; i < g->counts.outputs; i++) {
    g->entries[i].data = e->storage[g->storage_ids[i]].data;
    g->entries[i].device = e->device;
    g->entries[i].strides = NULL;
    g->entries[i].byte_offset = 0;
  }
}

int TVMGraphExecutor_CreateSized(const char *sym_json, size_t length, TVMModuleHandle module_handle,
                                 const DLDevice *devices, TVMGraphExecutor **executor) {
  TVMGraph counted;
  int code;
  *executor = NULL;
  memset(&counted, 0, sizeof counted);
  code = TVMGraph_Read(&counted, sym_json, length, module_handle);
  if (code == 0) {
    code = TVMGraph_CheckCounts(&counted.counts);
  }
  if (code == 0) {
    code = (int)allocate_tables(&counted.counts, devices[0], executor);
  }
  if (code != 0) {
    return code;
  }
  code = TVMGraph_Read(&(*executor)->graph, sym_json, length, module_handle);
  if (code == 0) {
    code = TVMGraph_Check(&(*executor)->graph);
  }
  if (code == 0) {
    code = (int)allocate_storage(*executor);
  }
  if (code != 0) {
    (void)TVMGraphExecutor_Release(executor);
    return code;
  }
  bind_storage(*executor);
  return 0;
}

int TVMGraphExecutor_Create(const char *sym_json, TVMModuleHandle module_handle,
                            const DLDevice *devices, TVMGraphExecutor **executor) {
  return TVMGraphExecutor_CreateSized(sym_json, strlen(sym_json), module_handle, devices, executor);
}

int TVMGraphExecutor_Release(TVMGraphExecutor **executor) {
  TVMGraphExecutor *const e = *executor;
  tvm_crt_error_t pool_code = kTvmErrorNoError;
  tvm_crt_error_t code;
  if (e == NULL) {
    return 0;
  }
  *executor = NULL;
  if (e->pool != NULL) {
    pool_code = TVMPlatformMemoryFree(e->pool, e->device);
  }
  code = TVMPlatformMemoryFree(e, e->device);
  return (int)(pool_code != kTvmErrorNoError ? pool_code : code);
}

static DLTensor *tensor_of(const TVMGraph *g, TVMGraphNodeEntry entry) {
  return &g->entries[g->node_row_ptr[entry.node] + entry.index];
}

int TVMGraphExecutor_GetNumInputs(TVMGraphExecutor *executor) {
  return (int)executor->graph.counts.arg_nodes;
}

int TVMGraphExecutor_GetNumOutputs(TVMGraphExecutor *executor) {
  return (int)executor->graph.counts.heads;
}

/* The null node that is input `index`, which must be one. */
static const TVMGraphNode *input_node(const TVMGraph *g, int index) {
  return &g->nodes[g->arg_nodes[index]];
}

static DLTensor *input_tensor(const TVMGraph *g, int index) {
  return &g->entries[g->node_row_ptr[g->arg_nodes[index]]];
}

static int is_input(const TVMGraph *g, int index) {
  return index >= 0 && (uint32_t)index < g->counts.arg_nodes;
}

const char *TVMGraphExecutor_GetInputName(TVMGraphExecutor *executor, int index) {
  const TVMGraph *const g = &executor->graph;
  return is_input(g, index) ? g->names + input_node(g, index)->name : NULL;
}

DLTensor *TVMGraphExecutor_GetInputTensor(TVMGraphExecutor *executor, int index) {
  const TVMGraph *const g = &executor->graph;
  return is_input(g, index) ? input_tensor(g, index) : NULL;
}

int TVMGraphExecutor_GetInputIndex(TVMGraphExecutor *executor, const char *name) {
  const TVMGraph *const g = &executor->graph;
  int i;
  for (i = 0; is_input(g, i); i++) {
    if (strcmp(g->names + input_node(g, i)->name, name) == 0) {
      return i;
    }
  }
  return -1;
}

DLTensor *TVMGraphExecutor_GetOutputTensor(TVMGraphExecutor *executor, int index) {
  const TVMGraph *const g = &executor->graph;
  if (index < 0 || (uint32_t)index >= g->counts.heads) {
    return NULL;
  }
  return tensor_of(g, g->heads[index]);
}

/* `theirs` can stand for `ours`: the same bytes mean the same elements. */
static int is_interchangeable(const DLTensor *ours, const DLTensor *theirs) {
  size_t bytes;
  return theirs->data != NULL && theirs->dtype.code == ours->dtype.code &&
         theirs->dtype.bits == ours->dtype.bits && theirs->dtype.lanes == ours->dtype.lanes &&
         TVMTensor_SizeBytes(theirs->ndim, theirs->shape, theirs->dtype, &bytes) == 0 &&
         bytes == tensor_bytes(ours) && TVMTensor_IsCompact(theirs);
}

int TVMGraphExecutor_SetInput(TVMGraphExecutor *executor, const char *name, DLTensor *data_in) {
  const int index = TVMGraphExecutor_GetInputIndex(executor, name);
  DLTensor *tensor;
  if (index < 0) {
    TVMAPIErrorf("no input named %s", name);
    return -1;
  }
  tensor = input_tensor(&executor->graph, index);
  if (!is_interchangeable(tensor, data_in)) {
    TVMAPIErrorf("another type or size than input %s", name);
    return kTvmErrorFunctionCallInvalidArg;
  }
  tensor->data = data_in->data;
  tensor->byte_offset = data_in->byte_offset;
  return 0;
}

int TVMGraphExecutor_GetOutput(TVMGraphExecutor *executor, const int32_t index, DLTensor *out) {
  const DLTensor *const tensor = TVMGraphExecutor_GetOutputTensor(executor, index);
  size_t bytes;
  if (tensor == NULL) {
    TVMAPISetLastError("no such output");
    return -1;
  }
  if (out->ndim != tensor->ndim || !is_interchangeable(tensor, out)) {
    TVMAPISetLastError("another type or size than the output");
    return kTvmErrorFunctionCallInvalidArg;
  }
  bytes = tensor_bytes(tensor);
  if (bytes > 0) {
    memmove((uint8_t *)out->data + out->byte_offset,
            (const uint8_t *)tensor->data + tensor->byte_offset, bytes);
  }
  return 0;
}

/* Calls the function of a node with its inputs, then its outputs. */
static int call_node(TVMGraphExecutor *e, uint32_t n) {
  const TVMGraph *const g = &e->graph;
  const TVMGraphNode *const node = &g->nodes[n];
  const uint32_t num_args = node->num_inputs + node->num_outputs;
  TVMValue result;
  int result_tcode = kTVMNullptr;
  uint32_t i;
  for (i = 0; i < num_args; i++) {
    e->args[i].v_handle = i < node->num_inputs
                              ? tensor_of(g, g->inputs[node->first_input + i])
                              : &g->entries[g->node_row_ptr[n] + i - node->num_inputs];
    e->arg_tcodes[i] = kTVMDLTensorHandle;
  }
  result.v_handle = NULL;
  return TVMFuncCall(node->function, e->args, e->arg_tcodes, (int)num_args, &result, &result_tcode);
}

int TVMGraphExecutor_Run(TVMGraphExecutor *executor) {
  const TVMGraph *const g = &executor->graph;
  uint32_t n;
  for (n = 0; n < g->counts.nodes; n++) {
    const TVMGraphNode *const node = &g->nodes[n];
    if (node->kind == kTVMGraphNop) {
      /* Their storage is one; but a caller's buffer may have taken its place as an input. */
      DLTensor *const out = &g->entries[g->node_row_ptr[n]];
      const DLTensor *const in = tensor_of(g, g->inputs[node->first_input]);
      out->data = in->data;
      out->byte_offset = in->byte_offset;
    } else if (node->kind == kTVMGraphOp) {
      const int code = call_node(executor, n);
      if (code != 0) {
        return code;
      }
    }
  }
  return 0;
}
