/* Arithmetic of floats in integers, for processors without FPU: the bits that IEEE 754 defines, in
 * rounding to nearest with ties to even. Arguments are finite. Compilers bring a library for this,
 * which code without floats should not call. */
#ifndef MLF_SOFT_H_
#define MLF_SOFT_H_

#include "kernel.h"

/* Called in many places: once in memory is enough. */
#if defined(__GNUC__)
#define MLF_SOFT static __attribute__((noinline, unused))
#else
#define MLF_SOFT static inline
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* (-1)^sign * value * 2^exponent, of which a float has 24 bits of value. */
struct mlf_soft {
  uint32_t sign; /* 0 or 1 */
  uint32_t value;
  int32_t exponent;
};

static inline struct mlf_soft mlf_soft_of(float x) {
  const uint32_t bits = mlf_bits_of_float(x), field = bits >> 23 & 0xffu;
  struct mlf_soft s;
  s.sign = bits >> 31;
  s.value = (bits & 0x7fffffu) | (field ? 0x800000u : 0u);
  s.exponent = (field ? (int32_t)field : 1) - 150;
  return s;
}

/* value * 2^exponent rounded to a float; value < 2^63. */
MLF_SOFT float mlf_soft_round(uint32_t sign, uint64_t value, int32_t exponent) {
  const int32_t lead = value ? 63 - (int32_t)__builtin_clzll(value) : 0;
  /* To 24 bits, or to the last bit of a subnormal. */
  const int32_t cut = lead - 23 > -149 - exponent ? lead - 23 : -149 - exponent;
  uint32_t bits;
  if (value == 0 || cut > 63) {
    return mlf_float_of_bits(sign << 31);
  }
  if (cut > 0) {
    const uint64_t half = UINT64_C(1) << (cut - 1);
    const uint64_t rest = value & (2 * half - 1);
    value >>= cut;
    value += rest > half || (rest == half && (value & 1));
  } else {
    value <<= -cut;
  }
  if (exponent + cut > 104) {
    return mlf_float_of_bits(sign << 31 | 0x7f800000u);
  }
  /* The leading bit of a value adds one to the exponent's field, unless it is subnormal. */
  bits = ((uint32_t)(exponent + cut + 149) << 23) + (uint32_t)value;
  return mlf_float_of_bits(sign << 31 | (bits > 0x7f800000u ? 0x7f800000u : bits));
}

/* x as a float. */
static inline float mlf_soft_of_int(int32_t x) {
  return mlf_soft_round(x < 0, x < 0 ? 0u - (uint32_t)x : (uint32_t)x, 0);
}

/* x * y */
MLF_SOFT float mlf_soft_mul(float x, float y) {
  const struct mlf_soft a = mlf_soft_of(x), b = mlf_soft_of(y);
  return mlf_soft_round(a.sign ^ b.sign, (uint64_t)a.value * b.value, a.exponent + b.exponent);
}

/* x + y: both with 38 more bits; bits shifted out of the smaller one stay as its last bit. */
MLF_SOFT float mlf_soft_add(float x, float y) {
  const int is_swapped =
      (mlf_bits_of_float(x) & 0x7fffffffu) < (mlf_bits_of_float(y) & 0x7fffffffu);
  const struct mlf_soft a = mlf_soft_of(is_swapped ? y : x), b = mlf_soft_of(is_swapped ? x : y);
  const int32_t by = a.exponent - b.exponent;
  const uint64_t large = (uint64_t)a.value << 38;
  uint64_t small = (uint64_t)b.value << 38;
  small = by > 62 ? small != 0 : small >> by | ((small & ((UINT64_C(1) << by) - 1)) != 0);
  if (a.sign == b.sign) {
    return mlf_soft_round(a.sign, large + small, a.exponent - 38);
  }
  return mlf_soft_round(large == small ? 0 : a.sign, large - small, a.exponent - 38);
}

/* x / y by the school's method, both with their leading bits in one place; y is not zero. */
MLF_SOFT float mlf_soft_div(float x, float y) {
  const struct mlf_soft a = mlf_soft_of(x), b = mlf_soft_of(y);
  const int32_t up = a.value ? (int32_t)__builtin_clz(a.value) - 8 : 0;
  const int32_t down = (int32_t)__builtin_clz(b.value) - 8;
  const uint32_t divisor = b.value << down;
  uint32_t rest = a.value << up, quotient = 0;
  for (int i = 0; i < 27; i++) {
    quotient <<= 1;
    if (rest >= divisor) {
      rest -= divisor;
      quotient |= 1;
    }
    rest <<= 1;
  }
  return mlf_soft_round(a.sign ^ b.sign, (uint64_t)quotient << 1 | (rest != 0),
                        (a.exponent - up) - (b.exponent - down) - 27);
}

/* mlf_quantize */
static inline int32_t mlf_soft_quantize(float x, int32_t zero_point, int32_t low, int32_t high) {
  const struct mlf_soft s = mlf_soft_of(x);
  int32_t value = 0;
  if (s.exponent >= 0) {
    value = s.value == 0 ? 0 : s.exponent > 5 ? 1 << 29 : (int32_t)s.value << s.exponent;
  } else if (s.exponent > -25) {
    const uint32_t half = 1u << (-s.exponent - 1);
    const uint32_t rest = s.value & (2 * half - 1);
    value = (int32_t)(s.value >> -s.exponent);
    value += rest > half || (rest == half && (value & 1));
  }
  return mlf_clamp_i32((s.sign ? -value : value) + zero_point, low, high);
}

/* mlf_expf(x) for x <= 0: its operations in its order, see math.h. */
MLF_SOFT float mlf_soft_exp(float x) {
  const float magic = 12582912.0f;
  const uint32_t magnitude = mlf_bits_of_float(x) & 0x7fffffffu;
  const float shifted = mlf_soft_add(mlf_soft_mul(x, 1.44269504f), magic);
  const float kf = mlf_soft_add(shifted, -magic);
  const int32_t k = (int32_t)(mlf_bits_of_float(shifted) - 0x4b400000u);
  float r = mlf_soft_add(x, mlf_soft_mul(kf, -0.693145752f));
  float p = 0.0013818741f;
  if (magnitude > 0x42cff1b4u) { /* x < -103.972076 */
    return 0.0f;
  }
  r = mlf_soft_add(r, mlf_soft_mul(kf, -1.42860677e-6f));
  p = mlf_soft_add(mlf_soft_mul(p, r), 0.0083687212f);
  p = mlf_soft_add(mlf_soft_mul(p, r), 0.0416682921f);
  p = mlf_soft_add(mlf_soft_mul(p, r), 0.1666652113f);
  p = mlf_soft_add(mlf_soft_mul(p, r), 0.4999999404f);
  p = mlf_soft_mul(mlf_soft_mul(r, r), p);
  p = mlf_soft_add(1.0f, mlf_soft_add(r, p));
  if (magnitude <= 0x42aeac4fu) { /* a normal result */
    return mlf_float_of_bits(mlf_bits_of_float(p) + ((uint32_t)k << 23));
  }
  p = mlf_float_of_bits(mlf_bits_of_float(p) + ((uint32_t)(k + 32) << 23));
  return mlf_soft_mul(p, 2.32830644e-10f); /* 2^-32 */
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_SOFT_H_ */
