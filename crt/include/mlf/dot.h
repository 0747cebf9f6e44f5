/* Products of vectors, summed in one stated order: ascending, in blocks of MLF_DOT_BLOCK whose sums
 * are added in turn, so that long sums stay as accurate as those of a matrix product.
 */
#ifndef MLF_DOT_H_
#define MLF_DOT_H_

#include "mlf/kernel.h"
#include "mlf/vfp_rows.h"

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

#define MLF_ROWS_OF_FOUR_(name, floating) \
  static inline void name(const floating *w, int32_t stride, const floating *x, int32_t n, \
                          floating *sums) { \
    floating part0 = 0, part1 = 0, part2 = 0, part3 = 0; \
    for (int32_t i = 0; i < n; i++) { \
      const floating factor = x[i]; \
      part0 += w[i] * factor; \
      part1 += w[stride + i] * factor; \
      part2 += w[2 * stride + i] * factor; \
      part3 += w[3 * stride + i] * factor; \
    } \
    sums[0] = part0; \
    sums[1] = part1; \
    sums[2] = part2; \
    sums[3] = part3; \
  }

MLF_ROWS_OF_FOUR_(mlf_rows, double)
#if MLF_VFP
#define mlf_rowsf mlf_exact_rows
#else
MLF_ROWS_OF_FOUR_(mlf_rowsf, float)
#endif

/* The products of up to four rows of n elements with x; four share its loads. */
#define MLF_DOTS_(name, dot, products, floating) \
  static inline void name(const floating *w, const floating *x, int32_t n, int32_t rows, \
                          floating *sums) { \
    floating sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0; \
    if (rows < 4) { \
      for (int32_t j = 0; j < rows; j++) \
        sums[j] = dot(w + j * n, x, n); \
      return; \
    } \
    for (int32_t start = 0; start < n; start += MLF_DOT_BLOCK) { \
      floating parts[4]; \
      products(w + start, n, x + start, mlf_min_i32(n - start, MLF_DOT_BLOCK), parts); \
      sum0 += parts[0]; \
      sum1 += parts[1]; \
      sum2 += parts[2]; \
      sum3 += parts[3]; \
    } \
    sums[0] = sum0; \
    sums[1] = sum1; \
    sums[2] = sum2; \
    sums[3] = sum3; \
  }

MLF_DOTS_(mlf_dotsf, mlf_dotf, mlf_rowsf, float)
MLF_DOTS_(mlf_dots, mlf_dot, mlf_rows, double)

#undef MLF_DOT_
#undef MLF_DOTS_
#undef MLF_ROWS_OF_FOUR_

#ifdef __cplusplus
}
#endif

#endif /* MLF_DOT_H_ */
