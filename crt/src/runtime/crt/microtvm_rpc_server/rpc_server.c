/* The server: bytes in, answers out. */
#include <string.h>
#include <tvm/runtime/crt/aot_executor_module.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/internal/common/modules.h>
#include <tvm/runtime/crt/internal/common/time_evaluator.h>
#include <tvm/runtime/crt/internal/rpc/server.h>
#include <tvm/runtime/crt/logging.h>
#include <tvm/runtime/crt/microtvm_rpc_server.h>

static struct {
  TVMSession session;
  uint8_t packet[TVM_CRT_MAX_PACKET_SIZE_BYTES];
} server;

/* What the session before leaves behind, however it ended. */
static void clean_up(void) {
  (void)TVMModFreeAllOwned();
  TVMRpcMemory_FreeAll();
  TVMTimeEvaluator_Reset();
}

microtvm_rpc_server_t MicroTVMRpcServerInit(microtvm_rpc_channel_write_t write_func,
                                            void *write_func_ctx) {
  uint8_t seed = 0;
  int is_ready;
  clean_up();
  is_ready = TVMInitializeRuntime() == kTvmErrorNoError &&
             TVMAotExecutorModule_Register() == kTvmErrorNoError;
  (void)TVMPlatformGenerateRandom(&seed, 1);
  TVMSession_Init(&server.session, write_func, write_func_ctx, server.packet, sizeof server.packet,
                  seed);
  TVMRpcLog_Open(&server.session);
  TVMRpcLog_BeginFrame();
  (void)TVMSession_Terminate(&server.session, 1);
  TVMRpcLog_EndFrame();
  return is_ready ? &server : NULL;
}

static void log_dropped(TVMFrameEvent why) {
  static const char *const kWhy[kTVMFrameEventCount] = {
      "",
      "",
      "it was cut short",
      "an escape is not valid",
      "it is too long",
      "its checksum differs",
  };
  TVMLogf("a frame was dropped: %s", kWhy[why]);
}

tvm_crt_error_t MicroTVMRpcServerLoop(microtvm_rpc_server_t server_ptr, uint8_t **new_data,
                                      size_t *new_data_size_bytes) {
  const uint8_t *at = *new_data;
  tvm_crt_error_t error = kTvmErrorNoError;
  TVMSessionEvent event;
  int shut_down = 0;
  (void)server_ptr;
  TVMRpcLog_BeginFrame(); /* a reply to a host that starts a session */
  event = TVMSession_Read(&server.session, &at, new_data_size_bytes, &error);
  TVMRpcLog_EndFrame();
  *new_data += at - *new_data;
  switch (event) {
  case kTVMSessionStarted:
  case kTVMSessionTerminated:
    clean_up();
    break;
  case kTVMSessionMessage:
    error = TVMRpc_Answer(&server.session, server.session.message, server.session.message_bytes,
                          &shut_down);
    if (shut_down) {
      (void)TVMSession_Terminate(&server.session, 0);
      clean_up();
    }
    break;
  case kTVMSessionFrameDropped:
    if (server.session.is_established) {
      log_dropped(server.session.dropped);
    }
    break;
  default: /* all bytes are read */
    break;
  }
  return error;
}
