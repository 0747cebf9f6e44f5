/* The instruction counter of the MPS2 boards: CMSDK APB timer 0, see common/cmsdk_timer.h. */
#include "cmsdk_timer.h"
