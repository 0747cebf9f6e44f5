/* All models of the team in one image, so that their sizes are those of a product. */
#include <stdint.h>

#include "tvmgen_fall.h"
#include "tvmgen_gesture.h"
#include "tvmgen_posture.h"
#include "tvmgen_step_counter.h"
#include "tvmgen_tap.h"

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
  RUN(gesture);
  RUN(step_counter);
  RUN(fall);
  RUN(tap);
  RUN(posture);
  return status != 0;
}
