/* The counter of all MPS2 boards, at the secure alias of its timer and slower: 20 MHz, so a tick is
 * 50 ns. */
#ifndef MLF_BOARDS_MPS2_AN505_BOARD_H_
#define MLF_BOARDS_MPS2_AN505_BOARD_H_

#define BOARD_COUNTER_MILLIINSTRUCTIONS_PER_TICK 50000u
#define BOARD_TIMER                              0x50000000u
#include "cmsdk_timer.h"

/* Nothing to do: what lies below RAM faults as it is. */
static inline void board_guard_stack(void) {
}

#endif /* MLF_BOARDS_MPS2_AN505_BOARD_H_ */
