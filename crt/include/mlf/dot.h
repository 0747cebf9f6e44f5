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

#define MLF_DOT_(name, floating)                                                                   \
  static inline floating name(const floating *a, const floating *b, int32_t n) {                   \
    floating sum = 0;                                                                              \
    for (int32_t start = 0; start < n; start += MLF_DOT_BLOCK) {                                   \
      const int32_t end = mlf_min_i32(n, start + MLF_DOT_BLOCK);                                   \
      floating part = 0;                                                                           \
      for (int32_t i = start; i < end; i++)                                                        \
        part += a[i] * b[i];                                                                       \
      sum += part;                                                                                 \
    }                                                                                              \
    return sum;                                                                                    \
  }

MLF_DOT_(mlf_dotf, float)
MLF_DOT_(mlf_dot, double)

#undef MLF_DOT_

#ifdef __cplusplus
}
#endif

#endif /* MLF_DOT_H_ */
