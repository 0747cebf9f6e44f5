/* Sums of products with weights that are stored without zeros: what a weight is multiplied with,
 * its input at several pixels, is gathered so that they are next to each other. */
#ifndef MLF_SPARSE_H_
#define MLF_SPARSE_H_

#include "dsp.h"
#include "tiles.h"

#ifdef __cplusplus
extern "C" {
#endif

/* mlf_spread_<apart>: n bytes of a pixel, so many apart; mlf_spread_fill_<apart>: as many with
 * one value. */
#define MLF_SPREAD_(apart) \
  MLF_INLINE void mlf_spread_##apart(void *to, const void *from, int32_t n) { \
    uint8_t *at = (uint8_t *)to; \
    MLF_UNROLL(4) \
    for (int32_t i = 0; i < n; i++) { \
      *at = ((const uint8_t *)from)[i]; \
      at += (apart); \
    } \
  } \
  MLF_INLINE void mlf_spread_fill_##apart(void *to, int32_t value, int32_t n) { \
    uint8_t *at = (uint8_t *)to; \
    MLF_UNROLL(4) \
    for (int32_t i = 0; i < n; i++) { \
      *at = (uint8_t)value; \
      at += (apart); \
    } \
  }
MLF_SPREAD_(2)
MLF_SPREAD_(4)
MLF_SPREAD_(8)
#undef MLF_SPREAD_

/* Bytes of two pixels make one word, from which one multiplication of 64 bits makes two products,
 * 2^23 apart. The words of a place in the window are three: six pixels. */
#define MLF_JOINED_ 8388608

#if MLF_DSP && defined(__OPTIMIZE__) && !defined(__clang__)
#define MLF_SPARSE_ASM 1
#else
#define MLF_SPARSE_ASM 0
#endif

/* n bytes of six pixels. STM stores in the order of the registers' numbers. */
MLF_INLINE void mlf_join_6(int32_t *to, const int8_t *x0, const int8_t *x1, const int8_t *x2,
                           const int8_t *x3, const int8_t *x4, const int8_t *x5, int32_t n) {
#if MLF_SPARSE_ASM
  int32_t second;
  register int32_t both0 __asm__("r8");
  register int32_t both1 __asm__("r10");
  register int32_t both2 __asm__("r12");
#define MLF_JOIN_TWO(both, even, odd) \
  "ldrsb %[" both "], [%[" even "]], #1\n\t" \
  "ldrsb %[second], [%[" odd "]], #1\n\t" \
  "add %[" both "], %[" both "], %[second], lsl #23\n\t"
  MLF_UNROLL(4)
  for (; n > 0; n--) {
    __asm__ volatile(MLF_JOIN_TWO("b0", "x0", "x1") MLF_JOIN_TWO("b1", "x2", "x3")
                         MLF_JOIN_TWO("b2", "x4", "x5") "stm %[to]!, {%[b0], %[b1], %[b2]}"
                     : [to] "+r"(to), [x0] "+r"(x0), [x1] "+r"(x1), [x2] "+r"(x2), [x3] "+r"(x3),
                       [x4] "+r"(x4), [x5] "+r"(x5), [second] "=&r"(second), [b0] "=&r"(both0),
                       [b1] "=&r"(both1), [b2] "=&r"(both2)
                     :
                     : "memory");
  }
#undef MLF_JOIN_TWO
#else
  for (int32_t i = 0; i < n; i++) {
    *to++ = x0[i] + x1[i] * MLF_JOINED_;
    *to++ = x2[i] + x3[i] * MLF_JOINED_;
    *to++ = x4[i] + x5[i] * MLF_JOINED_;
  }
#endif
}

MLF_INLINE void mlf_join_3(int32_t *to, const int8_t *first, const int8_t *second, int32_t n) {
  MLF_UNROLL(4)
  for (int32_t i = 0; i < n; i++) {
    *to = first[i] + second[i] * MLF_JOINED_;
    to += 3;
  }
}

/* Of one of two pixels alone, the first one before the second. */
MLF_INLINE void mlf_join_one(int32_t *to, int32_t value, int32_t second) {
  if (second) {
    *to = ((int32_t)((uint32_t)*to << 9) >> 9) + value * MLF_JOINED_;
  } else {
    *to = value;
  }
}

MLF_INLINE void mlf_join_one_3(int32_t *to, const int8_t *from, int32_t n, int32_t second) {
  MLF_UNROLL(4)
  for (int32_t i = 0; i < n; i++) {
    mlf_join_one(to, from[i], second);
    to += 3;
  }
}

MLF_INLINE void mlf_join_fill_3(int32_t *to, int32_t value, int32_t n, int32_t second) {
  MLF_UNROLL(4)
  for (int32_t i = 0; i < n; i++) {
    mlf_join_one(to, value, second);
    to += 3;
  }
}

/* The two sums in one of 64 bits. */
MLF_INLINE int32_t mlf_first_sum(int64_t both) {
  return (int32_t)((uint32_t)both << 9) >> 9;
}

MLF_INLINE int32_t mlf_second_sum(int64_t both) {
  return (int32_t)(both >> 23) - (mlf_first_sum(both) >> 31);
}

/* Six sums, which begin with the word at `weights`, of the products of the entries behind it until
 * `stop`. A word has two entries: a distance, a weight, a distance, a weight. `step` says what
 * distances count: MLF_NEAR bytes, MLF_FAR words; `times` repeats it, and `more` says whether there
 * are further ones. An entry takes six and a half instructions for six products, with MLF_FAR one
 * more. LDM loads in the order of the registers' numbers, so x0 to x2 have theirs. */
#if MLF_SPARSE_ASM
#define MLF_NEAR(turn) "uxtab %[x], %[x], %[e]" turn "\n\t"
#define MLF_FAR(turn)  "uxtb %[u], %[e]" turn "\n\tadd %[x], %[x], %[u], lsl #2\n\t"
#define MLF_SIX_PRODUCTS(weight) \
  "ldm %[x], {%[x0], %[x1], %[x2]}\n\t" \
  "smlal %[low0], %[high0], %[x0], " weight "\n\t" \
  "smlal %[low1], %[high1], %[x1], " weight "\n\t" \
  "smlal %[low2], %[high2], %[x2], " weight "\n\t"
#define MLF_TWO_GAPS(step) \
  "ldr %[e], [%[w]], #4\n\t" step("") "sxtb %[u], %[e], ror #8\n\t" MLF_SIX_PRODUCTS("%[u]") \
      step(", ror #16") "asr %[e], %[e], #24\n\t" MLF_SIX_PRODUCTS("%[e]")
#define MLF_TWO_SUMS(low, high) \
  "lsr %[x0], %[" low "], #23\n\t" \
  "orr %[x0], %[x0], %[" high "], lsl #9\n\t" \
  "sbfx %[" low "], %[" low "], #0, #23\n\t" \
  "sub %[" high "], %[x0], %[" low "], asr #31\n\t"
#define MLF_GAPS_ONCE(stop)
#define MLF_GAPS_AGAIN(stop)    [end] "m"(stop)
#define MLF_MORE_MLF_GAPS_ONCE  ""
#define MLF_MORE_MLF_GAPS_AGAIN "ldr %[u], %[end]\n\tcmp %[w], %[u]\n\tbne 1b\n\t"
#define MLF_GAPS_6(times, more, step, weights, from, stop, s0, s1, s2, s3, s4, s5) \
  do { \
    int32_t u_, e_; \
    register int32_t x0_ __asm__("r8"); \
    register int32_t x1_ __asm__("r10"); \
    register int32_t x2_ __asm__("r12"); \
    (void)(stop); \
    __asm__ volatile( \
        "ldr %[u], [%[w]], #4\n\t" \
        "adds %[low0], %[u], %[u], lsl #23\n\t" \
        "asr %[high0], %[u], #9\n\t" \
        "adc %[high0], %[high0], %[u], asr #31\n\t" \
        "mov %[low1], %[low0]\n\tmov %[high1], %[high0]\n\t" \
        "mov %[low2], %[low0]\n\tmov %[high2], %[high0]\n\t" \
        "1:\n\t" times(MLF_TWO_GAPS(step)) MLF_MORE_##more MLF_TWO_SUMS("low0", "high0") \
            MLF_TWO_SUMS("low1", "high1") MLF_TWO_SUMS("low2", "high2") \
        : [w] "+r"(weights), [x] "+r"(from), [low0] "=&r"(s0), [high0] "=&r"(s1), \
          [low1] "=&r"(s2), [high1] "=&r"(s3), [low2] "=&r"(s4), [high2] "=&r"(s5), [u] "=&r"(u_), \
          [e] "=&r"(e_), [x0] "=&r"(x0_), [x1] "=&r"(x1_), [x2] "=&r"(x2_) \
        : more(stop) \
        : "memory", "cc"); \
  } while (0)
/* The same for one pixel, whose inputs are where they are: four distances in a word, then their
 * weights. Eight entries take 31 instructions. */
#define MLF_GAP_1(turn, half, gap, weight) \
  "uxtab %[x], %[x], " gap turn "\n\t" \
  "ldrsb %[v], [%[x]]\n\t" \
  "smlab" half " %[sum], %[v], " weight ", %[sum]\n\t"
#define MLF_FOUR_GAPS(gap, weight) \
  "sxtb16 %[u], " weight "\n\tsxtb16 " weight ", " weight \
  ", ror #8\n\t" MLF_GAP_1("", "b", gap, "%[u]") MLF_GAP_1(", ror #8", "b", gap, weight) \
      MLF_GAP_1(", ror #16", "t", gap, "%[u]") MLF_GAP_1(", ror #24", "t", gap, weight)
#define MLF_GAPS_1(weights, from, stop, total) \
  do { \
    int32_t u_, v_; \
    register uint32_t w0_ __asm__("r4"); \
    register uint32_t w1_ __asm__("r5"); \
    register uint32_t w2_ __asm__("r8"); \
    register uint32_t w3_ __asm__("r10"); \
    __asm__ volatile( \
        "1:\n\tldm %[w]!, {%[w0], %[w1], %[w2], %[w3]}\n\t" MLF_FOUR_GAPS("%[w0]", "%[w1]") \
            MLF_FOUR_GAPS("%[w2]", "%[w3]") "cmp %[w], %[end]\n\tbne 1b" \
        : [w] "+r"(weights), [x] "+r"(from), [sum] "+r"(total), [u] "=&r"(u_), [v] "=&r"(v_), \
          [w0] "=&r"(w0_), [w1] "=&r"(w1_), [w2] "=&r"(w2_), [w3] "=&r"(w3_) \
        : [end] "r"(stop) \
        : "memory", "cc"); \
  } while (0)
#else
#define MLF_GAPS_1(weights, from, stop, total) \
  for (; (weights) != (stop); (weights) += 2) { \
    for (int32_t i = 0; i < 32; i += 8) { \
      (from) += (uint8_t)((weights)[0] >> i); \
      (total) += (int8_t)(uint8_t)((weights)[1] >> i) * *(from); \
    } \
  }
#define MLF_NEAR 4
#define MLF_FAR  1
#define MLF_GAPS_6(times, more, step, weights, from, stop, s0, s1, s2, s3, s4, s5) \
  do { \
    int64_t both0_ = (int64_t)(int32_t) * (weights)++ * (MLF_JOINED_ + 1); \
    int64_t both1_ = both0_, both2_ = both0_; \
    do { \
      for (int32_t i = 0; i < 32; i += 16) { \
        const int32_t u_ = (int8_t)(uint8_t)((weights)[0] >> (i + 8)); \
        (from) += (uint8_t)((weights)[0] >> i) / (step); \
        both0_ += (int64_t)u_ * (from)[0]; \
        both1_ += (int64_t)u_ * (from)[1]; \
        both2_ += (int64_t)u_ * (from)[2]; \
      } \
      (weights)++; \
    } while ((weights) != (stop)); \
    (s0) = mlf_first_sum(both0_); \
    (s1) = mlf_second_sum(both0_); \
    (s2) = mlf_first_sum(both1_); \
    (s3) = mlf_second_sum(both1_); \
    (s4) = mlf_first_sum(both2_); \
    (s5) = mlf_second_sum(both2_); \
  } while (0)
#endif

#ifdef __cplusplus
}
#endif

#endif /* MLF_SPARSE_H_ */
