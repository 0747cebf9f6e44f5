/* a * b + c with one rounding, the same bits on every machine. */
#ifndef MLF_MULTIPLY_ADD_H_
#define MLF_MULTIPLY_ADD_H_

#include <string.h>

#include "kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* C libraries for machines without such an instruction round twice. Here the product of two floats
 * is exact in double; the sum gets the last bit set if anything was lost, so that it becomes the
 * float that the exact sum would become. */
static inline float mlf_multiply_add(float a, float b, float c) {
#if defined(__FP_FAST_FMAF)
  return __builtin_fmaf(a, b, c);
#else
  const double product = (double)a * (double)b;
  double sum = product + (double)c;
  const double taken = sum - product;
  const double lost = (product - (sum - taken)) + ((double)c - taken);
  if (lost > 0 || lost < 0) { /* neither for an infinite or undefined sum */
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    if ((bits & 1u) == 0) {
      bits += (lost > 0) == (sum > 0) ? 1u : UINT64_MAX;
      memcpy(&sum, &bits, sizeof bits);
    }
  }
  return (float)sum;
#endif
}

#ifdef __cplusplus
}
#endif
#endif
