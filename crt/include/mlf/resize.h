/* Where the elements of a resized axis come from. The first argument of each function is a constant
 * where it is called, so only the branch that is wanted is compiled.
 */
#ifndef MLF_RESIZE_H_
#define MLF_RESIZE_H_

#include "mlf/kernel.h"
#include "mlf/math.h"
#include "mlf/place.h"

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
    return (float)((double)((float)n / 2.0f * (1.0f - (float)out / width)) +
                   ((double)i + 0.5) / (double)scale - 0.5);
  case MLF_RESIZE_PYTORCH:
    return out > 1 ? ((float)i + 0.5f) / scale - 0.5f : 0.0f;
  case MLF_RESIZE_ALIGN_CORNERS:
    return length == 1.0f ? 0.0f : (float)i * (float)(n - 1) / (length - 1.0f);
  case MLF_RESIZE_ASYMMETRIC:
    return (float)i / scale;
  case MLF_RESIZE_CROP:
    if (out > 1)
      return start * (float)(n - 1) + (float)i * (end - start) * (float)(n - 1) / (float)(out - 1);
    return (float)(0.5 * (double)(start + end) * (double)(n - 1));
  case MLF_RESIZE_TF_HALF_PIXEL:
    return ((float)i + 0.5f) / scale;
  default:
    return ((float)i + 0.5f) / scale - 0.5f;
  }
}

/* The element of an axis of n next to coordinate x. As in onnxruntime, what is a half but for
 * rounding is a half. */
static inline int32_t mlf_resize_nearest(enum mlf_resize_rounding rounding, float x, float scale,
                                         int32_t n) {
  const float whole = mlf_floorf(x), part = x - whole;
  const bool half = part > 0.499999f && part < 0.500001f;
  float at;
  switch (rounding) {
  case MLF_RESIZE_PREFER_CEIL:
    at = half || part > 0.5f ? whole + 1.0f : whole;
    break;
  case MLF_RESIZE_FLOOR:
    at = whole;
    break;
  case MLF_RESIZE_CEIL:
    at = mlf_ceilf(x);
    break;
  case MLF_RESIZE_SIMPLE:
    at = scale < 1.0f ? mlf_ceilf(x) : whole;
    break;
  default:
    at = !half && part > 0.5f ? whole + 1.0f : whole;
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

/* The filters: GridSample's triangle, and Keys' cubic with parameter `a`. */
static inline float mlf_resize_triangle(float d) {
  return d < 1.0f ? 1.0f - d : 0.0f;
}

static inline float mlf_resize_cubic(float d, float a) {
  if (d <= 1.0f)
    return ((a + 2.0f) * d - (a + 3.0f)) * d * d + 1.0f;
  return d < 2.0f ? ((a * d - 5.0f * a) * d + 8.0f * a) * d - 4.0f * a : 0.0f;
}

/* The four elements around coordinate x and their weights, which are scaled to add up to 1 when
 * elements `outside` of the axis shall not count. */
static inline void mlf_resize_taps(float x, float a, bool outside, int32_t n, int32_t *place,
                                   float *weight) {
  const int32_t base = (int32_t)mlf_floorf(x);
  const float part = x - (float)base; /* rounded where x is below 0, as onnxruntime does it */
  float sum = 0.0f;
  for (int32_t t = 0; t < 4; t++) {
    const bool inside = base - 1 + t >= 0 && base - 1 + t < n;
    place[t] = mlf_clamp_i32(base - 1 + t, 0, n - 1);
    weight[t] = outside && !inside ? 0.0f : mlf_resize_cubic(fabsf((float)(t - 1) - part), a);
    sum += weight[t];
  }
  if (!outside || sum == 0.0f)
    return;
  for (int32_t t = 0; t < 4; t++)
    weight[t] /= sum;
}

/* Both filters of antialiasing, a triangle and Keys' cubic, in onnxruntime's order. */
static inline float mlf_resize_filter(int32_t support, float d, float a) {
  if (d < 1.0f)
    return support == 1 ? 1.0f - d : ((a + 2.0f) * d - (a + 3.0f)) * d * d + 1.0f;
  return support == 2 && d < 2.0f ? (((d - 5.0f) * d + 8.0f) * d - 4.0f) * a : 0.0f;
}

/* The elements around coordinate x and their weights, with the filter, `support` on each side,
 * stretched where the axis shrinks. Elements `outside` of the axis do not count, or count where the
 * axis ends. Weights add up to 1. */
static inline void mlf_resize_antialias(int32_t support, float x, float scale, float a,
                                        bool outside, int32_t n, int32_t taps, int32_t *place,
                                        float *weight) {
  const float by = mlf_place_near(1.0f / scale), center = 0.5f + x;
  const float reach = by >= 1.0f ? (float)support * by : (float)support;
  const float stretch = by >= 1.0f ? 1.0f / by : 1.0f;
  const int32_t first = (int32_t)mlf_floorf(center - reach + 0.5f);
  const int32_t end = (int32_t)mlf_floorf(center + reach + 0.5f);
  const int32_t last = mlf_clamp_i32(end - first, 1, taps) - 1;
  float sum = 0.0f;
  for (int32_t t = 0; t < taps; t++) {
    const bool inside = first + t >= 0 && first + t < n;
    const float d = fabsf(((float)(first + t) - center + 0.5f) * stretch);
    place[t] = mlf_clamp_i32(first + t, 0, n - 1);
    weight[t] = t > last || (outside && !inside) ? 0.0f : mlf_resize_filter(support, d, a);
    sum += weight[t];
  }
  const int32_t low = mlf_clamp_i32(-first, 0, last);
  const int32_t high = mlf_clamp_i32(n - 1 - first, 0, last);
  for (int32_t t = 0; t < low; t++) {
    weight[low] += weight[t];
    weight[t] = 0.0f;
  }
  for (int32_t t = high + 1; t <= last; t++) {
    weight[high] += weight[t];
    weight[t] = 0.0f;
  }
  const float whole = sum == 0.0f ? 1.0f : 1.0f / sum;
  for (int32_t t = 0; t < taps; t++)
    weight[t] *= whole;
}

/* The weights as whole numbers of 1 / 2^22, which a float holds exactly: bytes are antialiased in
 * integers, and rounded after each axis. */
static inline void mlf_resize_units(int32_t taps, float *weight) {
  for (int32_t t = 0; t < taps; t++) {
    const float units = weight[t] * 4194304.0f;
    weight[t] = units < 0.0f ? mlf_ceilf(units - 0.5f) : mlf_floorf(units + 0.5f);
  }
}

static inline int32_t mlf_resize_uint8(int64_t units) {
  return mlf_clamp_i32((int32_t)(units >> 22), 0, 255);
}

static inline int32_t mlf_resize_int8(int64_t units) {
  return mlf_clamp_i32((int32_t)(units >> 22), -128, 127);
}

/* Halves away from zero: how onnxruntime rounds wider integers after each axis. */
static inline float mlf_resize_float(float x) {
  const float size = fabsf(x), whole = mlf_floorf(size);
  const float rounded = size - whole >= 0.5f ? whole + 1.0f : whole;
  return x < 0.0f ? -rounded : rounded;
}

/* The fraction is cut off, and what is beyond the ends. */
static inline int32_t mlf_resize_cut(float x, int32_t lo, int32_t hi) {
  return x >= (float)hi ? hi : x > (float)lo ? (int32_t)x : lo;
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_RESIZE_H_ */
