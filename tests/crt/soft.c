/* mlf/soft.h against the processor's floats: finite numbers of every size, and their neighbours. */
#include "mlf/soft.h"

#include <stdio.h>
#include <stdlib.h>

#include "mlf/math.h"

static uint64_t state = 1;

static uint32_t draw(void) {
  uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return (uint32_t)(z ^ (z >> 31));
}

/* Any finite number; others of the sizes that cancel, of few bits, and zeros. */
static float draw_float(int k) {
  uint32_t bits = draw() % 0x7f800000u;
  if (k % 4 == 1) {
    bits = 0x3f800000u + (draw() % 0x02000000u) - 0x01000000u;
  } else if (k % 4 == 2) {
    bits &= 0x7ff00000u;
  } else if (k % 4 == 3) {
    bits = draw() % 16 ? bits % 0x01800000u : 0;
  }
  return mlf_float_of_bits(bits | (draw() & 0x80000000u));
}

static int differ(const char *what, float x, float y, float want, float got) {
  if (mlf_bits_of_float(want) == mlf_bits_of_float(got)) {
    return 0;
  }
  printf("%s %a %a: %a, expected %a\n", what, (double)x, (double)y, (double)got, (double)want);
  return 1;
}

int main(int argc, char **argv) {
  const int count = argc > 1 ? atoi(argv[1]) : 1000000;
  for (int k = 0; k < count; k++) {
    const float x = draw_float(k), y = draw_float(k / 4);
    const int32_t i = (int32_t)draw() >> (draw() % 32);
    const float few = x * 0.0f + (float)(i % 4096) / 8;
    const uint32_t any = k % 2 ? draw() % 0x43800000u : (draw() % 0x03000000u) + 0x40800000u;
    const float small = -mlf_float_of_bits(any);
    if (differ("add", x, y, x + y, mlf_soft_add(x, y)) ||
        differ("mul", x, y, x * y, mlf_soft_mul(x, y)) ||
        (y != 0 && differ("div", x, y, x / y, mlf_soft_div(x, y))) ||
        differ("of", (float)i, 0, (float)i, mlf_soft_of_int(i)) ||
        differ("exp", small, 0, mlf_expf(small), mlf_soft_exp(small)) ||
        mlf_quantize(x, 3, -128, 127) != mlf_soft_quantize(x, 3, -128, 127) ||
        mlf_quantize(few, 0, -128, 127) != mlf_soft_quantize(few, 0, -128, 127)) {
      printf("of %a and %a\n", (double)x, (double)y);
      return 1;
    }
  }
  return 0;
}
