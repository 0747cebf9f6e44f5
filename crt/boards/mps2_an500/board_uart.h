/* UART 0. */
#define BOARD_UART           0x40004000u
#define BOARD_UART_INTERRUPT 0u
#include "cmsdk_uart.h"
