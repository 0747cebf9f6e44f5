/* Sums of int8 windows on Helium, eight channels at a time. */
#ifndef MLF_MVE_SUMS_H_
#define MLF_MVE_SUMS_H_

#include "mve.h"

#ifdef __cplusplus
extern "C" {
#endif

#if MLF_MVE

static inline mlf_halves mlf_halves_none(void) {
  return vdupq_n_s16(0);
}

/* sums[k] + x[k] + x[step + k] + ... of n pixels; n is positive, and the sums fit int16. */
static inline mlf_halves mlf_halves_run(mlf_halves sums, const int8_t *x, int32_t step, int32_t n) {
  __asm__ volatile("dls lr, %[n]\n"
                   "1:\n\t"
                   "vldrb.s16 q0, [%[x]]\n\t"
                   "add %[x], %[x], %[step]\n\t"
                   "vadd.i16 %q[sums], %q[sums], q0\n\t"
                   "le lr, 1b"
                   : [x] "+l"(x), [sums] "+w"(sums)
                   : [n] "r"(n), [step] "r"(step)
                   : "q0", "lr", "cc", "memory");
  return sums;
}

#else

static inline mlf_halves mlf_halves_none(void) {
  const mlf_halves none = {{0}};
  return none;
}

static inline mlf_halves mlf_halves_run(mlf_halves sums, const int8_t *x, int32_t step, int32_t n) {
  for (int32_t i = 0; i < n; i++) {
    for (int32_t k = 0; k < 8; k++) {
      int16_t *const sum = &sums.lane[k % 2 * 4 + k / 2];
      *sum = (int16_t)(*sum + x[i * step + k]);
    }
  }
  return sums;
}

#endif

#ifdef __cplusplus
}
#endif

#endif /* MLF_MVE_SUMS_H_ */
