/* Framing and sessions, without a server: bytes of the reference, and every way to damage them.
 * Prints what failed, exits 1 if any. */
#include "expect.h"
#include "rpc_host.h"

#include <tvm/runtime/crt/rpc_common/session.h>

static Bytes line; /* what was written */
static size_t writes;
static size_t most;           /* bytes that one write takes */
static ssize_t writes_return; /* 0: what they took */

static ssize_t write_line(void *context, const uint8_t *data, size_t size) {
  const size_t taken = size < most ? size : most;
  EXPECT(context == &line);
  writes++;
  if (writes_return != 0) {
    return writes_return;
  }
  put_bytes(&line, data, taken);
  return (ssize_t)taken;
}

static void reset_line(void) {
  line.size = 0;
  writes = 0;
  most = SIZE_MAX;
  writes_return = 0;
}

static void checksums_are_the_standards(void) {
  EXPECT(TVMCrc16(TVM_CRC16_START, (const uint8_t *)"123456789", 9) == 0x29b1);
  EXPECT(TVMCrc16(TVM_CRC16_START, NULL, 0) == 0xffff);
}

static tvm_crt_error_t send(TVMFramer *framer, const uint8_t *data, size_t size) {
  TVMFramer_Start(framer, size);
  TVMFramer_Put(framer, data, size);
  return TVMFramer_Finish(framer);
}

/* All payloads of one repeated byte, and sizes around the buffer's: one write if it fits. */
static void frames_are_the_references(void) {
  static uint8_t payload[600];
  static Bytes expected;
  TVMFramer framer;
  size_t size;
  int byte;
  reset_line();
  TVMFramer_Init(&framer, write_line, &line);
  EXPECT(send(&framer, NULL, 0) == kTvmErrorNoError);
  EXPECT(line.bytes[0] == 0xfe); /* only before the first */
  for (byte = 0; byte < 256; byte++) {
    for (size = 0; size < sizeof payload; size += 1 + size / 8) {
      memset(payload, byte, sizeof payload);
      reset_line();
      most = size % 2 != 0 ? 3 : SIZE_MAX;
      expected.size = 0;
      put_frame(&expected, payload, size);
      EXPECT(send(&framer, payload, size) == kTvmErrorNoError);
      EXPECT(line.size == expected.size && memcmp(line.bytes, expected.bytes, line.size) == 0);
      if (most != 3 && line.size + 1 < TVM_CRT_RPC_WRITE_BUFFER_BYTES) {
        EXPECT(writes == 1);
      }
    }
  }
}

static void senders_errors_are_told(void) {
  static const uint8_t kData[300] = {0};
  TVMFramer framer;
  reset_line();
  TVMFramer_Init(&framer, write_line, &line);
  EXPECT(TVMFramer_Finish(&framer) == kTvmErrorFramingInvalidState);
  TVMFramer_Put(&framer, kData, 1);
  EXPECT(TVMFramer_Finish(&framer) == kTvmErrorFramingInvalidState);
  TVMFramer_Start(&framer, 1);
  TVMFramer_Start(&framer, 1);
  TVMFramer_Put(&framer, kData, 1);
  EXPECT(TVMFramer_Finish(&framer) == kTvmErrorFramingInvalidState);
  TVMFramer_Start(&framer, 1);
  TVMFramer_Put(&framer, kData, 2);
  EXPECT(TVMFramer_Finish(&framer) == kTvmErrorFramingPayloadOverflow);
  TVMFramer_Start(&framer, 2);
  TVMFramer_Put(&framer, kData, 1);
  EXPECT(TVMFramer_Finish(&framer) == kTvmErrorFramingPayloadIncomplete);
  writes_return = -7;
  EXPECT((int)send(&framer, kData, sizeof kData) == -7);
  writes_return = (ssize_t)sizeof kData + 100;
  EXPECT(send(&framer, kData, sizeof kData) == kTvmErrorWriteStreamLongWrite);
  writes_return = 0;
  most = 0;
  EXPECT(send(&framer, kData, sizeof kData) == kTvmErrorWriteStreamShortWrite);
  reset_line(); /* after an error the receiver may be left within an escape */
  EXPECT(send(&framer, kData, 1) == kTvmErrorNoError && line.bytes[0] == 0xfe);
}

/* Reads all of `wire` in pieces; counts events, compares received payloads with `expected`. */
static void receive(const Bytes *wire, size_t piece, const uint8_t *expected, size_t size,
                    int *counts) {
  static uint8_t buffer[64];
  TVMUnframer unframer;
  size_t done = 0;
  TVMUnframer_Init(&unframer, buffer, sizeof buffer);
  memset(counts, 0, kTVMFrameEventCount * sizeof counts[0]);
  while (done < wire->size) {
    const uint8_t *at = wire->bytes + done;
    size_t left = wire->size - done < piece ? wire->size - done : piece;
    done += left;
    while (left > 0) {
      const size_t before = left;
      const TVMFrameEvent event = TVMUnframer_Read(&unframer, &at, &left);
      EXPECT(left < before && at == wire->bytes + done - left);
      counts[event]++;
      if (event == kTVMFrameReceived) {
        EXPECT(unframer.length == size && memcmp(buffer, expected, size) == 0);
      }
    }
  }
}

static const uint8_t kPayload[] = {0x43, 0x67, 0x10, 0xff, 0xfd, 0xff, 0xff, 0xfe, 0x00, 0xff};

static void received_frames_are_whole(void) {
  static Bytes wire;
  int counts[kTVMFrameEventCount];
  size_t piece;
  wire.size = 0;
  put_bytes(&wire, "noise \xff and \xfd\xfe, ends in \xff", 23);
  put_frame(&wire, kPayload, sizeof kPayload);
  put(&wire, 0xfe, 1);
  put_frame(&wire, kPayload, sizeof kPayload);
  for (piece = 1; piece < wire.size; piece++) {
    receive(&wire, piece, kPayload, sizeof kPayload, counts);
    EXPECT(counts[kTVMFrameReceived] == 2);
    EXPECT(counts[kTVMFrameShort] + counts[kTVMFrameChecksumMismatch] == 0);
  }
}

/* A frame, damaged at one place in one way, and a good one. The good one always arrives; the bad
 * one never does, but as what it was. */
static void damage_ends_with_its_frame(void) {
  static Bytes good;
  static Bytes wire;
  int counts[kTVMFrameEventCount];
  size_t at;
  int way;
  good.size = 0;
  put_frame(&good, kPayload, sizeof kPayload);
  for (at = 0; at < good.size; at++) {
    for (way = 0; way < 10; way++) {
      wire.size = 0;
      put_bytes(&wire, good.bytes, at);
      if (way < 8) { /* a bit flipped */
        put(&wire, good.bytes[at] ^ (1u << way), 1);
      } else if (way == 8) { /* doubled; else lost */
        put_bytes(&wire, good.bytes + at, 1);
        put_bytes(&wire, good.bytes + at, 1);
      }
      put_bytes(&wire, good.bytes + at + 1, good.size - at - 1);
      put(&wire, 0xfe, 1); /* as a host begins a session */
      put_frame(&wire, kPayload, sizeof kPayload);
      receive(&wire, wire.size, kPayload, sizeof kPayload, counts);
      EXPECT(counts[kTVMFrameReceived] == 1 || counts[kTVMFrameReceived] == 2);
    }
  }
}

/* A length beyond the buffer is refused when it is read, not swallowed: the next frame arrives. */
static void long_frames_are_refused_at_once(void) {
  static uint8_t payload[70];
  static Bytes wire;
  int counts[kTVMFrameEventCount];
  wire.size = 0;
  put_bytes(&wire, "\xff\xfd\x00\x00\x00\x80", 6);
  put_frame(&wire, kPayload, sizeof kPayload);
  put_frame(&wire, payload, sizeof payload);
  put_frame(&wire, kPayload, sizeof kPayload);
  receive(&wire, 7, kPayload, sizeof kPayload, counts);
  EXPECT(counts[kTVMFrameTooLong] == 2 && counts[kTVMFrameReceived] == 2);
}

/* A nop within a frame is no data, and counts into the checksum. */
static void nops_are_skipped(void) {
  static Bytes wire;
  int counts[kTVMFrameEventCount];
  static const uint8_t kOne[] = {0x55};
  uint16_t crc;
  wire.size = 0;
  put_bytes(&wire, "\xff\xfd\x01\x00\xff\xfe\x00\x00\x55", 9);
  crc = bitwise_crc(wire.bytes, wire.size);
  put_bytes(&wire, "\xff\xfe", 2); /* within the checksum it counts for nothing */
  put(&wire, crc, 2);
  receive(&wire, 1, kOne, 1, counts);
  EXPECT(counts[kTVMFrameReceived] == 1);
}

static void empty_frames_are_received(void) {
  static Bytes wire;
  int counts[kTVMFrameEventCount];
  wire.size = 0;
  put_frame(&wire, NULL, 0);
  receive(&wire, 1, kPayload, 0, counts);
  EXPECT(counts[kTVMFrameReceived] == 1);
}

static TVMSession session;
static uint8_t session_buffer[64];

/* Gives one message to the session; the event that is not "nothing". */
static TVMSessionEvent give(uint16_t id, int type, const void *body, size_t size) {
  static Bytes payload;
  static Bytes wire;
  const uint8_t *at = wire.bytes;
  tvm_crt_error_t error;
  TVMSessionEvent event;
  payload.size = wire.size = 0;
  put(&payload, id, 2);
  put(&payload, (uint64_t)type, 1);
  put_bytes(&payload, body, size);
  put_frame(&wire, payload.bytes, payload.size);
  line.size = 0;
  event = TVMSession_Read(&session, &at, &wire.size, &error);
  EXPECT(wire.size == 0 && error == kTvmErrorNoError);
  return event;
}

static int line_is(const char *bytes, size_t size) {
  return line.size == size && memcmp(line.bytes, bytes, size) == 0;
}

/* The first example of the reference: boot, handshake, log. */
static void the_handshake_is_the_references(void) {
  reset_line();
  TVMSession_Init(&session, write_line, &line, session_buffer, sizeof session_buffer, 0xc3);
  EXPECT(TVMSession_Terminate(&session, 1) == kTvmErrorNoError);
  EXPECT(line_is("\xfe\xff\xfd\3\0\0\0\0\0\2\x66\x77", 12));
  EXPECT(TVMSession_Start(&session, 0) == kTvmErrorSessionInvalidState);
  EXPECT(give(0x0043, kTVMMessageStartInit, "\1", 1) == kTVMSessionStarted);
  EXPECT(line_is("\xff\xfd\4\0\0\0\x43\x67\1\1\xa1\1", 12));
  line.size = 0;
  EXPECT(TVMSession_Log(&session, "hi", 2) == kTvmErrorNoError);
  EXPECT(line_is("\xff\xfd\5\0\0\0\0\0\3hi\x1a\x8f", 13));
}

/* What is of no session, or of another, is used up and answered by nothing. */
static void foreign_messages_change_nothing(void) {
  int type;
  EXPECT(give(0x6743, kTVMMessageNormal, "abc", 3) == kTVMSessionMessage);
  EXPECT(session.message_bytes == 3 && memcmp(session.message, "abc", 3) == 0);
  EXPECT(give(0x6744, kTVMMessageNormal, "abc", 3) == kTVMSessionNothing && line.size == 0);
  EXPECT(give(0, kTVMMessageNormal, "abc", 3) == kTVMSessionNothing && line.size == 0);
  EXPECT(give(0, kTVMMessageLog, "", 0) == kTVMSessionNothing);
  EXPECT(give(0x6743, kTVMMessageStartReply, "\1", 1) == kTVMSessionNothing);
  EXPECT(give(0x6700, kTVMMessageStartInit, "\1", 1) == kTVMSessionNothing && line.size == 0);
  EXPECT(give(0x0011, kTVMMessageStartInit, "", 0) == kTVMSessionNothing && line.size == 0);
  for (type = 4; type < 256; type++) {
    if (type != kTVMMessageNormal) {
      EXPECT(give(0x6743, type, "", 0) == kTVMSessionNothing && line.size == 0);
    }
  }
  {
    static Bytes wire;
    const uint8_t *at = wire.bytes;
    tvm_crt_error_t error;
    put_frame(&wire, (const uint8_t *)"ab", 2); /* less than a header */
    EXPECT(TVMSession_Read(&session, &at, &wire.size, &error) == kTVMSessionNothing);
  }
  EXPECT(give(0x6743, kTVMMessageNormal, "still", 5) == kTVMSessionMessage);
}

static void sessions_end_and_begin_again(void) {
  uint16_t before = session.id;
  EXPECT(give(0x0043, kTVMMessageStartInit, "\1", 1) == kTVMSessionStarted);
  EXPECT(session.id != before); /* with the host's nonce the same */
  EXPECT(give(before, kTVMMessageNormal, "", 0) == kTVMSessionNothing);
  EXPECT(give(0, kTVMMessageTerminate, "", 0) == kTVMSessionTerminated);
  EXPECT(give(0, kTVMMessageTerminate, "", 0) == kTVMSessionNothing);
  EXPECT(give(session.id, kTVMMessageNormal, "", 0) == kTVMSessionNothing);
  /* A host of another version is told ours, and has no session. */
  EXPECT(give(0x0043, kTVMMessageStartInit, "\2", 1) == kTVMSessionTerminated);
  EXPECT(line.size == 12 && line.bytes[9] == 1);
  EXPECT(give(session.id, kTVMMessageNormal, "", 0) == kTVMSessionNothing);
  EXPECT(give(0x0044, kTVMMessageStartInit, "\1", 1) == kTVMSessionStarted);
}

static void nonces_are_never_zero(void) {
  int i;
  for (i = 0; i < 256; i++) {
    TVMSession_Init(&session, write_line, &line, session_buffer, sizeof session_buffer, (uint8_t)i);
    EXPECT(give(0x0001, kTVMMessageStartInit, "\1", 1) == kTVMSessionStarted);
    EXPECT(session.id >> 8 != 0);
  }
}

static void damage_is_told(void) {
  const uint8_t wire[] = {0xff, 0xfd, 1, 0xff, 0, 0xff, 0xfd, 0, 0, 0, 0, 0, 0};
  const uint8_t *at = wire;
  size_t left = sizeof wire;
  tvm_crt_error_t error;
  EXPECT(TVMSession_Read(&session, &at, &left, &error) == kTVMSessionFrameDropped);
  EXPECT(session.dropped == kTVMFrameInvalidEscape);
  EXPECT(TVMSession_Read(&session, &at, &left, &error) == kTVMSessionFrameDropped);
  EXPECT(session.dropped == kTVMFrameChecksumMismatch && left == 0);
}

int main(void) {
  checksums_are_the_standards();
  frames_are_the_references();
  senders_errors_are_told();
  received_frames_are_whole();
  damage_ends_with_its_frame();
  long_frames_are_refused_at_once();
  nops_are_skipped();
  empty_frames_are_received();
  the_handshake_is_the_references();
  foreign_messages_change_nothing();
  sessions_end_and_begin_again();
  nonces_are_never_zero();
  damage_is_told();
  return failures != 0;
}
