/* The CMSDK APB UART at BOARD_UART. */
#ifndef MLF_BOARDS_CMSDK_UART_H_
#define MLF_BOARDS_CMSDK_UART_H_

#include <stdint.h>

/* Words: DATA 0x0; STATE 0x4 (bit 0: the transmitter is full, bit 1: a byte was received); CTRL 0x8
 * (bits 0 and 1 enable the two); BAUDDIV 0x10, at least 16. */
static volatile uint32_t *const board_uart = (volatile uint32_t *)BOARD_UART;

static inline void board_uart_start(void) {
  board_uart[4] = 16;
  board_uart[2] = 3;
}

static inline int board_uart_has_byte(void) {
  return (board_uart[1] & 2u) != 0;
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
