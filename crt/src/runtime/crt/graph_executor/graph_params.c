/* Parameters of a graph from the bytes of a .params file. */
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/internal/common/bytes.h>
#include <tvm/runtime/crt/internal/common/ndarray.h>
#include <tvm/runtime/crt/internal/graph_executor/graph_executor.h>

static int fail(const char *what) {
  TVMAPIErrorf("parameters: %s", what);
  return -1;
}

/* The start of the file: N, then N names. `names` is left at the first one, and `arrays` after
 * the last and the N that is repeated there, at the first array. */
static int read_names(TVMByteCursor all, TVMByteCursor *names, TVMByteCursor *arrays,
                      uint64_t *count) {
  uint64_t word;
  uint64_t i;
  if (TVMByteCursor_Number(&all, 8, &word) != 0 || word != TVM_NDARRAY_LIST_MAGIC ||
      TVMByteCursor_Number(&all, 8, &word) != 0 || TVMByteCursor_Number(&all, 8, count) != 0) {
    return fail("not a parameter file");
  }
  *names = all;
  for (i = 0; i < *count; i++) {
    if (TVMByteCursor_Number(&all, 8, &word) != 0 || word > all.left ||
        TVMByteCursor_Take(&all, (size_t)word) == NULL) {
      return fail("a name that does not end");
    }
    if (word >= TVM_CRT_MAX_STRLEN_PARAM_NAME) {
      return fail("a name longer than TVM_CRT_MAX_STRLEN_PARAM_NAME");
    }
  }
  if (TVMByteCursor_Number(&all, 8, &word) != 0 || word != *count) {
    return fail("not as many arrays as names");
  }
  *arrays = all;
  return 0;
}

/* The input with a name, which is not NUL-terminated; NULL if there is none. */
static DLTensor *find_input(TVMGraphExecutor *e, const uint8_t *name, size_t length) {
  int i;
  for (i = 0; i < TVMGraphExecutor_GetNumInputs(e); i++) {
    const char *const ours = TVMGraphExecutor_GetInputName(e, i);
    if (strlen(ours) == length && memcmp(ours, name, length) == 0) {
      return TVMGraphExecutor_GetInputTensor(e, i);
    }
  }
  return NULL;
}

static int fits(const DLTensor *tensor, const TVMArrayRecord *record) {
  return record->dtype.code == tensor->dtype.code && record->dtype.bits == tensor->dtype.bits &&
         record->dtype.lanes == tensor->dtype.lanes && record->ndim == tensor->ndim &&
         memcmp(record->shape, tensor->shape, (size_t)record->ndim * sizeof *record->shape) == 0;
}

/* Goes through names and arrays side by side; copies only if asked to. */
static int walk(TVMGraphExecutor *e, TVMByteCursor names, TVMByteCursor arrays, uint64_t count,
                int copy) {
  TVMArrayRecord record;
  uint64_t i;
  for (i = 0; i < count; i++) {
    const uint8_t *name;
    uint64_t length = 0;
    DLTensor *tensor;
    (void)TVMByteCursor_Number(&names, 8, &length); /* read_names has been here */
    name = TVMByteCursor_Take(&names, (size_t)length);
    tensor = find_input(e, name, (size_t)length);
    if (tensor == NULL) {
      return fail("a name that is no input of the graph");
    }
    if (TVMArrayRecord_Read(&arrays, &record) != 0) {
      return fail("no array");
    }
    if (!fits(tensor, &record)) {
      return fail("an array of another type or shape than the graph's");
    }
    if (copy) {
      /* Not to where SetInput may have pointed it: that memory is the caller's. */
      const uint32_t id = e->graph.storage_ids[tensor - e->graph.entries];
      tensor->data = e->storage[id].data;
      tensor->byte_offset = 0;
      TVMCopyFromLittleEndian(tensor->data, record.data, record.data_bytes,
                              TVMDataType_ElementBytes(record.dtype));
    }
  }
  return 0;
}

int TVMGraphExecutor_LoadParams(TVMGraphExecutor *executor, const char *param_blob,
                                const uint32_t param_size) {
  TVMByteCursor all;
  TVMByteCursor names;
  TVMByteCursor arrays;
  uint64_t count;
  all.at = (const uint8_t *)param_blob;
  all.left = param_size;
  if (read_names(all, &names, &arrays, &count) != 0 ||
      walk(executor, names, arrays, count, 0) != 0) {
    return -1;
  }
  return walk(executor, names, arrays, count, 1);
}
