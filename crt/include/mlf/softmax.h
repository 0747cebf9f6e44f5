/* Softmax in integers: exponentials have 31 bits after the point, shares are steps of the output.
 */
#ifndef MLF_SOFTMAX_H_
#define MLF_SOFTMAX_H_

#include "kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What exponentials are multiplied by: m * 2^-shift steps for the line's sum, which is 2^31 at
 * least. m is less than 2^31. `shift` becomes that of their products' upper words. The division is
 * the school's, since compilers call a function for one of 64 bits. */
static inline uint32_t mlf_softmax_factor(uint64_t sum, uint32_t m, int32_t *shift) {
  uint64_t divisor = sum;
  uint32_t rest = m;
  uint32_t quotient = 0;
  while ((divisor >> 32) != 0U) {
    divisor >>= 1;
    *shift += 1;
  }
  if (*shift <= 31) {
    for (int32_t k = 0; k < 32; k++) {
      const uint32_t top = rest >> 31;
      rest <<= 1;
      quotient <<= 1;
      if ((top != 0U) || (rest >= (uint32_t)divisor)) {
        rest -= (uint32_t)divisor;
        quotient |= 1U;
      }
    }
  } else { /* less than half a step */
    *shift = 31;
  }
  return quotient;
}

/* The steps of an exponential, rounded to the nearest, ties to even. */
static inline int32_t mlf_softmax_share(uint32_t exponential, uint32_t factor, int32_t shift) {
  const uint32_t high = (uint32_t)(((uint64_t)exponential * factor) >> 32);
  const uint32_t half = UINT32_C(1) << (shift - 1);
  return (int32_t)((high + (half - 1U) + ((high >> shift) & 1U)) >> shift);
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_SOFTMAX_H_ */
