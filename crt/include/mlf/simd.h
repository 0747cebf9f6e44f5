/* Vectors for kernels of large processors: GCC's and clang's vector types, and the few instructions
 * that C has no operator for.
 *
 * A vector of n lanes does n scalar operations, each rounded on its own, so results are the same
 * bits as those of scalar code in the same order.
 */
#ifndef MLF_SIMD_H_
#define MLF_SIMD_H_

#include "mlf/kernel.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef float mlf_f32x4 __attribute__((vector_size(16)));
typedef float mlf_f32x8 __attribute__((vector_size(32)));
typedef float mlf_f32x16 __attribute__((vector_size(64)));
typedef int32_t mlf_i32x4 __attribute__((vector_size(16)));
typedef int32_t mlf_i32x8 __attribute__((vector_size(32)));
typedef int32_t mlf_i32x16 __attribute__((vector_size(64)));
typedef int16_t mlf_i16x8 __attribute__((vector_size(16)));
typedef int16_t mlf_i16x16 __attribute__((vector_size(32)));
typedef int8_t mlf_i8x8 __attribute__((vector_size(8)));
typedef int8_t mlf_i8x16 __attribute__((vector_size(16)));

/* Bytes widened to int16. */
static inline void mlf_simd_widen_s8(const int8_t *from, int16_t *to, int32_t n) {
  for (int32_t i = 0; i < n; i++) {
    to[i] = from[i];
  }
}

static inline void mlf_simd_widen_u8(const uint8_t *from, int16_t *to, int32_t n) {
  for (int32_t i = 0; i < n; i++) {
    to[i] = from[i];
  }
}

/* Signed bytes as unsigned ones, 128 larger. */
static inline void mlf_simd_flip_s8(const int8_t *from, uint8_t *to, int32_t n) {
  for (int32_t i = 0; i < n; i++) {
    to[i] = (uint8_t)((uint8_t)from[i] ^ 0x80u);
  }
}

/* acc[k] += pair[2k] * w[2k] + pair[2k + 1] * w[2k + 1], where `pair` is two int16 for all lanes.
 */
static inline mlf_i32x4 mlf_madd_x4(mlf_i32x4 acc, const int16_t *pair, const int8_t *w) {
  mlf_i8x8 bytes;
  mlf_i16x8 wide;
  memcpy(&bytes, w, sizeof bytes);
  wide = __builtin_convertvector(bytes, mlf_i16x8);
#if defined(__SSE2__)
  {
    int32_t both;
    memcpy(&both, pair, sizeof both);
    return acc + (mlf_i32x4)_mm_madd_epi16((__m128i)wide, _mm_set1_epi32(both));
  }
#else
  for (int k = 0; k < 4; k++) {
    acc[k] += (int32_t)pair[0] * wide[2 * k] + (int32_t)pair[1] * wide[2 * k + 1];
  }
  return acc;
#endif
}

#if defined(__AVX2__)
static inline mlf_i32x8 mlf_madd_x8(mlf_i32x8 acc, const int16_t *pair, const int8_t *w) {
  mlf_i8x16 bytes;
  int32_t both;
  memcpy(&bytes, w, sizeof bytes);
  memcpy(&both, pair, sizeof both);
  return acc + (mlf_i32x8)_mm256_madd_epi16(_mm256_cvtepi8_epi16((__m128i)bytes),
                                            _mm256_set1_epi32(both));
}
#endif

#if defined(__AVX512VNNI__)
/* acc[k] += the four products of quad[i] and w[4k + i], where `quad` is four bytes for all lanes.
 */
static inline mlf_i32x16 mlf_dot4_x16(mlf_i32x16 acc, const uint8_t *quad, const int8_t *w) {
  int32_t all;
  memcpy(&all, quad, sizeof all);
  return (mlf_i32x16)_mm512_dpbusd_epi32((__m512i)acc, _mm512_set1_epi32(all),
                                         _mm512_loadu_si512(w));
}
#endif

#ifdef __cplusplus
}
#endif

#endif /* MLF_SIMD_H_ */
