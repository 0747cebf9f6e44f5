/* The counter and the stack guard: those of all MPS2 boards. */
#include "mps2.h"
