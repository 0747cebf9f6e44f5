/* Square roots without errno.
 *
 * C's sqrtf sets it of a negative number, for which newlib links 1 KB of RAM. The instruction does
 * not, and cores without one compute digits here.
 */
#ifndef MLF_ROOT_H_
#define MLF_ROOT_H_

#include "kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The root of `x`, rounded to the nearest. */
static inline float mlf_sqrtf(float x) {
#if defined(MLF_ROOT_BY_DIGITS) || defined(__SOFTFP__) || \
    (defined(__riscv) && !defined(__riscv_flen))
  const uint32_t bits = mlf_bits_of_float(x);
  if (bits > 0x80000000u) {
    return x + NAN; /* negative, or a nan */
  }
  if ((bits & 0x7fffffffu) == 0 || bits >= 0x7f800000u) {
    return x + x;
  }
  uint32_t exponent = bits >> 23, rest = bits & 0x7fffffu;
  if (exponent == 0) {
    for (exponent = 1; rest < 0x800000u; rest <<= 1) {
      exponent--; /* wraps around, and back below */
    }
  } else {
    rest |= 0x800000u;
  }
  /* x = rest * 2^(exponent - 150); of 2^25 * rest or 2^26 * rest, whichever leaves an even power,
   * the root has 25 binary digits, the last of which rounds: it is no tie. `rest` is what is left
   * after `root`, divided by the digit that comes next. */
  rest <<= 1 + (1 - (exponent & 1));
  uint32_t root = 0;
  for (uint32_t digit = UINT32_C(1) << 24; digit != 0; digit >>= 1) {
    if (rest >= 2 * root + digit) {
      rest -= 2 * root + digit;
      root += digit;
    }
    rest <<= 1;
  }
  exponent = (exponent + 125 + (exponent & 1)) >> 1;
  return mlf_float_of_bits((exponent << 23) + ((root + 1) >> 1));
#elif defined(__GNUC__) && defined(__arm__) && defined(__ARM_FP) && (__ARM_FP & 4)
  __asm__("vsqrt.f32 %0, %1" : "=t"(x) : "t"(x));
  return x;
#elif defined(__GNUC__) && defined(__riscv)
  __asm__("fsqrt.s %0, %1" : "=f"(x) : "f"(x));
  return x;
#else
  return sqrtf(x);
#endif
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_ROOT_H_ */
