/* mlf_requantize_soft against the float form, near ties and far from them. */
#include <stdio.h>
#include <stdlib.h>

#include "mlf/requantize.h"

static uint64_t state = 1;

static uint64_t draw(void) {
  uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

/* Any positive normal number; every other one of the size that scales have. */
static float draw_scale(int k) {
  uint32_t bits = (uint32_t)(draw() % 0x7f7fffffu);
  float scale;
  if (k % 2) {
    bits = 0x3f800000u - (uint32_t)(draw() % 0x0f000000u);
  }
  if (bits < 0x00800000u) {
    bits += 0x00800000u;
  }
  memcpy(&scale, &bits, sizeof scale);
  return scale;
}

int main(int argc, char **argv) {
  const int count = argc > 1 ? atoi(argv[1]) : 1000000;
  for (int k = 0; k < count; k++) {
    const float scale = draw_scale(k);
    int32_t acc = (int32_t)(uint32_t)draw() >> (draw() % 32);
    const double tie = ((double)(draw() % 256) + 0.5) / (double)scale;
    if (k % 5 == 0 && tie < 2e9) {
      acc = (int32_t)tie * (draw() & 1 ? 1 : -1) + (int32_t)(draw() % 3) - 1;
    }
    if (mlf_requantize_wide(acc, scale, -3, -128, 127) !=
        mlf_requantize_soft(acc, scale, -3, -128, 127)) {
      printf("%d times %a\n", acc, (double)scale);
      return 1;
    }
  }
  return 0;
}
