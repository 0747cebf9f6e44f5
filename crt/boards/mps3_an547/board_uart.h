/* UART 0. */
#define BOARD_UART 0x59303000u
#include "cmsdk_uart.h"
