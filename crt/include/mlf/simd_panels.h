/* Products of a matrix, packed in panels of rows, with a vector: the rows of a panel are the lanes
 * of one to eight vectors. Each sum adds its products in turn, from zero, then `start`, as those of
 * mlf/vfp.h do. */
#ifndef MLF_SIMD_PANELS_H_
#define MLF_SIMD_PANELS_H_

#include "mlf/simd.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__clang__)
#define MLF_UNROLLED_ _Pragma("clang loop unroll(full)")
#else
#define MLF_UNROLLED_ _Pragma("GCC unroll 8")
#endif

#define MLF_PANEL_(lanes, count) \
  static inline void mlf_panel_x##lanes##_##count(const float *x, const float *w, int32_t n, \
                                                  const float *start, float *sums) { \
    const mlf_f32x##lanes zeros = {0}; \
    mlf_f32x##lanes part[count], one; \
    MLF_UNROLLED_ \
    for (int32_t b = 0; b < (count); b++) { \
      part[b] = zeros; \
    } \
    MLF_ROLLED \
    for (int32_t k = 0; k < n; k++) { \
      const mlf_f32x##lanes factor = x[k] - zeros; \
      MLF_UNROLLED_ \
      for (int32_t b = 0; b < (count); b++) { \
        memcpy(&one, w + (k * (count) + b) * (lanes), sizeof one); \
        part[b] += factor * one; \
      } \
    } \
    MLF_UNROLLED_ \
    for (int32_t b = 0; b < (count); b++) { \
      memcpy(&one, start + b * (lanes), sizeof one); \
      one += part[b]; \
      memcpy(sums + b * (lanes), &one, sizeof one); \
    } \
  }

#define MLF_PANELS_(lanes) \
  MLF_PANEL_(lanes, 1) \
  MLF_PANEL_(lanes, 2) \
  MLF_PANEL_(lanes, 3) \
  MLF_PANEL_(lanes, 4) \
  MLF_PANEL_(lanes, 5) \
  MLF_PANEL_(lanes, 6) \
  MLF_PANEL_(lanes, 7) \
  MLF_PANEL_(lanes, 8)

#if defined(__AVX512F__)
MLF_PANELS_(16)
#elif defined(__AVX2__)
MLF_PANELS_(8)
#else
MLF_PANELS_(4)
#endif

#undef MLF_PANELS_
#undef MLF_PANEL_
#undef MLF_UNROLLED_

#ifdef __cplusplus
}
#endif

#endif /* MLF_SIMD_PANELS_H_ */
