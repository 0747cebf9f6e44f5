/* Any bytes as what comes over a line, in pieces of any size. Whatever came, the next frame of a
 * sender that begins anew is received; and any payload is received as it was sent. */
#include "fuzz.h"

#include <string.h>
#include <tvm/runtime/crt/rpc_common/framing.h>

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

/* Frames a payload as one that begins anew does. */
static void send(const uint8_t *payload, size_t size) {
  TVMFramer framer;
  TVMFramer_Init(&framer, collect, NULL);
  line_size = 0;
  TVMFramer_Start(&framer, size);
  TVMFramer_Put(&framer, payload, size);
  REQUIRE(TVMFramer_Finish(&framer) == kTvmErrorNoError);
}

/* What the last event of these bytes is; each piece has `piece` bytes. */
static TVMFrameEvent give(TVMUnframer *unframer, const uint8_t *data, size_t size, size_t piece) {
  TVMFrameEvent last = kTVMFrameNothing;
  while (size > 0) {
    size_t left = size < piece ? size : piece;
    size -= left;
    while (left > 0) {
      const uint8_t *const before = data;
      const size_t held = left;
      const TVMFrameEvent event = TVMUnframer_Read(unframer, &data, &left);
      REQUIRE(event < kTVMFrameEventCount);
      REQUIRE(data == before + (held - left)); /* it moves on by what it has read */
      REQUIRE(event != kTVMFrameNothing || left == 0);
      REQUIRE(event != kTVMFrameReceived || unframer->length <= kCapacity);
      last = event != kTVMFrameNothing ? event : last;
    }
  }
  return last;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  /* Blocks of just this size, so that a sanitizer sees a byte behind them. */
  uint8_t *const buffer = (uint8_t *)malloc(kCapacity);
  TVMUnframer unframer;
  size_t piece, length;
  if (size < 1 || size > kMost || buffer == NULL) {
    free(buffer);
    return 0;
  }
  piece = (size_t)data[0] + 1;
  length = size - 1 < kCapacity ? size - 1 : kCapacity;
  TVMUnframer_Init(&unframer, buffer, kCapacity);
  (void)give(&unframer, data + 1, size - 1, piece);
  send(data + 1, length);
  REQUIRE(give(&unframer, line, line_size, piece) == kTVMFrameReceived);
  REQUIRE(unframer.length == length && memcmp(buffer, data + 1, length) == 0);
  free(buffer);
  return 0;
}

#define SEED(text)                                                                                 \
  { text, sizeof(text) - 1 }

const fuzz_seed fuzz_seeds[] = {
    SEED("\7\xfe\xff\xfd\3\0\0\0\0\0\2\x66\x77\xff\xfd\4\0\0\0\x43\0\0\1\x6b\x2c"),
    SEED("\xff\xff\xfd\5\0\0\0\0\0\3hi\x1a\x8f\xff\xfd\xff\xff\xff\xff\xff"),
    SEED("\0\xff\xfd\x13\0\0\0\x43\x67\x10\x08\0\0\0\0\0\0\0\x08\0\0\0\xff\xff\xfe\xfd\0\x85\x3a"),
};
const size_t fuzz_seed_count = sizeof fuzz_seeds / sizeof fuzz_seeds[0];
