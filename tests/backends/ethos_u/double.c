/* A double of the processor: it notes what it is launched with, and adds 1 to the bytes of `from`,
   which it stores at `to`. Regions and places are the test's. */
#include "tvm_ethosu_runtime.h"

#include <string.h>

uint8_t noted_commands[4096], noted_constants[4096];
uint64_t noted_bytes, noted_sizes[8];
int32_t noted_count, same_memory, misaligned, launches, is_open, status;
void *noted_context;
int32_t from_region, from_at, to_region, to_at, length;

int32_t TVMEthosULaunch(void *context, void *commands, size_t bytes, uint64_t *addresses,
                        size_t *sizes, int count) {
  memcpy(noted_commands, commands, bytes);
  memcpy(noted_constants, (void *)(uintptr_t)addresses[0], sizes[0]);
  noted_bytes = bytes;
  noted_count = count;
  noted_context = context;
  same_memory = addresses[1] == addresses[2];
  misaligned = ((uintptr_t)commands | addresses[0] | addresses[1] | addresses[2]) % 16 != 0;
  for (int k = 0; k < count && k < 8; k++) {
    noted_sizes[k] = sizes[k];
  }
  const uint8_t *const from = (const uint8_t *)(uintptr_t)addresses[from_region] + from_at;
  uint8_t *const to = (uint8_t *)(uintptr_t)addresses[to_region] + to_at;
  for (int32_t k = 0; k < length; k++) {
    to[k] = (uint8_t)(from[k] + 1);
  }
  launches++;
  return is_open ? status : -1;
}

int32_t TVMDeviceEthosUActivate(void *context) {
  (void)context;
  return 0;
}

int32_t TVMDeviceEthosUOpen(void *context) {
  (void)context;
  is_open = 1;
  return 0;
}

int32_t TVMDeviceEthosUClose(void *context) {
  (void)context;
  is_open = 0;
  return 0;
}

int32_t TVMDeviceEthosUDeactivate(void *context) {
  (void)context;
  return 0;
}
