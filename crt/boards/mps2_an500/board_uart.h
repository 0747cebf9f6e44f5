/* UART 0. */
#define BOARD_UART 0x40004000u
#include "cmsdk_uart.h"
