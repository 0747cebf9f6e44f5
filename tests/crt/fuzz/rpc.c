/* Any bytes as what a host sends: as they are, and as packets in frames with right checksums, which
 * random bytes never have. Packets are cut out of the input, each after two bytes of length. */
#include "fuzz.h"

#include <limits.h>
#include <string.h>
#include <tvm/runtime/crt/microtvm_rpc_server.h>
#include <tvm/runtime/crt/module.h>
#include <tvm/runtime/crt/platform.h>
#include <tvm/runtime/crt/rpc_common/session.h>

enum { kMost = 4096 };

static uint8_t to_server[4 * kMost];
static size_t to_server_size;
static uint8_t reply[64]; /* what the server wrote first */
static size_t reply_size;

static ssize_t collect(void *context, const uint8_t *data, size_t size) {
  (void)context;
  REQUIRE(size <= sizeof to_server - to_server_size);
  memcpy(to_server + to_server_size, data, size);
  to_server_size += size;
  return (ssize_t)size;
}

static ssize_t keep_reply(void *context, const uint8_t *data, size_t size) {
  (void)context;
  if (size <= sizeof reply - reply_size) {
    memcpy(reply + reply_size, data, size);
    reply_size += size;
  }
  return (ssize_t)size;
}

/* Takes any arguments, and returns the first. The addresses of tensors are the input's, so that no
 * byte of them is touched: TVMPlatformCheckAccess decides what the server touches. */
static int echo(TVMValue *args, int *tcodes, int n, TVMValue *ret, int *rcode, void *resource) {
  int i;
  (void)resource;
  for (i = 0; i < n; i++) {
    if (tcodes[i] == kTVMStr) {
      REQUIRE(strlen(args[i].v_str) < TVM_CRT_MAX_PACKET_SIZE_BYTES);
    }
  }
  *rcode = kTVMNullptr;
  if (n > 0 && tcodes[0] != kTVMBytes) {
    ret[0] = args[0];
    *rcode = tcodes[0];
  }
  return 0;
}

static const TVMBackendPackedCFunc kFunctions[] = {echo};
static const TVMFuncRegistry kRegistry = {"\001\000echo\0", kFunctions};
static const TVMModule kModule = {&kRegistry};

const TVMModule *TVMSystemLibEntryPoint(void) {
  return &kModule;
}

/* A host may touch this and nothing else. */
static uint8_t memory[256];

tvm_crt_error_t TVMPlatformCheckAccess(const void *address, size_t num_bytes) {
  const uintptr_t start = (uintptr_t)memory;
  const uintptr_t at = (uintptr_t)address;
  return at >= start && at - start <= sizeof memory && num_bytes <= sizeof memory - (at - start)
             ? kTvmErrorNoError
             : kTvmErrorFunctionCallInvalidArg;
}

static void give(microtvm_rpc_server_t server, uint8_t *data, size_t size) {
  while (size > 0) {
    const size_t before = size;
    REQUIRE(MicroTVMRpcServerLoop(server, &data, &size) == kTvmErrorNoError);
    REQUIRE(size < before);
  }
}

/* Frames a payload. */
static void put_message(TVMFramer *framer, uint16_t id, int type, const uint8_t *body,
                        size_t size) {
  const uint8_t header[3] = {(uint8_t)(id & 0xff), (uint8_t)(id >> 8), (uint8_t)type};
  TVMFramer_Start(framer, size + sizeof header);
  TVMFramer_Put(framer, header, sizeof header);
  TVMFramer_Put(framer, body, size);
  REQUIRE(TVMFramer_Finish(framer) == kTvmErrorNoError);
}

/* A session, whatever was before; its number. */
static uint16_t begin(microtvm_rpc_server_t server, TVMFramer *framer) {
  static const uint8_t kVersion[] = {1};
  to_server_size = 0;
  framer->is_synced = 0;
  put_message(framer, 0x43, 0, kVersion, 1);
  reply_size = 0;
  give(server, to_server, to_server_size);
  REQUIRE(reply_size >= 12 && fuzz_live_blocks == 0); /* it has no memory yet */
  {
    const size_t at = reply[0] == 0xfe;
    return (uint16_t)(reply[at + 6] | reply[at + 7] << 8);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static uint8_t copy[kMost];
  const microtvm_rpc_server_t server = MicroTVMRpcServerInit(keep_reply, NULL);
  TVMFramer framer;
  uint16_t id;
  size_t at = 0;
  if (size > kMost) {
    return 0;
  }
  REQUIRE(server != NULL);
  fuzz_blocks_left = INT_MAX;
  TVMFramer_Init(&framer, collect, NULL);
  memcpy(copy, data, size);
  give(server, copy, size);
  id = begin(server, &framer);
  while (at + 2 <= size) {
    size_t length = (size_t)(data[at] | data[at + 1] << 8) % 1024;
    uint8_t packet[1024 + 8] = {0};
    length = length < size - at - 2 ? length : size - at - 2;
    /* The length that the packet says is right, but for one of 256. */
    packet[0] = (uint8_t)(length & 0xff);
    packet[1] = (uint8_t)(length >> 8);
    memcpy(packet + 8, data + at + 2, length);
    to_server_size = 0;
    put_message(&framer, id, 0x10, packet, length + 8);
    give(server, to_server, to_server_size);
    at += length + 2;
  }
  (void)begin(server, &framer); /* and the next host finds all memory free */
  return 0;
}

#define SEED(text)                                                                                 \
  { text, sizeof(text) - 1 }

const fuzz_seed fuzz_seeds[] = {
    /* GetGlobalFunc runtime.SystemLib; its call; memory, twice; a stream. */
    SEED("\x25\0\x09\0\0\0\1\0\0\0\x0b\0\0\0\x11\0\0\0\0\0\0\0runtime.SystemLib"
         "\x10\0\3\0\0\0\0\x80\x10\x80\0\0\0\0\0\0\0\0"),
    SEED("\x38\0\x0d\0\0\0\4\0\0\0\6\0\0\0\0\0\0\0\0\0\0\0\5\0\0\0\1\0\0\0\0\0\0\0"
         "\x40\0\0\0\0\0\0\0\x10\0\0\0\0\0\0\0\2\x20\1\0\0\0\0\0"),
    SEED("\x3c\0\x11\0\0\0\2\0\0\0\7\0\0\0\4\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0"
         "\0\x08\1\0\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
    SEED("\x40\0\7\0\0\0\x40\x10\0\x20\0\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\x08\1\0"
         "\1\0\0\0\0\0\0\0\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\4\0\0\0\0\0\0\0\xff\xfe\xfd\0"),
    SEED("\x1c\0\x0a\0\0\0\2\0\0\0\3\0\0\0\0\0\0\0\1\x80\0\0\0\0\0\0\x09\0\0\0\0\0\0\0"),
    SEED("\4\0\1\0\0\0\xff\xfd\3\0\0\0\0\0\2\x66\x77\xff\xfd\4\0\0\0\x43\0\0\1\x6b\x2c"),
};
const size_t fuzz_seed_count = sizeof fuzz_seeds / sizeof fuzz_seeds[0];
