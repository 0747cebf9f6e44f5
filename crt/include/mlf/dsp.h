/* The ARMv7E-M DSP instructions that int8 kernels use, with plain C for every other processor, so
 * that sources generated for a Cortex-M4 compile, and give the same bits, anywhere. */
#ifndef MLF_DSP_H_
#define MLF_DSP_H_

#include "kernel.h"

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

/* acc + the products of the low and of the high halfwords. */
static inline int32_t mlf_smlad(uint32_t x, uint32_t y, int32_t acc) {
  int32_t sum;
  __asm__("smlad %0, %1, %2, %3" : "=r"(sum) : "r"(x), "r"(y), "r"(acc));
  return sum;
}

/* acc + one product: of the bottom (b) or top (t) halfwords of x and y. */
static inline int32_t mlf_smlabb(uint32_t x, uint32_t y, int32_t acc) {
  int32_t sum;
  __asm__("smlabb %0, %1, %2, %3" : "=r"(sum) : "r"(x), "r"(y), "r"(acc));
  return sum;
}

static inline int32_t mlf_smlabt(uint32_t x, uint32_t y, int32_t acc) {
  int32_t sum;
  __asm__("smlabt %0, %1, %2, %3" : "=r"(sum) : "r"(x), "r"(y), "r"(acc));
  return sum;
}

static inline int32_t mlf_smlatb(uint32_t x, uint32_t y, int32_t acc) {
  int32_t sum;
  __asm__("smlatb %0, %1, %2, %3" : "=r"(sum) : "r"(x), "r"(y), "r"(acc));
  return sum;
}

static inline int32_t mlf_smlatt(uint32_t x, uint32_t y, int32_t acc) {
  int32_t sum;
  __asm__("smlatt %0, %1, %2, %3" : "=r"(sum) : "r"(x), "r"(y), "r"(acc));
  return sum;
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

static inline int32_t mlf_smlad(uint32_t x, uint32_t y, int32_t acc) {
  const int32_t low = (int32_t)(int16_t)(uint16_t)x * (int32_t)(int16_t)(uint16_t)y;
  const int32_t high =
      (int32_t)(int16_t)(uint16_t)(x >> 16) * (int32_t)(int16_t)(uint16_t)(y >> 16);
  return (int32_t)((uint32_t)acc + (uint32_t)low + (uint32_t)high); /* wraps around, as SMLAD */
}

static inline int32_t mlf_smlabb(uint32_t x, uint32_t y, int32_t acc) {
  return acc + (int32_t)(int16_t)(uint16_t)x * (int32_t)(int16_t)(uint16_t)y;
}

static inline int32_t mlf_smlabt(uint32_t x, uint32_t y, int32_t acc) {
  return acc + (int32_t)(int16_t)(uint16_t)x * (int32_t)(int16_t)(uint16_t)(y >> 16);
}

static inline int32_t mlf_smlatb(uint32_t x, uint32_t y, int32_t acc) {
  return acc + (int32_t)(int16_t)(uint16_t)(x >> 16) * (int32_t)(int16_t)(uint16_t)y;
}

static inline int32_t mlf_smlatt(uint32_t x, uint32_t y, int32_t acc) {
  return acc + (int32_t)(int16_t)(uint16_t)(x >> 16) * (int32_t)(int16_t)(uint16_t)(y >> 16);
}

#endif

/* n bytes, a multiple of four, sign-extended to halfwords in the order SXTB16 gives: of every four
 * the first, third, second and fourth. `to` is divisible by four. */
static inline void mlf_widen_s8_pairs(const int8_t *from, int16_t *to, int32_t n) {
  const int8_t *const end = from + n;
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC unroll 1
#endif
  while (from != end) {
#if MLF_DSP
    uint32_t v;
    uint32_t even;
    __asm__("ldr %2, [%0], #4\n\t"
            "sxtb16 %3, %2\n\t"
            "sxtb16 %2, %2, ror #8\n\t"
            "strd %3, %2, [%1], #8"
            : "+r"(from), "+r"(to), "=&r"(v), "=&r"(even)
            :
            : "memory");
#else
    const uint32_t v = mlf_load32(from);
    mlf_store32_aligned(to, mlf_sxtb16(v));
    mlf_store32_aligned(to + 2, mlf_sxtb16_ror8(v));
    from += 4;
    to += 4;
#endif
  }
}

/* Four products each for two pixels and two channels. A weight halfword is 256 * w1 + w0: `low`
 * sums the products with w0, `all` those with the halfword. Pointers move on. */
MLF_INLINE void mlf_dot_2x2(const uint32_t **w, const int16_t **x0, const int16_t **x1,
                            int32_t *low0, int32_t *all0, int32_t *low1, int32_t *all1) {
#if MLF_DSP
  uint32_t wa, wb, la, lb, xa, xb;
  __asm__("ldrd %[wa], %[wb], [%[w]], #8\n\t"
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
          : [w] "+r"(*w), [x0] "+r"(*x0), [x1] "+r"(*x1), [low0] "+r"(*low0), [all0] "+r"(*all0),
            [low1] "+r"(*low1), [all1] "+r"(*all1), [wa] "=&r"(wa), [wb] "=&r"(wb), [la] "=&r"(la),
            [lb] "=&r"(lb), [xa] "=&r"(xa), [xb] "=&r"(xb)
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

/* The same for one pixel, with the weights of two channel pairs in sequence. */
MLF_INLINE void mlf_dot_1x4(const uint32_t **w, uint32_t xa, uint32_t xb, int32_t *low0,
                            int32_t *all0, int32_t *low1, int32_t *all1) {
#if MLF_DSP
  uint32_t wa, wb, l;
  __asm__("ldrd %[wa], %[wb], [%[w]], #8\n\t"
          "sxtb16 %[l], %[wa]\n\t"
          "smlad %[low0], %[xa], %[l], %[low0]\n\t"
          "smlad %[all0], %[xa], %[wa], %[all0]\n\t"
          "sxtb16 %[l], %[wb]\n\t"
          "smlad %[low0], %[xb], %[l], %[low0]\n\t"
          "smlad %[all0], %[xb], %[wb], %[all0]\n\t"
          "ldrd %[wa], %[wb], [%[w]], #8\n\t"
          "sxtb16 %[l], %[wa]\n\t"
          "smlad %[low1], %[xa], %[l], %[low1]\n\t"
          "smlad %[all1], %[xa], %[wa], %[all1]\n\t"
          "sxtb16 %[l], %[wb]\n\t"
          "smlad %[low1], %[xb], %[l], %[low1]\n\t"
          "smlad %[all1], %[xb], %[wb], %[all1]"
          : [w] "+r"(*w), [low0] "+r"(*low0), [all0] "+r"(*all0), [low1] "+r"(*low1),
            [all1] "+r"(*all1), [wa] "=&r"(wa), [wb] "=&r"(wb), [l] "=&r"(l)
          : [xa] "r"(xa), [xb] "r"(xb)
          : "memory");
#else
  const uint32_t *const at = *w;
  *low0 = mlf_smlad(xb, mlf_sxtb16(at[1]), mlf_smlad(xa, mlf_sxtb16(at[0]), *low0));
  *all0 = mlf_smlad(xb, at[1], mlf_smlad(xa, at[0], *all0));
  *low1 = mlf_smlad(xb, mlf_sxtb16(at[3]), mlf_smlad(xa, mlf_sxtb16(at[2]), *low1));
  *all1 = mlf_smlad(xb, at[3], mlf_smlad(xa, at[2], *all1));
  *w += 4;
#endif
}

/* The order of mlf_widen_s8_pairs for n halfwords in natural order; n is a multiple of
 * four. */
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

#ifdef __cplusplus
}
#endif

#endif /* MLF_DSP_H_ */
