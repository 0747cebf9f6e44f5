/* Frames on a line of bytes: ff fd, length, payload, CRC-16; every ff after the start is doubled.
 *
 * Neither side allocates memory. What a receiver finds is an event, never a count of bytes. */
#ifndef TVM_RUNTIME_CRT_RPC_COMMON_FRAMING_H_
#define TVM_RUNTIME_CRT_RPC_COMMON_FRAMING_H_

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h> /* ssize_t */
#include <tvm/runtime/crt/error_codes.h>

#include "crt_config.h"

/* Bytes that a sender collects before it writes them. A frame that fits is one write. */
#ifndef TVM_CRT_RPC_WRITE_BUFFER_BYTES
#define TVM_CRT_RPC_WRITE_BUFFER_BYTES 128
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Writes up to `num_bytes` bytes to the line and returns how many; it is called again for the rest.
 * 0 and negative results are errors. */
typedef ssize_t (*microtvm_rpc_channel_write_t)(void *context, const uint8_t *data,
                                                size_t num_bytes);

/* CRC-16/CCITT-FALSE of more bytes; it starts at TVM_CRC16_START. */
#define TVM_CRC16_START 0xffffu
uint16_t TVMCrc16(uint16_t crc, const uint8_t *data, size_t num_bytes);

typedef struct {
  microtvm_rpc_channel_write_t write;
  void *context;
  size_t left;     /* payload bytes still to come */
  size_t used;     /* of `buffer` */
  uint16_t crc;    /* of what was put since the start of the frame */
  uint8_t is_open; /* a frame has begun */
  uint8_t
      is_synced; /* 0: the receiver may be left after an ff, as at the start or after an error */
  tvm_crt_error_t error; /* the first of this frame */
  uint8_t buffer[TVM_CRT_RPC_WRITE_BUFFER_BYTES];
} TVMFramer;

void TVMFramer_Init(TVMFramer *framer, microtvm_rpc_channel_write_t write, void *context);

/* A frame: Start, any number of Puts with together `payload_bytes` bytes, Finish. The error of any
 * of them is Finish's result:
 *   kTvmErrorFramingInvalidState       a frame within a frame, or none
 *   kTvmErrorFramingPayloadOverflow    more bytes than announced
 *   kTvmErrorFramingPayloadIncomplete  fewer
 *   kTvmErrorWriteStreamShortWrite     `write` wrote nothing
 *   kTvmErrorWriteStreamLongWrite      `write` says that it wrote more than it was given
 *   any negative value                 what `write` returned */
void TVMFramer_Start(TVMFramer *framer, size_t payload_bytes);
void TVMFramer_Put(TVMFramer *framer, const void *data, size_t num_bytes);
tvm_crt_error_t TVMFramer_Finish(TVMFramer *framer);

typedef enum {
  kTVMFrameNothing = 0,      /* all bytes are read, and no frame has ended */
  kTVMFrameReceived,         /* `payload` holds `length` bytes */
  kTVMFrameShort,            /* dropped: the next frame began within it */
  kTVMFrameInvalidEscape,    /* dropped: an ff before anything but fd, fe and ff */
  kTVMFrameTooLong,          /* dropped: longer than the buffer */
  kTVMFrameChecksumMismatch, /* dropped */
  kTVMFrameEventCount
} TVMFrameEvent;

typedef struct {
  uint8_t *payload;
  size_t capacity;
  uint32_t length;   /* of the payload */
  uint32_t received; /* bytes of the field that is read now */
  uint16_t crc;
  uint16_t sent_crc;
  uint8_t state;
  uint8_t is_escaped; /* the byte before was the ff of an escape */
} TVMUnframer;

/* Frames with up to `capacity` bytes of payload are received in `buffer`. */
void TVMUnframer_Init(TVMUnframer *unframer, uint8_t *buffer, size_t capacity);

/* Reads bytes up to the next event, and moves `*data` and `*num_bytes` past them. A payload stays
 * valid until the next call. */
TVMFrameEvent TVMUnframer_Read(TVMUnframer *unframer, const uint8_t **data, size_t *num_bytes);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_RPC_COMMON_FRAMING_H_ */
