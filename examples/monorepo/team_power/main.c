/* All models of the team in one image, so that their sizes are those of a product. */
#include <stdint.h>

#include "tvmgen_arc_fault.h"
#include "tvmgen_battery.h"
#include "tvmgen_load_shift.h"
#include "tvmgen_meter.h"
#include "tvmgen_solar.h"

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
  RUN(battery);
  RUN(load_shift);
  RUN(arc_fault);
  RUN(meter);
  RUN(solar);
  return status != 0;
}
