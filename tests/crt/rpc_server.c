/* The RPC server's session, as a host sees it: what is found and returned, logs, broken lines, and
 * what is left when the host is gone. Prints what failed, exits 1 if any. */
#include "rpc_client.h"

#include <tvm/runtime/crt/graph_executor_module.h>

static void the_server_says_that_it_is_there(void) {
  server = MicroTVMRpcServerInit(write_line, NULL);
  EXPECT(server != NULL);
  EXPECT(line.size > 12 && memcmp(line.bytes, "\xfe\xff\xfd\3\0\0\0\0\0\2\x66\x77", 12) == 0);
  line.size -= 12; /* which is followed by what was logged before */
  memmove(line.bytes, line.bytes + 12, line.size);
  listen();
  EXPECT(logs == 1 && strcmp(logged, "before the server") == 0);
  EXPECT(TVMGraphExecutorModule_Register() == kTvmErrorNoError);
}

static void globals_are_found(void) {
  EXPECT(global("runtime.SystemLib") != 0);
  EXPECT(global("no.such.function") == 0); /* and no exception */
  call(global("tvm.rpc.server.GetCRTMaxPacketSize"));
  sequence(0, NULL);
  EXPECT(ask(3, &body) == kReturn);
  /* What both sides can receive: a host of TVM has room for 2048, whatever the device has. */
  EXPECT(result(0) == 2048 - 11);
}

static void results_of_all_types_are_sent(void) {
  const uint64_t f = function_of(system_lib(), "echo");
  const int64_t shape[] = {4};
  const uint64_t data = allocated(4, 1);
  const double half = 0.5;
  uint64_t bits;
  int tcode;
  call(f);
  sequence(CODES(0));
  put(&body, (uint64_t)-5, 8);
  EXPECT(ask(3, &body) == kReturn && result(0) == (uint64_t)-5 && answer_size == 40);
  memcpy(&bits, &half, 8);
  call(f);
  sequence(CODES(2));
  put(&body, bits, 8);
  EXPECT(ask(3, &body) == kReturn && result(2) == bits);
  for (tcode = 9; tcode <= 10; tcode++) {
    call(f);
    sequence(CODES(tcode));
    put(&body, 0x1234, 8);
    EXPECT(ask(3, &body) == kReturn && result(tcode) == 0x1234);
    EXPECT(number_at(answer + 20, 4) == 3);
  }
  call(f);
  sequence(CODES(4));
  EXPECT(ask(3, &body) == kReturn && result(4) == 0 && answer_size == 32);
  call(f);
  sequence(CODES(11));
  put_text("text");
  EXPECT(ask(3, &body) == kReturn && result(11) == 4 && memcmp(answer + 40, "text", 4) == 0);
  call(f);
  sequence(CODES(12));
  put_text("b\0\0s");
  EXPECT(ask(3, &body) == kReturn && result(12) == 1);
  call(f);
  sequence(CODES(7));
  put_tensor(data, 8, 1, shape, 0);
  EXPECT(ask(3, &body) == kReturn && tensor_result() == data);
  /* Not what cannot be sent. */
  call(f);
  sequence(0, NULL);
  (void)ask(3, &body);
  EXPECT(refused("echo: a result of a type that cannot be sent: 99"));
  call(f);
  sequence(CODES(5));
  put(&body, 0x00012002, 8);
  (void)ask(3, &body);
  EXPECT(refused("a type that cannot be sent: 5"));
  call(f);
  sequence(CODES(7, 4));
  put_tensor(data, 8, 1, shape, 0);
  (void)ask(3, &body);
  EXPECT(refused("strides"));
  call(f);
  sequence(CODES(12));
  put(&body, 2030, 8);
  put_bytes(&body, line.bytes, 2030);
  (void)ask(3, &body);
  EXPECT(refused("more bytes than a packet holds"));
}

static void failures_name_their_function(void) {
  const uint64_t lib = system_lib();
  call(function_of(lib, "fails_aloud"));
  sequence(0, NULL);
  (void)ask(3, &body);
  EXPECT(refused("fails_aloud: error 0x803: because of 7"));
  EXPECT(logs == 1 && strcmp(logged, "just before it fails") == 0);
  call(function_of(lib, "fails")); /* which says nothing: no text of the one before */
  sequence(0, NULL);
  (void)ask(3, &body);
  EXPECT(refused("fails: error -3") && answer_size == 28 + 15);
  call(0x12345678);
  sequence(0, NULL);
  (void)ask(3, &body);
  EXPECT(refused("a function: error 0x101: "));
  EXPECT(function_of(lib, "none") == 0); /* nothing, and no exception */
}

/* Lines that come while a frame is written wait for its end; too many are counted, not mixed in. */
static void logs_do_not_break_frames(void) {
  interrupt = 2;
  EXPECT(global("runtime.SystemLib") != 0);
  EXPECT(logs == 2 && strcmp(logged, "from an interrupt, line 0") == 0);
  interrupt = 100;
  EXPECT(global("runtime.SystemLib") != 0);
  EXPECT(logs > 2 && logs < 100 && strcmp(logged, "log lines were lost") == 0);
  for (interrupt = 5; logs > 0; interrupt = 0) { /* the queue's end is passed over and over */
    EXPECT(global("runtime.SystemLib") != 0);
  }
  TVMLogf("%s", "plain");
  listen();
  EXPECT(logs == 1 && strcmp(logged, "plain") == 0);
  TVMLogf("\n");
  TVMLogf("%s", "");
  listen();
  EXPECT(logs == 0);
  {
    static char text[600];
    memset(text, 'x', sizeof text - 1);
    TVMLogf("%s\n", text);
    listen();
    EXPECT(logs == 1 && strlen(logged) == 255);
  }
}

static void dropped_frames_are_logged(void) {
  static Bytes wire;
  put_frame(&wire, (const uint8_t *)"abcdef", 6);
  wire.bytes[8] ^= 1;
  give(&wire);
  listen();
  EXPECT(logs == 1 && strcmp(logged, "a frame was dropped: its checksum differs") == 0);
}

static void a_broken_line_is_an_error_once(void) {
  static Bytes wire;
  static Bytes payload;
  uint8_t *at = wire.bytes;
  size_t left;
  put(&payload, session_id, 2);
  put(&payload, 0x10, 1);
  put(&payload, 4, 8);
  put(&payload, 2, 4);
  put_frame(&wire, payload.bytes, payload.size);
  left = wire.size;
  write_result = -9;
  EXPECT((int)MicroTVMRpcServerLoop(server, &at, &left) == -9 && left == 0);
  write_result = 0;
  EXPECT(global("runtime.SystemLib") != 0);
}

static void a_shutdown_is_not_the_end(void) {
  size_t left;
  begin_session(); /* which frees what the tests before have */
  left = TVMPlatformMemoryLeft();
  EXPECT(allocated(100, 16) != 0);
  start();
  EXPECT(ask(1, &body) == -1 && TVMPlatformMemoryLeft() == left);
  start();
  EXPECT(ask(2, &body) == -1); /* no session */
  TVMLogf("still here");
  listen();
  EXPECT(logs == 1);
  begin_session();
  EXPECT(global("runtime.SystemLib") != 0);
}

/* The host ends the session: what it had is given back. */
static void a_terminated_session_is_cleaned_up(void) {
  const size_t left = TVMPlatformMemoryLeft();
  static Bytes nothing;
  (void)aot("a");
  EXPECT(TVMPlatformMemoryLeft() < left);
  give_message(0, 2, &nothing);
  listen();
  EXPECT(TVMPlatformMemoryLeft() == left);
  begin_session();
}

static void a_timer_that_does_not_count_is_told(void) {
  DLDevice cpu = {kDLCPU, 0};
  EXPECT(TVMPlatformMemoryFree(&cpu, cpu) != kTvmErrorNoError);
  server = MicroTVMRpcServerInit(write_line, NULL); /* anew, as after a reset */
  line.size = 0;
  begin_session();
  EXPECT(global("runtime.SystemLib") != 0);
}

int main(void) {
  EXPECT(TVMPlatformInitialize() == kTvmErrorNoError);
  TVMLogf("before the server");
  the_server_says_that_it_is_there();
  begin_session();
  globals_are_found();
  results_of_all_types_are_sent();
  failures_name_their_function();
  logs_do_not_break_frames();
  dropped_frames_are_logged();
  a_broken_line_is_an_error_once();
  a_shutdown_is_not_the_end();
  a_terminated_session_is_cleaned_up();
  a_timer_that_does_not_count_is_told();
  return failures != 0;
}
