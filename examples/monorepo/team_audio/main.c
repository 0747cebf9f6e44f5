/* All models of the team in one image, so that their sizes are those of a product. */
#include <stdint.h>

#include "tvmgen_keyword.h"
#include "tvmgen_noise_level.h"
#include "tvmgen_siren.h"
#include "tvmgen_speaker_count.h"
#include "tvmgen_wake_word.h"

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
  RUN(keyword);
  RUN(wake_word);
  RUN(noise_level);
  RUN(siren);
  RUN(speaker_count);
  return status != 0;
}
