/* Products of vectors, summed in one stated order: ascending, in blocks of MLF_DOT_BLOCK whose sums
 * are added in turn, so that long sums stay as accurate as those of a matrix product.
 */
#ifndef MLF_DOT_H_
#define MLF_DOT_H_

#include "mlf/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MLF_DOT_BLOCK 256

#define MLF_DOT_(name, floating) \
  static inline floating name(const floating *a, const floating *b, int32_t n) { \
    floating sum = 0; \
    for (int32_t start = 0; start < n; start += MLF_DOT_BLOCK) { \
      const int32_t end = mlf_min_i32(n, start + MLF_DOT_BLOCK); \
      floating part = 0; \
      for (int32_t i = start; i < end; i++) \
        part += a[i] * b[i]; \
      sum += part; \
    } \
    return sum; \
  }

MLF_DOT_(mlf_dotf, float)
MLF_DOT_(mlf_dot, double)

/* The products of up to four rows of n elements with x; four share its loads. */
#define MLF_DOTS_(name, dot, floating) \
  static inline void name(const floating *w, const floating *x, int32_t n, int32_t rows, \
                          floating *sums) { \
    floating sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0; \
    if (rows < 4) { \
      for (int32_t j = 0; j < rows; j++) \
        sums[j] = dot(w + j * n, x, n); \
      return; \
    } \
    for (int32_t start = 0; start < n; start += MLF_DOT_BLOCK) { \
      const int32_t end = mlf_min_i32(n, start + MLF_DOT_BLOCK); \
      floating part0 = 0, part1 = 0, part2 = 0, part3 = 0; \
      for (int32_t i = start; i < end; i++) { \
        const floating factor = x[i]; \
        part0 += w[i] * factor; \
        part1 += w[n + i] * factor; \
        part2 += w[2 * n + i] * factor; \
        part3 += w[3 * n + i] * factor; \
      } \
      sum0 += part0; \
      sum1 += part1; \
      sum2 += part2; \
      sum3 += part3; \
    } \
    sums[0] = sum0; \
    sums[1] = sum1; \
    sums[2] = sum2; \
    sums[3] = sum3; \
  }

MLF_DOTS_(mlf_dotsf, mlf_dotf, float)
MLF_DOTS_(mlf_dots, mlf_dot, double)

#undef MLF_DOT_
#undef MLF_DOTS_

#ifdef __cplusplus
}
#endif

#endif /* MLF_DOT_H_ */
