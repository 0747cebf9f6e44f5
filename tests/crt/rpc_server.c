/* The RPC server as a host sees it: every request, in every wrong form too, and what is left when
 * the host is gone. Prints what failed, exits 1 if any. */
#include "expect.h"
#include "rpc_host.h"

#include <stdlib.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/graph_executor_module.h>
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

static ssize_t write_line(void *context, const uint8_t *data, size_t size) {
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

static int metadata_of_a(PACKED) {
  UNUSED;
  ret[0].v_handle = &metadata_a;
  *rcode = kTVMOpaqueHandle;
  return 0;
}

static int metadata_of_b(PACKED) {
  UNUSED;
  ret[0].v_handle = &metadata_b;
  *rcode = kTVMOpaqueHandle;
  return 0;
}

static int run(PACKED) {
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
static int echo(PACKED) {
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

static int fails(PACKED) {
  UNUSED;
  return -3;
}

static int fails_aloud(PACKED) {
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

/* The host. */
static uint16_t session_id;
static uint8_t answer[kHostRoom]; /* a packet, from its length on */
static long answer_size;
static char logged[256];
static int logs;

static void give(const Bytes *wire) {
  /* On the heap, so that the sanitizer sees where it ends. */
  uint8_t *const copy = malloc(wire->size);
  uint8_t *at = copy;
  size_t left = wire->size;
  memcpy(copy, wire->bytes, wire->size);
  while (left > 0) {
    EXPECT(MicroTVMRpcServerLoop(server, &at, &left) == kTvmErrorNoError);
  }
  EXPECT(at == copy + wire->size);
  free(copy);
}

static void give_message(uint16_t id, int type, const Bytes *body) {
  static Bytes payload;
  static Bytes wire;
  payload.size = wire.size = 0;
  put(&payload, id, 2);
  put(&payload, (uint64_t)type, 1);
  put_bytes(&payload, body->bytes, body->size);
  put_frame(&wire, payload.bytes, payload.size);
  give(&wire);
}

/* Takes all frames that were written: logs, and at most one answer. Only whole frames are there. */
static void listen(void) {
  static uint8_t payload[kHostRoom];
  size_t at = 0;
  answer_size = -1;
  logs = 0;
  while (at < line.size) {
    const long size = take_frame(&line, &at, payload);
    EXPECT(size >= 3);
    if (size < 3) {
      break;
    }
    if (payload[2] == 3) {
      logs++;
      EXPECT(size - 3 < (long)sizeof logged);
      memcpy(logged, payload + 3, (size_t)size - 3);
      logged[size - 3] = '\0';
    } else {
      EXPECT(answer_size == -1);
      answer_size = size - 3;
      memcpy(answer, payload + 3, (size_t)answer_size);
      session_id = (uint16_t)number_at(payload, 2);
    }
  }
  line.size = 0;
}

static void begin_session(void) {
  static Bytes body;
  body.size = 0;
  put(&body, 1, 1);
  give_message(0x0043, 0, &body);
  listen();
  EXPECT(answer_size == 1 && answer[0] == 1 && (session_id & 0xff) == 0x43);
}

/* Sends a packet; -1 for no answer, else its code. */
static int ask(int code, const Bytes *body) {
  static Bytes packet;
  packet.size = 0;
  put(&packet, body->size + 4, 8);
  put(&packet, (uint32_t)code, 4);
  put_bytes(&packet, body->bytes, body->size);
  give_message(session_id, 0x10, &packet);
  listen();
  if (answer_size < 12) {
    EXPECT(answer_size == -1);
    return -1;
  }
  EXPECT(number_at(answer, 8) == (uint64_t)answer_size - 8);
  return (int)number_at(answer + 8, 4);
}

enum { kReturn = 4, kException = 5 };

/* Whether the last answer is an exception with this text in it. */
static int refused(const char *text) {
  char said[512] = "";
  size_t length;
  if (answer_size < 28 || number_at(answer + 8, 4) != kException) {
    return 0;
  }
  length = (size_t)number_at(answer + 20, 8);
  EXPECT(number_at(answer + 12, 4) == 1 && number_at(answer + 16, 4) == 11);
  EXPECT(length + 28 == (size_t)answer_size && length < sizeof said);
  memcpy(said, answer + 28, length);
  if (strstr(said, text) == NULL) {
    printf("instead of \"%s\": %s\n", text, said);
    return 0;
  }
  return 1;
}

/* Packed sequences. */
static Bytes body;

static void sequence(int count, const int *codes) {
  put(&body, (uint64_t)count, 4);
  while (count-- > 0) {
    put(&body, (uint64_t)*codes++, 4);
  }
}

static void put_text(const char *text) {
  put(&body, strlen(text), 8);
  put_bytes(&body, text, strlen(text));
}

static void put_device(void) {
  put(&body, 1, 4);
  put(&body, 0, 4);
}

static void put_tensor(uint64_t data, int bits, int ndim, const int64_t *shape, uint64_t offset) {
  put(&body, data, 8);
  put_device();
  put(&body, (uint64_t)ndim, 4);
  put(&body, 0, 1);
  put(&body, (uint64_t)bits, 1);
  put(&body, 1, 2);
  while (ndim-- > 0) {
    put(&body, (uint64_t)*shape++, 8);
  }
  put(&body, offset, 8);
}

#define CODES(...)                                                                                 \
  (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), (int[]) {                                     \
    __VA_ARGS__                                                                                    \
  }

static void start(void) {
  body.size = 0;
}

static int is_void(void) {
  return answer_size == 20 && number_at(answer + 12, 4) == 1 && number_at(answer + 16, 4) == 4;
}

static uint64_t handle_answered(void) {
  EXPECT(answer_size == 28 && number_at(answer + 16, 4) == 3);
  return number_at(answer + 20, 8);
}

static uint64_t global(const char *name) {
  start();
  sequence(CODES(11));
  put_text(name);
  EXPECT(ask(9, &body) == kReturn);
  return handle_answered();
}

/* The value of a call's result whose real type is `tcode`. */
static uint64_t result(int tcode) {
  EXPECT(number_at(answer + 8, 4) == kReturn && number_at(answer + 24, 8) == (uint64_t)tcode);
  return answer_size >= 40 ? number_at(answer + 32, 8) : 0;
}

/* The address of the tensor that a call returned. */
static uint64_t tensor_result(void) {
  EXPECT(number_at(answer + 12, 4) == 3 && number_at(answer + 28, 8) == 13);
  EXPECT(answer_size == 28 + 8 + 40 + 8);
  return number_at(answer + 36, 8);
}

static void call(uint64_t function) {
  start();
  put(&body, function, 8);
}

static uint64_t system_lib(void) {
  call(global("runtime.SystemLib"));
  sequence(0, NULL);
  (void)ask(3, &body);
  return result(9);
}

static uint64_t function_of(uint64_t module, const char *name) {
  call(global("tvm.rpc.server.ModuleGetFunction"));
  sequence(CODES(9, 11, 0));
  put(&body, module, 8);
  put_text(name);
  put(&body, 1, 8);
  (void)ask(3, &body);
  return number_at(answer + 24, 8) == 10 ? result(10) : 0;
}

static uint64_t allocated(uint64_t bytes, uint64_t alignment) {
  start();
  sequence(CODES(6, 0, 0, 5));
  put_device();
  put(&body, bytes, 8);
  put(&body, alignment, 8);
  put(&body, 0x00012002, 8);
  return ask(13, &body) == kReturn ? handle_answered() : 0;
}

static int copy_to(uint64_t data, uint64_t offset, const void *from, size_t size) {
  const int64_t shape[] = {4};
  start();
  put_tensor(data, 8, 1, shape, offset);
  put(&body, size, 8);
  put_bytes(&body, from, size);
  return ask(7, &body);
}

static int copy_from(uint64_t data, uint64_t offset, size_t size) {
  const int64_t shape[] = {4};
  start();
  put_tensor(data, 8, 1, shape, offset);
  put(&body, size, 8);
  return ask(6, &body);
}

/* tests */

static void the_server_says_that_it_is_there(void) {
  server = MicroTVMRpcServerInit(write_line, NULL);
  EXPECT(server != NULL);
  EXPECT(line.size > 12 && memcmp(line.bytes, "\xfe\xff\xfd\3\0\0\0\0\0\2\x66\x77", 12) == 0);
  line.size -= 12; /* which is followed by what was logged before */
  memmove(line.bytes, line.bytes + 12, line.size);
  listen();
  EXPECT(logs == 1 && strcmp(logged, "before the server") == 0);
  EXPECT(TVMGraphExecutorModule_Register() == kTvmErrorNoError);
}

static void globals_are_found(void) {
  EXPECT(global("runtime.SystemLib") != 0);
  EXPECT(global("no.such.function") == 0); /* and no exception */
  call(global("tvm.rpc.server.GetCRTMaxPacketSize"));
  sequence(0, NULL);
  EXPECT(ask(3, &body) == kReturn);
  /* What both sides can receive: a host of TVM has room for 2048, whatever the device has. */
  EXPECT(result(0) == 2048 - 11);
}

static void results_of_all_types_are_sent(void) {
  const uint64_t f = function_of(system_lib(), "echo");
  const int64_t shape[] = {4};
  const uint64_t data = allocated(4, 1);
  const double half = 0.5;
  uint64_t bits;
  int tcode;
  call(f);
  sequence(CODES(0));
  put(&body, (uint64_t)-5, 8);
  EXPECT(ask(3, &body) == kReturn && result(0) == (uint64_t)-5 && answer_size == 40);
  memcpy(&bits, &half, 8);
  call(f);
  sequence(CODES(2));
  put(&body, bits, 8);
  EXPECT(ask(3, &body) == kReturn && result(2) == bits);
  for (tcode = 9; tcode <= 10; tcode++) {
    call(f);
    sequence(CODES(tcode));
    put(&body, 0x1234, 8);
    EXPECT(ask(3, &body) == kReturn && result(tcode) == 0x1234);
    EXPECT(number_at(answer + 20, 4) == 3);
  }
  call(f);
  sequence(CODES(4));
  EXPECT(ask(3, &body) == kReturn && result(4) == 0 && answer_size == 32);
  call(f);
  sequence(CODES(11));
  put_text("text");
  EXPECT(ask(3, &body) == kReturn && result(11) == 4 && memcmp(answer + 40, "text", 4) == 0);
  call(f);
  sequence(CODES(12));
  put_text("b\0\0s");
  EXPECT(ask(3, &body) == kReturn && result(12) == 1);
  call(f);
  sequence(CODES(7));
  put_tensor(data, 8, 1, shape, 0);
  EXPECT(ask(3, &body) == kReturn && tensor_result() == data);
  /* Not what cannot be sent. */
  call(f);
  sequence(0, NULL);
  (void)ask(3, &body);
  EXPECT(refused("echo: a result of a type that cannot be sent: 99"));
  call(f);
  sequence(CODES(5));
  put(&body, 0x00012002, 8);
  (void)ask(3, &body);
  EXPECT(refused("a type that cannot be sent: 5"));
  call(f);
  sequence(CODES(7, 4));
  put_tensor(data, 8, 1, shape, 0);
  (void)ask(3, &body);
  EXPECT(refused("strides"));
  call(f);
  sequence(CODES(12));
  put(&body, 2030, 8);
  put_bytes(&body, line.bytes, 2030);
  (void)ask(3, &body);
  EXPECT(refused("more bytes than a packet holds"));
}

static void failures_name_their_function(void) {
  const uint64_t lib = system_lib();
  call(function_of(lib, "fails_aloud"));
  sequence(0, NULL);
  (void)ask(3, &body);
  EXPECT(refused("fails_aloud: error 0x803: because of 7"));
  EXPECT(logs == 1 && strcmp(logged, "just before it fails") == 0);
  call(function_of(lib, "fails")); /* which says nothing: no text of the one before */
  sequence(0, NULL);
  (void)ask(3, &body);
  EXPECT(refused("fails: error -3") && answer_size == 28 + 15);
  call(0x12345678);
  sequence(0, NULL);
  (void)ask(3, &body);
  EXPECT(refused("a function: error 0x101: "));
  EXPECT(function_of(lib, "none") == 0); /* nothing, and no exception */
}

static void memory_is_the_sessions(void) {
  const int64_t shape[] = {4, 5};
  uint64_t a, b;
  size_t left;
  begin_session();
  left = TVMPlatformMemoryLeft();
  a = allocated(100, 64);
  b = allocated(50, 16);
  EXPECT(a % 64 == 0 && b % 16 == 0 && a != b);
  EXPECT(copy_to(a, 96, "\xff\xfe\xfd\0", 4) == kReturn && is_void());
  EXPECT(copy_from(a, 96, 4) == 8 && answer_size == 16);
  EXPECT(memcmp(answer + 12, "\xff\xfe\xfd\0", 4) == 0);
  /* The scope makes no difference. */
  start();
  sequence(CODES(7, 4));
  put_tensor(0, 32, 2, shape, 0);
  EXPECT(ask(17, &body) == kReturn && handle_answered() != 0);
  start();
  sequence(CODES(7, 11));
  put_tensor(0, 32, 2, shape, 0);
  put_text("global");
  EXPECT(ask(17, &body) == kReturn && handle_answered() != 0);
  start();
  sequence(CODES(7, 4));
  put_tensor(0, 0, 2, shape, 0);
  (void)ask(17, &body);
  EXPECT(refused("DevAllocDataWithScope: a tensor without a size"));
  start();
  sequence(CODES(6, 3));
  put_device();
  put(&body, a, 8);
  EXPECT(ask(14, &body) == kReturn && is_void());
  EXPECT(ask(14, &body) == kException && refused("DevFreeData: no such block"));
  EXPECT(allocated(16, 3) == 0 && refused("DevAllocData: error 0x803"));
  EXPECT(allocated(16, 8192) == 0 && refused("DevAllocData: error 0x803"));
  EXPECT(allocated((uint64_t)1 << 40, 1) == 0 && refused("error 0x803"));
  EXPECT(allocated(1 << 30, 1) == 0);
  EXPECT(refused("out of memory: 1073741856 bytes asked for, "));
  EXPECT(TVMPlatformMemoryLeft() < left);
  /* The host disappears, and the next one finds all of it. */
  begin_session();
  EXPECT(TVMPlatformMemoryLeft() == left);
}

static void wrong_addresses_are_refused(void) {
  const uint64_t data = allocated(64, 16);
  const int64_t huge[] = {1 << 20, 1 << 20};
  const int64_t negative[] = {-1};
  EXPECT(copy_to(0, 0, "abcd", 4) == kException);
  EXPECT(refused("CopyToRemote: a tensor outside of this device's memory"));
  EXPECT(copy_to(data, UINT64_MAX, "abcd", 4) == kException);
  EXPECT(copy_to((uint64_t)(uintptr_t)&calls, 0, "abcd", 4) == kException);
  EXPECT(copy_from((uint64_t)(uintptr_t)&calls, 0, 4) == kException);
  EXPECT(refused("CopyFromRemote: a tensor outside"));
  EXPECT(copy_from(data, 0, 0x7fffffff) == kException && refused("outside"));
  EXPECT(copy_from(data, 0, (size_t)0xffffffff) == kException && refused("without a size"));
  EXPECT(copy_from(0, 0, 0) == 8 && answer_size == 12);
  /* Less data than announced, and none. */
  start();
  put_tensor(data, 8, 1, negative, 0);
  put(&body, 5, 8);
  put_bytes(&body, "abcd", 4);
  EXPECT(ask(7, &body) == kException && refused("not as many bytes"));
  body.size = 47;
  EXPECT(ask(7, &body) == kException && refused("the packet ends before its data"));
  body.size = 39;
  EXPECT(ask(7, &body) == kException && refused("the packet ends within"));
  /* Tensors as arguments. */
  call(function_of(system_lib(), "echo"));
  sequence(CODES(7));
  put_tensor(data, 8, 2, huge, 0);
  EXPECT(ask(3, &body) == kException && refused("echo: a tensor without a size"));
  call(function_of(system_lib(), "echo"));
  sequence(CODES(7));
  put_tensor(data, 8, 1, negative, 0);
  EXPECT(ask(3, &body) == kException && refused("echo: a tensor without a size"));
  body.bytes[8 + 4 + 4 + 8] = 2; /* another device */
  EXPECT(ask(3, &body) == kException && refused("without a size"));
}

static void tensors_are_copied_here(void) {
  const uint64_t a = allocated(8, 16);
  const uint64_t b = allocated(8, 16);
  const int64_t shape[] = {4};
  const int64_t other[] = {3};
  EXPECT(copy_to(a, 0, "\1\2\3\4", 4) == kReturn);
  start();
  sequence(CODES(7, 7, 3));
  put_tensor(a, 8, 1, shape, 0);
  put_tensor(b, 8, 1, shape, 0);
  put(&body, 0, 8);
  EXPECT(ask(16, &body) == kReturn && is_void());
  EXPECT(copy_from(b, 0, 4) == 8 && memcmp(answer + 12, "\1\2\3\4", 4) == 0);
  start();
  sequence(CODES(7, 7, 3));
  put_tensor(a, 8, 1, shape, 0);
  put_tensor(b, 8, 1, other, 0);
  put(&body, 0, 8);
  EXPECT(ask(16, &body) == kException && refused("CopyAmongRemote: error 0x803: tensors of diff"));
  start();
  sequence(CODES(7, 7, 3));
  put_tensor(a, 8, 1, shape, 0);
  put_tensor(0, 8, 1, shape, 0);
  put(&body, 0, 8);
  EXPECT(ask(16, &body) == kException && refused("CopyAmongRemote: a tensor outside"));
  start();
  sequence(CODES(7, 7, 3));
  put_tensor(a, 8, 1, shape, 0);
  put_tensor(b, 8, 1, shape, 0);
  put(&body, 0, 8);
  body.bytes[4 + 12 + 8] = 2; /* the device of the first */
  EXPECT(ask(16, &body) == kException && refused("on a device that is not here"));
}

static void streams_are_no_ops(void) {
  start();
  sequence(CODES(6));
  put_device();
  EXPECT(ask(18, &body) == kReturn && handle_answered() == 0);
  start();
  sequence(CODES(6, 3));
  put_device();
  put(&body, 0, 8);
  EXPECT(ask(15, &body) == kReturn && is_void());
  EXPECT(ask(19, &body) == kReturn && is_void());
  EXPECT(ask(20, &body) == kReturn && is_void());
}

/* Each is answered by an exception, but the empty packet; nothing hangs, and the next works. */
static void malformed_requests_are_refused(void) {
  int code;
  int count;
  static Bytes empty;
  start();
  for (code = -1; code < 40; code++) {
    if (code != 1 && code != 2) {
      EXPECT(ask(code, &body) == kException);
    }
  }
  EXPECT(ask(2, &body) == kReturn && is_void()); /* InitServer: of any version */
  (void)ask(99, &body);
  EXPECT(refused("RPC: a request that is not known"));
  (void)ask(11, &body);
  EXPECT(refused("DevSetDevice: is not supported"));
  put(&empty, 0, 8);
  give_message(session_id, 0x10, &empty);
  listen();
  EXPECT(answer_size == -1);
  for (count = 0; count < 12; count++) {
    start();
    put(&body, 100, count);
    give_message(session_id, 0x10, &body);
    listen();
    EXPECT(refused("RPC: a packet that is not as long as it says"));
  }
  /* Sequences: too many, of unknown types, cut off, of the wrong types. */
  start();
  put(&body, 0x7fffffff, 4);
  EXPECT(ask(9, &body) == kException && refused("GetGlobalFunc: the packet ends within"));
  start();
  sequence(CODES(0x80));
  put(&body, 0, 8);
  EXPECT(ask(9, &body) == kException && refused("of a type that cannot be sent"));
  start();
  sequence(CODES(-2));
  put(&body, 0, 8);
  EXPECT(ask(9, &body) == kException && refused("of a type that cannot be sent"));
  start();
  sequence(CODES(11));
  put(&body, 1000, 8);
  EXPECT(ask(9, &body) == kException && refused("the packet ends within"));
  start();
  sequence(CODES(0));
  put(&body, 0, 4);
  EXPECT(ask(9, &body) == kException && refused("the packet ends within"));
  start();
  sequence(CODES(0));
  put(&body, 0, 8);
  EXPECT(ask(9, &body) == kException && refused("GetGlobalFunc: an argument of the wrong type"));
  start();
  sequence(CODES(0, 0));
  put(&body, 0, 8);
  put(&body, 0, 8);
  EXPECT(ask(9, &body) == kException && refused("the wrong number of arguments"));
  start();
  sequence(CODES(5, 3));
  put(&body, 0, 8);
  put(&body, 0, 8);
  EXPECT(ask(14, &body) == kException && refused("DevFreeData: an argument of the wrong type"));
  call(global("runtime.SystemLib"));
  EXPECT(ask(3, &body) == kException && refused("runtime.SystemLib: the packet ends"));
}

/* Any count of arguments, up to what the packet holds: all of it fits, or is refused. */
static void arguments_fill_the_packet(void) {
  const uint64_t f = function_of(system_lib(), "tvmgen_a_run");
  static const int64_t kEmpty[] = {0, 0};
  int accepted = 0;
  int tcode;
  int count;
  int i;
  calls_compute = 0;
  for (tcode = 0; tcode < 3; tcode++) {
    static const int kCodes[] = {4, 12, 7};
    for (count = 1; count < 2040; count += 1 + count / 4) {
      call(f);
      put(&body, (uint64_t)count, 4);
      for (i = 0; i < count; i++) {
        put(&body, (uint64_t)kCodes[tcode], 4);
      }
      for (i = 0; i < count && tcode > 0; i++) {
        if (tcode == 1) {
          put(&body, 0, 8);
        } else {
          put_tensor(0, 8, 1, kShape, 0);
          body.bytes[body.size - 16] = 0; /* an empty one */
        }
      }
      if (body.size + 15 > TVM_CRT_MAX_PACKET_SIZE_BYTES) {
        break;
      }
      EXPECT(ask(3, &body) == kReturn || refused("more arguments than TVM_CRT_MAX"));
      accepted += number_at(answer + 8, 4) == kReturn;
    }
  }
  EXPECT(accepted > 20);
  /* Nulls take more here than in the packet; what follows them finds less and less room. */
  for (tcode = 7; tcode <= 12; tcode += 5) {
    for (count = 1100; count < 1300; count++) {
      call(f);
      put(&body, (uint64_t)count + 1, 4);
      for (i = 0; i < count; i++) {
        put(&body, 4, 4);
      }
      put(&body, (uint64_t)tcode, 4);
      put_tensor(0, 8, 2, kEmpty, 0);
      EXPECT(ask(3, &body) == kReturn || refused("more arguments than TVM_CRT_MAX"));
    }
    EXPECT(refused("more arguments than TVM_CRT_MAX"));
  }
  calls_compute = 1;
  /* A tensor of more axes than there is room for. */
  call(f);
  sequence(CODES(7));
  put(&body, 0, 8);
  put_device();
  put(&body, 100000, 4);
  put(&body, 0x00010800, 4);
  EXPECT(ask(3, &body) == kException && refused("the packet ends"));
}

static uint64_t aot(const char *name) {
  const uint64_t lib = system_lib();
  call(global("tvm.aot_executor.create"));
  sequence(CODES(9, 6, 11));
  put(&body, lib, 8);
  put_device();
  put_text(name);
  (void)ask(3, &body);
  return result(9);
}

/* The address of a tensor that the function returns. */
static uint64_t tensor_of(uint64_t module, const char *function) {
  call(function_of(module, function));
  sequence(CODES(0));
  put(&body, 0, 8);
  EXPECT(ask(3, &body) == kReturn);
  return tensor_result();
}

static void free_module(uint64_t module) {
  start();
  sequence(CODES(3, 0));
  put(&body, module, 8);
  put(&body, 9, 8);
  EXPECT(ask(10, &body) == kReturn && is_void());
}

static void modules_run_side_by_side(void) {
  const size_t left = TVMPlatformMemoryLeft();
  const uint64_t a = aot("a");
  const uint64_t b = aot("b");
  const uint64_t again = aot("a");
  EXPECT(a != b && b != again && a != again);
  EXPECT(copy_to(tensor_of(a, "get_input"), 0, "\1\2\3\4", 4) == kReturn);
  EXPECT(copy_to(tensor_of(b, "get_input"), 0, "\5\6\7\10", 4) == kReturn);
  call(function_of(a, "run"));
  sequence(0, NULL);
  EXPECT(ask(3, &body) == kReturn && result(4) == 0);
  call(function_of(b, "run"));
  sequence(0, NULL);
  EXPECT(ask(3, &body) == kReturn && result(4) == 0);
  EXPECT(copy_from(tensor_of(a, "get_output"), 0, 4) == 8);
  EXPECT(memcmp(answer + 12, "\2\3\4\5", 4) == 0);
  EXPECT(copy_from(tensor_of(b, "get_output"), 0, 4) == 8);
  EXPECT(memcmp(answer + 12, "\6\7\10\11", 4) == 0);
  free_module(a);
  EXPECT(function_of(a, "run") == 0 && refused("was freed or replaced"));
  free_module(a); /* twice does no harm, and the system library stays */
  free_module(system_lib());
  EXPECT(function_of(system_lib(), "echo") != 0);
  free_module(b);
  free_module(again);
  EXPECT(TVMPlatformMemoryLeft() == left);
}

/* A host makes executor after executor, and drops none. */
static void the_oldest_executor_makes_room(void) {
  uint64_t first = 0;
  int i;
  for (i = 0; i < 300; i++) {
    const uint64_t module = aot("a");
    EXPECT(module != 0 && module != first);
    first = i == 0 ? module : first;
    EXPECT(function_of(module, "run") != 0);
  }
  begin_session();
}

static void measured(const char *name, int64_t number, int64_t repeat, int64_t min_ms) {
  const uint64_t lib = system_lib();
  uint64_t f;
  int i;
  call(global("runtime.RPCTimeEvaluator"));
  sequence(CODES(9, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11));
  put(&body, lib, 8);
  put_text(name);
  put(&body, 1, 8);
  put(&body, 0, 8);
  put(&body, (uint64_t)number, 8);
  put(&body, (uint64_t)repeat, 8);
  put(&body, (uint64_t)min_ms, 8);
  put(&body, 100, 8);
  put(&body, 5, 8); /* cooldown */
  for (i = 0; i < 2; i++) {
    put(&body, 0, 8);
  }
  put_text("");
  if (ask(3, &body) == kReturn) {
    f = result(10);
    call(f);
    sequence(0, NULL);
    (void)ask(3, &body);
  }
}

static void times_are_measured(void) {
  int i;
  measured("tvmgen_a_run", 10, 3, 0);
  EXPECT(result(12) == 24 && answer_size == 40 + 24);
  for (i = 0; i < 3 && answer_size == 64; i++) {
    const uint64_t bits = number_at(answer + 40 + 8 * i, 8);
    double seconds;
    memcpy(&seconds, &bits, 8);
    EXPECT(seconds > 0.999e-6 && seconds < 1.001e-6);
  }
  calls = 0;
  measured("tvmgen_a_run", 1, 2, 1); /* a thousand calls make a millisecond */
  EXPECT(calls >= 2000 && calls < 10000);
  measured("tvmgen_a_run", 1, 300, 0);
  EXPECT(refused("more bytes than a packet holds"));
  measured("tvmgen_a_run", 0, 1, 0);
  EXPECT(refused("runtime.RPCTimeEvaluator: error 0x803"));
  measured("none", 1, 1, 0);
  EXPECT(refused("runtime.RPCTimeEvaluator: error 0x100: no function named none"));
  measured("fails", 1, 1, 0);
  EXPECT(refused("runtime.RPCTimeEvaluator: error -3"));
}

/* Lines that come while a frame is written wait for its end; too many are counted, not mixed in. */
static void logs_do_not_break_frames(void) {
  interrupt = 2;
  EXPECT(global("runtime.SystemLib") != 0);
  EXPECT(logs == 2 && strcmp(logged, "from an interrupt, line 0") == 0);
  interrupt = 100;
  EXPECT(global("runtime.SystemLib") != 0);
  EXPECT(logs > 2 && logs < 100 && strcmp(logged, "log lines were lost") == 0);
  for (interrupt = 5; logs > 0; interrupt = 0) { /* the queue's end is passed over and over */
    EXPECT(global("runtime.SystemLib") != 0);
  }
  TVMLogf("%s", "plain");
  listen();
  EXPECT(logs == 1 && strcmp(logged, "plain") == 0);
  TVMLogf("\n");
  TVMLogf("%s", "");
  listen();
  EXPECT(logs == 0);
  {
    static char text[600];
    memset(text, 'x', sizeof text - 1);
    TVMLogf("%s\n", text);
    listen();
    EXPECT(logs == 1 && strlen(logged) == 255);
  }
}

static void dropped_frames_are_logged(void) {
  static Bytes wire;
  put_frame(&wire, (const uint8_t *)"abcdef", 6);
  wire.bytes[8] ^= 1;
  give(&wire);
  listen();
  EXPECT(logs == 1 && strcmp(logged, "a frame was dropped: its checksum differs") == 0);
}

static void a_broken_line_is_an_error_once(void) {
  static Bytes wire;
  static Bytes payload;
  uint8_t *at = wire.bytes;
  size_t left;
  put(&payload, session_id, 2);
  put(&payload, 0x10, 1);
  put(&payload, 4, 8);
  put(&payload, 2, 4);
  put_frame(&wire, payload.bytes, payload.size);
  left = wire.size;
  write_result = -9;
  EXPECT((int)MicroTVMRpcServerLoop(server, &at, &left) == -9 && left == 0);
  write_result = 0;
  EXPECT(global("runtime.SystemLib") != 0);
}

static void a_shutdown_is_not_the_end(void) {
  const size_t left = TVMPlatformMemoryLeft();
  uint64_t unused = allocated(100, 16);
  (void)unused;
  start();
  EXPECT(ask(1, &body) == -1 && TVMPlatformMemoryLeft() == left);
  start();
  EXPECT(ask(2, &body) == -1); /* no session */
  TVMLogf("still here");
  listen();
  EXPECT(logs == 1);
  begin_session();
  EXPECT(global("runtime.SystemLib") != 0);
}

/* The host ends the session: what it had is given back. */
static void a_terminated_session_is_cleaned_up(void) {
  const size_t left = TVMPlatformMemoryLeft();
  static Bytes nothing;
  (void)aot("a");
  EXPECT(TVMPlatformMemoryLeft() < left);
  give_message(0, 2, &nothing);
  listen();
  EXPECT(TVMPlatformMemoryLeft() == left);
  begin_session();
}

/* A graph that is too long for a packet comes in a tensor. */
static void graphs_come_in_tensors(void) {
  static const char kGraph[] =
      "{\"nodes\":[{\"op\":\"null\",\"name\":\"x\",\"inputs\":[]}],\"arg_nodes\":[0],\"heads\":[["
      "0,0,0]],\"attrs\":{\"dltype\":[\"list_str\",[\"int8\"]],\"storage_id\":[\"list_int\",[0]],"
      "\"shape\":[\"list_shape\",[[4]]]},\"node_row_ptr\":[0,1]}";
  const int64_t shape[] = {sizeof kGraph - 1};
  const uint64_t lib = system_lib();
  const uint64_t text = allocated(sizeof kGraph, 16);
  EXPECT(copy_to(text, 0, kGraph, sizeof kGraph - 1) == kReturn);
  call(global("tvm.graph_executor.create"));
  sequence(CODES(7, 9, 0, 0));
  put_tensor(text, 8, 1, shape, 0);
  put(&body, lib, 8);
  put(&body, 1, 8);
  put(&body, 0, 8);
  EXPECT(ask(3, &body) == kReturn);
  EXPECT(tensor_of(result(9), "get_input") != 0);
}

static void out_of_memory_says_how_much(void) {
  const size_t left = TVMPlatformMemoryLeft();
  EXPECT(allocated(left - 4096, 16) != 0);
  while (allocated(200, 16) != 0) {
  }
  EXPECT(refused("DevAllocData: error 0x503: out of memory: 232 bytes asked for, "));
  call(global("tvm.aot_executor.create"));
  sequence(CODES(9, 6, 11));
  {
    const Bytes kept = body;
    const uint64_t lib = system_lib();
    body = kept;
    put(&body, lib, 8);
  }
  put_device();
  put_text("a");
  (void)ask(3, &body);
  EXPECT(refused("error 0x503: no memory for x: out of memory: 20 bytes asked for, "));
  begin_session();
  EXPECT(TVMPlatformMemoryLeft() >= left);
}

static void a_timer_that_does_not_count_is_told(void) {
  DLDevice cpu = {kDLCPU, 0};
  EXPECT(TVMPlatformMemoryFree(&cpu, cpu) != kTvmErrorNoError);
  server = MicroTVMRpcServerInit(write_line, NULL); /* anew, as after a reset */
  line.size = 0;
  begin_session();
  EXPECT(global("runtime.SystemLib") != 0);
}

int main(void) {
  EXPECT(TVMPlatformInitialize() == kTvmErrorNoError);
  TVMLogf("before the server");
  the_server_says_that_it_is_there();
  begin_session();
  globals_are_found();
  results_of_all_types_are_sent();
  failures_name_their_function();
  memory_is_the_sessions();
  wrong_addresses_are_refused();
  tensors_are_copied_here();
  streams_are_no_ops();
  malformed_requests_are_refused();
  arguments_fill_the_packet();
  modules_run_side_by_side();
  the_oldest_executor_makes_room();
  times_are_measured();
  logs_do_not_break_frames();
  dropped_frames_are_logged();
  a_broken_line_is_an_error_once();
  a_shutdown_is_not_the_end();
  a_terminated_session_is_cleaned_up();
  graphs_come_in_tensors();
  out_of_memory_says_how_much();
  a_timer_that_does_not_count_is_told();
  return failures != 0;
}
