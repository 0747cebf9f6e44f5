/* Types of vectors, GCC's and clang's, and how many bytes are widened at once. */
#ifndef MLF_SIMD_TYPES_H_
#define MLF_SIMD_TYPES_H_

#include "mlf/kernel.h"

/* All of x86's intrinsics are 30 times the text of those of SSE2. */
#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

typedef float mlf_f32x4 __attribute__((vector_size(16)));
typedef float mlf_f32x8 __attribute__((vector_size(32)));
typedef float mlf_f32x16 __attribute__((vector_size(64)));
typedef int32_t mlf_i32x4 __attribute__((vector_size(16)));
typedef int32_t mlf_i32x8 __attribute__((vector_size(32)));
typedef int32_t mlf_i32x16 __attribute__((vector_size(64)));
typedef uint32_t mlf_u32x8 __attribute__((vector_size(32)));
typedef int16_t mlf_i16x8 __attribute__((vector_size(16)));
typedef int16_t mlf_i16x16 __attribute__((vector_size(32)));
typedef int16_t mlf_i16x32 __attribute__((vector_size(64)));
typedef int8_t mlf_i8x4 __attribute__((vector_size(4)));
typedef int8_t mlf_i8x8 __attribute__((vector_size(8)));
typedef int8_t mlf_i8x16 __attribute__((vector_size(16)));
typedef int8_t mlf_i8x32 __attribute__((vector_size(32)));
typedef uint8_t mlf_u8x8 __attribute__((vector_size(8)));
typedef uint8_t mlf_u8x16 __attribute__((vector_size(16)));

/* Before a loop that is to stay one: unrolled, it would want more registers than there are. Of one
 * of two rounds gcc makes none all the same, unless the number is hidden (MLF_HIDE). */
#if defined(__clang__)
#define MLF_ROLLED _Pragma("clang loop unroll(disable)")
#else
#define MLF_ROLLED _Pragma("GCC unroll 1")
#endif

/* The widest vector whose bytes are widened at once. */
#if defined(__AVX2__)
#define MLF_WIDENED 16
typedef mlf_i16x16 mlf_simd_wide;
typedef mlf_i8x16 mlf_simd_s8;
typedef mlf_u8x16 mlf_simd_u8;
#else
#define MLF_WIDENED 8
typedef mlf_i16x8 mlf_simd_wide;
typedef mlf_i8x8 mlf_simd_s8;
typedef mlf_u8x8 mlf_simd_u8;
#endif

#endif /* MLF_SIMD_TYPES_H_ */
