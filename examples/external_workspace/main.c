/* A gesture sensor whose hand lies still: the smallest program around a model. */
#include <stdint.h>

#include "platform.h"
#include "tvmgen_gesture_int8.h"

int main(void) {
  static int8_t acceleration[TVMGEN_GESTURE_INT8_ACCELERATION_SIZE];
  static int8_t probability[TVMGEN_GESTURE_INT8_PROBABILITY_SIZE];
  struct tvmgen_gesture_int8_inputs inputs = {
      .acceleration = TVMGEN_GESTURE_INT8_ACCELERATION_POINTER(acceleration)};
  struct tvmgen_gesture_int8_outputs outputs = {
      .probability = TVMGEN_GESTURE_INT8_PROBABILITY_POINTER(probability)};
  int32_t sum = 0;
  if (tvmgen_gesture_int8_run(&inputs, &outputs) != 0) {
    platform_complain("sensor: the model did not run\n");
    return 1;
  }
  /* Probabilities are (q + 128) / 256 each and one together, give or take their rounding. */
  for (int i = 0; i < TVMGEN_GESTURE_INT8_PROBABILITY_SIZE; i++) {
    sum += probability[i] + 128;
  }
  platform_print("sensor: one gesture judged\n");
  return sum >= 250 && sum <= 262 ? 0 : 1;
}
