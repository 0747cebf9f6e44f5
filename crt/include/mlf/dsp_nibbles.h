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
  __asm__ volatile(
      MLF_LOAD_S4_ "smlad %[sum0], %[xa], %[ua], %[sum0]\n\t"
                   "smlad %[sum1], %[xa], %[la], %[sum1]\n\t"
                   "smlad %[sum0], %[xb], %[ub], %[sum0]\n\t"
                   "smlad %[sum1], %[xb], %[lb], %[sum1]\n\t" MLF_LOAD_S4_
                   "smlad %[sum2], %[xa], %[ua], %[sum2]\n\t"
                   "smlad %[sum3], %[xa], %[la], %[sum3]\n\t"
                   "smlad %[sum2], %[xb], %[ub], %[sum2]\n\t"
                   "smlad %[sum3], %[xb], %[lb], %[sum3]"
      : [w] "+&r"(*w), [sum0] "+&r"(*sum0), [sum1] "+&r"(*sum1), [sum2] "+&r"(*sum2),
        [sum3] "+&r"(*sum3), [ua] "=&r"(ua), [ub] "=&r"(ub), [la] "=&r"(la), [lb] "=&r"(lb)
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
  __asm__ volatile(
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

/* Weights of four bits, four of a channel and four of the next: each halfword has, from its upper
 * bits, a weight of the first pair of products and of the second of the first channel, then of the
 * second channel. What a mask leaves at the top of halfwords is 2^12 times a weight of each: no
 * sign is to be extended, and the sums are 2^12 times as large. */
#define MLF_S4_MASK 0xf000f000u

/* Adds 2^12 times the products of a word of them to `first` and `second`. */
MLF_INLINE void mlf_dot_1x2_top_s4_(uint32_t w, uint32_t xa, uint32_t xb, int32_t *first,
                                    int32_t *second) {
  *first = mlf_smlad(xa, w & MLF_S4_MASK, *first);
  *first = mlf_smlad(xb, (w << 4) & MLF_S4_MASK, *first);
  *second = mlf_smlad(xa, (w << 8) & MLF_S4_MASK, *second);
  *second = mlf_smlad(xb, (w << 12) & MLF_S4_MASK, *second);
}

/* All of them for two pixels and two channels, until the first pixel is at `stop`: sixteen
 * instructions for sixteen products. */
#if MLF_DSP && defined(__OPTIMIZE__) && !defined(__clang__)
#define MLF_DOTS_2X2_S4(weights, p0, p1, stop, s00, s01, s10, s11) \
  do { \
    uint32_t u_, t_, xa_, xb_, xc_; \
    __asm__ volatile( \
        "1:\n\t" \
        "ldr %[u], [%[w]], #4\n\t" \
        "ldrd %[xa], %[xb], [%[x0]], #8\n\t" \
        "ldr %[xc], [%[x1]], #4\n\t" \
        "and %[t], %[u], %[mask]\n\t" MLF_SMLAD_(first0, xa, t) MLF_SMLAD_( \
            first1, xc, t) "and %[t], %[mask], %[u], lsl #8\n\t" MLF_SMLAD_(second0, xa, t) \
            MLF_SMLAD_( \
                second1, xc, \
                t) "ldr %[xc], [%[x1]], #4\n\t" \
                   "and %[t], %[mask], %[u], lsl #4\n\t" MLF_SMLAD_(first0, xb, t) MLF_SMLAD_( \
                       first1, xc, t) "and %[t], %[mask], %[u], lsl #12\n\t" MLF_SMLAD_(second0, \
                                                                                        xb, t) \
                       MLF_SMLAD_(second1, xc, t) "ldr %[t], %[end]\n\t" \
                                                  "cmp %[x0], %[t]\n\t" \
                                                  "bne 1b" \
        : [w] "+r"(weights), [x0] "+r"(p0), [x1] "+r"(p1), [first0] "+r"(s00), \
          [second0] "+r"(s01), [first1] "+r"(s10), [second1] "+r"(s11), [u] "=&r"(u_), \
          [t] "=&r"(t_), [xa] "=&r"(xa_), [xb] "=&r"(xb_), [xc] "=&r"(xc_) \
        : [mask] "r"(MLF_S4_MASK), [end] "m"(stop) \
        : "memory", "cc"); \
  } while (0)
#else
#define MLF_DOTS_2X2_S4(weights, p0, p1, stop, s00, s01, s10, s11) \
  for (; (p0) != (stop); (p0) += 4, (p1) += 4, (weights)++) { \
    mlf_dot_1x2_top_s4_(*(weights), mlf_load32_aligned(p0), mlf_load32_aligned((p0) + 2), &(s00), \
                        &(s01)); \
    mlf_dot_1x2_top_s4_(*(weights), mlf_load32_aligned(p1), mlf_load32_aligned((p1) + 2), &(s10), \
                        &(s11)); \
  }
#endif

/* The same for one pixel and four channels: nineteen instructions, twenty if its bytes are yet to
 * be widened. */
#if MLF_DSP && defined(__OPTIMIZE__) && !defined(__clang__)
#define MLF_SUMS_S4_(first, second, word) \
  "and %[t], %[" #word "], %[mask]\n\t" MLF_SMLAD_( \
      first, xa, t) "and %[t], %[mask], %[" #word \
                    "], lsl #8\n\t" MLF_SMLAD_( \
                        second, xa, t) "and %[t], %[mask], %[" #word \
                                       "], lsl #4\n\t" MLF_SMLAD_( \
                                           first, xb, t) "and %[t], %[mask], %[" #word \
                                                         "], lsl #12\n\t" MLF_SMLAD_(second, xb, \
                                                                                     t)
#define MLF_INPUT_S4 "ldrd %[xa], %[xb], [%[x]], #8\n\tldrd %[u], %[v], [%[w]], #8\n\t"
#define MLF_INPUT_S4_BYTES \
  "ldr %[xa], [%[x]], #4\n\tldrd %[u], %[v], [%[w]], #8\n\t" \
  "sxtb16 %[xb], %[xa], ror #8\n\tsxtb16 %[xa], %[xa]\n\t"
#define MLF_DOTS_1X4_S4(input, weights, from, stop, s0, s1, s2, s3) \
  do { \
    uint32_t u_, v_, t_, xa_, xb_; \
    __asm__ volatile("1:\n\t" input MLF_SUMS_S4_(sum0, sum1, u) \
                         MLF_SUMS_S4_(sum2, sum3, v) "cmp %[x], %[end]\n\tbne 1b" \
                     : [w] "+r"(weights), [x] "+r"(from), [sum0] "+r"(s0), [sum1] "+r"(s1), \
                       [sum2] "+r"(s2), [sum3] "+r"(s3), [u] "=&r"(u_), [v] "=&r"(v_), \
                       [t] "=&r"(t_), [xa] "=&r"(xa_), [xb] "=&r"(xb_) \
                     : [mask] "r"(MLF_S4_MASK), [end] "r"(stop) \
                     : "memory", "cc"); \
  } while (0)
#else
#define MLF_INPUT_S4       mlf_load32_aligned(c0), mlf_load32_aligned(c0 + 2)
#define MLF_INPUT_S4_BYTES mlf_sxtb16(mlf_load32(c0)), mlf_sxtb16_ror8(mlf_load32(c0))
#define MLF_DOTS_1X4_S4(input, weights, from, stop, s0, s1, s2, s3) \
  for (; (from) != (stop); (from) += 4, (weights) += 2) { \
    mlf_dot_1x4_top_s4_(weights, input, &(s0), &(s1), &(s2), &(s3)); \
  }
MLF_INLINE void mlf_dot_1x4_top_s4_(const uint32_t *w, uint32_t xa, uint32_t xb, int32_t *sum0,
                                    int32_t *sum1, int32_t *sum2, int32_t *sum3) {
  mlf_dot_1x2_top_s4_(w[0], xa, xb, sum0, sum1);
  mlf_dot_1x2_top_s4_(w[1], xa, xb, sum2, sum3);
}
#endif

#ifdef __cplusplus
}
#endif

#endif /* MLF_DSP_NIBBLES_H_ */
