/* The line to the host is UART0, a PL011; time is SysTick's, of a 12.5 MHz clock. */
#include <stdint.h>

#include "platform.h"
#include "rpc_line.h"

#define UART(offset)    (*(volatile uint32_t *)(0x4000c000u + (offset)))
#define SYSTICK(offset) (*(volatile uint32_t *)(0xe000e010u + (offset)))
enum { kData = 0, kFlags = 0x18, kControl = 0x30, kEmpty = 1 << 4, kFull = 1 << 5 };

int rpc_line_open(int argc, char **argv) {
  (void)argc, (void)argv;
  UART(kControl) = 0x301;
  return 0;
}

size_t rpc_line_read(uint8_t *data, size_t size) {
  size_t count = 0;
  while (UART(kFlags) & kEmpty) {
  }
  while (count < size && !(UART(kFlags) & kEmpty)) {
    data[count++] = (uint8_t)UART(kData);
  }
  return count;
}

ssize_t rpc_line_write(void *context, const uint8_t *data, size_t num_bytes) {
  size_t i;
  (void)context;
  for (i = 0; i < num_bytes; i++) {
    while (UART(kFlags) & kFull) {
    }
    UART(kData) = data[i];
  }
  return (ssize_t)num_bytes;
}

void platform_complain(const char *text) {
  (void)text;
}

int platform_counter_start(void) {
  SYSTICK(4) = 0xffffff;
  SYSTICK(8) = 0;
  SYSTICK(0) = 5;
  return 0;
}

uint64_t platform_counter_begin(void) {
  return SYSTICK(8);
}

uint64_t platform_counter_end(void) {
  return SYSTICK(8);
}

uint64_t platform_counter_cost(uint64_t begin, uint64_t end) {
  return ((begin - end) & 0xffffff) * 80;
}
