/* What windows keep of two vectors: the larger elements. */
#ifndef MLF_SIMD_POOL_H_
#define MLF_SIMD_POOL_H_

#include "mlf/simd.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__AVX2__)
/* Vectors of 16 bytes or 8 floats: one number in all lanes, loads, and `value` where it wins over
 * `acc`. */
#define MLF_WINDOW_(type, element, vector, mask) \
  static inline vector mlf_all_##type(element x) { \
    const vector zero = {0}; \
    return x - zero; \
  } \
  static inline vector mlf_window_##type(const element *from) { \
    vector v; \
    memcpy(&v, from, sizeof v); \
    return v; \
  } \
  static inline vector mlf_chosen_##type(vector acc, vector value, mask wins) { \
    return (vector)(((mask)value & wins) | ((mask)acc & ~wins)); \
  } \
  static inline vector mlf_max_##type(vector acc, vector value) { \
    return mlf_chosen_##type(acc, value, (mask)(value > acc)); \
  }

MLF_WINDOW_(s8x16, int8_t, mlf_i8x16, mlf_i8x16)
MLF_WINDOW_(u8x16, uint8_t, mlf_u8x16, mlf_u8x16)
MLF_WINDOW_(f32, float, mlf_f32x8, mlf_i32x8)
#undef MLF_WINDOW_

/* The same, where NaN wins. */
static inline mlf_f32x8 mlf_max_or_nan_f32(mlf_f32x8 acc, mlf_f32x8 value) {
  return mlf_chosen_f32(acc, value, (mlf_i32x8)(value > acc) | (mlf_i32x8)(value != value));
}
#endif

#ifdef __cplusplus
}
#endif

#endif /* MLF_SIMD_POOL_H_ */
