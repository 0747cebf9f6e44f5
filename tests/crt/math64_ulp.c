/* Measures one function of mlf/math64.h against the C library's long double: math64_ulp COUNT,
 * built with -DFUNCTION=mlf_tanh -DEXACT=tanhl, or -DPOWER for mlf_pow.
 *
 * Inputs are doubles of both signs whose exponents are spread over -40 to 1023, most of them near
 * 0; prints max_ulp=E at=X. Where long double is no longer than double the figure means little.
 * Exits 1 if a result is of the wrong kind. */
#include "mlf/math64.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t state = 1;

static uint64_t random_bits(void) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return state ^ (state >> 33);
}

/* A double with an exponent of -range to range, or, one time in eight, of any size upwards. */
static double random_double(int32_t range) {
  const uint64_t bits = random_bits();
  const uint64_t pick = random_bits() >> 20;
  const int32_t any = (int32_t)(pick % 1064u) - 40;
  const int32_t near = (int32_t)(pick % (uint64_t)(2 * range + 1)) - range;
  const int32_t exponent = (bits >> 40) % 8 == 0 ? any : near;
  const uint64_t mantissa = (bits & UINT64_C(0x000fffffffffffff)) | (bits & UINT64_C(1) << 63);
  return mlf_double_of_bits(mantissa | (uint64_t)(exponent + 1023) << 52);
}

static double spacing(long double v) {
  int exponent;
  (void)frexpl(v, &exponent);
  return ldexp(1.0, (exponent < -1021 ? -1021 : exponent) - 53);
}

static double error_of(double got, long double exact) {
  if (exact != exact) {
    return got != got ? 0.0 : HUGE_VAL;
  }
  if (exact >= 1.797693134862315807e308L || exact <= -1.797693134862315807e308L) {
    return got == HUGE_VAL || got == -HUGE_VAL ? 0.0 : 1.0;
  }
  if (got != got || got == HUGE_VAL || got == -HUGE_VAL) {
    return HUGE_VAL;
  }
  return exact == 0 ? (got == 0 ? 0.0 : HUGE_VAL)
                    : (double)(fabsl((long double)got - exact) / (long double)spacing(exact));
}

int main(int argc, char **argv) {
  const int32_t count = argc > 1 ? (int32_t)strtol(argv[1], NULL, 0) : 100000;
  double worst = 0.0;
  double at = 0.0;
  for (int32_t i = 0; i < count; i++) {
#ifdef POWER
    const double x = fabs(random_double(8));
    const double y = random_double(8);
    const double error = error_of(mlf_pow(x, y), powl((long double)x, (long double)y));
#else
    const double x = random_double(20);
    const double error = error_of(FUNCTION(x), EXACT((long double)x));
#endif
    if (error > worst) {
      worst = error;
      at = x;
    }
  }
  printf("max_ulp=%.3f at=%.17g\n", worst, at);
  return worst < HUGE_VAL ? 0 : 1;
}
