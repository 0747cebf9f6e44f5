/* An instruction counter: the CMSDK APB timer at BOARD_TIMER, 32 bits, counting down at the system
 * clock. It wraps after more than 1e11 instructions; no inference comes near that. */
#ifndef MLF_BOARDS_CMSDK_TIMER_H_
#define MLF_BOARDS_CMSDK_TIMER_H_

#include <stdint.h>

/* CTRL 0x0 (bit 0 enables), VALUE 0x4, RELOAD 0x8. */
static volatile uint32_t *const board_timer = (volatile uint32_t *)BOARD_TIMER;

static inline void board_counter_start(void) {
  board_timer[0] = 0;
  board_timer[2] = UINT32_MAX;
  board_timer[1] = UINT32_MAX;
  board_timer[0] = 1;
}

/* Ticks since board_counter_start. */
static inline uint64_t board_counter_ticks(void) {
  return UINT32_MAX - board_timer[1];
}

#endif /* MLF_BOARDS_CMSDK_TIMER_H_ */
