/* Reading an image between its elements. */
#ifndef MLF_SAMPLE_H_
#define MLF_SAMPLE_H_

#include "mlf/kernel.h"
#include "mlf/math.h"
#include "mlf/place.h"

#ifdef __cplusplus
extern "C" {
#endif

enum mlf_padding { MLF_PAD_ZEROS, MLF_PAD_BORDER, MLF_PAD_REFLECTION };

/* `x` mirrored at `low` and `high` as often as it takes. */
static inline float mlf_sample_reflect(float x, float low, float high) {
  const float range = high - low;
  if (x >= low && x <= high)
    return x;
  if (!(range > 0.0f))
    return low;
  const float beyond = x < low ? low - x : x - high;
  const int32_t turns = (int32_t)(beyond / range);
  const float rest = beyond - (float)turns * range;
  const bool from_low = (x < low) == (turns % 2 == 0);
  return from_low ? low + rest : high - rest;
}

/* Coordinate on an axis of n elements that `g`, from -1 to 1, stands for; a wild one is far
 * outside. */
static inline float mlf_sample_coordinate(enum mlf_padding padding, bool align, bool nearest,
                                          float g, int32_t n) {
  float x = align ? (g + 1.0f) / 2.0f * (float)(n - 1) : ((g + 1.0f) * (float)n - 1.0f) / 2.0f;
  x = mlf_place_near(x);
  if (nearest)
    x = mlf_rintf(x);
  const float low = align ? 0.0f : -0.5f;
  const float high = (float)n - (align ? 1.0f : 0.5f);
  if (x >= low && x <= high)
    return x;
  if (padding == MLF_PAD_BORDER)
    return mlf_clamp_f32(x, 0.0f, (float)(n - 1));
  return padding == MLF_PAD_REFLECTION ? mlf_sample_reflect(x, low, high) : x;
}

/* The element that `i` stands for on an axis of n, -1 if there is none. */
static inline int32_t mlf_sample_place(enum mlf_padding padding, bool align, int32_t i, int32_t n) {
  if (i >= 0 && i < n)
    return i;
  if (padding == MLF_PAD_ZEROS)
    return -1;
  if (padding == MLF_PAD_BORDER)
    return mlf_clamp_i32(i, 0, n - 1);
  const float low = align ? 0.0f : -0.5f;
  const float at = mlf_sample_reflect((float)i, low, (float)n - (align ? 1.0f : 0.5f));
  return mlf_clamp_i32((int32_t)at, 0, n - 1);
}

/* A plane of `high` x `wide` elements at (y, x), linear between the four around it, zero outside.
 */
#define MLF_BILINEAR_(name, floating, floor) \
  static inline floating name(const floating *plane, int32_t high, int32_t wide, floating y, \
                              floating x) { \
    if (!(y > -1 && x > -1 && y < (floating)high && x < (floating)wide)) \
      return 0; \
    const int32_t top = (int32_t)floor(y); \
    const int32_t left = (int32_t)floor(x); \
    const floating down = y - (floating)top; \
    const floating right = x - (floating)left; \
    floating sum = 0; \
    for (int32_t corner = 0; corner < 4; corner++) { \
      const int32_t row = top + corner / 2; \
      const int32_t column = left + corner % 2; \
      if (row < 0 || row >= high || column < 0 || column >= wide) \
        continue; \
      const floating a = corner / 2 ? down : 1 - down; \
      const floating b = corner % 2 ? right : 1 - right; \
      sum += a * b * plane[row * wide + column]; \
    } \
    return sum; \
  }

MLF_BILINEAR_(mlf_bilinearf, float, mlf_floorf)
MLF_BILINEAR_(mlf_bilinear, double, mlf_floor)

#undef MLF_BILINEAR_

#ifdef __cplusplus
}
#endif

#endif /* MLF_SAMPLE_H_ */
