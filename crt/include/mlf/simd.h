/* Vectors for kernels of large processors: GCC's and clang's vector types, and the few instructions
 * that C has no operator for.
 *
 * A vector of n lanes does n scalar operations, each rounded on its own, so results are the same
 * bits as those of scalar code in the same order.
 */
#ifndef MLF_SIMD_H_
#define MLF_SIMD_H_

#include "mlf/rescale.h"
#include "mlf/simd_copy.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What vectors of each size have: loads, Relu, requantisation as in mlf/kernel.h, and
 * `some` of a vector stored. */
#define MLF_LANES(n) \
  static inline mlf_f32x##n mlf_load_f32x##n(const float *from) { \
    mlf_f32x##n v; \
    memcpy(&v, from, sizeof v); \
    return v; \
  } \
  static inline mlf_i32x##n mlf_load_i32x##n(const int32_t *from) { \
    mlf_i32x##n v; \
    memcpy(&v, from, sizeof v); \
    return v; \
  } \
  static inline mlf_f32x##n mlf_all_f32x##n(float x) { \
    const mlf_f32x##n zero = {0}; \
    return x - zero; \
  } \
  static inline mlf_i32x##n mlf_all_i32x##n(int32_t x) { \
    const mlf_i32x##n zero = {0}; \
    return x - zero; \
  } \
  static inline mlf_f32x##n mlf_relu_x##n(mlf_f32x##n x) { \
    const mlf_f32x##n zero = {0}; \
    return (mlf_f32x##n)((mlf_i32x##n)x & ~(mlf_i32x##n)(x <= zero)); \
  } \
  static inline mlf_i32x##n mlf_requantize_x##n(mlf_i32x##n acc, mlf_f32x##n scale, \
                                                int32_t zero_point) { \
    const mlf_f32x##n product = __builtin_convertvector(acc, mlf_f32x##n) * scale; \
    return (mlf_i32x##n)(product + 12582912.0f) - (0x4b400000 - zero_point); \
  } \
  /* t, with `step` added where it is `value`. */ \
  static inline mlf_i32x##n mlf_except_x##n(mlf_i32x##n t, int32_t value, int32_t step) { \
    return t + ((mlf_i32x##n)(t == mlf_all_i32x##n(value)) & step); \
  } \
  static inline void mlf_put_f32_x##n(float *to, mlf_f32x##n v) { \
    memcpy(to, &v, sizeof v); \
  } \
  static inline void mlf_put_f32_some_x##n(float *to, mlf_f32x##n v, int32_t count) { \
    if (count >= n) { \
      memcpy(to, &v, sizeof v); \
      return; \
    } \
    float all[n]; \
    memcpy(all, &v, sizeof all); \
    for (int32_t i = 0; i < n && i < count; i++) { \
      to[i] = all[i]; \
    } \
  } \
  static inline void mlf_put_s8_some_x##n(int8_t *to, mlf_i32x##n v, int32_t low, int32_t high, \
                                          int32_t count) { \
    if (count >= n) { \
      mlf_put_s8_x##n(to, v, low, high); \
      return; \
    } \
    int8_t all[n]; \
    mlf_put_s8_x##n(all, v, low, high); \
    for (int32_t i = 0; i < n && i < count; i++) { \
      to[i] = all[i]; \
    } \
  } \
  static inline void mlf_put_u8_some_x##n(uint8_t *to, mlf_i32x##n v, int32_t low, int32_t high, \
                                          int32_t count) { \
    if (count >= n) { \
      mlf_put_u8_x##n(to, v, low, high); \
      return; \
    } \
    uint8_t all[n]; \
    mlf_put_u8_x##n(all, v, low, high); \
    for (int32_t i = 0; i < n && i < count; i++) { \
      to[i] = all[i]; \
    } \
  }

/* Integers within limits, stored as bytes: limits are bytes too, so whatever saturates on its way
 * to int16 does so beyond them. */
#if defined(__SSE2__)
static inline __m128i mlf_limited_words(__m128i words, int32_t low, int32_t high) {
  if (low == -128 && high == 127) { // as packing does it
    return words;
  }
  words = _mm_max_epi16(words, _mm_set1_epi16((int16_t)low));
  return _mm_min_epi16(words, _mm_set1_epi16((int16_t)high));
}

static inline void mlf_put_s8_x4(int8_t *to, mlf_i32x4 v, int32_t low, int32_t high) {
  const __m128i words = _mm_packs_epi32((__m128i)v, (__m128i)v);
  const int32_t four =
      _mm_cvtsi128_si32(_mm_packs_epi16(mlf_limited_words(words, low, high), words));
  memcpy(to, &four, sizeof four);
}

static inline void mlf_put_u8_x4(uint8_t *to, mlf_i32x4 v, int32_t low, int32_t high) {
  const __m128i words = _mm_packs_epi32((__m128i)v, (__m128i)v);
  const int32_t four =
      _mm_cvtsi128_si32(_mm_packus_epi16(mlf_limited_words(words, low, high), words));
  memcpy(to, &four, sizeof four);
}
#else
static inline void mlf_put_s8_x4(int8_t *to, mlf_i32x4 v, int32_t low, int32_t high) {
  for (int32_t i = 0; i < 4; i++) {
    to[i] = (int8_t)mlf_clamp_i32(v[i], low, high);
  }
}

static inline void mlf_put_u8_x4(uint8_t *to, mlf_i32x4 v, int32_t low, int32_t high) {
  for (int32_t i = 0; i < 4; i++) {
    to[i] = (uint8_t)mlf_clamp_i32(v[i], low, high);
  }
}
#endif
MLF_LANES(4)

/* mlf_rescale of each by m, shifted to the right by `by`, from 0 to 31. */
static inline mlf_i32x4 mlf_rescaled_x4(mlf_i32x4 acc, mlf_i32x4 m, mlf_i32x4 by) {
  for (int32_t k = 0; k < 4; k++) {
    acc[k] = mlf_rescale(acc[k], m[k], -by[k]);
  }
  return acc;
}

/* Bytes, widened. Written as instructions because gcc converts short vectors byte by byte. */
static inline mlf_i32x4 mlf_load_s8_x4(const int8_t *from) {
#if defined(__SSE2__)
  int32_t four;
  memcpy(&four, from, sizeof four);
  const __m128i bytes = _mm_cvtsi32_si128(four), words = _mm_unpacklo_epi8(bytes, bytes);
  return (mlf_i32x4)_mm_srai_epi32(_mm_unpacklo_epi16(words, words), 24);
#else
  mlf_i8x4 v;
  memcpy(&v, from, sizeof v);
  return __builtin_convertvector(v, mlf_i32x4);
#endif
}

static inline float mlf_spread_f32x4(const float *from) {
  return *from;
}

static inline mlf_i32x4 mlf_clamp_x4(mlf_i32x4 x, int32_t low, int32_t high) {
  const mlf_i32x4 a = mlf_all_i32x4(low), b = mlf_all_i32x4(high);
  const mlf_i32x4 under = (mlf_i32x4)(x < a), over = (mlf_i32x4)(x > b);
  return (x & ~(under | over)) | (a & under) | (b & over);
}

/* Pairs of int8 weights for each lane, widened. */
static inline mlf_i16x8 mlf_wide_x4(const int8_t *w) {
#if defined(__SSE2__)
  const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)w);
  return (mlf_i16x8)_mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8);
#else
  mlf_i8x8 bytes;
  memcpy(&bytes, w, sizeof bytes);
  return __builtin_convertvector(bytes, mlf_i16x8);
#endif
}

/* acc[k] += pair[0] * w[2k] + pair[1] * w[2k + 1], where `pair` is two int16 for all lanes. */
static inline mlf_i32x4 mlf_madd_x4(mlf_i32x4 acc, const int16_t *pair, mlf_i16x8 w) {
#if defined(__SSE2__)
  int32_t both;
  memcpy(&both, pair, sizeof both);
  return acc + (mlf_i32x4)_mm_madd_epi16((__m128i)w, _mm_set1_epi32(both));
#else
  for (int k = 0; k < 4; k++) {
    acc[k] += (int32_t)pair[0] * w[2 * k] + (int32_t)pair[1] * w[2 * k + 1];
  }
  return acc;
#endif
}

#if defined(__AVX2__)
static inline void mlf_put_s8_x8(int8_t *to, mlf_i32x8 v, int32_t low, int32_t high) {
  const __m128i words =
      _mm_packs_epi32(_mm256_castsi256_si128((__m256i)v), _mm256_extracti128_si256((__m256i)v, 1));
  const __m128i bytes = _mm_packs_epi16(mlf_limited_words(words, low, high), words);
  memcpy(to, &bytes, 8);
}

static inline void mlf_put_u8_x8(uint8_t *to, mlf_i32x8 v, int32_t low, int32_t high) {
  const __m128i words =
      _mm_packs_epi32(_mm256_castsi256_si128((__m256i)v), _mm256_extracti128_si256((__m256i)v, 1));
  const __m128i bytes = _mm_packus_epi16(mlf_limited_words(words, low, high), words);
  memcpy(to, &bytes, 8);
}
MLF_LANES(8)

static inline mlf_i32x8 mlf_load_s8_x8(const int8_t *from) {
  return (mlf_i32x8)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)from));
}

static inline mlf_i32x8 mlf_clamp_x8(mlf_i32x8 x, int32_t low, int32_t high) {
  const __m256i least = _mm256_max_epi32((__m256i)x, _mm256_set1_epi32(low));
  return (mlf_i32x8)_mm256_min_epi32(least, _mm256_set1_epi32(high));
}

/* Sums scaled and rounded, for what follows: |acc * scale| is below 2^22. */
static inline mlf_i32x8 mlf_scaled_x8(mlf_i32x8 acc, mlf_f32x8 scale) {
  const mlf_f32x8 product = __builtin_convertvector(acc, mlf_f32x8) * scale;
  return (mlf_i32x8)_mm256_cvtps_epi32((__m256)product);
}

/* The same; m is positive. */
static inline mlf_i32x8 mlf_rescaled_x8(mlf_i32x8 acc, mlf_i32x8 m, mlf_i32x8 by) {
  const __m256i half = _mm256_set1_epi64x(INT64_C(1) << 30);
  const __m256i acc_odd = _mm256_srli_epi64((__m256i)acc, 32);
  const __m256i m_odd = _mm256_srli_epi64((__m256i)m, 32);
  const __m256i even = _mm256_add_epi64(_mm256_mul_epi32((__m256i)acc, (__m256i)m), half);
  const __m256i odd = _mm256_add_epi64(_mm256_mul_epi32(acc_odd, m_odd), half);
  const __m256i low = _mm256_srli_epi64(even, 31);
  const mlf_i32x8 high = (mlf_i32x8)_mm256_blend_epi32(low, _mm256_add_epi64(odd, odd), 0xaa);
  /* Half of 2^by, which is 0 for 0; ties below zero go down where there are any. */
  const __m256i power = _mm256_sllv_epi32(_mm256_set1_epi32(1), (__m256i)by);
  const mlf_i32x8 added = high + (mlf_i32x8)_mm256_srli_epi32(power, 1) + ((high & -by) >> 31);
  return (mlf_i32x8)_mm256_srav_epi32((__m256i)added, (__m256i)by);
}

/* Sixteen values with the zero point added, within limits: int16, the first four of `a` and of `b`,
 * then the others. */
static inline __m256i mlf_limited_pair(mlf_i32x8 a, mlf_i32x8 b, int32_t zero_point, int32_t low,
                                       int32_t high) {
  __m256i words = _mm256_packs_epi32((__m256i)a, (__m256i)b);
  words = _mm256_adds_epi16(words, _mm256_set1_epi16((int16_t)zero_point));
  if (low != -128 || high != 127) {
    words = _mm256_max_epi16(words, _mm256_set1_epi16((int16_t)low));
    words = _mm256_min_epi16(words, _mm256_set1_epi16((int16_t)high));
  }
  return words;
}

/* The lower halves, in which the bytes of `a` come first. */
static inline __m128i mlf_in_order(__m256i bytes) {
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 0, 4, 1, 5);
  return _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(bytes, order));
}

/* Two vectors as bytes, at two places. */
static inline void mlf_put_both_s8_x8(int8_t *to, int8_t *then, mlf_i32x8 a, mlf_i32x8 b,
                                      int32_t zero_point, int32_t low, int32_t high) {
  const __m256i words = mlf_limited_pair(a, b, zero_point, low, high);
  const __m128i bytes = mlf_in_order(_mm256_packs_epi16(words, words));
  const __m128i second = _mm_unpackhi_epi64(bytes, bytes);
  memcpy(to, &bytes, 8);
  memcpy(then, &second, 8);
}

static inline void mlf_put_both_u8_x8(uint8_t *to, uint8_t *then, mlf_i32x8 a, mlf_i32x8 b,
                                      int32_t zero_point, int32_t low, int32_t high) {
  const __m256i words = mlf_limited_pair(a, b, zero_point, low, high);
  const __m128i bytes = mlf_in_order(_mm256_packus_epi16(words, words));
  const __m128i second = _mm_unpackhi_epi64(bytes, bytes);
  memcpy(to, &bytes, 8);
  memcpy(then, &second, 8);
}

/* In sequence. */
static inline void mlf_put2_s8_x8(int8_t *to, mlf_i32x8 a, mlf_i32x8 b, int32_t zero_point,
                                  int32_t low, int32_t high) {
  const __m256i words = mlf_limited_pair(a, b, zero_point, low, high);
  const __m128i bytes = mlf_in_order(_mm256_packs_epi16(words, words));
  memcpy(to, &bytes, sizeof bytes);
}

static inline void mlf_put2_u8_x8(uint8_t *to, mlf_i32x8 a, mlf_i32x8 b, int32_t zero_point,
                                  int32_t low, int32_t high) {
  const __m256i words = mlf_limited_pair(a, b, zero_point, low, high);
  const __m128i bytes = mlf_in_order(_mm256_packus_epi16(words, words));
  memcpy(to, &bytes, sizeof bytes);
}

static inline mlf_i16x16 mlf_wide_x8(const int8_t *w) {
  mlf_i8x16 bytes;
  memcpy(&bytes, w, sizeof bytes);
  return (mlf_i16x16)_mm256_cvtepi8_epi16((__m128i)bytes);
}

/* Four bytes in all lanes. Written as the instruction because gcc, where windows overlap, would
 * keep what it has loaded for the next round, in more registers than there are. */
typedef struct {
  char bytes[4];
} mlf_four_bytes;

static inline __m256i mlf_spread_x8(const void *from) {
  __m256i v;
  __asm__("vpbroadcastd %1, %0" : "=x"(v) : "m"(*(const mlf_four_bytes *)from));
  return v;
}

static inline mlf_f32x8 mlf_spread_f32x8(const float *from) {
  mlf_f32x8 v;
  __asm__("vbroadcastss %1, %0" : "=x"(v) : "m"(*from));
  return v;
}

static inline mlf_i32x8 mlf_madd_x8(mlf_i32x8 acc, const int16_t *pair, mlf_i16x16 w) {
  return acc + (mlf_i32x8)_mm256_madd_epi16((__m256i)w, mlf_spread_x8(pair));
}
#endif

#if defined(__AVX2__)
/* acc[k] += pairs[2k] * w[2k] + pairs[2k + 1] * w[2k + 1]. */
static inline mlf_i32x8 mlf_madd_pairs_x8(mlf_i32x8 acc, const int16_t *pairs, mlf_i16x16 w) {
  mlf_i16x16 x;
  memcpy(&x, pairs, sizeof x);
  acc += (mlf_i32x8)_mm256_madd_epi16((__m256i)x, (__m256i)w);
  __asm__("" : "+x"(acc)); // one by one: all products first would want too many registers
  return acc;
}
#endif

#if defined(__AVX2__)
/* Of n int8, a multiple of 8: each four widened to int16 in the order 0, 2, 1, 3. Returns the sum
 * of all products of an even element and the next. */
static inline int32_t mlf_simd_cross_s8(const int8_t *from, int16_t *to, int32_t n) {
  const __m128i order = _mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, -1, -1, -1, -1, -1, -1, -1, -1);
  __m128i sum = _mm_setzero_si128();
  for (int32_t i = 0; i < n; i += 8) {
    __m128i bytes = _mm_setzero_si128(), wide;
    memcpy(&bytes, from + i, 8);
    wide = _mm_cvtepi8_epi16(_mm_shuffle_epi8(bytes, order));
    memcpy(to + i, &wide, sizeof wide);
    // Each product twice: once from either side.
    sum = _mm_add_epi32(sum, _mm_madd_epi16(wide, _mm_shuffle_epi32(wide, 0xb1)));
  }
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
  return _mm_cvtsi128_si32(sum);
}

/* acc[k] += a[2k] * b[2k] + a[2k + 1] * b[2k + 1]. */
static inline mlf_i32x8 mlf_cross_x8(mlf_i32x8 acc, mlf_i16x16 a, mlf_i16x16 b) {
  return acc + (mlf_i32x8)_mm256_madd_epi16((__m256i)a, (__m256i)b);
}

static inline mlf_i8x32 mlf_load_i8x32(const int8_t *from) {
  mlf_i8x32 v;
  memcpy(&v, from, sizeof v);
  return v;
}

/* Sums of two products, quad[0] * w[4k] + quad[1] * w[4k + 1] and quad[2] * w[4k + 2] + ..., where
 * `quad` is four bytes for all lanes; a sum beyond int16 would saturate. */
static inline mlf_i16x16 mlf_bytes_x8(const uint8_t *quad, mlf_i8x32 w) {
  return (mlf_i16x16)_mm256_maddubs_epi16(mlf_spread_x8(quad), (__m256i)w);
}

/* acc[k] += words[2k] + words[2k + 1]. */
static inline mlf_i32x8 mlf_add_words_x8(mlf_i32x8 acc, mlf_i16x16 words) {
  return acc + (mlf_i32x8)_mm256_madd_epi16((__m256i)words, _mm256_set1_epi16(1));
}

static inline mlf_i16x16 mlf_load_i16x16(const int16_t *from) {
  mlf_i16x16 v;
  memcpy(&v, from, sizeof v);
  return v;
}
#endif

#if defined(__AVX512VNNI__)
static inline mlf_i32x16 mlf_clamp_x16(mlf_i32x16 x, int32_t low, int32_t high) {
  const __m512i least = _mm512_max_epi32((__m512i)x, _mm512_set1_epi32(low));
  return (mlf_i32x16)_mm512_min_epi32(least, _mm512_set1_epi32(high));
}

static inline void mlf_put_s8_x16(int8_t *to, mlf_i32x16 v, int32_t low, int32_t high) {
  const __m128i bytes = low == -128 && high == 127
                            ? _mm512_cvtsepi32_epi8((__m512i)v)
                            : _mm512_cvtepi32_epi8((__m512i)mlf_clamp_x16(v, low, high));
  memcpy(to, &bytes, sizeof bytes);
}

static inline void mlf_put_u8_x16(uint8_t *to, mlf_i32x16 v, int32_t low, int32_t high) {
  const __m128i bytes = _mm512_cvtepi32_epi8((__m512i)mlf_clamp_x16(v, low, high));
  memcpy(to, &bytes, sizeof bytes);
}
MLF_LANES(16)

static inline mlf_i32x16 mlf_rescaled_x16(mlf_i32x16 acc, mlf_i32x16 m, mlf_i32x16 by) {
  const __m512i half = _mm512_set1_epi64(INT64_C(1) << 30);
  const __m512i acc_odd = _mm512_srli_epi64((__m512i)acc, 32);
  const __m512i m_odd = _mm512_srli_epi64((__m512i)m, 32);
  const __m512i even = _mm512_add_epi64(_mm512_mul_epi32((__m512i)acc, (__m512i)m), half);
  const __m512i odd = _mm512_add_epi64(_mm512_mul_epi32(acc_odd, m_odd), half);
  const __m512i low = _mm512_srli_epi64(even, 31);
  const __m512i both = _mm512_mask_blend_epi32(0xaaaa, low, _mm512_add_epi64(odd, odd));
  const mlf_i32x16 high = (mlf_i32x16)both;
  const __m512i power = _mm512_sllv_epi32(_mm512_set1_epi32(1), (__m512i)by);
  const mlf_i32x16 added = high + (mlf_i32x16)_mm512_srli_epi32(power, 1) + ((high & -by) >> 31);
  return (mlf_i32x16)_mm512_srav_epi32((__m512i)added, (__m512i)by);
}

static inline mlf_i32x16 mlf_load_s8_x16(const int8_t *from) {
  return (mlf_i32x16)_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)from));
}

/* A number times all lanes. Written as the instruction, which loads the number itself: gcc would
 * load it once for several products, by an instruction that takes as long as a product where
 * vectors of 64 bytes take two turns. */
static inline mlf_f32x16 mlf_times_f32x16(const float *x, mlf_f32x16 w) {
  mlf_f32x16 v;
  __asm__("vmulps %2%{1to16%}, %1, %0" : "=v"(v) : "v"(w), "m"(*x));
  return v;
}

static inline mlf_i16x32 mlf_wide_x16(const int8_t *w) {
  __m256i bytes;
  memcpy(&bytes, w, sizeof bytes);
  return (mlf_i16x32)_mm512_cvtepi8_epi16(bytes);
}

static inline mlf_i32x16 mlf_madd_pairs_x16(mlf_i32x16 acc, const int16_t *pairs, mlf_i16x32 w) {
  mlf_i16x32 x;
  memcpy(&x, pairs, sizeof x);
  return (mlf_i32x16)_mm512_dpwssd_epi32((__m512i)acc, (__m512i)x, (__m512i)w);
}

/* Quads of weights for each lane. */
static inline __m512i mlf_quads_x16(const int8_t *w) {
  return _mm512_loadu_si512(w);
}

/* acc[k] += the four products of quad[i] and w[4k + i], where `quad` is four bytes for all lanes.
 */
static inline mlf_i32x16 mlf_dot4_x16(mlf_i32x16 acc, const uint8_t *quad, __m512i w) {
  int32_t all;
  memcpy(&all, quad, sizeof all);
  return (mlf_i32x16)_mm512_dpbusd_epi32((__m512i)acc, _mm512_set1_epi32(all), w);
}
#endif

#ifdef __cplusplus
}
#endif

#endif /* MLF_SIMD_H_ */
