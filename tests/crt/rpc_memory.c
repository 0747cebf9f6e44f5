/* The RPC server's memory: blocks, addresses and copies, and what happens when it runs out. Prints
 * what failed, exits 1 if any. */
#include "rpc_client.h"

static void memory_is_the_sessions(void) {
  const int64_t shape[] = {4, 5};
  uint64_t a, b;
  size_t left;
  begin_session();
  left = TVMPlatformMemoryLeft();
  a = allocated(100, 64);
  b = allocated(50, 16);
  EXPECT(a % 64 == 0 && b % 16 == 0 && a != b);
  EXPECT(copy_to(a, 96, "\xff\xfe\xfd\0", 4) == kReturn && is_void());
  EXPECT(copy_from(a, 96, 4) == 8 && answer_size == 16);
  EXPECT(memcmp(answer + 12, "\xff\xfe\xfd\0", 4) == 0);
  /* The scope makes no difference. */
  start();
  sequence(CODES(7, 4));
  put_tensor(0, 32, 2, shape, 0);
  EXPECT(ask(17, &body) == kReturn && handle_answered() != 0);
  start();
  sequence(CODES(7, 11));
  put_tensor(0, 32, 2, shape, 0);
  put_text("global");
  EXPECT(ask(17, &body) == kReturn && handle_answered() != 0);
  start();
  sequence(CODES(7, 4));
  put_tensor(0, 0, 2, shape, 0);
  (void)ask(17, &body);
  EXPECT(refused("DevAllocDataWithScope: a tensor without a size"));
  start();
  sequence(CODES(6, 3));
  put_device();
  put(&body, a, 8);
  EXPECT(ask(14, &body) == kReturn && is_void());
  EXPECT(ask(14, &body) == kException && refused("DevFreeData: no such block"));
  EXPECT(allocated(16, 3) == 0 && refused("DevAllocData: error 0x803"));
  EXPECT(allocated(16, 8192) == 0 && refused("DevAllocData: error 0x803"));
  EXPECT(allocated((uint64_t)1 << 40, 1) == 0 && refused("error 0x803"));
  EXPECT(allocated(1 << 30, 1) == 0);
  EXPECT(refused("out of memory: 1073741856 bytes asked for, "));
  EXPECT(TVMPlatformMemoryLeft() < left);
  /* The host disappears, and the next one finds all of it. */
  begin_session();
  EXPECT(TVMPlatformMemoryLeft() == left);
}

static void wrong_addresses_are_refused(void) {
  const uint64_t data = allocated(64, 16);
  const int64_t huge[] = {1 << 20, 1 << 20};
  const int64_t negative[] = {-1};
  EXPECT(copy_to(0, 0, "abcd", 4) == kException);
  EXPECT(refused("CopyToRemote: a tensor outside of this device's memory"));
  EXPECT(copy_to(data, UINT64_MAX, "abcd", 4) == kException);
  EXPECT(copy_to((uint64_t)1 << 62, (uint64_t)3 << 62, "abcd", 4) == kException);
  EXPECT(copy_to((uint64_t)1 << 62, (uint64_t)5 << 60, "abcd", 4) == kException);
  EXPECT(copy_to((uint64_t)(uintptr_t)&calls, 0, "abcd", 4) == kException);
  EXPECT(copy_from((uint64_t)(uintptr_t)&calls, 0, 4) == kException);
  EXPECT(refused("CopyFromRemote: a tensor outside"));
  EXPECT(copy_from(data, 0, 0x7fffffff) == kException && refused("outside"));
  EXPECT(copy_from(data, 0, (size_t)0xffffffff) == kException && refused("without a size"));
  EXPECT(copy_from(0, 0, 0) == 8 && answer_size == 12);
  /* Less data than announced, and none. */
  start();
  put_tensor(data, 8, 1, negative, 0);
  put(&body, 5, 8);
  put_bytes(&body, "abcd", 4);
  EXPECT(ask(7, &body) == kException && refused("not as many bytes"));
  body.size = 47;
  EXPECT(ask(7, &body) == kException && refused("the packet ends before its data"));
  body.size = 39;
  EXPECT(ask(7, &body) == kException && refused("the packet ends within"));
  /* Tensors as arguments. */
  call(function_of(system_lib(), "echo"));
  sequence(CODES(7));
  put_tensor(data, 8, 2, huge, 0);
  EXPECT(ask(3, &body) == kException && refused("echo: a tensor without a size"));
  call(function_of(system_lib(), "echo"));
  sequence(CODES(7));
  put_tensor(data, 8, 1, negative, 0);
  EXPECT(ask(3, &body) == kException && refused("echo: a tensor without a size"));
  body.bytes[8 + 4 + 4 + 8] = 2; /* another device */
  EXPECT(ask(3, &body) == kException && refused("without a size"));
}

static void tensors_are_copied_here(void) {
  const uint64_t a = allocated(8, 16);
  const uint64_t b = allocated(8, 16);
  const int64_t shape[] = {4};
  const int64_t other[] = {3};
  EXPECT(copy_to(a, 0, "\1\2\3\4", 4) == kReturn);
  start();
  sequence(CODES(7, 7, 3));
  put_tensor(a, 8, 1, shape, 0);
  put_tensor(b, 8, 1, shape, 0);
  put(&body, 0, 8);
  EXPECT(ask(16, &body) == kReturn && is_void());
  EXPECT(copy_from(b, 0, 4) == 8 && memcmp(answer + 12, "\1\2\3\4", 4) == 0);
  start();
  sequence(CODES(7, 7, 3));
  put_tensor(a, 8, 1, shape, 0);
  put_tensor(b, 8, 1, other, 0);
  put(&body, 0, 8);
  EXPECT(ask(16, &body) == kException && refused("CopyAmongRemote: error 0x803: tensors of diff"));
  start();
  sequence(CODES(7, 7, 3));
  put_tensor(a, 8, 1, shape, 0);
  put_tensor(0, 8, 1, shape, 0);
  put(&body, 0, 8);
  EXPECT(ask(16, &body) == kException && refused("CopyAmongRemote: a tensor outside"));
  start();
  sequence(CODES(7, 7, 3));
  put_tensor(a, 8, 1, shape, 0);
  put_tensor(b, 8, 1, shape, 0);
  put(&body, 0, 8);
  body.bytes[4 + 12 + 8] = 2; /* the device of the first */
  EXPECT(ask(16, &body) == kException && refused("on a device that is not here"));
}

static void streams_are_no_ops(void) {
  start();
  sequence(CODES(6));
  put_device();
  EXPECT(ask(18, &body) == kReturn && handle_answered() == 0);
  start();
  sequence(CODES(6, 3));
  put_device();
  put(&body, 0, 8);
  EXPECT(ask(15, &body) == kReturn && is_void());
  EXPECT(ask(19, &body) == kReturn && is_void());
  EXPECT(ask(20, &body) == kReturn && is_void());
}

static void out_of_memory_says_how_much(void) {
  const size_t left = TVMPlatformMemoryLeft();
  EXPECT(allocated(left - 4096, 16) != 0);
  while (allocated(200, 16) != 0) {
  }
  EXPECT(refused("DevAllocData: error 0x503: out of memory: 232 bytes asked for, "));
  call(global("tvm.aot_executor.create"));
  sequence(CODES(9, 6, 11));
  {
    const Bytes kept = body;
    const uint64_t lib = system_lib();
    body = kept;
    put(&body, lib, 8);
  }
  put_device();
  put_text("a");
  (void)ask(3, &body);
  EXPECT(refused("error 0x503: no memory for x: out of memory: 20 bytes asked for, "));
  begin_session();
  EXPECT(TVMPlatformMemoryLeft() >= left);
}

int main(void) {
  boot();
  memory_is_the_sessions();
  wrong_addresses_are_refused();
  tensors_are_copied_here();
  streams_are_no_ops();
  out_of_memory_says_how_much();
  return failures != 0;
}
