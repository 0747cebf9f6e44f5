/* What the shared start-up code asks of a board: a counter of instructions, a guard of the stack.
 *
 * The counter is SysTick, 24 bits at 12.5 MHz: a tick is 80 ns, so 80 instructions under QEMU's
 * `-icount shift=0`, and it wraps after 1.3e9. */
#ifndef LM3S6965_BOARD_H_
#define LM3S6965_BOARD_H_

#include <stdint.h>

#define BOARD_COUNTER_MILLIINSTRUCTIONS_PER_TICK 80000u

/* CTRL 0x0 (1: enable, 4: the processor's clock), LOAD 0x4, VAL 0x8. */
static volatile uint32_t *const board_timer = (volatile uint32_t *)0xe000e010u;

static inline void board_counter_start(void) {
  board_timer[1] = 0xffffff;
  board_timer[2] = 0;
  board_timer[0] = 5;
}

/* Ticks since board_counter_start. */
static inline uint64_t board_counter_ticks(void) {
  return 0xffffff - board_timer[2];
}

/* Nothing to do: below RAM is no memory. */
static inline void board_guard_stack(void) {
}

#endif /* LM3S6965_BOARD_H_ */
