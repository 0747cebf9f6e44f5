/* Sums, differences and conversions of double in place of libgcc's, on cores without a unit for it.
 *
 * libgcc's for Thumb-2 (ieee754-df.S, GCC 12) rounds some differences to the wrong neighbour: of
 * numbers whose exponents are 33 apart it keeps one bit too few of the smaller one, which decides
 * where the difference starts a bit lower: 1.0 - 0x1.711e34d55a3b2p-33. A board would give other
 * results than every other machine.
 *
 * All functions of libgcc's object are here, so that a linker needs none of it. Link this file into
 * firmware of your own, too, if your model computes in double. Arguments are bits, in the registers
 * that the ABI of these functions has also where floats are in others. */
#include <stdint.h>

#if defined(__GNUC__) && defined(__ARM_ARCH_ISA_THUMB) && __ARM_ARCH_ISA_THUMB >= 2 &&             \
    !(defined(__ARM_FP) && (__ARM_FP & 8))

#define SIGN     (UINT64_C(1) << 63)
#define INFINITE (UINT64_C(0x7ff) << 52)
#define QUIET    (UINT64_C(1) << 51)
#define FUNCTION __attribute__((used))
#define SAME(of) __attribute__((alias(#of), used))

/* Bits below a double's last, of which the lowest also stands for everything that was cut off. */
enum { kGuard = 10, kHalf = 1 << (kGuard - 1) };

uint64_t __aeabi_dadd(uint64_t a, uint64_t b);
uint64_t __aeabi_dsub(uint64_t a, uint64_t b);
uint64_t __aeabi_drsub(uint64_t a, uint64_t b);
uint64_t __aeabi_ui2d(uint32_t x);
uint64_t __aeabi_i2d(int32_t x);
uint64_t __aeabi_ul2d(uint64_t x);
uint64_t __aeabi_l2d(int64_t x);
uint64_t __aeabi_f2d(uint32_t x);
uint64_t __adddf3(uint64_t a, uint64_t b) SAME(__aeabi_dadd);
uint64_t __subdf3(uint64_t a, uint64_t b) SAME(__aeabi_dsub);
uint64_t __floatunsidf(uint32_t x) SAME(__aeabi_ui2d);
uint64_t __floatsidf(int32_t x) SAME(__aeabi_i2d);
uint64_t __floatundidf(uint64_t x) SAME(__aeabi_ul2d);
uint64_t __floatdidf(int64_t x) SAME(__aeabi_l2d);
uint64_t __extendsfdf2(uint32_t x) SAME(__aeabi_f2d);

/* The double of m * 2^(exponent - 1023 - 62), rounded to nearest, ties to even. Bit 62 of m is its
 * highest, unless the exponent is 1. */
static uint64_t rounded(uint64_t sign, uint64_t m, int32_t exponent) {
  const uint64_t rest = m & ((UINT64_C(1) << kGuard) - 1);
  m >>= kGuard;
  m += rest > kHalf || (rest == kHalf && (m & 1));
  return exponent >= 0x7ff ? sign | INFINITE : sign | (((uint64_t)(exponent - 1) << 52) + m);
}

/* The sum of a and b, of which a is not the smaller one in size. */
static uint64_t sum(uint64_t a, uint64_t b) {
  const uint64_t mask = (UINT64_C(1) << 52) - 1, sign = a & SIGN;
  int32_t exponent = (int32_t)(a >> 52 & 0x7ff), apart = (int32_t)(b >> 52 & 0x7ff);
  uint64_t m = a & mask, less = b & mask;
  if (exponent == 0x7ff) {
    if (m != 0) {
      return a | QUIET;
    }
    return (a ^ b) == SIGN ? INFINITE | QUIET : a; /* infinities of both signs */
  }
  m = (m | (uint64_t)(exponent > 0) << 52) << kGuard;
  less = (less | (uint64_t)(apart > 0) << 52) << kGuard;
  exponent = exponent > 0 ? exponent : 1;
  apart = exponent - (apart > 0 ? apart : 1);
  if (apart > 63) {
    less = less != 0;
  } else if (apart > 0) {
    less = less >> apart | (less << (64 - apart) != 0);
  }
  if ((a ^ b) & SIGN) {
    int32_t up;
    m -= less;
    if (m == 0) {
      return 0;
    }
    up = __builtin_clzll(m) - 1;
    up = up < exponent ? up : exponent - 1;
    m <<= up;
    exponent -= up;
  } else {
    m += less;
    if (m >> 63) {
      m = m >> 1 | (m & 1);
      exponent++;
    }
  }
  return rounded(sign, m, exponent);
}

FUNCTION uint64_t __aeabi_dadd(uint64_t a, uint64_t b) {
  return (a & ~SIGN) < (b & ~SIGN) ? sum(b, a) : sum(a, b);
}

FUNCTION uint64_t __aeabi_dsub(uint64_t a, uint64_t b) {
  return __aeabi_dadd(a, b ^ SIGN);
}

FUNCTION uint64_t __aeabi_drsub(uint64_t a, uint64_t b) {
  return __aeabi_dadd(b, a ^ SIGN);
}

/* A whole number. */
static uint64_t whole(uint64_t sign, uint64_t x) {
  const int32_t up = x == 0 ? 0 : __builtin_clzll(x);
  if (x == 0) {
    return 0;
  }
  x <<= up;
  return rounded(sign, x >> 1 | (x & 1), 1023 + 63 - up);
}

FUNCTION uint64_t __aeabi_ui2d(uint32_t x) {
  return whole(0, x);
}

FUNCTION uint64_t __aeabi_i2d(int32_t x) {
  return x < 0 ? whole(SIGN, 0u - (uint32_t)x) : whole(0, (uint32_t)x);
}

FUNCTION uint64_t __aeabi_ul2d(uint64_t x) {
  return whole(0, x);
}

FUNCTION uint64_t __aeabi_l2d(int64_t x) {
  return x < 0 ? whole(SIGN, 0u - (uint64_t)x) : whole(0, (uint64_t)x);
}

FUNCTION uint64_t __aeabi_f2d(uint32_t x) {
  const uint64_t sign = (uint64_t)(x & 0x80000000u) << 32, m = x & 0x7fffffu;
  const uint32_t exponent = x >> 23 & 0xffu;
  if (exponent == 0) { /* a subnormal is a whole number of 2^-149 */
    return m == 0 ? sign : whole(sign, m) - ((uint64_t)149 << 52);
  }
  if (exponent == 0xff) {
    return sign | INFINITE | m << 29 | (m != 0 ? QUIET : 0);
  }
  return sign | (uint64_t)(exponent + 896) << 52 | m << 29;
}

#else
typedef int mlf_no_double; /* C wants a declaration in every file */
#endif
