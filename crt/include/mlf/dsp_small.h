/* What kernels for few bytes of code use, on cores with the DSP extension. */
#ifndef MLF_DSP_SMALL_H_
#define MLF_DSP_SMALL_H_

#include "dsp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* mlf_requantize in a place of its own, also for few bytes of code: a store of a loop that many
 * layers share. */
MLF_INLINE int32_t mlf_requantize_here(int32_t acc, float scale, int32_t zero_point, int32_t low,
                                       int32_t high) {
#if defined(MLF_SATURATES) && defined(__ARM_FP) && (__ARM_FP & 4)
  float product;
  __asm__("vmov %0, %1\n\t"
          "vcvt.f32.s32 %0, %0\n\t"
          "vmul.f32 %0, %0, %2\n\t"
          "vcvtr.s32.f32 %0, %0\n\t"
          "vmov %1, %0"
          : "=&t"(product), "+&r"(acc)
          : "t"(scale));
  return mlf_clamp_i32(acc + zero_point, low, high);
#else
  return mlf_requantize(acc, scale, zero_point, low, high);
#endif
}

/* mlf_dot_2x2 for two pixels of which four values each alternate in `x`, until `stop`: fourteen
 * instructions for sixteen products, since one LDM loads what two pixels have of a step. */
#if MLF_DSP && defined(__OPTIMIZE__) && !defined(__clang__)
/* clang-format off */
#define MLF_DOTS_2X2(w, x, stop, l0, a0, l1, a1) \
  do { \
    uint32_t wa_, wb_; \
    register uint32_t x0_ __asm__("r4"); \
    register uint32_t x1_ __asm__("r5"); \
    register uint32_t x2_ __asm__("r8"); \
    register uint32_t x3_ __asm__("r10"); \
    __asm__ volatile( \
        "1:\n\t" \
        "ldrd %[wa], %[wb], [%[from]], #8\n\t" \
        "ldm %[at]!, {%[xa], %[xb], %[xc], %[xd]}\n\t" \
        MLF_SMLAD_(all0, xa, wa) MLF_SMLAD_(all1, xc, wa) \
        MLF_SMLAD_(all0, xb, wb) MLF_SMLAD_(all1, xd, wb) \
        "sxtb16 %[wa], %[wa]\n\tsxtb16 %[wb], %[wb]\n\t" \
        MLF_SMLAD_(low0, xa, wa) MLF_SMLAD_(low1, xc, wa) \
        MLF_SMLAD_(low0, xb, wb) MLF_SMLAD_(low1, xd, wb) \
        "cmp %[at], %[end]\n\tbne 1b" \
        : [from] "+r"(w), [at] "+r"(x), [low0] "+r"(l0), [all0] "+r"(a0), [low1] "+r"(l1), \
          [all1] "+r"(a1), [wa] "=&r"(wa_), [wb] "=&r"(wb_), [xa] "=&r"(x0_), [xb] "=&r"(x1_), \
          [xc] "=&r"(x2_), [xd] "=&r"(x3_) \
        : [end] "r"(stop) \
        : "memory", "cc"); \
  } while (0)
/* clang-format on */
#else
#define MLF_DOTS_2X2(w, x, stop, l0, a0, l1, a1) \
  for (; (x) != (stop); (x) += 8) { \
    const uint32_t wa = *(w)++; \
    const uint32_t wb = *(w)++; \
    a0 = mlf_smlad(mlf_load32_aligned(x), wa, a0); \
    a0 = mlf_smlad(mlf_load32_aligned((x) + 2), wb, a0); \
    a1 = mlf_smlad(mlf_load32_aligned((x) + 4), wa, a1); \
    a1 = mlf_smlad(mlf_load32_aligned((x) + 6), wb, a1); \
    l0 = mlf_smlad(mlf_load32_aligned(x), mlf_sxtb16(wa), l0); \
    l0 = mlf_smlad(mlf_load32_aligned((x) + 2), mlf_sxtb16(wb), l0); \
    l1 = mlf_smlad(mlf_load32_aligned((x) + 4), mlf_sxtb16(wa), l1); \
    l1 = mlf_smlad(mlf_load32_aligned((x) + 6), mlf_sxtb16(wb), l1); \
  }
#endif

/* mlf_widen_s8_pairs for one of two pixels of which four values each alternate in `to`. */
static inline void mlf_widen_s8_twins(const int8_t *from, int16_t *to, int32_t n) {
  const int8_t *const end = from + n;
  while (from != end) {
    const uint32_t v = mlf_load32(from);
    mlf_store32_aligned(to, mlf_sxtb16(v));
    mlf_store32_aligned(to + 2, mlf_sxtb16_ror8(v));
    from += 4;
    to += 8;
  }
}

/* n halfwords of `value` in its places. */
static inline void mlf_fill_s16_twins(int16_t *to, int32_t value, int32_t n) {
  for (int32_t i = 0; i < n; i += 4) {
    mlf_store32_aligned(to + 2 * i, mlf_pair_s16(value, value));
    mlf_store32_aligned(to + 2 * i + 2, mlf_pair_s16(value, value));
  }
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_DSP_SMALL_H_ */
