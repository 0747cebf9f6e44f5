/* Log lines as frames of their own. An interrupt can come at any point, log, and log again from
 * within: it always ends before what it interrupted goes on, so flags do for locks. */
#include <string.h>
#include <tvm/runtime/crt/internal/rpc/server.h>
#include <tvm/runtime/crt/logging.h>
#include <tvm/runtime/crt/microtvm_rpc_server.h>

#if defined(__GNUC__)
#define WEAK __attribute__((weak))
#else
#define WEAK
#endif

enum { kQueue = TVM_CRT_RPC_LOG_QUEUE_BYTES };

static TVMSession *session;           /* NULL: lines wait for the server */
static volatile uint8_t is_in_frame;  /* the line is in use */
static volatile uint8_t is_in_queue;  /* a line is being put into the queue */
static volatile unsigned lost;        /* lines that found no room */
static volatile size_t first, behind; /* the queue's bytes, from the oldest to the next free one */
static uint8_t queue[kQueue];         /* lines, each after its length */

static size_t next(size_t at) {
  return at + 1 == kQueue ? 0 : at + 1;
}

/* All of a line or nothing: those who take lines out see it when `behind` moves. */
static void put(const char *text, size_t length) {
  const size_t used = (behind + kQueue - first) % kQueue;
  size_t at = behind;
  size_t i;
  if (is_in_queue || used + length + 1 >= kQueue) {
    lost++;
    return;
  }
  is_in_queue = 1;
  queue[at] = (uint8_t)length;
  for (i = 0; i < length; i++) {
    at = next(at);
    queue[at] = (uint8_t)text[i];
  }
  behind = next(at);
  is_in_queue = 0;
}

/* Sends the oldest line straight from the queue. */
static void send_oldest(void) {
  char text[TVM_CRT_RPC_LOG_LINE_BYTES];
  const size_t length = queue[first];
  size_t at = first;
  size_t i;
  for (i = 0; i < length; i++) {
    at = next(at);
    text[i] = (char)queue[at];
  }
  first = next(at);
  (void)TVMSession_Log(session, text, length);
}

static void send_waiting(void) {
  while (first != behind) {
    send_oldest();
  }
  if (lost > 0) {
    static const char kText[] = "log lines were lost";
    lost = 0;
    (void)TVMSession_Log(session, kText, sizeof kText - 1);
  }
}

void TVMRpcLog_Open(TVMSession *to) {
  session = to;
  is_in_frame = 0;
  is_in_queue = 0;
}

void TVMRpcLog_BeginFrame(void) {
  is_in_frame = 1;
}

void TVMRpcLog_EndFrame(void) {
  send_waiting();
  is_in_frame = 0;
}

WEAK void TVMLogf(const char *fmt, ...) {
  char text[TVM_CRT_RPC_LOG_LINE_BYTES];
  va_list args;
  size_t length;
  text[0] = '\0';
  va_start(args, fmt);
  (void)TVMPlatformFormatMessage(text, sizeof text, fmt, args);
  va_end(args);
  text[sizeof text - 1] = '\0';
  length = strlen(text); /* what it returns may be the length before it was cut */
  if (length > 0 && text[length - 1] == '\n') {
    length--;
  }
  if (length == 0) {
    return;
  }
  if (session == NULL || is_in_frame) {
    put(text, length);
    return;
  }
  TVMRpcLog_BeginFrame();
  (void)TVMSession_Log(session, text, length);
  TVMRpcLog_EndFrame();
}
