/* A pump monitor: two networks in one image.
 *
 * One reads the pump's mechanical counter digit by digit, the other listens to its bearings. Each
 * has its weights in flash and its own working memory; neither knows of the other. The same source
 * runs on the computer and on a board: platform.h hides which of the two it is.
 */
#include <stdint.h>

#include "platform.h"
#include "samples.h"
#include "tvmgen_digits_int8.h"
#include "tvmgen_vibration_int8.h"

enum { kDigits = TVMGEN_DIGITS_INT8_PROBABILITY_SIZE, kBands = TVMGEN_VIBRATION_INT8_LEVELS_SIZE };

/* The sound motors in training stay below this with 99 of 100 windows; training/vibration.py. */
enum { kAlarm = 1486 };

static void print_number(int32_t value, int width) {
  char text[12] = {0};
  char *first = &text[11];
  do {
    *--first = (char)('0' + value % 10);
    value /= 10;
    width--;
  } while (value > 0);
  while (width-- > 0) {
    *--first = ' ';
  }
  platform_print(first);
}

/* All images side by side, two characters per pixel. */
static void draw_images(void) {
  for (int row = 0; row < 8; row++) {
    for (int image = 0; image < kImages; image++) {
      for (int column = 0; column < 8; column++) {
        const char ink = " .-+#"[images[image][8 * row + column] / 4];
        platform_print((const char[]){ink, ink, '\0'});
      }
    }
    platform_print("\n");
  }
}

/* The digit an image shows, or -1. `percent` is how sure the network is of it. */
static int read_digit(const int8_t *image, int32_t *percent) {
  int8_t probability[kDigits]; /* (q + 128) / 256 */
  int best = 0;
  struct tvmgen_digits_int8_inputs inputs = {.image = TVMGEN_DIGITS_INT8_IMAGE_POINTER(image)};
  struct tvmgen_digits_int8_outputs outputs = {
      .probability = TVMGEN_DIGITS_INT8_PROBABILITY_POINTER(probability)};
  if (tvmgen_digits_int8_run(&inputs, &outputs) != 0) {
    return -1;
  }
  for (int digit = 1; digit < kDigits; digit++) {
    if (probability[digit] > probability[best]) {
      best = digit;
    }
  }
  *percent = (probability[best] + 128) * 100 / 256;
  return best;
}

/* How badly the network redraws a window, in squared counts summed over the bands, or -1.
 * Levels and reconstruction share one scale, so integers can be subtracted. */
static int32_t strangeness(const int8_t *levels) {
  int8_t reconstruction[kBands];
  int32_t sum = 0;
  struct tvmgen_vibration_int8_inputs inputs = {
      .levels = TVMGEN_VIBRATION_INT8_LEVELS_POINTER(levels),
  };
  struct tvmgen_vibration_int8_outputs outputs = {
      .reconstruction = TVMGEN_VIBRATION_INT8_RECONSTRUCTION_POINTER(reconstruction)};
  if (tvmgen_vibration_int8_run(&inputs, &outputs) != 0) {
    return -1;
  }
  for (int band = 0; band < kBands; band++) {
    const int32_t difference = levels[band] - reconstruction[band];
    sum += difference * difference;
  }
  return sum;
}

/* The number of digits that were misread. */
static int read_counter(void) {
  int wrong = 0;
  platform_print("counter: ");
  for (int i = 0; i < kImages; i++) {
    int32_t percent = 0;
    const int digit = read_digit(images[i], &percent);
    const char text[] = {(char)(digit < 0 ? '?' : '0' + digit), '\0'};
    platform_print(text);
    platform_print(" (");
    print_number(percent, 2);
    platform_print(" %) ");
    wrong += text[0] != shown[i];
  }
  platform_print("\n");
  return wrong;
}

/* The number of windows that were misjudged. */
static int listen(void) {
  int wrong = 0;
  for (int i = 0; i < kWindows; i++) {
    const int32_t error = strangeness(windows[i]);
    const int alarming = error < 0 || error > kAlarm;
    platform_print("bearing: error ");
    print_number(error, 5);
    platform_print(alarming ? "  ALARM\n" : "  sound\n");
    wrong += alarming != worn[i];
  }
  return wrong;
}

int main(void) {
  int wrong;
  draw_images();
  wrong = read_counter();
  wrong += listen();
  platform_print(wrong == 0 ? "two_models: all as expected\n" : "two_models: WRONG\n");
  return wrong == 0 ? 0 : 1;
}
