/* Indexes that come from tensors at run time. Nothing here gives an index outside of its axis, so a
 * wrong one reads or writes another element of the same tensor and never other memory.
 */
#ifndef MLF_INDEX_H_
#define MLF_INDEX_H_

#include "kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `i` limited to [low, high]. */
static inline int32_t mlf_clamp_index(int64_t i, int32_t low, int32_t high) {
  return i < low ? low : (i > high ? high : (int32_t)i);
}

/* `i` on an axis of n > 0 elements: a negative one counts from the end, one that is beyond either
 * end becomes that end's. */
static inline int32_t mlf_index(int64_t i, int32_t n) {
  return mlf_clamp_index(i < 0 ? i + n : i, 0, n - 1);
}

/* Where a slice by steps of `step` starts on an axis of n elements. */
static inline int32_t mlf_slice_start(int64_t start, int64_t step, int32_t n) {
  return mlf_clamp_index(start < 0 ? start + n : start, 0, step < 0 ? n - 1 : n);
}

/* Element `i` of a slice, wherever its ends are. */
static inline int32_t mlf_slice_at(int32_t start, int32_t i, int64_t step, int32_t n) {
  return mlf_clamp_index(start + i * step, 0, n - 1);
}

/* `i` mirrored at both ends of an axis of n elements, which are not repeated. */
static inline int32_t mlf_reflect(int32_t i, int32_t n) {
  const int32_t period = n > 1 ? 2 * (n - 1) : 1;
  const int32_t rest = ((i % period) + period) % period;
  return rest < n ? rest : period - rest;
}

/* `i` on an axis of n elements that repeats without end. */
static inline int32_t mlf_wrap(int32_t i, int32_t n) {
  return ((i % n) + n) % n;
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_INDEX_H_ */
