/* Values of 16 bits on another scale: what integers leave to floats. */
#ifndef MLF_SHORTS_H_
#define MLF_SHORTS_H_

#include "kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether t is within `near` of a multiple of 2^shift. Vectors compute all results as floats. */
static inline bool mlf_is_near(int32_t t, int32_t shift, int32_t near) {
#if defined(__SSE2__)
  (void)t, (void)shift, (void)near;
  return true;
#else
  return ((uint32_t)(t + near) & ((1u << shift) - 1u)) < 2u * (uint32_t)near;
#endif
}

/* What is rare is called, even if it has one caller. */
#if defined(__GNUC__) && !defined(__SSE2__)
#define MLF_RARELY __attribute__((noinline, unused)) static
#else
#define MLF_RARELY static inline
#endif

/* Limits that are infinite are none, which costs nothing where they are constants. */
static inline float mlf_limited(float x, float least, float most) {
  return least <= -INFINITY && most >= INFINITY ? x : mlf_clamp_f32(x, least, most);
}

/* x times a scale, limited, as a quantised value. */
MLF_RARELY int32_t mlf_rescale_rarely(int32_t x, float scale, float least, float most, float unit,
                                      int32_t zero_point, int32_t low, int32_t high) {
  return mlf_quantize(mlf_limited((float)x * scale, least, most) / unit, zero_point, low, high);
}

/* The same of the sum or the product of two. */
MLF_RARELY int32_t mlf_add_rarely(int32_t a, int32_t b, float scale_a, float scale_b, float least,
                                  float most, float unit, int32_t zero_point, int32_t low,
                                  int32_t high) {
  const float sum = (float)a * scale_a + (float)b * scale_b;
  return mlf_quantize(mlf_limited(sum, least, most) / unit, zero_point, low, high);
}

MLF_RARELY int32_t mlf_multiply_rarely(int32_t a, int32_t b, float scale_a, float scale_b,
                                       float least, float most, float unit, int32_t zero_point,
                                       int32_t low, int32_t high) {
  const float product = (float)a * scale_a * ((float)b * scale_b);
  return mlf_quantize(mlf_limited(product, least, most) / unit, zero_point, low, high);
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_SHORTS_H_ */
