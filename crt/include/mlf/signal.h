/* Integers of audio features, as TensorFlow Lite Micro's signal library has them, bit for bit. */
#ifndef MLF_SIGNAL_H_
#define MLF_SIGNAL_H_

#include "kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How many bits x has; 32 for 0, which is how the library has it. */
static inline int32_t mlf_bits_of_u32(uint32_t x) {
  return x ? 32 - (int32_t)__builtin_clz(x) : 32;
}

/* The square root of x to the nearest integer, bit by bit. Within 32 bits the root ends at 65535.
 */
static inline uint32_t mlf_root_of_u64(uint64_t x) {
  const uint64_t most = x >> 32 ? UINT64_C(0xffffffff) : UINT64_C(0xffff);
  uint64_t root = 0, bit = x >> 32 ? UINT64_C(1) << 62 : UINT64_C(1) << 30;
  for (; bit; bit >>= 2) {
    if (x >= root + bit) {
      x -= root + bit;
      root = (root >> 1) + bit;
    } else {
      root >>= 1;
    }
  }
  return (uint32_t)(root + (x > root && root != most));
}

/* How far log2(1 + f / 65536) is above f / 65536, in 65536ths, by 128 lines. The table's entries
 * are round(65536 * (log2(1 + i / 128) - i / 128)). */
static inline int32_t mlf_above_chord(int32_t f) {
  static const uint16_t table[129] = {
      0,    224,  442,  654,  861,  1063, 1259, 1450, 1636, 1817, 1992, 2163, 2329, 2490, 2646,
      2797, 2944, 3087, 3224, 3358, 3487, 3611, 3732, 3848, 3960, 4068, 4172, 4272, 4368, 4460,
      4549, 4633, 4714, 4791, 4864, 4934, 5001, 5063, 5123, 5178, 5231, 5280, 5326, 5368, 5408,
      5444, 5477, 5507, 5533, 5557, 5578, 5595, 5610, 5622, 5631, 5637, 5640, 5641, 5638, 5633,
      5626, 5615, 5602, 5586, 5568, 5547, 5524, 5498, 5470, 5439, 5406, 5370, 5332, 5291, 5249,
      5203, 5156, 5106, 5054, 5000, 4944, 4885, 4825, 4762, 4697, 4630, 4561, 4490, 4416, 4341,
      4264, 4184, 4103, 4020, 3935, 3848, 3759, 3668, 3575, 3481, 3384, 3286, 3186, 3084, 2981,
      2875, 2768, 2659, 2549, 2437, 2323, 2207, 2090, 1971, 1851, 1729, 1605, 1480, 1353, 1224,
      1094, 963,  830,  695,  559,  421,  282,  142,  0};
  const int32_t i = f >> 9;
  return table[i] + (((int32_t)table[i + 1] - (int32_t)table[i]) * (f & 511) >> 16);
}

/* The natural logarithm times `scale`, at most 32767; 0 of 0 and 1. */
static inline int16_t mlf_log_of_u32(uint32_t x, uint32_t scale) {
  int32_t whole, f;
  uint32_t log2, found;
  if (x <= 1u) {
    return 0;
  }
  whole = mlf_bits_of_u32(x) - 1;
  f = (int32_t)(x - (UINT32_C(1) << whole));
  f = whole < 16 ? f << (16 - whole) : f >> (whole - 16);
  log2 = ((uint32_t)whole << 16) + (uint32_t)(f + mlf_above_chord(f));
  found = (uint32_t)((UINT64_C(45426) * log2 + 32768u) >> 16);
  found = (scale * found + 32768u) >> 16;
  return (int16_t)(found < 32767u ? found : 32767u);
}

/* A function of uint32 by a parabola for each power of two: what stands for 0, 1 and 2, and then
 * three coefficients and a gap for each number of bits. */
static inline int16_t mlf_gain_of_u32(uint32_t x, const int16_t *table) {
  int32_t bits, f;
  uint32_t sum;
  if (x <= 2u) {
    return table[x];
  }
  bits = mlf_bits_of_u32(x);
  table += 4 * bits - 6;
  f = (int32_t)((bits < 11 ? x << (11 - bits) : x >> (bits - 11)) & 1023u);
  sum = (uint32_t)((int32_t)table[2] * f >> 5) + ((uint32_t)(int32_t)table[1] << 5);
  sum = sum * (uint32_t)f + 16384u;
  return (int16_t)(((int32_t)sum >> 15) + table[0]);
}

/* x with 12 fraction bits to 6 fraction bits: x^2 / 4 below 2, x - 1 from there on. */
static inline uint32_t mlf_shrink_of_u32(uint32_t x) {
  return x < 8192u ? (x * x) >> 20 : (x >> 6) - 64u;
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_SIGNAL_H_ */
