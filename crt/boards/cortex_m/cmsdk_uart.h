/* The CMSDK APB UART at BOARD_UART, which receives with the interrupt BOARD_UART_INTERRUPT. */
#ifndef MLF_BOARDS_CMSDK_UART_H_
#define MLF_BOARDS_CMSDK_UART_H_

#include <stdint.h>

#include "cpu.h"

/* Words: DATA 0x0; STATE 0x4 (bit 0: the transmitter is full, bit 1: a byte was received); CTRL 0x8
 * (bits 0 and 1 enable the two, bit 3 the receiver's interrupt); INTCLEAR 0xc (bit 1: that one);
 * BAUDDIV 0x10, at least 16. */
static volatile uint32_t *const board_uart = (volatile uint32_t *)BOARD_UART;

static inline void board_uart_start(void) {
  board_uart[4] = 16;
  board_uart[2] = 0xb;
  cpu_wake_by(BOARD_UART_INTERRUPT);
}

static inline int board_uart_has_byte(void) {
  return (board_uart[1] & 2u) != 0;
}

static inline void board_uart_wait(void) {
  cpu_sleep();
  board_uart[3] = 2;
  cpu_forget(BOARD_UART_INTERRUPT);
}

static inline uint8_t board_uart_take(void) {
  return (uint8_t)board_uart[0];
}

static inline void board_uart_put(uint8_t byte) {
  while ((board_uart[1] & 1u) != 0) {
  }
  board_uart[0] = byte;
}

#endif /* MLF_BOARDS_CMSDK_UART_H_ */
