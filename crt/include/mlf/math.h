/* Elementary functions of float with the same bits on every target, at most 1 ULP off.
 *
 * C libraries disagree in the last bits of expf and its kin, so a network would give other results
 * on the host than on the device. These versions use only float +, -, * and integer operations,
 * which IEEE 754 and C define exactly. Hardware must not flush subnormals to zero.
 *
 * -DMLF_USE_LIBM takes the platform's functions instead, where speed or size of a vendor's library
 * counts more than equal bits.
 */
#ifndef MLF_MATH_H_
#define MLF_MATH_H_

#include "exp.h"
#include "kernel.h"
#include "math64.h"
#include "root.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifdef MLF_USE_LIBM

static inline float mlf_expm1f(float x) {
  return expm1f(x);
}

static inline float mlf_logf(float x) {
  return logf(x);
}

static inline float mlf_log1pf(float x) {
  return log1pf(x);
}

static inline float mlf_sinf(float x) {
  return sinf(x);
}

static inline float mlf_cosf(float x) {
  return cosf(x);
}

static inline float mlf_tanf(float x) {
  return tanf(x);
}

static inline float mlf_asinf(float x) {
  return asinf(x);
}

static inline float mlf_acosf(float x) {
  return acosf(x);
}

static inline float mlf_atanf(float x) {
  return atanf(x);
}

static inline float mlf_sinhf(float x) {
  return sinhf(x);
}

static inline float mlf_coshf(float x) {
  return coshf(x);
}

static inline float mlf_tanhf(float x) {
  return tanhf(x);
}

static inline float mlf_asinhf(float x) {
  return asinhf(x);
}

static inline float mlf_acoshf(float x) {
  return acoshf(x);
}

static inline float mlf_atanhf(float x) {
  return atanhf(x);
}

static inline float mlf_erff(float x) {
  return erff(x);
}

static inline float mlf_powf(float x, float y) {
  return powf(x, y);
}

#else

/* The sum of `a` and `b`; adds its rounding error to *lost (Knuth's two-sum). */
static inline float mlf_add_exactly_(float a, float b, float *lost) {
  const float sum = a + b;
  const float part = sum - a;
  *lost += (a - (sum - part)) + (b - part);
  return sum;
}

/* The same where |a| >= |b| or a is 0 (Dekker's). */
static inline float mlf_add_smaller_(float a, float b, float *lost) {
  const float sum = a + b;
  *lost += b - (sum - a);
  return sum;
}

/* a * b - product, exactly, where `product` is a * b rounded. */
static inline float mlf_lost_product_(float a, float b, float product) {
#if defined(__FP_FAST_FMAF)
  return fmaf(a, b, -product);
#else
  /* With both cut in halves all products and sums are exact (Dekker). */
  const float a_top = mlf_float_of_bits(mlf_bits_of_float(a) & 0xfffff000u);
  const float b_top = mlf_float_of_bits(mlf_bits_of_float(b) & 0xfffff000u);
  const float a_rest = a - a_top, b_rest = b - b_top;
  return ((a_top * b_top - product) + a_top * b_rest + a_rest * b_top) + a_rest * b_rest;
#endif
}

/* e^x - 1 for -87 < x < 87 as the sum of the result and *lost, good to 27 bits: (2^k - 1) +
 * 2^k (r + r^2 / 2 + r^3 ...), where the first and the largest terms are exact and are added with
 * their rounding errors. `rises` says that x is not negative. */
static inline float mlf_expm1_as_sum_(float x, int32_t rises, float *lost) {
  int32_t k;
  float r, top, sum, high, low;
  const float p = mlf_exp_tail_(x, &k, &r, &high, &low);
  const float power = mlf_scale_exponent_(1.0f, k);
  /* What the reduction lost when it subtracted the low part of k ln 2. */
  *lost = (high - r - low) * power;
  sum = rises ? mlf_add_smaller_(power, -1.0f, lost) : mlf_add_exactly_(power, -1.0f, lost);
  sum = mlf_add_smaller_(sum, power * r, lost);
  /* r^2 / 2 of r's upper half is exact; P begins with 1/2, less 2^-24. */
  top = mlf_float_of_bits(mlf_bits_of_float(r) & 0xfffff000u);
  sum = mlf_add_smaller_(sum, power * (0.5f * top * top), lost);
  *lost += power * (0.5f * (r - top) * (r + top) + r * r * (p - 0.5f));
  top = sum + *lost;
  *lost -= top - sum;
  return top;
}

static inline float mlf_expm1f(float x) {
  float lost;
  if (!(x > -17.5f && x < 40.0f)) { /* also nan */
    return mlf_expf(x) - 1.0f;
  }
  if (x == 0) {
    return x;
  }
  return mlf_expm1_as_sum_(x, 0, &lost);
}

/* tanh(x) = t / (t + 2) with t = e^2x - 1, for 0 < x <= MLF_TANH_MOST_; the quotient's remainder is
 * put back. */
static inline float mlf_tanh_within_(float x) {
  float t_lost, d_lost, q, product;
  const float t = mlf_expm1_as_sum_(2.0f * x, 1, &t_lost);
  float d;
  d_lost = t_lost;
  d = mlf_add_exactly_(2.0f, t, &d_lost);
  q = t / d;
  product = q * d;
  t_lost -= q * d_lost;
  t_lost -= mlf_lost_product_(q, d, product);
  return q + ((t - product) + t_lost) / d;
}

#define MLF_TANH_LEAST_ 0.00024414062f /* 2^-12: the next term, x^3 / 3, is too small below it */
#define MLF_TANH_MOST_  9.1f           /* all above give 1 */

static inline float mlf_tanhf(float x) {
  const float size = fabsf(x);
#if MLF_SELECTS
  float y = mlf_tanh_within_(mlf_select_(size < MLF_TANH_MOST_, size, MLF_TANH_MOST_));
  y = mlf_select_(size > MLF_TANH_MOST_, 1.0f, y);
  y = mlf_select_(x < 0, -y, y);
  return mlf_select_(size >= MLF_TANH_LEAST_, y, x); /* also nan */
#else
  float y;
  if (!(size >= MLF_TANH_LEAST_)) { /* also nan */
    return x;
  }
  if (size > MLF_TANH_MOST_) {
    return x < 0 ? -1.0f : 1.0f;
  }
  y = mlf_tanh_within_(size);
  return x < 0 ? -y : y;
#endif
}

/* The others go by way of double, which leaves nothing to lose in the last rounding. */
static inline float mlf_logf(float x) {
  return (float)mlf_log((double)x);
}

static inline float mlf_log1pf(float x) {
  return (float)mlf_log1p((double)x);
}

static inline float mlf_sinf(float x) {
  return (float)mlf_sin((double)x);
}

static inline float mlf_cosf(float x) {
  return (float)mlf_cos((double)x);
}

static inline float mlf_tanf(float x) {
  return (float)mlf_tan((double)x);
}

static inline float mlf_asinf(float x) {
  return (float)mlf_asin((double)x);
}

static inline float mlf_acosf(float x) {
  return (float)mlf_acos((double)x);
}

static inline float mlf_atanf(float x) {
  return (float)mlf_atan((double)x);
}

static inline float mlf_sinhf(float x) {
  return (float)mlf_sinh((double)x);
}

static inline float mlf_coshf(float x) {
  return (float)mlf_cosh((double)x);
}

static inline float mlf_asinhf(float x) {
  return (float)mlf_asinh((double)x);
}

static inline float mlf_acoshf(float x) {
  return (float)mlf_acosh((double)x);
}

static inline float mlf_atanhf(float x) {
  return (float)mlf_atanh((double)x);
}

/* erf from three polynomials of tools/minimax.py: x + x P(x^2) below 5/8; around 15/16 one whose
 * first constant is added last, in two parts; above 5/4 the logarithm of erfc, which is too small
 * there for errors to matter. From 3.92 on every result rounds to 1. At most 1 ULP from the exact
 * value for every float. */
static inline float mlf_erff_small_(float x) {
  const float u = x * x;
  float p = -7.1917276e-04f;
  p = p * u + 5.1618326e-03f;
  p = p * u - 2.6852356e-02f;
  p = p * u + 1.1283642e-01f;
  p = p * u - 3.7612632e-01f;
  p = p * u + 1.2837917e-01f;
  return x + x * p;
}

static inline float mlf_erff_middle_(float size) {
  const float u = size - 0.9375f;
  float p = 1.6632602e-02f;
  p = p * u - 3.1540357e-03f;
  p = p * u - 6.9560334e-02f;
  p = p * u + 9.098017e-02f;
  p = p * u + 1.18354745e-01f;
  p = p * u - 4.3926132e-01f;
  p = p * u + 4.685446e-01f;
  return 8.151024e-01f + (p * u + 4.966537e-09f);
}

static inline float mlf_erff_large_(float size) {
  const float u = size - 1.25f;
  float p = -1.2110173e-05f, y;
  int32_t k;
  p = p * u + 1.8879237e-04f;
  p = p * u - 1.4419096e-03f;
  p = p * u + 7.5743035e-03f;
  p = p * u - 3.2537725e-02f;
  p = p * u - 8.708596e-01f;
  p = p * u - 3.0677178e+00f;
  p = p * u - 2.5626538e+00f;
  y = mlf_exp_reduced_(p, &k);
  return 1.0f - mlf_scale_exponent_(y, k);
}

static inline float mlf_erff(float x) {
  const float size = fabsf(x);
#if MLF_SELECTS
  float y = mlf_erff_large_(mlf_select_(size < 3.92f, size, 3.92f));
  y = mlf_select_(size >= 3.92f, 1.0f, y);
  y = mlf_select_(size < 1.25f, mlf_erff_middle_(size), y);
  y = mlf_select_(x < 0.0f, -y, y);
  y = mlf_select_(size < 0.625f, mlf_erff_small_(x), y);
  return mlf_select_(x != x, x + x, y);
#else
  float y;
  if (size < 0.625f) {
    return mlf_erff_small_(x);
  }
  if (!(size < 3.92f)) { /* or nan */
    return size >= 3.92f ? (x < 0.0f ? -1.0f : 1.0f) : x + x;
  }
  y = size < 1.25f ? mlf_erff_middle_(size) : mlf_erff_large_(size);
  return x < 0.0f ? -y : y;
#endif
}

static inline float mlf_powf(float x, float y) {
  return (float)mlf_pow((double)x, (double)y);
}

#endif /* MLF_USE_LIBM */

/* Rounding to integers: exact, and a few instructions where C's own would be calls. From 2^23 on,
 * or 2^52 for double, every number is an integer. */
#define MLF_ROUNDING_(floating, suffix, integer, limit) \
  static inline floating mlf_ceil##suffix(floating x) { \
    const floating size = x < 0 ? -x : x; \
    floating y; \
    if (!(size < (limit))) { \
      return x; \
    } \
    y = (floating)(integer)x; \
    y = y < x ? y + 1 : y; \
    return y != 0 ? y : x * 0; /* the zero has x's sign */ \
  } \
  static inline floating mlf_floor##suffix(floating x) { \
    return -mlf_ceil##suffix(-x); \
  } \
  static inline floating mlf_rint##suffix(floating x) { \
    const floating size = x < 0 ? -x : x; \
    floating y; \
    if (!(size < (limit))) { \
      return x; \
    } \
    y = (size + (limit)) - (limit); /* the sum has no place for a fraction */ \
    return x < 0 ? -y : (y != 0 ? y : x * 0); \
  } \
  /* The remainder with the sign of y, as ONNX's Mod without fmod. */ \
  static inline floating mlf_mod##suffix(floating x, floating y) { \
    const floating r = fmod##suffix(x, y); \
    return r != 0 && (r < 0) != (y < 0) ? r + y : (r != 0 || r != r ? r : y * 0); \
  }
MLF_ROUNDING_(float, f, int32_t, 8388608.0f)
MLF_ROUNDING_(double, , int64_t, 4503599627370496.0)
#undef MLF_ROUNDING_

/* base^exponent modulo 2^64; a negative exponent gives the integer part of the power. */
static inline uint64_t mlf_pow_integer(int64_t base, int64_t exponent) {
  uint64_t result = 1;
  uint64_t square = (uint64_t)base;
  if (exponent < 0) {
    if (base != 1 && base != -1) {
      return 0;
    }
    exponent &= 1;
  }
  while (exponent) {
    result *= exponent & 1 ? square : 1u;
    square *= square;
    exponent >>= 1;
  }
  return result;
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_MATH_H_ */
