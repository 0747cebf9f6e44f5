/* Measures one function of mlf/math.h: math_ulp [FIRST [STRIDE [COUNT]]], built with
 * -DFUNCTION=mlf_tanhf -DEXACT=tanh.
 *
 * Walks bit patterns FIRST, FIRST + STRIDE, ... (COUNT of them; default: all 2^32) and prints
 *   inputs=N max_ulp=E at=0xBITS hash=H
 * The error is |result - exact| in units of the spacing of floats at the exact value. The reference
 * is the C library's double function, itself within a few ULP of double, so E is uncertain by 2^-27
 * only. `hash` runs over all result bits but those of nans: two targets that print the same hash
 * computed the same. Exits 1 if a result is more than 1 ULP off, or wrong in kind (nan, inf, sign).
 */
#include "mlf/math.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The distance between neighbouring floats at the exact value `v`. */
static double spacing(double v) {
  int exponent;
  (void)frexp(v, &exponent); /* |v| in [2^(exponent-1), 2^exponent) */
  return ldexp(1.0, (exponent < -125 ? -125 : exponent) - 24);
}

/* Error in ULP; infinity when the result is of the wrong kind. */
static double error_of(float x, float got) {
  const double exact = EXACT((double)x);
  const double largest = ldexp(1.0, 128) - ldexp(1.0, 103); /* rounds to infinity from here on */
  if (exact != exact) {
    return got != got ? 0.0 : HUGE_VAL;
  }
  if (got != got || (signbit(got) != 0) != (signbit(exact) != 0)) {
    return HUGE_VAL;
  }
  if (exact >= largest || exact <= -largest) {
    return got == HUGE_VALF || got == -HUGE_VALF ? 0.0 : HUGE_VAL;
  }
  if (got == HUGE_VALF || got == -HUGE_VALF) {
    return HUGE_VAL;
  }
  return exact == 0.0 ? (got == 0.0f ? 0.0 : HUGE_VAL) : fabs((double)got - exact) / spacing(exact);
}

int main(int argc, char **argv) {
  const uint32_t first = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 0) : 0u;
  const uint32_t stride = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 0) : 1u;
  const uint64_t count = argc > 3 ? strtoull(argv[3], NULL, 0) : (uint64_t)1 << 32;
  double worst = 0.0;
  uint32_t worst_bits = first;
  uint32_t bits = first;
  uint32_t hash = 2166136261u; /* FNV-1a over 32-bit words */
  uint64_t i;
  for (i = 0; i < count; i++, bits += stride) {
    const float x = mlf_float_of_bits(bits);
    const float got = FUNCTION(x);
    const double error = error_of(x, got);
    hash = (hash ^ (got != got ? 0x7fc00000u : mlf_bits_of_float(got))) * 16777619u;
    if (error > worst) {
      worst = error;
      worst_bits = bits;
    }
  }
  printf("inputs=%llu max_ulp=%.6f at=0x%08x hash=%08x\n", (unsigned long long)count, worst,
         (unsigned)worst_bits, (unsigned)hash);
  return worst <= 1.0 ? 0 : 1;
}
