/* The UART of the nRF51. */
#ifndef MLF_BOARDS_MICROBIT_BOARD_UART_H_
#define MLF_BOARDS_MICROBIT_BOARD_UART_H_

#include <stdint.h>

#include "cpu.h"

/* Words: tasks STARTRX 0x000 and STARTTX 0x008, events RXDRDY 0x108 and TXDRDY 0x11c, INTENSET
 * 0x304 (bit 2: RXDRDY asks for interrupt 2), ENABLE 0x500 (4), pins of TX 0x50c and RX 0x514, RXD
 * 0x518, TXD 0x51c, BAUDRATE 0x524. */
static volatile uint32_t *const board_uart = (volatile uint32_t *)0x40002000u;

static inline void board_uart_start(void) {
  board_uart[0x50c / 4] = 24;
  board_uart[0x514 / 4] = 25;
  board_uart[0x524 / 4] = 0x01d7e000u; /* 115200 */
  board_uart[0x500 / 4] = 4;
  board_uart[0x000 / 4] = 1;
  board_uart[0x008 / 4] = 1;
  board_uart[0x304 / 4] = 1u << 2;
  cpu_wake_by(2);
}

static inline int board_uart_has_byte(void) {
  return board_uart[0x108 / 4] != 0;
}

static inline void board_uart_wait(void) {
  cpu_sleep();
  cpu_forget(2);
}

/* The event is cleared first: reading the byte sets it again if there is another. */
static inline uint8_t board_uart_take(void) {
  board_uart[0x108 / 4] = 0;
  return (uint8_t)board_uart[0x518 / 4];
}

static inline void board_uart_put(uint8_t byte) {
  board_uart[0x11c / 4] = 0;
  board_uart[0x51c / 4] = byte;
  while (board_uart[0x11c / 4] == 0) {
  }
}

#endif /* MLF_BOARDS_MICROBIT_BOARD_UART_H_ */
