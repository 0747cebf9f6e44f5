/* LM3S6965, Cortex-M3: the vector table, data and bss, and main. */
#include <stdint.h>
#include <string.h>

extern uint32_t stack_top[], data_start[], data_end[], data_load[], bss_start[], bss_end[];
int main(int argc, char **argv);

static void reset(void) {
  char *none[] = {0};
  memcpy(data_start, data_load, (size_t)((char *)data_end - (char *)data_start));
  memset(bss_start, 0, (size_t)((char *)bss_end - (char *)bss_start));
  main(0, none);
  for (;;) {
  }
}

static void fault(void) {
  for (;;) {
  }
}

__attribute__((section(".vectors"), used)) static void (*const vectors[16])(void) = {
    (void (*)(void))stack_top, reset, fault, fault, fault, fault, fault};
