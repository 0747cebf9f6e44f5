/* UART 0. */
#define BOARD_UART           0x50200000u
#define BOARD_UART_INTERRUPT 32u
#include "cmsdk_uart.h"
