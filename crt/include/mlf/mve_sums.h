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
                   : [x] "+&l"(x), [sums] "+&w"(sums)
                   : [n] "r"(n), [step] "r"(step)
                   : "q0", "lr", "cc", "memory");
  return sums;
}

static inline int32x4_t mlf_quad_mean_away(int32x4_t sum, uint32_t reciprocal, int32_t half) {
  const int32x4_t sign = vshrq_n_s32(sum, 31);
  const uint32x4_t size = vreinterpretq_u32_s32(vaddq_n_s32(vabsq_s32(sum), half));
  const uint32x4_t mean = vmulhq_u32(size, vdupq_n_u32(reciprocal));
  return vsubq_s32(veorq_s32(vreinterpretq_s32_u32(mean), sign), sign);
}

/* sums / n, halves away from zero; `reciprocal` is 2^32 / n rounded up, `half` is n / 2. Exact for
 * sums of n int8, n from 2 to 255. */
static inline mlf_octet mlf_octet_mean_away(mlf_octet sums, uint32_t reciprocal, int32_t half) {
  sums.even = mlf_quad_mean_away(sums.even, reciprocal, half);
  sums.odd = mlf_quad_mean_away(sums.odd, reciprocal, half);
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

static inline mlf_octet mlf_octet_mean_away(mlf_octet sums, uint32_t reciprocal, int32_t half) {
  for (int32_t k = 0; k < 8; k++) {
    int32_t *const sum = mlf_octet_lane(&sums, k);
    const uint32_t size = (uint32_t)((*sum < 0 ? -*sum : *sum) + half);
    const int32_t mean = (int32_t)((uint64_t)size * reciprocal >> 32);
    *sum = *sum < 0 ? -mean : mean;
  }
  return sums;
}

#endif

#ifdef __cplusplus
}
#endif

#endif /* MLF_MVE_SUMS_H_ */
