/* The counter and the stack guard: those of all RISC-V boards. */
#include "instret.h"
