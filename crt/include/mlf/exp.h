/* e^x of float with the same bits on every target; the other functions are in math.h.
 *
 * MLF_USE_LIBM takes the C library's.
 */
#ifndef MLF_EXP_H_
#define MLF_EXP_H_

#include "kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifdef MLF_USE_LIBM

static inline float mlf_expf(float x) {
  return expf(x);
}

#else

/* Compilers make vectors of loops whose functions select results instead of jumping; a processor
 * without vectors rather jumps. Both forms give the same bits (tests/crt/test_math.py). */
#if !defined(MLF_SELECTS)
#if defined(__SSE2__)
#define MLF_SELECTS 1
#else
#define MLF_SELECTS 0
#endif
#endif

/* condition ? a : b, in integers: of floats that only one side needs compilers make a jump, since
 * they might trap. */
static inline float mlf_select_(int32_t condition, float a, float b) {
  const uint32_t mask = 0u - (uint32_t)condition;
  return mlf_float_of_bits((mlf_bits_of_float(a) & mask) | (mlf_bits_of_float(b) & ~mask));
}

/* exp(x) for |x| < 128 as (1 + r + r^2 P(r)) * 2^k: returns P(r), stores k, r and what x less the
 * high part of k ln 2 and the low part are, whose difference r is.
 *
 * Cody and Waite's reduction: k = round(x / ln 2) and r = x - k * ln 2 in two steps. The high part
 * of ln 2 has 16 significant bits, so its product with k (at most 8 bits) and the subtraction are
 * exact; the low part brings the rest. Then exp(r) = 1 + r + r^2 * P(r), P a degree-4 minimax
 * polynomial fitted for |r| <= ln 2 / 2 with its coefficients rounded to float one after the other
 * (error of the fit: 2^-28.2). */
static inline float mlf_exp_tail_(float x, int32_t *k, float *rest, float *high, float *low) {
  const float shifted = x * 1.44269504f + 12582912.0f; /* mlf_round_even, keeping the float */
  const float kf = shifted - 12582912.0f;
  const float above = x - kf * 0.693145752f, below = kf * 1.42860677e-6f;
  const float r = above - below;
  float p = 0.0013818741f;
  p = p * r + 0.0083687212f;
  p = p * r + 0.0416682921f;
  p = p * r + 0.1666652113f;
  p = p * r + 0.4999999404f;
  *k = (int32_t)(mlf_bits_of_float(shifted) - 0x4b400000u);
  *rest = r;
  *high = above;
  *low = below;
  return p;
}

static inline float mlf_exp_reduced_(float x, int32_t *k) {
  float r, high, low;
  const float p = mlf_exp_tail_(x, k, &r, &high, &low);
  return 1.0f + (r + r * r * p);
}

/* y * 2^k by adding to the exponent field; the result must be a normal float. */
static inline float mlf_scale_exponent_(float y, int32_t k) {
  return mlf_float_of_bits(mlf_bits_of_float(y) + ((uint32_t)k << 23));
}

/* The last float whose exp is finite, and one below ln(2^-150): nearer to 0 than to a subnormal. */
#define MLF_EXP_MOST_  88.7228317f
#define MLF_EXP_LEAST_ (-103.972076f)

/* mlf_expf where the result may not be a normal float: |x| > 87.33 or nan. */
static inline float mlf_exp_edge_(float x) {
  int32_t k;
  float y;
  if (x != x) {
    return mlf_float_of_bits(mlf_bits_of_float(x) | 0x00400000u); /* the same nan, quiet */
  }
  if (x > MLF_EXP_MOST_) {
    return mlf_float_of_bits(0x7f800000u);
  }
  if (x < MLF_EXP_LEAST_) {
    return 0.0f;
  }
  y = mlf_exp_reduced_(x, &k);
  if (k > 0) {
    return mlf_scale_exponent_(y, k);
  }
  /* Stay normal on the way down; the last product is exact or rounds once to a subnormal. */
  return mlf_scale_exponent_(y, k + 32) * 2.32830644e-10f; /* 2^-32 */
}

/* e^x, at most 1 ULP from the exact value for every float (tests/crt/math_ulp.c tries all 2^32).
 * inf gives inf, -inf gives 0, nan gives a quiet nan, overflow gives inf, tiny results are
 * subnormal.
 */
#if MLF_SELECTS
static inline float mlf_expf(float x) {
  const float up = mlf_select_(x > MLF_EXP_LEAST_, x, MLF_EXP_LEAST_);
  int32_t k;
  float y = mlf_exp_reduced_(mlf_select_(up < MLF_EXP_MOST_, up, MLF_EXP_MOST_), &k);
  /* Stay normal on the way down; the product is exact or rounds once to a subnormal. */
  y = mlf_scale_exponent_(y, k + (k < 0) * 32) * mlf_select_(k < 0, 2.32830644e-10f, 1.0f);
  y = mlf_select_(x > MLF_EXP_MOST_, mlf_float_of_bits(0x7f800000u), y);
  y = mlf_select_(x < MLF_EXP_LEAST_, 0.0f, y);
  return mlf_select_(x != x, mlf_float_of_bits(mlf_bits_of_float(x) | 0x00400000u), y);
}
#else
static inline float mlf_expf(float x) {
  const uint32_t magnitude = mlf_bits_of_float(x) & 0x7fffffffu;
  int32_t k;
  float y;
  if (magnitude > 0x42aeac4fu) { /* |x| > 87.3365402, just inside ln(FLT_MIN) */
    return mlf_exp_edge_(x);
  }
  y = mlf_exp_reduced_(x, &k);
  return mlf_scale_exponent_(y, k);
}
#endif

#endif /* MLF_USE_LIBM */

#ifdef __cplusplus
}
#endif

#endif /* MLF_EXP_H_ */
