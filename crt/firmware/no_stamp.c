// Of images that carry neither version nor commit: nothing of it is linked unless it is used.
#include "mlf_firmware.h"

const char mlf_firmware_version[] = "";
const char mlf_firmware_commit[] = "";
