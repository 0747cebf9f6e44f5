/* TensorFlow Lite's multiplication by a number in fixed point, for kernels whose nodes round as it
 * does (mlftool/ir/rounding.py).
 */
#ifndef MLF_RESCALE_H_
#define MLF_RESCALE_H_

#include "kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What rounds to the nearest, ties up: a * b / 2^31. Of the least number twice, the greatest. */
static inline int32_t mlf_high_product(int32_t a, int32_t b) {
  const int64_t product = ((int64_t)a * b + (INT64_C(1) << 30)) >> 31;
  return product > INT32_MAX ? INT32_MAX : (int32_t)product;
}

/* x / 2^by for `by` from 0 to 31, rounded to the nearest, ties away from zero. */
static inline int32_t mlf_shift_away(int32_t x, int32_t by) {
  const int32_t mask = (int32_t)((UINT32_C(1) << by) - 1u);
  return (x >> by) + ((x & mask) > (mask >> 1) + (x < 0));
}

/* sum / n, halves away from zero; n > 0. */
static inline int32_t mlf_mean_away(int32_t sum, int32_t n) {
  return (sum > 0 ? sum + n / 2 : sum - n / 2) / n;
}

/* x * m * 2^(exponent - 31) in TensorFlow Lite's fixed point, which rounds the product and then its
 * shift; `exponent` is from -31 to 30. */
static inline int32_t mlf_rescale(int32_t x, int32_t m, int32_t exponent) {
  const int32_t left = exponent > 0 ? exponent : 0;
  return mlf_shift_away(mlf_high_product((int32_t)((uint32_t)x << left), m), left - exponent);
}

/* The same rounded once, ties up. */
static inline int32_t mlf_rescale_once(int32_t x, int32_t m, int32_t exponent) {
  return (int32_t)(((int64_t)x * m + (INT64_C(1) << (30 - exponent))) >> (31 - exponent));
}

/* A sum as a quantised value, rounded twice; `factor` has a multiplier in its lower half, its
 * exponent in the upper one. */
static inline int32_t mlf_requantize_twice(int32_t acc, int64_t factor, int32_t zero_point,
                                           int32_t low, int32_t high) {
  const int32_t x = mlf_rescale(acc, (int32_t)(factor & 0x7fffffff), (int32_t)(factor >> 32));
  return mlf_clamp_i32(x, low - zero_point, high - zero_point) + zero_point;
}

/* add + the upper half of the 64-bit product a * m, rounded to the nearest, ties up. */
static inline int32_t mlf_multiply_round(int32_t a, int32_t m, int32_t add) {
#if defined(__ARM_FEATURE_DSP) && __ARM_FEATURE_DSP && !defined(MLF_PORTABLE_DSP)
  int32_t sum;
  __asm__("smmlar %0, %1, %2, %3" : "=r"(sum) : "r"(a), "r"(m), "r"(add));
  return sum;
#else
  return (int32_t)(((int64_t)a * m + (INT64_C(1) << 31)) >> 32) + add;
#endif
}

/* mlf_requantize_twice of half of `twice`, where a shift to the right by 1 or more follows. What it
 * adds is the zero point, moved to the left by as much, and the shift's half, whose ties go up
 * here: outputs are not less than their zero point. */
static inline int32_t mlf_requantize_up(int32_t twice, int32_t m, int32_t add, int32_t by,
                                        int32_t low, int32_t high) {
  return mlf_shift_clamp_i32(mlf_multiply_round(twice, m, add), by, low, high);
}

/* The same for any output: below zero ties go down. */
static inline int32_t mlf_requantize_away(int32_t twice, int32_t m, int32_t add, int32_t by,
                                          int32_t low, int32_t high) {
  return mlf_shift_clamp_i32(mlf_multiply_round(twice, m, add) + (twice >> 31), by, low, high);
}

/* A sum of 64 bits as a quantised value, rounded once; the upper half of `factor` is what the
 * product is shifted by. */
static inline int32_t mlf_requantize_once(int64_t acc, int64_t factor, int32_t zero_point,
                                          int32_t low, int32_t high) {
  const int32_t by = (int32_t)(factor >> 32);
  const int64_t product = acc * (int32_t)(factor & 0x7fff) + (INT64_C(1) << (by - 1));
  const int32_t x = (int32_t)(uint32_t)((uint64_t)(product >> by) & 0xffffffffu);
  return mlf_clamp_i32(x, low - zero_point, high - zero_point) + zero_point;
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_RESCALE_H_ */
