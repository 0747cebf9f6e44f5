/* All models of the team in one image, so that their sizes are those of a product. */
#include <stdint.h>

#include "tvmgen_air_quality.h"
#include "tvmgen_door.h"
#include "tvmgen_leak.h"
#include "tvmgen_presence.h"
#include "tvmgen_soil.h"

/* As large as the largest input and output. */
static float x[48];
static float y[8];

#define RUN(module)                                                                                \
  do {                                                                                             \
    struct tvmgen_##module##_inputs inputs = {.x = x};                                             \
    struct tvmgen_##module##_outputs outputs = {.y = y};                                           \
    status |= tvmgen_##module##_run(&inputs, &outputs);                                            \
  } while (0)

int main(void) {
  int32_t status = 0;
  RUN(presence);
  RUN(air_quality);
  RUN(leak);
  RUN(door);
  RUN(soil);
  return status != 0;
}
