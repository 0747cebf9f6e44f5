/* UART 0. */
#define BOARD_UART           0x59303000u
#define BOARD_UART_INTERRUPT 33u
#include "cmsdk_uart.h"
