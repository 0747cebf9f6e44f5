/* Coordinates that a model computes, as indices: such a float may be any number, or none. */
#ifndef MLF_PLACE_H_
#define MLF_PLACE_H_

#include "mlf/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The same, or a place far outside of every axis, from which integers are near enough to count on:
 * for what is not a number, too. */
static inline float mlf_place_near(float x) {
  const float far = 16777216.0f;
  return x > -far ? (x < far ? x : far) : -far;
}

/* `x` without its fraction, from `low` to `high`; what is not a number is at `low`. */
static inline int32_t mlf_place_within(float x, int32_t low, int32_t high) {
  return x > (float)low ? (x < (float)high ? (int32_t)x : high) : low;
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_PLACE_H_ */
