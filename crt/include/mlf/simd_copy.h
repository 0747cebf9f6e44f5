/* Elements copied to where a kernel reads them, in vectors: as they are, widened, in pairs, or with
 * another sign. */
#ifndef MLF_SIMD_COPY_H_
#define MLF_SIMD_COPY_H_

#include "mlf/simd_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* memcpy and memset in vectors: what compilers make of those, string instructions or calls, starts
 * slowly. The empty instruction hides from them what these are. */
static inline void mlf_simd_copy(void *to, const void *from, size_t bytes) {
#if defined(__AVX2__)
  if (bytes >= 32) {
    for (size_t i = 0; i < bytes; i += 32) {
      const size_t at = i + 32 <= bytes ? i : bytes - 32;
      __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)((const char *)from + at));
      __asm__("" : "+x"(v));
      _mm256_storeu_si256((__m256i *)(void *)((char *)to + at), v);
    }
    return;
  }
#endif
  memcpy(to, from, bytes);
}

static inline void mlf_simd_fill(void *to, int value, size_t bytes) {
#if defined(__AVX2__)
  if (bytes >= 32) {
    __m256i v = _mm256_set1_epi8((char)value);
    for (size_t i = 0; i < bytes; i += 32) {
      const size_t at = i + 32 <= bytes ? i : bytes - 32;
      __asm__("" : "+x"(v));
      _mm256_storeu_si256((__m256i *)(void *)((char *)to + at), v);
    }
    return;
  }
#endif
  memset(to, value, bytes);
}

/* Bytes widened to int16. */
static inline void mlf_simd_widen_s8(const int8_t *from, int16_t *to, int32_t n) {
  int32_t i = 0;
  for (; i + MLF_WIDENED <= n; i += MLF_WIDENED) {
    mlf_simd_s8 bytes;
    mlf_simd_wide wide;
    memcpy(&bytes, from + i, sizeof bytes);
    wide = __builtin_convertvector(bytes, mlf_simd_wide);
    memcpy(to + i, &wide, sizeof wide);
  }
  for (; i < n; i++) {
    to[i] = from[i];
  }
}

static inline void mlf_simd_widen_u8(const uint8_t *from, int16_t *to, int32_t n) {
  int32_t i = 0;
  for (; i + MLF_WIDENED <= n; i += MLF_WIDENED) {
    mlf_simd_u8 bytes;
    mlf_simd_wide wide;
    memcpy(&bytes, from + i, sizeof bytes);
    wide = __builtin_convertvector(bytes, mlf_simd_wide);
    memcpy(to + i, &wide, sizeof wide);
  }
  for (; i < n; i++) {
    to[i] = from[i];
  }
}

/* Defines pairs of int16: to[2i] is a[i], to[2i + 1] is b[i]. */
#if defined(__AVX2__)
#define MLF_SIMD_PAIRS_OF_EIGHT(widen) \
  for (; i + 8 <= n; i += 8) { \
    const __m128i first = _mm_loadl_epi64((const __m128i *)(const void *)(a + i)); \
    const __m128i second = _mm_loadl_epi64((const __m128i *)(const void *)(b + i)); \
    const __m256i wide = widen(_mm_unpacklo_epi8(first, second)); \
    memcpy(to + 2 * i, &wide, sizeof wide); \
  }
#else
#define MLF_SIMD_PAIRS_OF_EIGHT(widen)
#endif
#define MLF_SIMD_PAIRS(name, type, widen) \
  static inline void name(const type *a, const type *b, int16_t *to, int32_t n) { \
    int32_t i = 0; \
    MLF_SIMD_PAIRS_OF_EIGHT(widen) \
    for (; i < n; i++) { \
      to[2 * i] = a[i]; \
      to[2 * i + 1] = b[i]; \
    } \
  }

MLF_SIMD_PAIRS(mlf_simd_pairs_s8, int8_t, _mm256_cvtepi8_epi16)
MLF_SIMD_PAIRS(mlf_simd_pairs_u8, uint8_t, _mm256_cvtepu8_epi16)

/* Signed bytes as unsigned ones, 128 larger. */
static inline void mlf_simd_flip_s8(const int8_t *from, uint8_t *to, int32_t n) {
  for (int32_t i = 0; i < n; i++) {
    to[i] = (uint8_t)((uint8_t)from[i] ^ 0x80u);
  }
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_SIMD_COPY_H_ */
