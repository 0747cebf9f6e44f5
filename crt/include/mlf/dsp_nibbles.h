/* Products of halfwords and weights of four bits, on cores with the DSP extension. */
#ifndef MLF_DSP_NIBBLES_H_
#define MLF_DSP_NIBBLES_H_

#include "dsp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Weights of four bits, those of the first channel in the upper halves of a word's bytes: adds
 * sixteen times the products to `first` and `second`. */
MLF_INLINE void mlf_dot_1x2_s4_(uint32_t w, uint32_t xa, uint32_t xb, int32_t *first,
                                int32_t *second) {
  const uint32_t upper = w & 0xf0f0f0f0u;
  const uint32_t lower = (w << 4) & 0xf0f0f0f0u;
  *first = mlf_smlad(xb, mlf_sxtb16_ror8(upper), mlf_smlad(xa, mlf_sxtb16(upper), *first));
  *second = mlf_smlad(xb, mlf_sxtb16_ror8(lower), mlf_smlad(xa, mlf_sxtb16(lower), *second));
}

/* A word of such weights as four words of halfwords: u of the first channel, l of the second. */
#define MLF_LOAD_S4_ \
  "ldr %[ub], [%[w]], #4\n\t" \
  "lsl %[lb], %[ub], #4\n\t" \
  "and %[ub], %[ub], #0xf0f0f0f0\n\t" \
  "and %[lb], %[lb], #0xf0f0f0f0\n\t" \
  "sxtb16 %[ua], %[ub]\n\t" \
  "sxtb16 %[ub], %[ub], ror #8\n\t" \
  "sxtb16 %[la], %[lb]\n\t" \
  "sxtb16 %[lb], %[lb], ror #8\n\t"

/* Such weights for one pixel and four channels. Pointers move on. */
MLF_INLINE void mlf_dot_1x4_s4(const uint32_t **w, uint32_t xa, uint32_t xb, int32_t *sum0,
                               int32_t *sum1, int32_t *sum2, int32_t *sum3) {
#if MLF_DSP
  uint32_t ua, ub, la, lb;
  __asm__(MLF_LOAD_S4_ "smlad %[sum0], %[xa], %[ua], %[sum0]\n\t"
                       "smlad %[sum1], %[xa], %[la], %[sum1]\n\t"
                       "smlad %[sum0], %[xb], %[ub], %[sum0]\n\t"
                       "smlad %[sum1], %[xb], %[lb], %[sum1]\n\t" MLF_LOAD_S4_
                       "smlad %[sum2], %[xa], %[ua], %[sum2]\n\t"
                       "smlad %[sum3], %[xa], %[la], %[sum3]\n\t"
                       "smlad %[sum2], %[xb], %[ub], %[sum2]\n\t"
                       "smlad %[sum3], %[xb], %[lb], %[sum3]"
          : [w] "+r"(*w), [sum0] "+r"(*sum0), [sum1] "+r"(*sum1), [sum2] "+r"(*sum2),
            [sum3] "+r"(*sum3), [ua] "=&r"(ua), [ub] "=&r"(ub), [la] "=&r"(la), [lb] "=&r"(lb)
          : [xa] "r"(xa), [xb] "r"(xb)
          : "memory");
#else
  mlf_dot_1x2_s4_((*w)[0], xa, xb, sum0, sum1);
  mlf_dot_1x2_s4_((*w)[1], xa, xb, sum2, sum3);
  *w += 2;
#endif
}

/* The same for two pixels and two channels. */
MLF_INLINE void mlf_dot_2x2_s4(const uint32_t **w, const int16_t **x0, const int16_t **x1,
                               int32_t *first0, int32_t *second0, int32_t *first1,
                               int32_t *second1) {
#if MLF_DSP
  uint32_t xa, xb, ua, ub, la, lb;
  __asm__(
      MLF_LOAD_S4_ "ldrd %[xa], %[xb], [%[x0]], #8\n\t"
                   "smlad %[first0], %[xa], %[ua], %[first0]\n\t"
                   "smlad %[second0], %[xa], %[la], %[second0]\n\t"
                   "smlad %[first0], %[xb], %[ub], %[first0]\n\t"
                   "smlad %[second0], %[xb], %[lb], %[second0]\n\t"
                   "ldrd %[xa], %[xb], [%[x1]], #8\n\t"
                   "smlad %[first1], %[xa], %[ua], %[first1]\n\t"
                   "smlad %[second1], %[xa], %[la], %[second1]\n\t"
                   "smlad %[first1], %[xb], %[ub], %[first1]\n\t"
                   "smlad %[second1], %[xb], %[lb], %[second1]"
      : [w] "+r"(*w), [x0] "+r"(*x0), [x1] "+r"(*x1), [first0] "+r"(*first0),
        [second0] "+r"(*second0), [first1] "+r"(*first1), [second1] "+r"(*second1), [xa] "=&r"(xa),
        [xb] "=&r"(xb), [ua] "=&r"(ua), [ub] "=&r"(ub), [la] "=&r"(la), [lb] "=&r"(lb)
      :
      : "memory");
#else
  const uint32_t word = *(*w)++;
  mlf_dot_1x2_s4_(word, mlf_load32_aligned(*x0), mlf_load32_aligned(*x0 + 2), first0, second0);
  mlf_dot_1x2_s4_(word, mlf_load32_aligned(*x1), mlf_load32_aligned(*x1 + 2), first1, second1);
  *x0 += 4;
  *x1 += 4;
#endif
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_DSP_NIBBLES_H_ */
