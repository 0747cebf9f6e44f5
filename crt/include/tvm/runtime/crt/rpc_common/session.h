/* Sessions with a host: messages in frames, of the session that the host and this device agreed on.
 */
#ifndef TVM_RUNTIME_CRT_RPC_COMMON_SESSION_H_
#define TVM_RUNTIME_CRT_RPC_COMMON_SESSION_H_

#include <tvm/runtime/crt/rpc_common/framing.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { kTVMSessionVersion = 1, kTVMSessionHeaderBytes = 3 };

typedef enum {
  kTVMMessageStartInit = 0x00,
  kTVMMessageStartReply = 0x01,
  kTVMMessageTerminate = 0x02,
  kTVMMessageLog = 0x03,
  kTVMMessageNormal = 0x10
} TVMMessageType;

typedef enum {
  kTVMSessionNothing = 0, /* all bytes are read */
  kTVMSessionStarted,     /* a host began a session, perhaps in place of another */
  kTVMSessionTerminated,  /* the host ended it */
  kTVMSessionMessage,     /* `message` holds `message_bytes` bytes of a Normal message */
  kTVMSessionFrameDropped /* `dropped` says why */
} TVMSessionEvent;

/* The device's side: it answers, and never starts a session. */
typedef struct {
  TVMFramer framer;
  TVMUnframer unframer;
  uint8_t *message;
  size_t message_bytes;
  TVMFrameEvent dropped;
  uint16_t id;   /* low byte: the host's nonce; high byte: ours */
  uint8_t nonce; /* of our last reply */
  uint8_t is_established;
} TVMSession;

/* `buffer` receives the payloads of frames: messages of up to `capacity` bytes with their header.
 * `seed` should differ from one reset to the next. */
void TVMSession_Init(TVMSession *session, microtvm_rpc_channel_write_t write, void *context,
                     uint8_t *buffer, size_t capacity, uint8_t seed);

/* Ends the session, if there is one. With `tell` the host learns of it. 0, or as Finish. */
tvm_crt_error_t TVMSession_Terminate(TVMSession *session, int tell);

/* Reads up to the next event, and moves `*data` and `*num_bytes` past it. Replies to a host that
 * starts a session; an error of that write is stored in `*error`. A message stays valid until the
 * next call. */
TVMSessionEvent TVMSession_Read(TVMSession *session, const uint8_t **data, size_t *num_bytes,
                                tvm_crt_error_t *error);

/* Sends a Normal message: Start, TVMFramer_Put for together `body_bytes` bytes, Finish. Start
 * returns kTvmErrorSessionInvalidState, and begins nothing, when there is no session. */
tvm_crt_error_t TVMSession_Start(TVMSession *session, size_t body_bytes);
tvm_crt_error_t TVMSession_Finish(TVMSession *session);

/* Sends text as a Log message, in a session or not. */
tvm_crt_error_t TVMSession_Log(TVMSession *session, const char *text, size_t length);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_RPC_COMMON_SESSION_H_ */
