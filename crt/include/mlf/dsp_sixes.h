/* Products of one pixel and six output channels, whose weights are paired as in dsp.h: a load of
 * the pixel serves half as many channels again as with four. */
#ifndef MLF_DSP_SIXES_H_
#define MLF_DSP_SIXES_H_

#include "dsp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Six sums begin with the first words of `weights`. Up to `stop`, which is the loop's end, each two
 * words of the pixel meet three words of weights: `fours` of them before the loop, then four times
 * two words `times` a round. `kind` is what the pixel has: HALVES, BYTES or UNSIGNED. */
#if MLF_DSP && defined(__OPTIMIZE__) && !defined(__clang__)
#define MLF_LOAD_HALVES(a, b)   "ldrd %[" #a "], %[" #b "], [%[x]], #8\n\t"
#define MLF_LOAD_BYTES(a, b)    "ldr %[" #a "], [%[x]], #4\n\t"
#define MLF_LOAD_UNSIGNED(a, b) MLF_LOAD_BYTES(a, b)
#define MLF_WIDEN_HALVES(a, b)
#define MLF_WIDEN_BYTES(a, b) \
  "sxtb16 %[" #b "], %[" #a "], ror #8\n\tsxtb16 %[" #a "], %[" #a "]\n\t"
#define MLF_WIDEN_UNSIGNED(a, b) \
  "uxtb16 %[" #b "], %[" #a "], ror #8\n\tuxtb16 %[" #a "], %[" #a "]\n\t"
#define MLF_LOW_(w) "sxtb16 %[" #w "], %[" #w "]\n\t"
/* clang-format off */
#define MLF_WEIGHTS_3_(a, b, c) "ldm %[w]!, {%[" #a "], %[" #b "], %[" #c "]}\n\t"
#define MLF_WEIGHTS_4_(a, b, c, d) \
  "ldm %[w]!, {%[" #a "], %[" #b "], %[" #c "], %[" #d "]}\n\t"
/* Three words of weights for the sums of pairs i, j and k; `between` comes before the last product,
 * when the first two words are no longer wanted. */
#define MLF_SUMS_3_(i, xi, a, j, xj, b, k, xk, c, between) \
  MLF_SMLAD_(all##i, xi, a) MLF_SMLAD_(all##j, xj, b) MLF_SMLAD_(all##k, xk, c) \
  MLF_LOW_(a) MLF_LOW_(b) MLF_LOW_(c) \
  MLF_SMLAD_(low##i, xi, a) MLF_SMLAD_(low##j, xj, b) between MLF_SMLAD_(low##k, xk, c)
#define MLF_SUMS_1_(i, x, a) MLF_SMLAD_(all##i, x, a) MLF_LOW_(a) MLF_SMLAD_(low##i, x, a)
/* Each load overlaps with the one before it, as those of pairs do not. */
#define MLF_START_1X6 \
  "ldr %[low1], [%[w], #4]\n\tldr %[low2], [%[w], #8]\n\t" \
  "ldr %[all0], [%[w], #12]\n\tldr %[all1], [%[w], #16]\n\t" \
  "ldr %[all2], [%[w], #20]\n\tldr %[low0], [%[w]], #24\n\t"
#define MLF_FOUR_1X6(load, widen) \
  load(t3, t4) MLF_WEIGHTS_3_(t0, t1, t2) widen(t3, t4) \
  MLF_SUMS_3_(0, t3, t0, 1, t3, t1, 2, t3, t2, ) \
  MLF_WEIGHTS_3_(t0, t1, t2) MLF_SUMS_3_(0, t4, t0, 1, t4, t1, 2, t4, t2, )
/* Where a word of the pixel is no longer wanted, a word more of weights has room. */
#define MLF_SIXTEEN_1X6(load, widen) \
  load(t3, t4) MLF_WEIGHTS_3_(t0, t1, t2) widen(t3, t4) \
  MLF_SUMS_3_(0, t3, t0, 1, t3, t1, 2, t3, t2, ) \
  MLF_WEIGHTS_4_(t0, t1, t2, t3) \
  MLF_SUMS_3_(0, t4, t0, 1, t4, t1, 2, t4, t2, load(t0, t1)) \
  widen(t0, t1) MLF_SUMS_1_(0, t0, t3) MLF_WEIGHTS_3_(t2, t3, t4) \
  MLF_SUMS_3_(1, t0, t2, 2, t0, t3, 0, t1, t4, ) \
  MLF_WEIGHTS_4_(t0, t2, t3, t4) \
  MLF_SUMS_1_(1, t1, t0) MLF_SUMS_1_(2, t1, t2) load(t0, t1) \
  "sxtb16 %[t2], %[t3]\n\t" widen(t0, t1) MLF_SMLAD_(low0, t0, t2) MLF_SMLAD_(all0, t0, t3) \
  MLF_SUMS_1_(1, t0, t4) MLF_WEIGHTS_3_(t2, t3, t4) \
  MLF_SUMS_3_(2, t0, t2, 0, t1, t3, 1, t1, t4, ) \
  MLF_WEIGHTS_4_(t0, t2, t3, t4) \
  MLF_SUMS_1_(2, t1, t0) load(t0, t1) widen(t0, t1) \
  MLF_SUMS_3_(0, t0, t2, 1, t0, t3, 2, t0, t4, ) \
  MLF_WEIGHTS_3_(t2, t3, t4) MLF_SUMS_3_(0, t1, t2, 1, t1, t3, 2, t1, t4, )
/* clang-format on */
#define MLF_AGAIN_1X6 "ldr %[t0], %[end]\n\tcmp %[x], %[t0]\n\tbne 1b"
/* LDM loads in the order of the registers' numbers. All but the frame pointer are taken, too many
 * for clang. */
#define MLF_DOTS_1X6(fours, times, more, kind, weights, from, stop, low, all) \
  do { \
    register uint32_t t0_ __asm__("r4"); \
    register uint32_t t1_ __asm__("r5"); \
    register uint32_t t2_ __asm__("r8"); \
    register uint32_t t3_ __asm__("r10"); \
    register uint32_t t4_ __asm__("r12"); \
    __asm__ volatile( \
        MLF_START_1X6 fours(MLF_FOUR_1X6(MLF_LOAD_##kind, MLF_WIDEN_##kind)) "1:\n\t" times( \
            MLF_SIXTEEN_1X6(MLF_LOAD_##kind, MLF_WIDEN_##kind)) more \
        : [w] "+&r"(weights), [x] "+&r"(from), [low0] "=&r"(low##00), [low1] "=&r"(low##02), \
          [low2] "=&r"(low##04), [all0] "=&r"(all##0), [all1] "=&r"(all##1), [all2] "=&r"(all##2), \
          [t0] "=&r"(t0_), [t1] "=&r"(t1_), [t2] "=&r"(t2_), [t3] "=&r"(t3_), [t4] "=&r"(t4_) \
        : [end] "m"(stop) \
        : "memory", "cc"); \
  } while (0)
#else
#define MLF_WORDS_HALVES   MLF_STEP_1X4
#define MLF_WORDS_BYTES    MLF_STEP_1X4_BYTES
#define MLF_WORDS_UNSIGNED MLF_STEP_1X4_UNSIGNED
#define MLF_DOTS_1X6(fours, times, more, kind, weights, from, stop, low, all) \
  low##00 = (int32_t)(weights)[0], low##02 = (int32_t)(weights)[1]; \
  low##04 = (int32_t)(weights)[2], all##0 = (int32_t)(weights)[3]; \
  all##1 = (int32_t)(weights)[4], all##2 = (int32_t)(weights)[5]; \
  for ((weights) += 6; (from) != (stop); (from) += 4) { \
    const uint32_t words[] = {MLF_WORDS_##kind}; \
    for (int32_t i = 0; i < 2; i++) { \
      low##00 = mlf_smlad(words[i], mlf_sxtb16((weights)[0]), low##00); \
      all##0 = mlf_smlad(words[i], (weights)[0], all##0); \
      low##02 = mlf_smlad(words[i], mlf_sxtb16((weights)[1]), low##02); \
      all##1 = mlf_smlad(words[i], (weights)[1], all##1); \
      low##04 = mlf_smlad(words[i], mlf_sxtb16((weights)[2]), low##04); \
      all##2 = mlf_smlad(words[i], (weights)[2], all##2); \
      (weights) += 3; \
    } \
  }
#endif
#define MLF_TIMES_0(step)

#ifdef __cplusplus
}
#endif

#endif /* MLF_DSP_SIXES_H_ */
