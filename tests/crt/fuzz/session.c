/* Any bytes as what a host sends: as they are, and as messages in frames with right checksums, of
 * any session and type. A message is delivered in an established session only, and the next session
 * begins. */
#include "fuzz.h"

#include <string.h>
#include <tvm/runtime/crt/rpc_common/session.h>

enum { kCapacity = 300, kMost = 4 * kCapacity };

static uint8_t line[2 * kMost + 64];
static size_t line_size;

static ssize_t collect(void *context, const uint8_t *data, size_t size) {
  (void)context;
  REQUIRE(size <= sizeof line - line_size);
  memcpy(line + line_size, data, size);
  line_size += size;
  return (ssize_t)size;
}

static ssize_t drop(void *context, const uint8_t *data, size_t size) {
  (void)context;
  (void)data;
  return (ssize_t)size;
}

/* The last event of these bytes. */
static TVMSessionEvent give(TVMSession *session, const uint8_t *data, size_t size) {
  TVMSessionEvent last = kTVMSessionNothing;
  while (size > 0) {
    tvm_crt_error_t error = kTvmErrorNoError;
    const size_t before = size;
    const TVMSessionEvent event = TVMSession_Read(session, &data, &size, &error);
    REQUIRE(error == kTvmErrorNoError);
    REQUIRE(event != kTVMSessionNothing || size == 0);
    REQUIRE(size < before);
    if (event == kTVMSessionMessage) {
      REQUIRE(session->is_established);
      REQUIRE(session->message_bytes <= kCapacity - kTVMSessionHeaderBytes);
    }
    last = event != kTVMSessionNothing ? event : last;
  }
  return last;
}

/* One message, as a sender that begins anew frames it. */
static void send(uint16_t id, uint8_t type, const uint8_t *body, size_t size) {
  const uint8_t header[kTVMSessionHeaderBytes] = {(uint8_t)(id & 0xff), (uint8_t)(id >> 8), type};
  TVMFramer framer;
  TVMFramer_Init(&framer, collect, NULL);
  line_size = 0;
  TVMFramer_Start(&framer, size + sizeof header);
  TVMFramer_Put(&framer, header, sizeof header);
  TVMFramer_Put(&framer, body, size);
  REQUIRE(TVMFramer_Finish(&framer) == kTvmErrorNoError);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const uint8_t kVersion[] = {kTVMSessionVersion};
  uint8_t *const buffer = (uint8_t *)malloc(kCapacity);
  TVMSession session;
  size_t at = 0;
  if (size > kMost || buffer == NULL) {
    free(buffer);
    return 0;
  }
  TVMSession_Init(&session, drop, NULL, buffer, kCapacity, 0xc3);
  (void)give(&session, data, size);
  /* Messages: the session of now or another, a type, a length, the body. */
  while (at + 4 <= size) {
    const uint8_t types[6] = {0, 1, 2, 3, 0x10, data[at + 1]};
    size_t length = data[at + 2];
    const uint16_t id = (uint16_t)(data[at] & 1 ? session.id : data[at] | data[at + 3] << 8);
    length = length < size - at - 4 ? length : size - at - 4;
    send(id, types[data[at + 1] % sizeof types], data + at + 4, length);
    (void)give(&session, line, line_size);
    at += 4 + length;
  }
  send(0x43, kTVMMessageStartInit, kVersion, 1);
  REQUIRE(give(&session, line, line_size) == kTVMSessionStarted);
  REQUIRE(session.is_established && (session.id & 0xff) == 0x43);
  send(session.id, kTVMMessageNormal, data, size < 256 ? size : 256);
  REQUIRE(give(&session, line, line_size) == kTVMSessionMessage);
  REQUIRE(session.message_bytes == (size < 256 ? size : 256));
  REQUIRE(memcmp(session.message, data, session.message_bytes) == 0);
  free(buffer);
  return 0;
}

#define SEED(text)                                                                                 \
  { text, sizeof(text) - 1 }

const fuzz_seed fuzz_seeds[] = {
    SEED("\xfe\xff\xfd\3\0\0\0\0\0\2\x66\x77\xff\xfd\4\0\0\0\x43\0\0\1\x6b\x2c"),
    SEED("\0\0\1\0\1\1\4\4\0body\1\2\0\0\1\4\3\0abc"),
    SEED("\2\0\1\7\1\1\1\1\0\1\3\5\0hello\4\5\0\0\1\4\0\0"),
};
const size_t fuzz_seed_count = sizeof fuzz_seeds / sizeof fuzz_seeds[0];
