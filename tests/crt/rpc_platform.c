/* The platform of driven firmware, with a counter that a test moves. */
#include "../../crt/rpc/rpc_platform.c"

uint64_t test_counter = 1;
int test_counter_works = 1;

const char platform_counter_name[] = "nanoseconds";
const uint32_t platform_counter_scale = 1;

void platform_complain(const char *text) {
  (void)text;
}

int platform_counter_start(void) {
  return test_counter_works ? 0 : -1;
}

uint64_t platform_counter_begin(void) {
  return test_counter;
}

uint64_t platform_counter_end(void) {
  return test_counter;
}

uint64_t platform_counter_cost(uint64_t begin, uint64_t end) {
  return end - begin;
}
