/* Where the elements of a resized axis come from. The first argument of each function is a constant
 * where it is called, so only the branch that is wanted is compiled.
 */
#ifndef MLF_RESIZE_H_
#define MLF_RESIZE_H_

#include "mlf/kernel.h"
#include "mlf/math.h"

#ifdef __cplusplus
extern "C" {
#endif

enum mlf_resize_transform {
  MLF_RESIZE_HALF_PIXEL,
  MLF_RESIZE_SYMMETRIC,
  MLF_RESIZE_PYTORCH,
  MLF_RESIZE_ALIGN_CORNERS,
  MLF_RESIZE_ASYMMETRIC,
  MLF_RESIZE_CROP,
  MLF_RESIZE_TF_HALF_PIXEL
};

enum mlf_resize_rounding {
  MLF_RESIZE_PREFER_FLOOR,
  MLF_RESIZE_PREFER_CEIL,
  MLF_RESIZE_FLOOR,
  MLF_RESIZE_CEIL,
  MLF_RESIZE_SIMPLE /* before opset 11: up where the axis shrinks, else down */
};

/* Coordinate in an axis of n elements that element `i` of `out` stands for; the whole axis would
 * have n * scale elements, and a crop is its part from `start` to `end`. */
static inline float mlf_resize_coordinate(enum mlf_resize_transform transform, int32_t i,
                                          float scale, int32_t n, int32_t out, float start,
                                          float end) {
  const float width = scale * (float)n;
  /* Where scales come of sizes their product is `out` but for rounding. */
  const float length = fabsf(width - (float)out) < 1e-3f ? (float)out : width;
  switch (transform) {
  case MLF_RESIZE_SYMMETRIC:
    return (float)n / 2.0f * (1.0f - (float)out / width) + ((float)i + 0.5f) / scale - 0.5f;
  case MLF_RESIZE_PYTORCH:
    return out > 1 ? ((float)i + 0.5f) / scale - 0.5f : 0.0f;
  case MLF_RESIZE_ALIGN_CORNERS:
    return length == 1.0f ? 0.0f : (float)i * (float)(n - 1) / (length - 1.0f);
  case MLF_RESIZE_ASYMMETRIC:
    return (float)i / scale;
  case MLF_RESIZE_CROP:
    if (out > 1)
      return start * (float)(n - 1) + (float)i * (end - start) * (float)(n - 1) / (float)(out - 1);
    return 0.5f * (start + end) * (float)(n - 1);
  case MLF_RESIZE_TF_HALF_PIXEL:
    return ((float)i + 0.5f) / scale;
  default:
    return ((float)i + 0.5f) / scale - 0.5f;
  }
}

/* The element of an axis of n next to coordinate x. */
static inline int32_t mlf_resize_nearest(enum mlf_resize_rounding rounding, float x, float scale,
                                         int32_t n) {
  float at;
  switch (rounding) {
  case MLF_RESIZE_PREFER_CEIL:
    at = mlf_floorf(x + 0.5f);
    break;
  case MLF_RESIZE_FLOOR:
    at = mlf_floorf(x);
    break;
  case MLF_RESIZE_CEIL:
    at = mlf_ceilf(x);
    break;
  case MLF_RESIZE_SIMPLE:
    at = scale < 1.0f ? mlf_ceilf(x) : mlf_floorf(x);
    break;
  default:
    at = mlf_ceilf(x - 0.5f);
    break;
  }
  return (int32_t)mlf_clamp_f32(at, 0.0f, (float)(n - 1));
}

/* The two elements around coordinate x and their weights, as onnxruntime works them out to the last
 * bit: beyond the ends x is the end, and the last element counts twice by half if `halved`. */
static inline void mlf_resize_linear(float x, bool halved, int32_t n, int32_t *place,
                                     float *weight) {
  const float at = mlf_clamp_f32(x, 0.0f, (float)(n - 1));
  place[0] = (int32_t)at;
  place[1] = mlf_clamp_i32(place[0] + 1, 0, n - 1);
  weight[1] = at - (float)place[0];
  weight[0] = 1.0f - weight[1];
  if (halved && place[0] == place[1])
    weight[0] = weight[1] = 0.5f;
}

/* The same with weights in units of 1 / 1024, cut off: onnxruntime's for bytes in NHWC. */
static inline void mlf_resize_fixed(float x, int32_t n, int32_t *place, int32_t *weight) {
  const float at = mlf_clamp_f32(x, 0.0f, (float)(n - 1));
  place[0] = (int32_t)at;
  place[1] = mlf_clamp_i32(place[0] + 1, 0, n - 1);
  weight[1] = (int32_t)(at * 1024.0f) - place[0] * 1024;
  weight[0] = 1024 - weight[1];
}

/* The filters: a triangle, and Keys' cubic with parameter `a`. */
static inline float mlf_resize_triangle(float d) {
  return d < 1.0f ? 1.0f - d : 0.0f;
}

static inline float mlf_resize_cubic(float d, float a) {
  if (d <= 1.0f)
    return ((a + 2.0f) * d - (a + 3.0f)) * d * d + 1.0f;
  return d < 2.0f ? ((a * d - 5.0f * a) * d + 8.0f * a) * d - 4.0f * a : 0.0f;
}

/* The `taps` elements around coordinate x and their weights. `support` is half the width of the
 * filter: 1, or 2 for the cubic one; it is stretched where `stretch` is below 1, and then weights
 * are scaled to add up to 1, as they are when elements `outside` of the axis shall not count. */
static inline void mlf_resize_taps(int32_t support, float x, float stretch, float a, bool outside,
                                   int32_t n, int32_t taps, int32_t *place, float *weight) {
  const float reach = (float)support / stretch;
  const int32_t first = (int32_t)mlf_floorf(x - reach) + 1, base = (int32_t)mlf_floorf(x);
  const float part = x - (float)base; /* rounded where x is below 0, as onnxruntime does it */
  float sum = 0.0f;
  for (int32_t t = 0; t < taps; t++) {
    const float d = fabsf((float)(first + t - base) - part) * stretch;
    const bool inside = first + t >= 0 && first + t < n;
    const float w = support == 1 ? mlf_resize_triangle(d) : mlf_resize_cubic(d, a);
    place[t] = mlf_clamp_i32(first + t, 0, n - 1);
    weight[t] = outside && !inside ? 0.0f : w;
    sum += weight[t];
  }
  if (!(outside || stretch < 1.0f) || sum == 0.0f)
    return;
  for (int32_t t = 0; t < taps; t++)
    weight[t] /= sum;
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_RESIZE_H_ */
