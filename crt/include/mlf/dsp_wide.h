/* Products of int16 and int8 on cores with the DSP extension: nothing but the weights is widened.
 *
 * A word of weights has two products of two channels: bytes 0 and 2 are of the first channel, bytes
 * 1 and 3 of the second, so one SXTB16 each makes the halfwords that SMLAD takes.
 */
#ifndef MLF_DSP_WIDE_H_
#define MLF_DSP_WIDE_H_

#include "dsp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One word to the next; what is an asm statement, no compiler takes for a call of memcpy. */
static inline void mlf_move32_(const int16_t **from, int16_t **to, int32_t step) {
#if MLF_DSP
  uint32_t v;
  __asm__ volatile("ldr %1, [%0], #4" : "+r"(*from), "=r"(v) : : "memory");
#else
  const uint32_t v = mlf_load32(*from);
  *from += 2;
#endif
  memcpy(*to, &v, sizeof v);
  *to += step;
}

/* n halfwords from `from` to `to`, neither of which need be divisible by four. */
static inline void mlf_copy_s16(const int16_t *from, int16_t *to, int32_t n) {
  const int16_t *const end = from + (n & ~1);
  MLF_UNROLL(4)
  while (from != end) {
    mlf_move32_(&from, &to, 2);
  }
  if (n & 1) {
    *to = *from;
  }
}

/* n halfwords, a multiple of four, of one of three pixels whose words alternate in `to`. */
static inline void mlf_copy_s16_triples(const int16_t *from, int16_t *to, int32_t n) {
  const int16_t *const end = from + n;
  MLF_UNROLL(4)
  while (from != end) {
    mlf_move32_(&from, &to, 6);
    mlf_move32_(&from, &to, 6);
  }
}

#if MLF_DSP && defined(__OPTIMIZE__) && !defined(__clang__)
/* Three pixels whose words alternate in `x`, until `stop`: twenty instructions for twenty-four
 * products. Registers as in MLF_DOTS_3X2. */
/* clang-format off */
#define MLF_HALF_WIDE_3X2 \
  "ldr %[wa], [%[w]], #4\n\t" \
  "ldm %[x]!, {%[x0], %[x1], %[x2]}\n\t" \
  "sxtb16 %[wb], %[wa]\n\t" \
  MLF_SMLAD_(low0, x0, wb) MLF_SMLAD_(low1, x1, wb) MLF_SMLAD_(low2, x2, wb) \
  "sxtb16 %[wb], %[wa], ror #8\n\t" \
  MLF_SMLAD_(all0, x0, wb) MLF_SMLAD_(all1, x1, wb) MLF_SMLAD_(all2, x2, wb)
/* clang-format on */
#define MLF_STEP_WIDE_3X2 MLF_HALF_WIDE_3X2 MLF_HALF_WIDE_3X2
#define MLF_DOTS_WIDE_3X2(times, more, weights, from, stop, sum) \
  MLF_DOTS_OF(times(MLF_STEP_WIDE_3X2) more, weights, from, stop, sum##00, sum##01, sum##10, \
              sum##11, sum##20, sum##21)

/* One pixel and four channels, until `stop`: nineteen instructions for sixteen products. */
/* clang-format off */
#define MLF_SUMS_WIDE_(w, xs, low, up) \
  "sxtb16 %[t], %[" #w "]\n\t" \
  MLF_SMLAD_(low, xs, t) \
  "sxtb16 %[" #w "], %[" #w "], ror #8\n\t" \
  MLF_SMLAD_(up, xs, w)
#define MLF_STEP_WIDE_1X4 \
  "ldr %[xa], [%[x]], #4\n\t" \
  "ldm %[w]!, {%[w0], %[w1], %[w2], %[w3]}\n\t" \
  "ldr %[xb], [%[x]], #4\n\t" \
  MLF_SUMS_WIDE_(w0, xa, low0, all0) MLF_SUMS_WIDE_(w2, xb, low0, all0) \
  MLF_SUMS_WIDE_(w1, xa, low1, all1) MLF_SUMS_WIDE_(w3, xb, low1, all1)
/* clang-format on */
#define MLF_AGAIN_WIDE_1X4 "ldr %[t], %[end]\n\tcmp %[x], %[t]\n\tbne 1b"
#define MLF_DOTS_WIDE_1X4(times, more, weights, from, stop, sum) \
  do { \
    uint32_t xa_, xb_, t_; \
    register uint32_t w0_ __asm__("r4"); \
    register uint32_t w1_ __asm__("r5"); \
    register uint32_t w2_ __asm__("r8"); \
    register uint32_t w3_ __asm__("r10"); \
    __asm__ volatile( \
        "1:\n\t" times(MLF_STEP_WIDE_1X4) more \
        : [w] "+r"(weights), [x] "+r"(from), [low0] "+r"(sum##00), [all0] "+r"(sum##01), \
          [low1] "+r"(sum##02), [all1] "+r"(sum##03), [xa] "=&r"(xa_), [xb] "=&r"(xb_), \
          [w0] "=&r"(w0_), [w1] "=&r"(w1_), [w2] "=&r"(w2_), [w3] "=&r"(w3_), [t] "=&r"(t_) \
        : [end] "m"(stop) \
        : "memory", "cc"); \
  } while (0)
#else
#define MLF_AGAIN_WIDE_1X4
#define MLF_DOTS_WIDE_3X2(times, more, weights, from, stop, sum) \
  for (; (from) != (stop); (from) += 6) { \
    const uint32_t word = *(weights)++; \
    const uint32_t first = mlf_sxtb16(word), second = mlf_sxtb16_ror8(word); \
    sum##00 = mlf_smlad(mlf_load32_aligned(from), first, sum##00); \
    sum##10 = mlf_smlad(mlf_load32_aligned((from) + 2), first, sum##10); \
    sum##20 = mlf_smlad(mlf_load32_aligned((from) + 4), first, sum##20); \
    sum##01 = mlf_smlad(mlf_load32_aligned(from), second, sum##01); \
    sum##11 = mlf_smlad(mlf_load32_aligned((from) + 2), second, sum##11); \
    sum##21 = mlf_smlad(mlf_load32_aligned((from) + 4), second, sum##21); \
  }
#define MLF_DOTS_WIDE_1X4(times, more, weights, from, stop, sum) \
  for (; (from) != (stop); (from) += 4) { \
    for (int32_t half = 0; half < 2; half++) { \
      const uint32_t pair = mlf_load32((from) + 2 * half); \
      const uint32_t left = (weights)[2 * half], right = (weights)[2 * half + 1]; \
      sum##00 = mlf_smlad(pair, mlf_sxtb16(left), sum##00); \
      sum##01 = mlf_smlad(pair, mlf_sxtb16_ror8(left), sum##01); \
      sum##02 = mlf_smlad(pair, mlf_sxtb16(right), sum##02); \
      sum##03 = mlf_smlad(pair, mlf_sxtb16_ror8(right), sum##03); \
    } \
    (weights) += 4; \
  }
#endif

/* mlf_requantize_wide with the bits of a scale that is a normal number. VCVTR rounds to even, as
 * the processor does unless it is told otherwise, and saturates, so nothing need be limited
 * before. */
static inline int32_t mlf_requantize_bits(int32_t acc, int32_t bits, int32_t zero_point,
                                          int32_t low, int32_t high) {
  const float scaled = (float)acc * mlf_float_of_bits((uint32_t)bits);
#if MLF_DSP && defined(__ARM_FP)
  float rounded;
  __asm__("vcvtr.s32.f32 %0, %1" : "=t"(rounded) : "t"(scaled));
  const int32_t x = (int32_t)mlf_bits_of_float(rounded);
  return mlf_clamp_i32(x, low - zero_point, high - zero_point) + zero_point;
#else
  return mlf_quantize(scaled, zero_point, low, high);
#endif
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_DSP_WIDE_H_ */
