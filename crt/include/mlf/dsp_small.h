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
#define MLF_STEP_2X2 \
  "ldrd %[wa], %[wb], [%[from]], #8\n\t" \
  "ldm %[at]!, {%[xa], %[xb], %[xc], %[xd]}\n\t" \
  MLF_SMLAD_(all0, xa, wa) MLF_SMLAD_(all1, xc, wa) \
  MLF_SMLAD_(all0, xb, wb) MLF_SMLAD_(all1, xd, wb) \
  "sxtb16 %[wa], %[wa]\n\tsxtb16 %[wb], %[wb]\n\t" \
  MLF_SMLAD_(low0, xa, wa) MLF_SMLAD_(low1, xc, wa) \
  MLF_SMLAD_(low0, xb, wb) MLF_SMLAD_(low1, xd, wb)
#define MLF_DOTS_2X2(w, x, stop, l0, a0, l1, a1) \
  do { \
    uint32_t wa_, wb_; \
    register uint32_t x0_ __asm__("r4"); \
    register uint32_t x1_ __asm__("r5"); \
    register uint32_t x2_ __asm__("r8"); \
    register uint32_t x3_ __asm__("r10"); \
    __asm__ volatile( \
        "1:\n\t" MLF_STEP_2X2 \
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

/* Of a function whose assembly takes all core registers: none is left for the code around it. */
#if defined(__GNUC__)
#define MLF_APART static __attribute__((noinline, unused))
#else
#define MLF_APART static inline
#endif

/* All channels of two pixels whose outputs are at `y0` and `y1`: of each two
 * channels `w` has their biases, scales and weights, of an even number of steps. Forty-five
 * instructions for four outputs beside the products. All core registers are taken, so what a pair
 * of channels needs once stays in those of the FPU. */
MLF_APART void mlf_channels_2x2(const uint32_t *w, const int16_t *x, const int16_t *stop,
                                int8_t *y0, int8_t *y1, int32_t channels, int32_t zero_point) {
#if MLF_DSP && defined(__OPTIMIZE__) && !defined(__clang__) && defined(__ARM_FP) && (__ARM_FP & 4)
  /* clang-format off */
  int8_t *last = y0 + channels;
  uint32_t wa, wb;
  register uint32_t x0 __asm__("r4");
  register uint32_t x1 __asm__("r5");
  register uint32_t x2 __asm__("r8");
  register uint32_t x3 __asm__("r10");
  __asm__ volatile(
      "vmov s10, s11, %[low0], %[all0]\n\t"
      "vmov s12, s13, %[low1], %[all1]\n\t"
      "vmov s6, %[at]\n\t"
      "1:\n\t"
      "ldr %[low0], [%[from]], #4\n\t"
      "vldmia %[from]!, {s7, s8, s9}\n\t"
      "mov %[low1], %[low0]\n\tmov %[all0], %[low0]\n\tmov %[all1], %[low0]\n\t"
      "2:\n\t" MLF_STEP_2X2 MLF_STEP_2X2
      "cmp %[at], %[end]\n\tbne 2b\n\t"
      "vmov %[at], %[wa], s6, s7\n\t"
      "sub %[all0], %[all0], %[low0]\n\tadd %[all0], %[wa], %[all0], asr #8\n\t"
      "sub %[all1], %[all1], %[low1]\n\tadd %[all1], %[wa], %[all1], asr #8\n\t"
      "vmov s0, s1, %[low0], %[all0]\n\tvmov s2, s3, %[low1], %[all1]\n\t"
      "vcvt.f32.s32 s0, s0\n\tvcvt.f32.s32 s1, s1\n\t"
      "vcvt.f32.s32 s2, s2\n\tvcvt.f32.s32 s3, s3\n\t"
      "vmul.f32 s0, s0, s8\n\tvmul.f32 s1, s1, s9\n\t"
      "vmul.f32 s2, s2, s8\n\tvmul.f32 s3, s3, s9\n\t"
      "vcvtr.s32.f32 s0, s0\n\tvcvtr.s32.f32 s1, s1\n\t"
      "vcvtr.s32.f32 s2, s2\n\tvcvtr.s32.f32 s3, s3\n\t"
      "vmov %[low0], %[all0], s0, s1\n\tvmov %[low1], %[all1], s2, s3\n\t"
      "vmov %[wa], %[wb], s10, s11\n\tvmov %[xa], %[xb], s12, s13\n\t"
      "add %[low0], %[low0], %[xb]\n\tadd %[all0], %[all0], %[xb]\n\t"
      "add %[low1], %[low1], %[xb]\n\tadd %[all1], %[all1], %[xb]\n\t"
      "ssat %[low0], #8, %[low0]\n\tssat %[all0], #8, %[all0]\n\t"
      "ssat %[low1], #8, %[low1]\n\tssat %[all1], #8, %[all1]\n\t"
      "strb %[low0], [%[wa]], #1\n\tstrb %[low1], [%[wb]], #1\n\t"
      "cmp %[wa], %[xa]\n\titt ne\n\t"
      "strbne %[all0], [%[wa]], #1\n\tstrbne %[all1], [%[wb]], #1\n\t"
      "vmov s10, s11, %[wa], %[wb]\n\t"
      "cmp %[wa], %[xa]\n\tbne 1b"
      : [from] "+&r"(w), [at] "+&r"(x), [low0] "+&r"(y0), [all0] "+&r"(y1), [low1] "+&r"(last),
        [all1] "+&r"(zero_point), [wa] "=&r"(wa), [wb] "=&r"(wb), [xa] "=&r"(x0), [xb] "=&r"(x1),
        [xc] "=&r"(x2), [xd] "=&r"(x3)
      : [end] "r"(stop)
      : "memory", "cc", "s0", "s1", "s2", "s3", "s6", "s7", "s8", "s9", "s10", "s11", "s12", "s13");
  /* clang-format on */
#else
  for (int32_t c = 0; c < channels; c += 2) {
    const int16_t *at = x;
    int32_t low0 = (int32_t)w[0], all0 = low0, low1 = low0, all1 = low0;
    const int32_t bias1 = (int32_t)w[1];
    const float scale0 = mlf_float_of_bits(w[2]), scale1 = mlf_float_of_bits(w[3]);
    w += 4;
    MLF_DOTS_2X2(w, at, stop, low0, all0, low1, all1);
    all0 = mlf_upper_sum(all0, low0) + bias1;
    all1 = mlf_upper_sum(all1, low1) + bias1;
    y0[c] = (int8_t)mlf_requantize_here(low0, scale0, zero_point, -128, 127);
    y1[c] = (int8_t)mlf_requantize_here(low1, scale0, zero_point, -128, 127);
    if (c + 1 < channels) {
      y0[c + 1] = (int8_t)mlf_requantize_here(all0, scale1, zero_point, -128, 127);
      y1[c + 1] = (int8_t)mlf_requantize_here(all1, scale1, zero_point, -128, 127);
    }
  }
#endif
}

/* mlf_widen_s8_pairs for one of two pixels of which four values each alternate in `to`. */
static inline void mlf_widen_s8_twins(const int8_t *from, int16_t *to, int32_t n) {
  const int8_t *const end = from + n;
#if MLF_DSP
  uint32_t a, b;
  __asm__ volatile("1:\n\t"
                   "ldr %[a], [%[from]], #4\n\t"
                   "sxtb16 %[b], %[a], ror #8\n\t"
                   "sxtb16 %[a], %[a]\n\t"
                   "strd %[a], %[b], [%[to]], #16\n\t"
                   "cmp %[from], %[end]\n\t"
                   "bne 1b"
                   : [from] "+&r"(from), [to] "+&r"(to), [a] "=&r"(a), [b] "=&r"(b)
                   : [end] "r"(end)
                   : "memory", "cc");
#else
  while (from != end) {
    const uint32_t v = mlf_load32(from);
    mlf_store32_aligned(to, mlf_sxtb16(v));
    mlf_store32_aligned(to + 2, mlf_sxtb16_ror8(v));
    from += 4;
    to += 8;
  }
#endif
}

/* n bytes, at least one: gcc would call memcpy. */
static inline void mlf_copy_s8(const int8_t *from, int8_t *to, int32_t n) {
#if MLF_DSP
  uint32_t word;
  __asm__ volatile("b 2f\n"
                   "1:\n\t"
                   "ldr %[word], [%[from]], #4\n\t"
                   "str %[word], [%[to]], #4\n"
                   "2:\n\t"
                   "subs %[n], %[n], #4\n\t"
                   "bpl 1b\n\t"
                   "adds %[n], %[n], #4\n\t"
                   "beq 4f\n"
                   "3:\n\t"
                   "ldrb %[word], [%[from]], #1\n\t"
                   "strb %[word], [%[to]], #1\n\t"
                   "subs %[n], %[n], #1\n\t"
                   "bne 3b\n"
                   "4:"
                   : [from] "+&r"(from), [to] "+&r"(to), [n] "+&r"(n), [word] "=&r"(word)
                   :
                   : "memory", "cc");
#else
  memcpy(to, from, (size_t)n);
#endif
}

/* Bytes `step` apart as halfwords until `end`: seven instructions for two. */
MLF_SHARED void mlf_widen_column(const int8_t *from, int32_t step, int16_t *to,
                                 const int16_t *end) {
  if ((end - to) % 2) {
    *to++ = *from;
    from += step;
  }
#if MLF_DSP
  int32_t first, second;
  __asm__ volatile(
      "b 2f\n"
      "1:\n\t"
      "ldrsb %[first], [%[from]]\n\t"
      "ldrsb %[second], [%[from], %[step]]\n\t"
      "add %[from], %[from], %[step], lsl #1\n\t"
      "strh %[first], [%[to]], #2\n\t"
      "strh %[second], [%[to]], #2\n\t"
      "2:\n\t"
      "cmp %[to], %[end]\n\t"
      "bne 1b"
      : [from] "+&r"(from), [to] "+&r"(to), [first] "=&r"(first), [second] "=&r"(second)
      : [step] "r"(step), [end] "r"(end)
      : "memory", "cc");
#else
  while (to != end) {
    *to++ = *from;
    from += step;
  }
#endif
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
