/* mlf_multiply_add without an instruction for it has the bits of the C library's fmaf. */
#undef __FP_FAST_FMAF
#include <math.h>
#include <mlf/multiply_add.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t state = 1;

static uint32_t draw(void) {
  state ^= state << 13;
  state ^= state >> 17;
  return state ^= state << 5;
}

static uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return x != x ? 0x7fc00000u : bits;
}

/* Any float, or one near 1, whose mantissa often ends in zeros: sums are then ties. */
static float some(void) {
  uint32_t bits = draw();
  const uint32_t kind = draw() % 4;
  float x;
  if (kind) {
    bits = (bits & 0x80ffffffu) | (0x3f800000u + ((draw() % 60 - 30) << 23));
  }
  bits &= kind == 2 ? 0xfffff000u : kind == 3 ? 0xffff0000u : 0xffffffffu;
  memcpy(&x, &bits, sizeof x);
  return x;
}

int main(int argc, char **argv) {
  for (long k = 0; k < (argc > 1 ? atol(argv[1]) : 1000); k++) {
    const float a = some(), b = some(), c = some();
    if (bits_of(mlf_multiply_add(a, b, c)) != bits_of(fmaf(a, b, c))) {
      printf("%a * %a + %a\n", (double)a, (double)b, (double)c);
      return 1;
    }
  }
  return 0;
}
