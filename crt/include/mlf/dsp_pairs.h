/* Loops over pairs of pixels and channels, on cores with the DSP extension. */
#ifndef MLF_DSP_PAIRS_H_
#define MLF_DSP_PAIRS_H_

#include "dsp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Four products each for two pixels and two channels. A weight halfword is 256 * w1 + w0: `low`
 * sums the products with w0, `all` those with the halfword. Pointers move on. */
MLF_INLINE void mlf_dot_2x2(const uint32_t **w, const int16_t **x0, const int16_t **x1,
                            int32_t *low0, int32_t *all0, int32_t *low1, int32_t *all1) {
#if MLF_DSP
  uint32_t wa, wb, la, lb, xa, xb;
  __asm__ volatile("ldrd %[wa], %[wb], [%[w]], #8\n\t"
                   "ldrd %[xa], %[xb], [%[x0]], #8\n\t"
                   "sxtb16 %[la], %[wa]\n\t"
                   "sxtb16 %[lb], %[wb]\n\t"
                   "smlad %[low0], %[xa], %[la], %[low0]\n\t"
                   "smlad %[all0], %[xa], %[wa], %[all0]\n\t"
                   "smlad %[low0], %[xb], %[lb], %[low0]\n\t"
                   "smlad %[all0], %[xb], %[wb], %[all0]\n\t"
                   "ldrd %[xa], %[xb], [%[x1]], #8\n\t"
                   "smlad %[low1], %[xa], %[la], %[low1]\n\t"
                   "smlad %[all1], %[xa], %[wa], %[all1]\n\t"
                   "smlad %[low1], %[xb], %[lb], %[low1]\n\t"
                   "smlad %[all1], %[xb], %[wb], %[all1]"
                   : [w] "+r"(*w), [x0] "+r"(*x0), [x1] "+r"(*x1), [low0] "+r"(*low0),
                     [all0] "+r"(*all0), [low1] "+r"(*low1), [all1] "+r"(*all1), [wa] "=&r"(wa),
                     [wb] "=&r"(wb), [la] "=&r"(la), [lb] "=&r"(lb), [xa] "=&r"(xa), [xb] "=&r"(xb)
                   :
                   : "memory");
#else
  for (int32_t i = 0; i < 2; i++) {
    const uint32_t word = (*w)[i];
    const uint32_t v0 = mlf_load32_aligned(*x0 + 2 * i);
    const uint32_t v1 = mlf_load32_aligned(*x1 + 2 * i);
    *low0 = mlf_smlad(v0, mlf_sxtb16(word), *low0);
    *all0 = mlf_smlad(v0, word, *all0);
    *low1 = mlf_smlad(v1, mlf_sxtb16(word), *low1);
    *all1 = mlf_smlad(v1, word, *all1);
  }
  *w += 2;
  *x0 += 4;
  *x1 += 4;
#endif
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_DSP_PAIRS_H_ */
