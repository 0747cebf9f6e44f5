/* Softmax in integers: exponentials have 31 bits after the point, shares are steps of the output.
 */
#ifndef MLF_SOFTMAX_H_
#define MLF_SOFTMAX_H_

#include "kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The exponential of a distance: an entry for sixteen distances, less what this one lacks. */
static inline uint32_t mlf_softmax_worth(const uint32_t *coarse, const uint32_t *fine,
                                         int32_t distance) {
  const uint32_t worth = coarse[distance >> 4];
  return worth - (uint32_t)(((uint64_t)worth * fine[distance & 15]) >> 32);
}

/* m * 2^32 / divisor, rounded down; m is less than 2^31, divisor is not. Compilers call a function
 * for a division of 64 bits. Where the processor divides 32, two digits of 16 are estimated by the
 * divisor's upper half, at most two too large; elsewhere each bit is a subtraction. No branch
 * depends on the numbers. */
static inline uint32_t mlf_softmax_quotient(uint32_t m, uint32_t divisor) {
  uint32_t rest = m;
  uint32_t quotient = 0;
#if defined(__ARM_FEATURE_IDIV)
  const uint32_t upper = divisor >> 16;
  const uint32_t lower = divisor & 0xffffU;
  for (int32_t k = 0; k < 2; k++) {
    const uint32_t digit = rest / upper;
    const uint32_t left = (rest - (digit * upper)) << 16;
    const uint32_t taken = digit * lower;
    const uint32_t one = (taken > left) ? 1U : 0U;
    const uint32_t two = one & (((taken - left) > divisor) ? 1U : 0U);
    quotient = ((quotient << 16) + digit) - (one + two);
    rest = (left - taken) + (divisor * (one + two));
  }
#else
  for (int32_t k = 0; k < 32; k++) {
    const uint32_t top = rest >> 31;
    rest <<= 1;
    const uint32_t one = top | ((rest >= divisor) ? 1U : 0U);
    rest -= divisor & (0U - one);
    quotient = (quotient << 1) | one;
  }
#endif
  return quotient;
}

/* What exponentials are multiplied by: m * 2^-shift steps for the line's sum, which is 2^31 at
 * least. m is less than 2^31. `shift` becomes that of their products' upper words. */
static inline uint32_t mlf_softmax_factor(uint64_t sum, uint32_t m, int32_t *shift) {
  uint32_t upper = (uint32_t)(sum >> 32);
  int32_t by = 0; /* the bits of the upper word */
  for (int32_t step = 16; step > 0; step >>= 1) {
    const int32_t more = (upper >> step) != 0U ? step : 0;
    upper >>= more;
    by += more;
  }
  by += (int32_t)upper;
  const uint32_t quotient = mlf_softmax_quotient(m, (uint32_t)(sum >> by));
  const int32_t found = *shift + by;
  *shift = found > 31 ? 31 : found;
  return found > 31 ? 0U : quotient; /* less than half a step */
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
