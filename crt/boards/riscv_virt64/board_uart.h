/* The first UART. */
#include "ns16550.h"
