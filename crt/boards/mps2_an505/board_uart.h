/* UART 0. */
#define BOARD_UART 0x50200000u
#include "cmsdk_uart.h"
