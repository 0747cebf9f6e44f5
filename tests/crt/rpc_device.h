/* The device of RPC tests in C: a server whose line is a buffer, with two AOT modules and functions
 * that fail. */
#ifndef TESTS_CRT_RPC_DEVICE_H_
#define TESTS_CRT_RPC_DEVICE_H_

#include "expect.h"
#include "rpc_host.h"

#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/logging.h>
#include <tvm/runtime/crt/microtvm_rpc_server.h>
#include <tvm/runtime/crt/module.h>
#include <tvm/runtime/metadata_types.h>

extern uint64_t test_counter; /* rpc_platform.c */
extern int test_counter_works;

static Bytes line;
static microtvm_rpc_server_t server;
static int interrupt; /* the next write is interrupted by so many log lines */
static ssize_t write_result;

static inline ssize_t write_line(void *context, const uint8_t *data, size_t size) {
  (void)context;
  if (write_result != 0) {
    return write_result;
  }
  while (interrupt > 0) {
    interrupt--;
    TVMLogf("from an interrupt, line %d\n", interrupt);
  }
  put_bytes(&line, data, size);
  return (ssize_t)size;
}

/* The model: two AOT modules, a and b; y = x + 1. */
static const int64_t kShape[] = {4};
static const struct TVMTensorInfo kInput = {"x", kShape, 1, {kDLInt, 8, 1}};
static const struct TVMTensorInfo kOutput = {"y", kShape, 1, {kDLInt, 8, 1}};
static struct TVMMetadata metadata_a = {1, &kInput, 1, &kOutput, 1, NULL, 0, NULL, 0, "tvmgen_a"};
static struct TVMMetadata metadata_b = {1, &kInput, 1, &kOutput, 1, NULL, 0, NULL, 0, "tvmgen_b"};
static int calls;
static int calls_compute = 1;

#define PACKED TVMValue *args, int *tcodes, int n, TVMValue *ret, int *rcode, void *resource
#define UNUSED (void)args, (void)tcodes, (void)n, (void)ret, (void)rcode, (void)resource

static inline int metadata_of_a(PACKED) {
  UNUSED;
  ret[0].v_handle = &metadata_a;
  *rcode = kTVMOpaqueHandle;
  return 0;
}

static inline int metadata_of_b(PACKED) {
  UNUSED;
  ret[0].v_handle = &metadata_b;
  *rcode = kTVMOpaqueHandle;
  return 0;
}

static inline int run(PACKED) {
  int i;
  UNUSED;
  calls++;
  test_counter += 1000; /* a microsecond */
  for (i = 0; n == 2 && tcodes[0] == kTVMDLTensorHandle && calls_compute && i < 4; i++) {
    ((int8_t *)((DLTensor *)args[1].v_handle)->data)[i] =
        (int8_t)(((int8_t *)((DLTensor *)args[0].v_handle)->data)[i] + 1);
  }
  return 0;
}

/* Returns its argument, or what cannot be returned. */
static DLTensor odd_tensor;
static inline int echo(PACKED) {
  UNUSED;
  ret[0] = n > 0 ? args[0] : ret[0];
  *rcode = n > 0 ? tcodes[0] : 99;
  if (n == 2) { /* a tensor that is not compact */
    static int64_t stride[] = {2};
    odd_tensor = *(DLTensor *)args[0].v_handle;
    odd_tensor.strides = stride;
    ret[0].v_handle = &odd_tensor;
    *rcode = kTVMNDArrayHandle;
  }
  if (n == 1 && tcodes[0] == kTVMBytes) { /* what a function returns so is freed */
    void *block = NULL;
    const TVMByteArray *const given = args[0].v_handle;
    TVMByteArray *made;
    DLDevice cpu = {kDLCPU, 0};
    EXPECT(TVMPlatformMemoryAllocate(sizeof *made + given->size, cpu, &block) == 0);
    made = block;
    made->data = (const char *)(made + 1);
    made->size = given->size;
    memcpy(made + 1, given->data, given->size);
    ret[0].v_handle = made;
  }
  return 0;
}

static inline int fails(PACKED) {
  UNUSED;
  return -3;
}

static inline int fails_aloud(PACKED) {
  UNUSED;
  TVMLogf("%s", "just before it fails");
  TVMAPIErrorf("because of %d", 7);
  return 0x803;
}

static const TVMBackendPackedCFunc kFunctions[] = {run,  metadata_of_a, run,        metadata_of_b,
                                                   echo, fails,         fails_aloud};
static const TVMFuncRegistry kRegistry = {
    "\007\000tvmgen_a_run\0tvmgen_a_get_c_metadata\0tvmgen_b_run\0tvmgen_b_get_c_metadata\0"
    "echo\0fails\0fails_aloud\0",
    kFunctions};
static const TVMModule kModule = {&kRegistry};

const TVMModule *TVMSystemLibEntryPoint(void) {
  return &kModule;
}

#endif /* TESTS_CRT_RPC_DEVICE_H_ */
