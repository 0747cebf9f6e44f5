/* Rows of integers less their mean, divided by their deviation, in integers. */
#ifndef MLF_STANDARDISE_H_
#define MLF_STANDARDISE_H_

#include "kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* 2^31 / sqrt(m) for v = m * 2^62 / 4^s, v positive and less than 2^64, m at least 1 and less than
 * 4; `shift` grows by s. A line is near the function, and each of Newton's steps doubles the bits.
 */
static inline int32_t mlf_one_over_root(uint64_t v, int32_t *shift) {
  uint64_t scaled = v;
  while ((scaled >> 62) == 0U) {
    scaled <<= 2;
    *shift += 1;
  }
  const uint32_t m = (uint32_t)(scaled >> 32);
  uint32_t y = 2362232013U - (uint32_t)(((uint64_t)m * 1374389535U) >> 32); /* 1.1 - 0.16 m */
  for (int32_t k = 0; k < 4; k++) {
    const uint32_t square = (uint32_t)(((uint64_t)y * y) >> 31);
    const uint32_t one = (uint32_t)(((uint64_t)m * square) >> 31);
    y = (uint32_t)(((uint64_t)y * ((UINT32_C(3) << 30) - one)) >> 31);
  }
  return y > 0x7fffffffU ? 0x7fffffff : (int32_t)y;
}

/* The upper word of a product. */
static inline int32_t mlf_high_word(int32_t a, int32_t b) {
  return (int32_t)(((int64_t)a * b) >> 32);
}

/* x / 2^shift rounded to the nearest, ties to even; shift is positive. */
static inline int32_t mlf_shift_even(int32_t x, int32_t shift) {
  const int32_t half = (int32_t)(UINT32_C(1) << (shift - 1));
  return (x + (half - 1) + ((x >> shift) & 1)) >> shift;
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_STANDARDISE_H_ */
