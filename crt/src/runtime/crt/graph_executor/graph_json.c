/* From graph JSON to tables. The same code runs twice, first to count, then to fill tables of just
 * that size; both runs see the same text, so the second cannot find more than the first. */
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/internal/graph_executor/graph_executor.h>
#include <tvm/runtime/crt/internal/graph_executor/load_json.h>

enum { kMaxKey = 24, kMaxWord = 16 };

typedef struct {
  TVMJson json;
  TVMGraph *graph;
  TVMModuleHandle module;
  int filling; /* the second run */
  int code;    /* of an error that is not the text's */
} Reader;

/* One node, as its keys come. */
typedef struct {
  char op[kMaxWord];
  char name[TVM_CRT_MAX_STRLEN_FUNCTION_NAME];
  char func_name[TVM_CRT_MAX_STRLEN_FUNCTION_NAME];
  uint32_t first_input;
  uint32_t attr_inputs;
  uint32_t attr_outputs;
  unsigned seen;
} Node;

enum {
  kSeenOp = 1,
  kSeenName = 2,
  kSeenInputs = 4,
  kSeenAttrs = 8,
  kSeenFuncName = 16,
  kSeenNumInputs = 32,
  kSeenNumOutputs = 64,
  kSeenFlatten = 128
};

/* Marks a key as seen; twice is an error. */
static void once(Reader *r, unsigned *seen, unsigned key) {
  if (*seen & key) {
    TVMJson_Fail(&r->json, "a key that came before");
  }
  *seen |= key;
}

/* Rows are counted by the index they get; a text of 2 GiB has no more than fit. */
static uint32_t number(Reader *r) {
  return (uint32_t)TVMJson_Number(&r->json, INT32_MAX);
}

/* [node, index, version], the last one optional. */
static TVMGraphNodeEntry read_entry(Reader *r) {
  TVMGraphNodeEntry entry = {0, 0};
  uint32_t n = 0;
  TVMJson_Begin(&r->json, '[');
  while (TVMJson_More(&r->json, ']', n)) {
    const uint32_t value = number(r);
    if (n == 0) {
      entry.node = value;
    } else if (n == 1) {
      entry.index = value;
    } else if (n == 3 || value != 0) {
      TVMJson_Fail(&r->json, "expected [node, index, 0]");
    }
    n++;
  }
  if (n < 2) {
    TVMJson_Fail(&r->json, "expected [node, index, 0]");
  }
  return entry;
}

static void read_entries(Reader *r, TVMGraphNodeEntry *rows, uint32_t *count) {
  uint32_t n = 0;
  TVMJson_Begin(&r->json, '[');
  while (TVMJson_More(&r->json, ']', n)) {
    const TVMGraphNodeEntry entry = read_entry(r);
    if (r->filling) {
      rows[*count] = entry;
    }
    (*count)++;
    n++;
  }
}

static void read_numbers(Reader *r, uint32_t *rows, uint32_t *count) {
  uint32_t n = 0;
  TVMJson_Begin(&r->json, '[');
  while (TVMJson_More(&r->json, ']', n)) {
    const uint32_t value = number(r);
    if (r->filling) {
      rows[n] = value;
    }
    n++;
  }
  *count = n;
}

/* "3": attributes of nodes are strings. */
static uint32_t read_quoted_number(Reader *r) {
  char word[kMaxWord];
  uint32_t value = 0;
  size_t i = 0;
  TVMJson_String(&r->json, word, sizeof word);
  do {
    const char c = word[i];
    if (c < '0' || c > '9' || value > (INT32_MAX - 9) / 10) {
      TVMJson_Fail(&r->json, "expected a number in quotes");
      return 0;
    }
    value = value * 10 + (uint32_t)(c - '0');
  } while (word[++i] != '\0');
  return value;
}

static void read_node_attrs(Reader *r, Node *node) {
  char key[TVM_CRT_MAX_STRLEN_FUNCTION_NAME];
  uint32_t n = 0;
  TVMJson_Begin(&r->json, '{');
  while (TVMJson_More(&r->json, '}', n++)) {
    TVMJson_Key(&r->json, key, sizeof key);
    if (strcmp(key, "func_name") == 0) {
      once(r, &node->seen, kSeenFuncName);
      TVMJson_String(&r->json, node->func_name, sizeof node->func_name);
    } else if (strcmp(key, "num_inputs") == 0) {
      once(r, &node->seen, kSeenNumInputs);
      node->attr_inputs = read_quoted_number(r);
    } else if (strcmp(key, "num_outputs") == 0) {
      once(r, &node->seen, kSeenNumOutputs);
      node->attr_outputs = read_quoted_number(r);
    } else if (strcmp(key, "flatten_data") == 0) {
      once(r, &node->seen, kSeenFlatten);
      if (read_quoted_number(r) != 0) {
        TVMJson_Fail(&r->json, "flatten_data is not supported");
      }
    } else { /* "hash", layouts and the like say nothing about how to run it */
      TVMJson_Skip(&r->json);
    }
  }
}

static void read_node_key(Reader *r, Node *node, const char *key) {
  TVMGraph *const g = r->graph;
  if (strcmp(key, "op") == 0) {
    once(r, &node->seen, kSeenOp);
    TVMJson_String(&r->json, node->op, sizeof node->op);
  } else if (strcmp(key, "name") == 0) {
    once(r, &node->seen, kSeenName);
    TVMJson_String(&r->json, node->name, sizeof node->name);
  } else if (strcmp(key, "inputs") == 0) {
    once(r, &node->seen, kSeenInputs);
    read_entries(r, g->inputs, &g->counts.inputs);
  } else if (strcmp(key, "attrs") == 0 || strcmp(key, "attr") == 0) {
    once(r, &node->seen, kSeenAttrs);
    read_node_attrs(r, node);
  } else if (strcmp(key, "control_deps") == 0) {
    TVMJson_Skip(&r->json); /* nodes run in the order they are listed, which satisfies them */
  } else {
    TVMJson_Fail(&r->json, "a key that nodes do not have");
  }
}

static TVMGraphNodeKind kind_of(Reader *r, const Node *node, uint32_t num_inputs) {
  const unsigned needed = kSeenFuncName | kSeenNumInputs | kSeenNumOutputs | kSeenFlatten;
  if (strcmp(node->op, "null") == 0) {
    if (num_inputs != 0) {
      TVMJson_Fail(&r->json, "an input node that has inputs");
    }
    return kTVMGraphNull;
  }
  if (strcmp(node->op, "tvm_op") != 0) {
    TVMJson_Fail(&r->json, "an op other than null and tvm_op");
  } else if ((node->seen & needed) != needed || node->attr_inputs != num_inputs) {
    TVMJson_Fail(&r->json, "a node without func_name, num_inputs, num_outputs or flatten_data");
  }
  return strcmp(node->func_name, "__nop") == 0 ? kTVMGraphNop : kTVMGraphOp;
}

/* Makes a row from a node's description. */
static void add_node(Reader *r, const Node *node) {
  TVMGraph *const g = r->graph;
  const uint32_t num_inputs = g->counts.inputs - node->first_input;
  const TVMGraphNodeKind kind = kind_of(r, node, num_inputs);
  const uint32_t num_outputs = kind == kTVMGraphNull ? 1 : node->attr_outputs;
  const uint32_t name_bytes = kind == kTVMGraphNull ? (uint32_t)strlen(node->name) + 1 : 0;
  if (num_outputs > INT32_MAX - g->counts.outputs) {
    TVMJson_Fail(&r->json, "too many outputs");
  }
  if (r->json.error != NULL) {
    return;
  }
  if (r->filling) {
    TVMGraphNode *const row = &g->nodes[g->counts.nodes];
    row->kind = kind;
    row->function = NULL;
    row->first_input = node->first_input;
    row->num_inputs = num_inputs;
    row->num_outputs = num_outputs;
    row->name = g->counts.name_bytes;
    if (name_bytes > 0) {
      memcpy(g->names + row->name, node->name, name_bytes);
    }
    if (kind == kTVMGraphOp) {
      r->code = TVMModGetFunction(r->module, node->func_name, 0, &row->function);
      if (r->code != 0) {
        TVMJson_Fail(&r->json, "a function that the module does not have");
      }
    }
  }
  g->counts.nodes++;
  g->counts.outputs += num_outputs;
  g->counts.name_bytes += name_bytes;
  if (num_inputs + num_outputs > g->counts.max_args) {
    g->counts.max_args = num_inputs + num_outputs;
  }
}

static void read_nodes(Reader *r) {
  const unsigned needed = kSeenOp | kSeenName | kSeenInputs;
  char key[kMaxKey];
  Node node;
  uint32_t n = 0;
  TVMJson_Begin(&r->json, '[');
  while (TVMJson_More(&r->json, ']', n++)) {
    uint32_t keys = 0;
    memset(&node, 0, sizeof node);
    node.first_input = r->graph->counts.inputs;
    TVMJson_Begin(&r->json, '{');
    while (TVMJson_More(&r->json, '}', keys++)) {
      TVMJson_Key(&r->json, key, sizeof key);
      read_node_key(r, &node, key);
    }
    if ((node.seen & needed) != needed) {
      TVMJson_Fail(&r->json, "a node without op, name or inputs");
    }
    add_node(r, &node);
  }
}

static void read_dltypes(Reader *r) {
  TVMGraph *const g = r->graph;
  char word[kMaxWord];
  uint32_t n = 0;
  TVMJson_Begin(&r->json, '[');
  while (TVMJson_More(&r->json, ']', n)) {
    DLDataType dtype;
    TVMJson_String(&r->json, word, sizeof word);
    if (TVMDataType_Parse(word, &dtype) != 0 || dtype.lanes != 1) {
      TVMJson_Fail(&r->json, "no data type");
    } else if (r->filling) {
      g->entries[n].dtype = dtype;
    }
    n++;
  }
  g->counts.dltypes = n;
}

static void read_shapes(Reader *r) {
  TVMGraph *const g = r->graph;
  uint32_t n = 0;
  TVMJson_Begin(&r->json, '[');
  while (TVMJson_More(&r->json, ']', n)) {
    uint32_t rank = 0;
    TVMJson_Begin(&r->json, '[');
    while (TVMJson_More(&r->json, ']', rank)) {
      const int64_t extent = TVMJson_Number(&r->json, INT32_MAX);
      if (r->filling) {
        g->dims[g->counts.dims + rank] = extent;
      }
      rank++;
    }
    if (rank > TVM_CRT_MAX_NDIM) {
      TVMJson_Fail(&r->json, "more dimensions than TVM_CRT_MAX_NDIM");
    }
    if (r->filling) {
      g->entries[n].ndim = (int32_t)rank;
      g->entries[n].shape = g->dims + g->counts.dims;
    }
    g->counts.dims += rank;
    n++;
  }
  g->counts.shapes = n;
}

/* Every attribute of a graph is a list of two: the kind of list, and the list. */
static void read_graph_attr(Reader *r, const char *key, unsigned *seen) {
  char kind[kMaxWord];
  const char *expected = NULL;
  TVMJson_Begin(&r->json, '[');
  (void)TVMJson_More(&r->json, ']', 0);
  TVMJson_String(&r->json, kind, sizeof kind);
  if (!TVMJson_More(&r->json, ']', 1)) {
    TVMJson_Fail(&r->json, "expected a kind and a list");
  }
  if (strcmp(key, "dltype") == 0) {
    once(r, seen, 1);
    expected = "list_str";
    read_dltypes(r);
  } else if (strcmp(key, "storage_id") == 0) {
    once(r, seen, 2);
    expected = "list_int";
    read_numbers(r, r->graph->storage_ids, &r->graph->counts.storage_ids);
  } else if (strcmp(key, "shape") == 0) {
    once(r, seen, 4);
    expected = "list_shape";
    read_shapes(r);
  } else if (strcmp(key, "device_index") == 0 || strcmp(key, "storage_scope") == 0) {
    TVMJson_Skip(&r->json); /* there is one device, with one kind of memory */
  } else {
    TVMJson_Fail(&r->json, "a key that graph attributes do not have");
  }
  if (expected != NULL && strcmp(kind, expected) != 0) {
    TVMJson_Fail(&r->json, "an attribute of another kind");
  }
  if (TVMJson_More(&r->json, ']', 2)) {
    TVMJson_Fail(&r->json, "expected a kind and a list");
  }
}

static void read_graph_attrs(Reader *r) {
  char key[kMaxKey];
  unsigned seen = 0;
  uint32_t n = 0;
  TVMJson_Begin(&r->json, '{');
  while (TVMJson_More(&r->json, '}', n++)) {
    TVMJson_Key(&r->json, key, sizeof key);
    read_graph_attr(r, key, &seen);
  }
  if (seen != 7) {
    TVMJson_Fail(&r->json, "expected dltype, storage_id and shape");
  }
}

static void read_graph_key(Reader *r, const char *key, unsigned *seen) {
  TVMGraph *const g = r->graph;
  if (strcmp(key, "nodes") == 0) {
    once(r, seen, 1);
    read_nodes(r);
  } else if (strcmp(key, "arg_nodes") == 0) {
    once(r, seen, 2);
    read_numbers(r, g->arg_nodes, &g->counts.arg_nodes);
  } else if (strcmp(key, "heads") == 0) {
    once(r, seen, 4);
    read_entries(r, g->heads, &g->counts.heads);
  } else if (strcmp(key, "attrs") == 0) {
    once(r, seen, 8);
    read_graph_attrs(r);
  } else if (strcmp(key, "node_row_ptr") == 0) {
    once(r, seen, 16);
    read_numbers(r, g->node_row_ptr, &g->counts.node_row_ptr);
  } else if (strcmp(key, "metadata") == 0) {
    TVMJson_Skip(&r->json);
  } else {
    TVMJson_Fail(&r->json, "a key that graphs do not have");
  }
}

int TVMGraph_Read(TVMGraph *graph, const char *text, size_t length, TVMModuleHandle module_handle) {
  char key[kMaxKey];
  unsigned seen = 0;
  uint32_t n = 0;
  Reader r;
  memset(&graph->counts, 0, sizeof graph->counts);
  r.graph = graph;
  r.module = module_handle;
  r.filling = graph->nodes != NULL;
  r.code = 0;
  TVMJson_Open(&r.json, text, length);
  if (length > INT32_MAX) {
    TVMJson_Fail(&r.json, "a text of more than 2 GiB");
  }
  TVMJson_Begin(&r.json, '{');
  while (TVMJson_More(&r.json, '}', n++)) {
    TVMJson_Key(&r.json, key, sizeof key);
    read_graph_key(&r, key, &seen);
  }
  TVMJson_End(&r.json);
  if (seen != 31) {
    TVMJson_Fail(&r.json, "expected nodes, arg_nodes, heads, attrs and node_row_ptr");
  }
  if (r.json.error != NULL) {
    TVMAPIErrorf("graph JSON, byte %lu: %s", (unsigned long)r.json.at, r.json.error);
    return r.code != 0 ? r.code : -1;
  }
  return 0;
}
