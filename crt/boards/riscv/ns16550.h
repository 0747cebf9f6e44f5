/* The 16550 UART of QEMU's RISC-V machine virt: bytes at 0x10000000. */
#ifndef MLF_BOARDS_NS16550_H_
#define MLF_BOARDS_NS16550_H_

#include <stdint.h>

#include "cpu.h"

/* Data 0; interrupt enable 1 (bit 0: bytes received ask for interrupt 10); FIFO control 2; line
 * status 5 (bit 0: a byte was received, bit 5: one can be sent). */
static volatile uint8_t *const board_uart = (volatile uint8_t *)0x10000000u;

static inline void board_uart_start(void) {
  board_uart[2] = 1;
  board_uart[1] = 1;
  cpu_wake_by(10);
}

static inline int board_uart_has_byte(void) {
  return (board_uart[5] & 0x01u) != 0;
}

static inline void board_uart_wait(void) {
  cpu_sleep();
  cpu_forget(10);
}

static inline uint8_t board_uart_take(void) {
  return board_uart[0];
}

static inline void board_uart_put(uint8_t byte) {
  while ((board_uart[5] & 0x20u) == 0) {
  }
  board_uart[0] = byte;
}

#endif /* MLF_BOARDS_NS16550_H_ */
