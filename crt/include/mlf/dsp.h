/* The ARMv7E-M DSP instructions that int8 kernels use, with plain C for every other processor, so
 * that sources generated for a Cortex-M4 compile, and give the same bits, anywhere. */
#ifndef MLF_DSP_H_
#define MLF_DSP_H_

#include "kernel.h"

#if defined(__GNUC__) && !defined(__clang__) && !defined(__OPTIMIZE_SIZE__)
#define MLF_PRAGMA(text)  _Pragma(#text)
#define MLF_UNROLL(times) MLF_PRAGMA(GCC unroll times)
#else
#define MLF_UNROLL(times)
#endif

#if defined(__GNUC__)
#define MLF_USUALLY(condition) __builtin_expect(condition, 1)
#else
#define MLF_USUALLY(condition) (condition)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Four bytes, little-endian order in memory kept; `from` need not be aligned. */
static inline uint32_t mlf_load32(const void *from) {
  uint32_t word;
  memcpy(&word, from, sizeof word);
  return word;
}

/* Two halfwords from an address divisible by four: lets compilers load two words at once. */
static inline uint32_t mlf_load32_aligned(const int16_t *from) {
  uint32_t word;
#if defined(__GNUC__)
  memcpy(&word, __builtin_assume_aligned(from, 4), sizeof word);
#else
  memcpy(&word, from, sizeof word);
#endif
  return word;
}

static inline void mlf_store32_aligned(int16_t *to, uint32_t word) {
#if defined(__GNUC__)
  memcpy(__builtin_assume_aligned(to, 4), &word, sizeof word);
#else
  memcpy(to, &word, sizeof word);
#endif
}

/* n bytes from `from`, sign-extended, to `to`. */
static inline void mlf_widen_s8(const int8_t *from, int16_t *to, int32_t n) {
  MLF_UNROLL(12)
  for (int32_t i = 0; i < n; i++) {
    to[i] = from[i];
  }
}

/* Two values as halfwords, `low` first in memory. */
static inline uint32_t mlf_pair_s16(int32_t low, int32_t high) {
  return (uint32_t)(uint16_t)low | (uint32_t)high << 16;
}

#if defined(__ARM_FEATURE_DSP) && __ARM_FEATURE_DSP && !defined(MLF_PORTABLE_DSP)
#define MLF_DSP 1
#else
#define MLF_DSP 0
#endif

#if MLF_DSP

/* Bytes 0 and 2, sign-extended to halfwords. */
static inline uint32_t mlf_sxtb16(uint32_t x) {
  uint32_t y;
  __asm__("sxtb16 %0, %1" : "=r"(y) : "r"(x));
  return y;
}

/* Bytes 1 and 3, sign-extended to halfwords. */
static inline uint32_t mlf_sxtb16_ror8(uint32_t x) {
  uint32_t y;
  __asm__("sxtb16 %0, %1, ror #8" : "=r"(y) : "r"(x));
  return y;
}

#else

/* The byte of x at bit `shift`, sign-extended to 16 bits. */
static inline uint32_t mlf_sign_extended_(uint32_t x, uint32_t shift) {
  return (uint32_t)(uint16_t)(int16_t)(int8_t)(uint8_t)(x >> shift);
}

static inline uint32_t mlf_sxtb16(uint32_t x) {
  return mlf_sign_extended_(x, 0) | mlf_sign_extended_(x, 16) << 16;
}

static inline uint32_t mlf_sxtb16_ror8(uint32_t x) {
  return mlf_sign_extended_(x, 8) | mlf_sign_extended_(x, 24) << 16;
}

#endif

/* int32_t mlf_<name>(uint32_t x, uint32_t y, int32_t acc): acc + `products`, which wraps around. */
#if MLF_DSP
#define MLF_SUM_(name, products) \
  static inline int32_t mlf_##name(uint32_t x, uint32_t y, int32_t acc) { \
    int32_t sum; \
    __asm__(#name " %0, %1, %2, %3" : "=r"(sum) : "r"(x), "r"(y), "r"(acc)); \
    return sum; \
  }
#else
#define MLF_SUM_(name, products) \
  static inline int32_t mlf_##name(uint32_t x, uint32_t y, int32_t acc) { \
    return (int32_t)((uint32_t)acc + (products)); \
  }
#endif
/* The product of two halfwords, each of which begins at the bit that is given. */
#define MLF_HALVES_(i, j) \
  (uint32_t)((int32_t)(int16_t)(uint16_t)(x >> (i)) * (int32_t)(int16_t)(uint16_t)(y >> (j)))
MLF_SUM_(smlad, MLF_HALVES_(0, 0) + MLF_HALVES_(16, 16))
MLF_SUM_(smlabb, MLF_HALVES_(0, 0))
MLF_SUM_(smlabt, MLF_HALVES_(0, 16))
MLF_SUM_(smlatb, MLF_HALVES_(16, 0))
MLF_SUM_(smlatt, MLF_HALVES_(16, 16))

/* n bytes, a multiple of four, sign-extended to halfwords in the order SXTB16 gives: of every four
 * the first, third, second and fourth. `to` is divisible by four. */
static inline void mlf_widen_s8_pairs(const int8_t *from, int16_t *to, int32_t n) {
#if MLF_DSP
  uint32_t a, b, c, d;
  MLF_UNROLL(4)
  for (int32_t i = n / 8; i > 0; i--) {
    __asm__ volatile("ldr %3, [%0, #4]\n\t"
                     "ldr %2, [%0], #8\n\t"
                     "sxtb16 %4, %2\n\t"
                     "sxtb16 %2, %2, ror #8\n\t"
                     "sxtb16 %5, %3\n\t"
                     "sxtb16 %3, %3, ror #8\n\t"
                     "strd %4, %2, [%1], #8\n\t"
                     "strd %5, %3, [%1], #8"
                     : "+r"(from), "+r"(to), "=&r"(a), "=&r"(b), "=&r"(c), "=&r"(d)
                     :
                     : "memory");
  }
  if (n % 8) {
    __asm__ volatile("ldr %2, [%0], #4\n\t"
                     "sxtb16 %3, %2\n\t"
                     "sxtb16 %2, %2, ror #8\n\t"
                     "strd %3, %2, [%1], #8"
                     : "+r"(from), "+r"(to), "=&r"(a), "=&r"(b)
                     :
                     : "memory");
  }
#else
  for (const int8_t *const end = from + n; from != end; from += 4, to += 4) {
    const uint32_t v = mlf_load32(from);
    mlf_store32_aligned(to, mlf_sxtb16(v));
    mlf_store32_aligned(to + 2, mlf_sxtb16_ror8(v));
  }
#endif
}

/* mlf_widen_s8_pairs for one of three pixels whose words alternate in `to`. */
static inline void mlf_widen_s8_triples(const int8_t *from, int16_t *to, int32_t n) {
  const int8_t *const end = from + n;
  MLF_UNROLL(4)
  while (from != end) {
    const uint32_t v = mlf_load32(from);
    mlf_store32_aligned(to, mlf_sxtb16(v));
    mlf_store32_aligned(to + 6, mlf_sxtb16_ror8(v));
    from += 4;
    to += 12;
  }
}

/* n halfwords, a multiple of four, to the same places. */
static inline void mlf_alternate_triples(const int16_t *from, int16_t *to, int32_t n) {
  MLF_UNROLL(2)
  for (int32_t i = 0; i < n; i += 4) {
    const uint32_t first = mlf_load32_aligned(from + i);
    const uint32_t second = mlf_load32_aligned(from + i + 2);
    mlf_store32_aligned(to + 3 * i, first);
    mlf_store32_aligned(to + 3 * i + 6, second);
  }
}

/* n halfwords of `value` in the places of mlf_widen_s8_triples. */
static inline void mlf_fill_s16_triples(int16_t *to, int32_t value, int32_t n) {
  for (int32_t i = 0; i < n; i += 2) {
    mlf_store32_aligned(to + 3 * i, mlf_pair_s16(value, value));
  }
}

/* mlf_dot_2x2 for three pixels whose words alternate in `x`, until `end`: seventeen instructions
 * for twenty-four products, since one LDM loads a word of each pixel. `times` repeats the step. */
#if MLF_DSP && defined(__OPTIMIZE__) && !defined(__clang__)
#define MLF_SMLAD_(sum, x, w) "smlad %[" #sum "], %[" #x "], %[" #w "], %[" #sum "]\n\t"
/* clang-format off */
#define MLF_STEP_3X2 \
  "ldrd %[wa], %[wb], [%[w]], #8\n\t" \
  "ldm %[x]!, {%[x0], %[x1], %[x2]}\n\t" \
  MLF_SMLAD_(all0, x0, wa) MLF_SMLAD_(all1, x1, wa) MLF_SMLAD_(all2, x2, wa) \
  "sxtb16 %[wa], %[wa]\n\t" \
  MLF_SMLAD_(low0, x0, wa) MLF_SMLAD_(low1, x1, wa) MLF_SMLAD_(low2, x2, wa) \
  "ldm %[x]!, {%[x0], %[x1], %[x2]}\n\t" \
  MLF_SMLAD_(all0, x0, wb) MLF_SMLAD_(all1, x1, wb) MLF_SMLAD_(all2, x2, wb) \
  "sxtb16 %[wb], %[wb]\n\t" \
  MLF_SMLAD_(low0, x0, wb) MLF_SMLAD_(low1, x1, wb) MLF_SMLAD_(low2, x2, wb)
/* clang-format on */
#define MLF_AGAIN "ldr %[wa], %[end]\n\tcmp %[x], %[wa]\n\tbne 1b"
#define MLF_ONCE  ""
/* LDM loads in the order of the registers' numbers, so x0 to x2 have theirs. Around one step gcc
 * moves sums from register to register. All but the frame pointer are taken, too many for clang. */
#define MLF_DOTS_3X2(times, more, weights, from, stop, low, all) \
  MLF_DOTS_OF(times(MLF_STEP_3X2) more, weights, from, stop, low##00, all##0, low##10, all##1, \
              low##20, all##2)
#define MLF_DOTS_OF(text, weights, from, stop, l0, a0, l1, a1, l2, a2) \
  do { \
    uint32_t wa_, wb_; \
    register uint32_t x0_ __asm__("r8"); \
    register uint32_t x1_ __asm__("r10"); \
    register uint32_t x2_ __asm__("r12"); \
    __asm__ volatile( \
        "1:\n\t" text \
        : [w] "+r"(weights), [x] "+r"(from), [low0] "+r"(l0), [all0] "+r"(a0), [low1] "+r"(l1), \
          [all1] "+r"(a1), [low2] "+r"(l2), [all2] "+r"(a2), [wa] "=&r"(wa_), [wb] "=&r"(wb_), \
          [x0] "=&r"(x0_), [x1] "=&r"(x1_), [x2] "=&r"(x2_) \
        : [end] "m"(stop) \
        : "memory", "cc"); \
  } while (0)
#else
#define MLF_DOTS_3X2(times, more, weights, from, stop, low, all) \
  for (; (from) != (stop); (from) += 6) { \
    const uint32_t word = *(weights)++; \
    const uint32_t lower = mlf_sxtb16(word); \
    all##0 = mlf_smlad(mlf_load32_aligned(from), word, all##0); \
    all##1 = mlf_smlad(mlf_load32_aligned((from) + 2), word, all##1); \
    all##2 = mlf_smlad(mlf_load32_aligned((from) + 4), word, all##2); \
    low##00 = mlf_smlad(mlf_load32_aligned(from), lower, low##00); \
    low##10 = mlf_smlad(mlf_load32_aligned((from) + 2), lower, low##10); \
    low##20 = mlf_smlad(mlf_load32_aligned((from) + 4), lower, low##20); \
  }
#endif
#define MLF_TIMES_1(step)  step
#define MLF_TIMES_2(step)  step step
#define MLF_TIMES_3(step)  MLF_TIMES_2(step) step
#define MLF_TIMES_4(step)  MLF_TIMES_3(step) step
#define MLF_TIMES_5(step)  MLF_TIMES_4(step) step
#define MLF_TIMES_6(step)  MLF_TIMES_5(step) step
#define MLF_TIMES_7(step)  MLF_TIMES_6(step) step
#define MLF_TIMES_8(step)  MLF_TIMES_7(step) step
#define MLF_TIMES_9(step)  MLF_TIMES_8(step) step
#define MLF_TIMES_10(step) MLF_TIMES_9(step) step

/* The same for one pixel, with the weights of two channel pairs in sequence. */
static inline void mlf_dot_1x4(const uint32_t **w, uint32_t xa, uint32_t xb, int32_t *low0,
                               int32_t *all0, int32_t *low1, int32_t *all1) {
  const uint32_t *const at = *w;
  *low0 = mlf_smlad(xb, mlf_sxtb16(at[1]), mlf_smlad(xa, mlf_sxtb16(at[0]), *low0));
  *all0 = mlf_smlad(xb, at[1], mlf_smlad(xa, at[0], *all0));
  *low1 = mlf_smlad(xb, mlf_sxtb16(at[3]), mlf_smlad(xa, mlf_sxtb16(at[2]), *low1));
  *all1 = mlf_smlad(xb, at[3], mlf_smlad(xa, at[2], *all1));
  *w += 4;
}

/* All of them until `stop`: fourteen instructions for sixteen products, sixteen where the
 * pixel's bytes are yet to be widened. What is loaded first is not wanted next, for which some
 * cores would wait. */
#if MLF_DSP && defined(__OPTIMIZE__) && !defined(__clang__)
#define MLF_STEP_1X4 MLF_SUMS_1X4("ldrd %[xa], %[xb], [%[x]], #8\n\t", "")
#define MLF_STEP_1X4_BYTES \
  MLF_SUMS_1X4("ldr %[xa], [%[x]], #4\n\t", \
               "sxtb16 %[xb], %[xa], ror #8\n\tsxtb16 %[xa], %[xa]\n\t")
#define MLF_STEP_1X4_UNSIGNED \
  MLF_SUMS_1X4("ldr %[xa], [%[x]], #4\n\t", \
               "uxtb16 %[xb], %[xa], ror #8\n\tuxtb16 %[xa], %[xa]\n\t")
/* clang-format off */
#define MLF_SUMS_1X4(load, widen) \
  load "ldm %[w]!, {%[w0], %[w1], %[w2], %[w3]}\n\t" widen \
  MLF_SMLAD_(all0, xa, w0) MLF_SMLAD_(all1, xa, w2) \
  MLF_SMLAD_(all0, xb, w1) MLF_SMLAD_(all1, xb, w3) \
  "sxtb16 %[w0], %[w0]\n\tsxtb16 %[w1], %[w1]\n\t" \
  "sxtb16 %[w2], %[w2]\n\tsxtb16 %[w3], %[w3]\n\t" \
  MLF_SMLAD_(low0, xa, w0) MLF_SMLAD_(low1, xa, w2) \
  MLF_SMLAD_(low0, xb, w1) MLF_SMLAD_(low1, xb, w3)
/* clang-format on */
/* Two words, as gcc does not load them: by a pointer that moves on. */
#define MLF_NEXT_2(from, a, b) \
  __asm__("ldrd %1, %2, [%0], #8" \
          : "+r"(from), "=&r"(a), "=&r"(b) \
          : "m"(*(const uint32_t(*)[2])(from)))
/* Where four sums begin. */
#define MLF_START_1X4(weights, low, all) \
  __asm__("ldrd %1, %2, [%0], #8\n\tldrd %3, %4, [%0], #8" \
          : "+r"(weights), "=&r"(low##00), "=&r"(low##02), "=&r"(all##0), "=&r"(all##1) \
          : "m"(*(const uint32_t(*)[4])(weights)))
#define MLF_AGAIN_1X4 "cmp %[x], %[end]\n\tbne 1b"
#define MLF_DOTS_1X4(times, step, more, weights, from, stop, low, all) \
  do { \
    uint32_t xa_, xb_; \
    register uint32_t w0_ __asm__("r4"); \
    register uint32_t w1_ __asm__("r5"); \
    register uint32_t w2_ __asm__("r8"); \
    register uint32_t w3_ __asm__("r10"); \
    __asm__ volatile( \
        "1:\n\t" times(step) more \
        : [w] "+r"(weights), [x] "+r"(from), [low0] "+r"(low##00), [all0] "+r"(all##0), \
          [low1] "+r"(low##02), [all1] "+r"(all##1), [xa] "=&r"(xa_), [xb] "=&r"(xb_), \
          [w0] "=&r"(w0_), [w1] "=&r"(w1_), [w2] "=&r"(w2_), [w3] "=&r"(w3_) \
        : [end] "r"(stop) \
        : "memory", "cc"); \
  } while (0)
#else
#define MLF_NEXT_2(from, a, b) \
  do { \
    a = (int32_t)(from)[0]; \
    b = (int32_t)(from)[1]; \
    (from) += 2; \
  } while (0)
#define MLF_START_1X4(weights, low, all) \
  do { \
    low##00 = (int32_t)(weights)[0]; \
    low##02 = (int32_t)(weights)[1]; \
    all##0 = (int32_t)(weights)[2]; \
    all##1 = (int32_t)(weights)[3]; \
    (weights) += 4; \
  } while (0)
#define MLF_STEP_1X4          mlf_load32_aligned(c0), mlf_load32_aligned(c0 + 2)
#define MLF_STEP_1X4_BYTES    mlf_sxtb16(mlf_load32(c0)), mlf_sxtb16_ror8(mlf_load32(c0))
#define MLF_STEP_1X4_UNSIGNED mlf_load32(c0) & 0x00FF00FFu, mlf_load32(c0) >> 8 & 0x00FF00FFu
#define MLF_DOTS_1X4(times, step, more, weights, from, stop, low, all) \
  for (; (from) != (stop); (from) += 4) { \
    mlf_dot_1x4(&(weights), step, &low##00, &all##0, &low##02, &all##1); \
  }
#endif

/* n halfwords, a multiple of four, from natural order into that of mlf_widen_s8_pairs. */
static inline void mlf_reorder_s16(int16_t *at, int32_t n) {
  for (int32_t i = 0; i < n; i += 4) {
    const int16_t second = at[i + 1];
    at[i + 1] = at[i + 2];
    at[i + 2] = second;
  }
}

/* Products were summed twice: with weights 256 * w1 + w0 (`all`) and with w0 alone (`low`). The sum
 * with w1, which must fit 24 bits. */
static inline int32_t mlf_upper_sum(int32_t all, int32_t low) {
  return (int32_t)((uint32_t)all - (uint32_t)low) >> 8;
}

/* The same times 256. */
static inline int32_t mlf_raised_sum(int32_t all, int32_t low) {
  return (int32_t)((uint32_t)all - (uint32_t)low);
}

/* `sure`: all channels of a group have a multiplier. Compilers make one branch of all tests of it,
 * and put the longer form, which few groups need, in a place of its own. */
MLF_INLINE int32_t mlf_requantize_group(bool sure, int32_t acc, int32_t m, int32_t add,
                                        int32_t shift, int32_t zero_point, int32_t low,
                                        int32_t high) {
  int32_t y = MLF_USUALLY(sure) ? mlf_requantize_fixed(acc, m, add, shift, low, high)
                                : mlf_requantize_either(acc, m, add, shift, zero_point, low, high);
  MLF_HIDE(y);
  return y;
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_DSP_H_ */
