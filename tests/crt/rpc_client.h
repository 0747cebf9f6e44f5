/* The host of RPC tests in C: sessions, requests and answers of the device in rpc_device.h. */
#ifndef TESTS_CRT_RPC_CLIENT_H_
#define TESTS_CRT_RPC_CLIENT_H_

#include "rpc_device.h"

#include <stdlib.h>

static uint16_t session_id;
static uint8_t answer[kHostRoom]; /* a packet, from its length on */
static long answer_size;
static char logged[256];
static int logs;

static inline void give(const Bytes *wire) {
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

static inline void give_message(uint16_t id, int type, const Bytes *body) {
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
static inline void listen(void) {
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

static inline void begin_session(void) {
  static Bytes body;
  body.size = 0;
  put(&body, 1, 1);
  give_message(0x0043, 0, &body);
  listen();
  EXPECT(answer_size == 1 && answer[0] == 1 && (session_id & 0xff) == 0x43);
}

/* Sends a packet; -1 for no answer, else its code. */
static inline int ask(int code, const Bytes *body) {
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
static inline int refused(const char *text) {
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

static inline void sequence(int count, const int *codes) {
  put(&body, (uint64_t)count, 4);
  while (count-- > 0) {
    put(&body, (uint64_t)*codes++, 4);
  }
}

static inline void put_text(const char *text) {
  put(&body, strlen(text), 8);
  put_bytes(&body, text, strlen(text));
}

static inline void put_device(void) {
  put(&body, 1, 4);
  put(&body, 0, 4);
}

static inline void put_tensor(uint64_t data, int bits, int ndim, const int64_t *shape,
                              uint64_t offset) {
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

static inline void start(void) {
  body.size = 0;
}

static inline int is_void(void) {
  return answer_size == 20 && number_at(answer + 12, 4) == 1 && number_at(answer + 16, 4) == 4;
}

static inline uint64_t handle_answered(void) {
  EXPECT(answer_size == 28 && number_at(answer + 16, 4) == 3);
  return number_at(answer + 20, 8);
}

static inline uint64_t global(const char *name) {
  start();
  sequence(CODES(11));
  put_text(name);
  EXPECT(ask(9, &body) == kReturn);
  return handle_answered();
}

/* The value of a call's result whose real type is `tcode`. */
static inline uint64_t result(int tcode) {
  EXPECT(number_at(answer + 8, 4) == kReturn && number_at(answer + 24, 8) == (uint64_t)tcode);
  return answer_size >= 40 ? number_at(answer + 32, 8) : 0;
}

/* The address of the tensor that a call returned. */
static inline uint64_t tensor_result(void) {
  EXPECT(number_at(answer + 12, 4) == 3 && number_at(answer + 28, 8) == 13);
  EXPECT(answer_size == 28 + 8 + 40 + 8);
  return number_at(answer + 36, 8);
}

static inline void call(uint64_t function) {
  start();
  put(&body, function, 8);
}

static inline uint64_t system_lib(void) {
  call(global("runtime.SystemLib"));
  sequence(0, NULL);
  (void)ask(3, &body);
  return result(9);
}

static inline uint64_t function_of(uint64_t module, const char *name) {
  call(global("tvm.rpc.server.ModuleGetFunction"));
  sequence(CODES(9, 11, 0));
  put(&body, module, 8);
  put_text(name);
  put(&body, 1, 8);
  (void)ask(3, &body);
  return number_at(answer + 24, 8) == 10 ? result(10) : 0;
}

static inline uint64_t allocated(uint64_t bytes, uint64_t alignment) {
  start();
  sequence(CODES(6, 0, 0, 5));
  put_device();
  put(&body, bytes, 8);
  put(&body, alignment, 8);
  put(&body, 0x00012002, 8);
  return ask(13, &body) == kReturn ? handle_answered() : 0;
}

static inline int copy_to(uint64_t data, uint64_t offset, const void *from, size_t size) {
  const int64_t shape[] = {4};
  start();
  put_tensor(data, 8, 1, shape, offset);
  put(&body, size, 8);
  put_bytes(&body, from, size);
  return ask(7, &body);
}

static inline int copy_from(uint64_t data, uint64_t offset, size_t size) {
  const int64_t shape[] = {4};
  start();
  put_tensor(data, 8, 1, shape, offset);
  put(&body, size, 8);
  return ask(6, &body);
}

static inline uint64_t aot(const char *name) {
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
static inline uint64_t tensor_of(uint64_t module, const char *function) {
  call(function_of(module, function));
  sequence(CODES(0));
  put(&body, 0, 8);
  EXPECT(ask(3, &body) == kReturn);
  return tensor_result();
}

/* A device that was just reset, and the first session. */
static inline void boot(void) {
  EXPECT(TVMPlatformInitialize() == kTvmErrorNoError);
  server = MicroTVMRpcServerInit(write_line, NULL);
  EXPECT(server != NULL);
  line.size = 0;
  begin_session();
}

#endif /* TESTS_CRT_RPC_CLIENT_H_ */
