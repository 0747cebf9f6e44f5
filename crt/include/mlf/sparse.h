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

/* Adds the products of the entries until `stop`, an even number of them: a distance in words, a
 * weight. An entry takes seven instructions for six products. LDM loads in the order of the
 * registers' numbers, so x0 to x2 have theirs. */
#if MLF_DSP && defined(__OPTIMIZE__) && !defined(__clang__)
#define MLF_GAP_3 \
  "ldrb %[x0], [%[w]], #1\n\t" \
  "ldrsb %[u], [%[w]], #1\n\t" \
  "add %[x], %[x], %[x0], lsl #2\n\t" \
  "ldm %[x], {%[x0], %[x1], %[x2]}\n\t" \
  "smlal %[low0], %[high0], %[x0], %[u]\n\t" \
  "smlal %[low1], %[high1], %[x1], %[u]\n\t" \
  "smlal %[low2], %[high2], %[x2], %[u]\n\t"
#define MLF_GAPS_3(weights, from, stop, sum) \
  do { \
    int32_t u_; \
    uint32_t low0_ = (uint32_t)sum##0, high0_ = (uint32_t)((uint64_t)sum##0 >> 32); \
    uint32_t low1_ = (uint32_t)sum##1, high1_ = (uint32_t)((uint64_t)sum##1 >> 32); \
    uint32_t low2_ = (uint32_t)sum##2, high2_ = (uint32_t)((uint64_t)sum##2 >> 32); \
    register uint32_t x0_ __asm__("r8"); \
    register uint32_t x1_ __asm__("r10"); \
    register uint32_t x2_ __asm__("r12"); \
    __asm__ volatile( \
        "1:\n\t" MLF_GAP_3 MLF_GAP_3 "cmp %[w], %[end]\n\tbne 1b" \
        : [w] "+r"(weights), [x] "+r"(from), [low0] "+r"(low0_), [high0] "+r"(high0_), \
          [low1] "+r"(low1_), [high1] "+r"(high1_), [low2] "+r"(low2_), [high2] "+r"(high2_), \
          [u] "=&r"(u_), [x0] "=&r"(x0_), [x1] "=&r"(x1_), [x2] "=&r"(x2_) \
        : [end] "r"(stop) \
        : "memory", "cc"); \
    sum##0 = (int64_t)((uint64_t)high0_ << 32 | low0_); \
    sum##1 = (int64_t)((uint64_t)high1_ << 32 | low1_); \
    sum##2 = (int64_t)((uint64_t)high2_ << 32 | low2_); \
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
#define MLF_GAPS_3(weights, from, stop, sum) \
  do { \
    (from) += (uint8_t)(weights)[0]; \
    sum##0 += (int64_t)(weights)[1] * (from)[0]; \
    sum##1 += (int64_t)(weights)[1] * (from)[1]; \
    sum##2 += (int64_t)(weights)[1] * (from)[2]; \
    (weights) += 2; \
  } while ((weights) != (stop))
#endif

#ifdef __cplusplus
}
#endif

#endif /* MLF_SPARSE_H_ */
