/* UART 0 of the Freedom E310. */
#ifndef MLF_BOARDS_SIFIVE_E_BOARD_UART_H_
#define MLF_BOARDS_SIFIVE_E_BOARD_UART_H_

#include <stdint.h>

#include "cpu.h"

/* Words: txdata 0x00 (bit 31: full), rxdata 0x04 (bit 31: empty), txctrl 0x08 and rxctrl 0x0c
 * (bit 0 enables), ie 0x10 (bit 1: bytes received ask for interrupt 3). A byte is taken by looking
 * for one, so the one that was found is kept. */
static volatile uint32_t *const board_uart = (volatile uint32_t *)0x10013000u;
static uint32_t board_uart_found = UINT32_C(0x80000000);

static inline void board_uart_start(void) {
  board_uart[2] = 1;
  board_uart[3] = 1;
  board_uart[4] = 2;
  cpu_wake_by(3);
}

static inline int board_uart_has_byte(void) {
  if (board_uart_found >> 31 != 0) {
    board_uart_found = board_uart[1];
  }
  return board_uart_found >> 31 == 0;
}

static inline void board_uart_wait(void) {
  cpu_sleep();
  cpu_forget(3);
}

static inline uint8_t board_uart_take(void) {
  const uint8_t byte = (uint8_t)board_uart_found;
  board_uart_found = UINT32_C(0x80000000);
  return byte;
}

static inline void board_uart_put(uint8_t byte) {
  while (board_uart[0] >> 31 != 0) {
  }
  board_uart[0] = byte;
}

#endif /* MLF_BOARDS_SIFIVE_E_BOARD_UART_H_ */
