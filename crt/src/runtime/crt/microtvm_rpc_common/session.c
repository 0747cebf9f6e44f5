/* The device's side of a session. */
#include <string.h>
#include <tvm/runtime/crt/rpc_common/session.h>

/* Never 0, which means "none". */
static uint8_t next_nonce(uint8_t nonce) {
  const uint8_t next = (uint8_t)(((uint32_t)nonce << 5 | (uint32_t)nonce >> 5) + 1);
  return next != 0 ? next : 1;
}

void TVMSession_Init(TVMSession *session, microtvm_rpc_channel_write_t write, void *context,
                     uint8_t *buffer, size_t capacity, uint8_t seed) {
  memset(session, 0, sizeof *session);
  TVMFramer_Init(&session->framer, write, context);
  TVMUnframer_Init(&session->unframer, buffer, capacity);
  session->nonce = seed;
}

static void start_message(TVMSession *s, uint16_t id, TVMMessageType type, size_t body_bytes) {
  const uint8_t header[kTVMSessionHeaderBytes] = {(uint8_t)(id & 0xff), (uint8_t)(id >> 8),
                                                  (uint8_t)type};
  TVMFramer_Start(&s->framer, sizeof header + body_bytes);
  TVMFramer_Put(&s->framer, header, sizeof header);
}

tvm_crt_error_t TVMSession_Terminate(TVMSession *session, int tell) {
  session->is_established = 0;
  session->id = 0;
  if (!tell) {
    return kTvmErrorNoError;
  }
  start_message(session, 0, kTVMMessageTerminate, 0);
  return TVMFramer_Finish(&session->framer);
}

/* The host's version is in the message. A host of another one learns ours, and has no session. */
static TVMSessionEvent accept(TVMSession *s, uint16_t id, const uint8_t *body, size_t body_bytes,
                              tvm_crt_error_t *error) {
  const uint8_t version = kTVMSessionVersion;
  if ((id & 0xff) == 0 || body_bytes != 1) {
    return kTVMSessionNothing;
  }
  s->nonce = next_nonce(s->nonce);
  s->id = (uint16_t)((id & 0xffu) | (uint32_t)s->nonce << 8);
  s->is_established = body[0] == version;
  start_message(s, s->id, kTVMMessageStartReply, 1);
  TVMFramer_Put(&s->framer, &version, 1);
  *error = TVMFramer_Finish(&s->framer);
  return s->is_established ? kTVMSessionStarted : kTVMSessionTerminated;
}

/* What a whole frame means. Those that mean nothing to a device are used up all the same. */
static TVMSessionEvent receive(TVMSession *s, tvm_crt_error_t *error) {
  const uint8_t *const payload = s->unframer.payload;
  const size_t length = s->unframer.length;
  uint16_t id;
  if (length < kTVMSessionHeaderBytes) {
    return kTVMSessionNothing;
  }
  id = (uint16_t)(payload[0] | (uint32_t)payload[1] << 8);
  s->message = s->unframer.payload + kTVMSessionHeaderBytes;
  s->message_bytes = length - kTVMSessionHeaderBytes;
  switch (payload[2]) {
  case kTVMMessageStartInit:
    return accept(s, id, s->message, s->message_bytes, error);
  case kTVMMessageTerminate:
    if (!s->is_established) {
      return kTVMSessionNothing;
    }
    (void)TVMSession_Terminate(s, 0);
    return kTVMSessionTerminated;
  case kTVMMessageNormal:
    return s->is_established && id == s->id ? kTVMSessionMessage : kTVMSessionNothing;
  default: /* logs and replies are for hosts */
    return kTVMSessionNothing;
  }
}

TVMSessionEvent TVMSession_Read(TVMSession *session, const uint8_t **data, size_t *num_bytes,
                                tvm_crt_error_t *error) {
  TVMSessionEvent event = kTVMSessionNothing;
  *error = kTvmErrorNoError;
  while (event == kTVMSessionNothing && *error == kTvmErrorNoError) {
    const TVMFrameEvent frame = TVMUnframer_Read(&session->unframer, data, num_bytes);
    if (frame == kTVMFrameNothing) {
      break;
    }
    if (frame == kTVMFrameReceived) {
      event = receive(session, error);
    } else {
      session->dropped = frame;
      event = kTVMSessionFrameDropped;
    }
  }
  return event;
}

tvm_crt_error_t TVMSession_Start(TVMSession *session, size_t body_bytes) {
  if (!session->is_established) {
    return kTvmErrorSessionInvalidState;
  }
  start_message(session, session->id, kTVMMessageNormal, body_bytes);
  return kTvmErrorNoError;
}

tvm_crt_error_t TVMSession_Finish(TVMSession *session) {
  return TVMFramer_Finish(&session->framer);
}

tvm_crt_error_t TVMSession_Log(TVMSession *session, const char *text, size_t length) {
  start_message(session, 0, kTVMMessageLog, length);
  TVMFramer_Put(&session->framer, text, length);
  return TVMFramer_Finish(&session->framer);
}
