/* The RPC server's requests in every wrong form, and arguments up to what a packet holds. Prints
 * what failed, exits 1 if any. */
#include "rpc_client.h"

/* Each is answered by an exception, but the empty packet; nothing hangs, and the next works. */
static void malformed_requests_are_refused(void) {
  int code;
  int count;
  static Bytes empty;
  start();
  for (code = -1; code < 40; code++) {
    if (code != 1 && code != 2) {
      EXPECT(ask(code, &body) == kException);
    }
  }
  EXPECT(ask(2, &body) == kReturn && is_void()); /* InitServer: of any version */
  (void)ask(99, &body);
  EXPECT(refused("RPC: a request that is not known"));
  (void)ask(11, &body);
  EXPECT(refused("DevSetDevice: is not supported"));
  put(&empty, 0, 8);
  give_message(session_id, 0x10, &empty);
  listen();
  EXPECT(answer_size == -1);
  for (count = 0; count < 12; count++) {
    start();
    put(&body, 100, count);
    give_message(session_id, 0x10, &body);
    listen();
    EXPECT(refused("RPC: a packet that is not as long as it says"));
  }
  /* Sequences: too many, of unknown types, cut off, of the wrong types. */
  start();
  put(&body, 0x7fffffff, 4);
  EXPECT(ask(9, &body) == kException && refused("GetGlobalFunc: the packet ends within"));
  start();
  sequence(CODES(0x80));
  put(&body, 0, 8);
  EXPECT(ask(9, &body) == kException && refused("of a type that cannot be sent"));
  start();
  sequence(CODES(-2));
  put(&body, 0, 8);
  EXPECT(ask(9, &body) == kException && refused("of a type that cannot be sent"));
  start();
  sequence(CODES(11));
  put(&body, 1000, 8);
  EXPECT(ask(9, &body) == kException && refused("the packet ends within"));
  start();
  sequence(CODES(0));
  put(&body, 0, 4);
  EXPECT(ask(9, &body) == kException && refused("the packet ends within"));
  start();
  sequence(CODES(0));
  put(&body, 0, 8);
  EXPECT(ask(9, &body) == kException && refused("GetGlobalFunc: an argument of the wrong type"));
  start();
  sequence(CODES(0, 0));
  put(&body, 0, 8);
  put(&body, 0, 8);
  EXPECT(ask(9, &body) == kException && refused("the wrong number of arguments"));
  start();
  sequence(CODES(5, 3));
  put(&body, 0, 8);
  put(&body, 0, 8);
  EXPECT(ask(14, &body) == kException && refused("DevFreeData: an argument of the wrong type"));
  call(global("runtime.SystemLib"));
  EXPECT(ask(3, &body) == kException && refused("runtime.SystemLib: the packet ends"));
}

/* Any count of arguments, up to what the packet holds: all of it fits, or is refused. */
static void arguments_fill_the_packet(void) {
  const uint64_t f = function_of(system_lib(), "tvmgen_a_run");
  static const int64_t kEmpty[] = {0, 0};
  int accepted = 0;
  int tcode;
  int count;
  int i;
  calls_compute = 0;
  for (tcode = 0; tcode < 3; tcode++) {
    static const int kCodes[] = {4, 12, 7};
    for (count = 1; count < 2040; count += 1 + count / 4) {
      call(f);
      put(&body, (uint64_t)count, 4);
      for (i = 0; i < count; i++) {
        put(&body, (uint64_t)kCodes[tcode], 4);
      }
      for (i = 0; i < count && tcode > 0; i++) {
        if (tcode == 1) {
          put(&body, 0, 8);
        } else {
          put_tensor(0, 8, 1, kShape, 0);
          body.bytes[body.size - 16] = 0; /* an empty one */
        }
      }
      if (body.size + 15 > TVM_CRT_MAX_PACKET_SIZE_BYTES) {
        break;
      }
      EXPECT(ask(3, &body) == kReturn || refused("more arguments than TVM_CRT_MAX"));
      accepted += number_at(answer + 8, 4) == kReturn;
    }
  }
  EXPECT(accepted > 20);
  /* Nulls take more here than in the packet; what follows them finds less and less room. */
  for (tcode = 7; tcode <= 12; tcode += 5) {
    for (count = 1100; count < 1300; count++) {
      call(f);
      put(&body, (uint64_t)count + 1, 4);
      for (i = 0; i < count; i++) {
        put(&body, 4, 4);
      }
      put(&body, (uint64_t)tcode, 4);
      put_tensor(0, 8, 2, kEmpty, 0);
      EXPECT(ask(3, &body) == kReturn || refused("more arguments than TVM_CRT_MAX"));
    }
    EXPECT(refused("more arguments than TVM_CRT_MAX"));
  }
  calls_compute = 1;
  /* A tensor of more axes than there is room for. */
  call(f);
  sequence(CODES(7));
  put(&body, 0, 8);
  put_device();
  put(&body, 100000, 4);
  put(&body, 0x00010800, 4);
  EXPECT(ask(3, &body) == kException && refused("the packet ends"));
}

int main(void) {
  boot();
  malformed_requests_are_refused();
  arguments_fill_the_packet();
  return failures != 0;
}
