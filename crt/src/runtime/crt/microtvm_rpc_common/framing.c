/* Framing: both directions. */
#include <string.h>
#include <tvm/runtime/crt/rpc_common/framing.h>

enum { kEscape = 0xff, kStart = 0xfd, kNop = 0xfe };

/* One byte: the polynomial 0x1021 has so few terms that eight steps are these shifts. */
static uint16_t crc_of_byte(uint16_t crc, uint8_t byte) {
  uint32_t x = (uint32_t)(crc >> 8) ^ byte;
  x ^= x >> 4;
  return (uint16_t)(((uint32_t)crc << 8) ^ (x << 12) ^ (x << 5) ^ x);
}

uint16_t TVMCrc16(uint16_t crc, const uint8_t *data, size_t num_bytes) {
  size_t i;
  for (i = 0; i < num_bytes; i++) {
    crc = crc_of_byte(crc, data[i]);
  }
  return crc;
}

/* Sending */

void TVMFramer_Init(TVMFramer *framer, microtvm_rpc_channel_write_t write, void *context) {
  memset(framer, 0, sizeof *framer);
  framer->write = write;
  framer->context = context;
}

static void fail(TVMFramer *f, tvm_crt_error_t code) {
  if (f->error == kTvmErrorNoError) {
    f->error = code;
  }
}

/* Writes what is collected, in as many pieces as the line takes it. */
static void flush(TVMFramer *f) {
  size_t done = 0;
  while (done < f->used && f->error == kTvmErrorNoError) {
    const size_t left = f->used - done;
    const ssize_t written = f->write(f->context, f->buffer + done, left);
    if (written < 0) {
      fail(f, (tvm_crt_error_t)written);
    } else if (written == 0) {
      fail(f, kTvmErrorWriteStreamShortWrite);
    } else if ((size_t)written > left) {
      fail(f, kTvmErrorWriteStreamLongWrite);
    } else {
      done += (size_t)written;
    }
  }
  f->used = 0;
}

/* Room for the two bytes of an escape, so that no write ends between them. */
static void make_room(TVMFramer *f) {
  if (f->used + 2 > sizeof f->buffer) {
    flush(f);
  }
}

static void put_escaped(TVMFramer *f, const uint8_t *data, size_t num_bytes) {
  size_t i;
  for (i = 0; i < num_bytes; i++) {
    make_room(f);
    f->buffer[f->used++] = data[i];
    f->crc = crc_of_byte(f->crc, data[i]);
    if (data[i] == kEscape) {
      f->buffer[f->used++] = kEscape;
      f->crc = crc_of_byte(f->crc, kEscape);
    }
  }
}

void TVMFramer_Start(TVMFramer *framer, size_t payload_bytes) {
  static const uint8_t kMark[] = {kEscape, kStart};
  uint8_t length[4];
  int i;
  if (framer->is_open) {
    fail(framer, kTvmErrorFramingInvalidState);
    return;
  }
  framer->is_open = 1;
  framer->error = kTvmErrorNoError;
  framer->left = payload_bytes;
  framer->used = 0;
  if (!framer->is_synced) {
    framer->buffer[framer->used++] = kNop;
  }
  memcpy(framer->buffer + framer->used, kMark, sizeof kMark);
  framer->used += sizeof kMark;
  framer->crc = TVMCrc16(TVM_CRC16_START, kMark, sizeof kMark);
  for (i = 0; i < 4; i++) {
    length[i] = (uint8_t)((uint32_t)payload_bytes >> (8 * i));
  }
  put_escaped(framer, length, sizeof length);
}

void TVMFramer_Put(TVMFramer *framer, const void *data, size_t num_bytes) {
  if (!framer->is_open) {
    fail(framer, kTvmErrorFramingInvalidState);
  } else if (num_bytes > framer->left) {
    fail(framer, kTvmErrorFramingPayloadOverflow);
  } else {
    framer->left -= num_bytes;
    put_escaped(framer, data, num_bytes);
  }
}

tvm_crt_error_t TVMFramer_Finish(TVMFramer *framer) {
  tvm_crt_error_t error;
  if (!framer->is_open) {
    fail(framer, kTvmErrorFramingInvalidState);
  } else if (framer->left > 0) {
    fail(framer, kTvmErrorFramingPayloadIncomplete);
  } else {
    const uint8_t crc[2] = {(uint8_t)(framer->crc & 0xff), (uint8_t)(framer->crc >> 8)};
    put_escaped(framer, crc, sizeof crc);
    flush(framer);
  }
  error = framer->error;
  framer->is_open = 0;
  framer->is_synced = error == kTvmErrorNoError;
  framer->error = kTvmErrorNoError;
  return error;
}

/* Receiving */

enum { kHunting, kLength, kPayload, kChecksum };

void TVMUnframer_Init(TVMUnframer *unframer, uint8_t *buffer, size_t capacity) {
  memset(unframer, 0, sizeof *unframer);
  unframer->payload = buffer;
  unframer->capacity = capacity;
}

static TVMFrameEvent drop(TVMUnframer *u, TVMFrameEvent why) {
  u->state = kHunting;
  return why;
}

/* Forgets all of the frame before: its length, its bytes, its checksum. */
static void begin(TVMUnframer *u) {
  static const uint8_t kMark[] = {kEscape, kStart};
  u->state = kLength;
  u->length = 0;
  u->received = 0;
  u->crc = TVMCrc16(TVM_CRC16_START, kMark, sizeof kMark);
}

static void count_into_crc(TVMUnframer *u, uint8_t byte) {
  if (u->state != kChecksum) {
    u->crc = crc_of_byte(u->crc, byte);
  }
}

static void next_field(TVMUnframer *u, uint8_t state) {
  u->state = state;
  u->received = 0;
  u->sent_crc = 0;
}

/* A byte of the frame, without its escape. */
static TVMFrameEvent take(TVMUnframer *u, uint8_t byte) {
  if (u->state == kLength) {
    u->length |= (uint32_t)byte << (8 * u->received++);
    if (u->received == 4) {
      if (u->length > u->capacity) {
        return drop(u, kTVMFrameTooLong);
      }
      next_field(u, u->length > 0 ? kPayload : kChecksum);
    }
  } else if (u->state == kPayload) {
    u->payload[u->received++] = byte;
    if (u->received == u->length) {
      next_field(u, kChecksum);
    }
  } else {
    u->sent_crc = (uint16_t)(u->sent_crc | (uint32_t)byte << (8 * u->received++));
    if (u->received == 2) {
      return drop(u, u->sent_crc == u->crc ? kTVMFrameReceived : kTVMFrameChecksumMismatch);
    }
  }
  return kTVMFrameNothing;
}

/* The byte after an ff within a frame. */
static TVMFrameEvent take_escaped(TVMUnframer *u, uint8_t byte) {
  u->is_escaped = 0;
  if (byte == kStart) {
    begin(u);
    return kTVMFrameShort;
  }
  if (byte != kNop && byte != kEscape) {
    return drop(u, kTVMFrameInvalidEscape);
  }
  count_into_crc(u, kEscape);
  count_into_crc(u, byte);
  return byte == kNop ? kTVMFrameNothing : take(u, kEscape);
}

/* Between frames. Of several ff the last one may be the start's: noise can end in an ff. */
static void hunt(TVMUnframer *u, uint8_t byte) {
  const int starts = u->is_escaped && byte == kStart;
  u->is_escaped = byte == kEscape;
  if (starts) {
    begin(u);
  }
}

TVMFrameEvent TVMUnframer_Read(TVMUnframer *unframer, const uint8_t **data, size_t *num_bytes) {
  TVMFrameEvent event = kTVMFrameNothing;
  while (*num_bytes > 0 && event == kTVMFrameNothing) {
    const uint8_t byte = *(*data)++;
    --*num_bytes;
    if (unframer->state == kHunting) {
      hunt(unframer, byte);
    } else if (unframer->is_escaped) {
      event = take_escaped(unframer, byte);
    } else if (byte == kEscape) {
      unframer->is_escaped = 1;
    } else {
      count_into_crc(unframer, byte);
      event = take(unframer, byte);
    }
  }
  return event;
}
