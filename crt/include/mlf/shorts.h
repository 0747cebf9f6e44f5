/* Values of 16 bits on another scale: what integers leave to floats. */
#ifndef MLF_SHORTS_H_
#define MLF_SHORTS_H_

#include "kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether t is within `near` of a multiple of 2^shift. */
static inline bool mlf_is_near(int32_t t, int32_t shift, int32_t near) {
  return ((uint32_t)(t + near) & ((1u << shift) - 1u)) < 2u * (uint32_t)near;
}

/* x times a scale, limited, as a quantised value: a call, because it is rare. */
#if defined(__GNUC__)
__attribute__((noinline, unused))
#endif
static int32_t
mlf_rescale_rarely(int32_t x, float scale, float least, float most, float unit, int32_t zero_point,
                   int32_t low, int32_t high) {
  return mlf_quantize(mlf_clamp_f32((float)x * scale, least, most) / unit, zero_point, low, high);
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_SHORTS_H_ */
