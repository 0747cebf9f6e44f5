/* Conversions between element types, also of those that C does not have: float16, bfloat16, the
 * floats of 8 and 4 bits, integers of 4 and 2 bits.
 *
 * Narrow floats are stored as unsigned integers and computed in float. mlf_float_of_<type> is
 * exact; mlf_<type>_of_float rounds to nearest, ties to even. Overflow gives infinity where the
 * type has one, else nan; the _sat forms give the largest finite value, as ONNX's Cast does by
 * default.
 */
#ifndef MLF_CONVERT_H_
#define MLF_CONVERT_H_

#include "kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Floats as integers: the fraction is cut off. What does not fit, a nan too, becomes the least
 * int32 or int64: C leaves it undefined, ONNX too, and this is what x86's instructions and so numpy
 * and onnxruntime give. Narrower integers are the low bits of an int32. */
#define MLF_INTEGER_OF_(floating) \
  static inline int32_t mlf_i32_of_##floating(floating x) { \
    return x >= (floating)-2147483648.0 && x < (floating)2147483648.0 ? (int32_t)x \
                                                                      : -2147483647 - 1; \
  } \
  static inline int64_t mlf_i64_of_##floating(floating x) { \
    return x >= (floating)-9223372036854775808.0 && x < (floating)9223372036854775808.0 \
               ? (int64_t)x \
               : -INT64_C(9223372036854775807) - 1; \
  } \
  static inline uint64_t mlf_u64_of_##floating(floating x) { \
    return x >= (floating)9223372036854775808.0 && x < (floating)18446744073709551616.0 \
               ? (uint64_t)x \
               : (uint64_t)mlf_i64_of_##floating(x); \
  }
MLF_INTEGER_OF_(float)
MLF_INTEGER_OF_(double)
#undef MLF_INTEGER_OF_

/* 2^k for -126 <= k <= 127. */
static inline float mlf_power_of_two(int32_t k) {
  return mlf_float_of_bits((uint32_t)(k + 127) << 23);
}

/* `x` as a float that rounds to any narrower type as `x` itself would: towards zero, with the last
 * bit set if anything was lost. */
static inline float mlf_float_to_odd(double x) {
  const float y = (float)x;
  uint32_t bits = mlf_bits_of_float(y);
  if (x != x || (double)y == x || (bits & 0x7fffffffu) == 0x7f800000u) {
    return y;
  }
  if ((double)y < 0 ? (double)y < x : (double)y > x) {
    bits--; /* it was rounded away from zero */
  }
  return mlf_float_of_bits(bits | 1u);
}

#if defined(__arm__) && defined(__ARM_FP) && defined(__GNUC__) && !defined(MLF_PORTABLE_VFP)
#ifdef __ARM_FEATURE_FMA /* where gcc says 4 of an FPU for float alone, though FPv4 has it */
#define MLF_CONVERTS_HALVES_ 1
#else
#define MLF_CONVERTS_HALVES_ (__ARM_FP & 2)
#endif
#else
#define MLF_CONVERTS_HALVES_ 0
#endif

/* Of a finite one. An FPU that converts halves, such as a Cortex-M4's, does so in one instruction;
 * the bits are the same. */
static inline float mlf_float_of_finite_f16(uint16_t half) {
#if MLF_CONVERTS_HALVES_
  float x = mlf_float_of_bits(half);
  __asm__("vcvtb.f32.f16 %0, %0" : "+t"(x));
  return x;
#else
  const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
  const uint32_t rest = (uint32_t)(half & 0x7fffu) << 13;
  if (rest >= 0x00800000u) { /* moves the exponent's bias from 15 to 127 */
    return mlf_float_of_bits(sign | (rest + 0x38000000u));
  }
  if (rest == 0u) {
    return mlf_float_of_bits(sign);
  }
  /* A product makes subnormals normal. */
  return mlf_float_of_bits(sign |
                           mlf_bits_of_float(mlf_float_of_bits(rest) * mlf_power_of_two(112)));
#endif
}

static inline float mlf_float_of_f16(uint16_t half) {
  if ((half & 0x7c00u) == 0x7c00u) { /* infinity or nan */
    return mlf_float_of_bits(((uint32_t)(half & 0x8000u) << 16) | 0x7f800000u |
                             ((uint32_t)(half & 0x03ffu) << 13));
  }
  return mlf_float_of_finite_f16(half);
}

static inline uint16_t mlf_f16_of_float(float x) {
  const uint32_t bits = mlf_bits_of_float(x);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) {
    return (uint16_t)(sign | 0x7e00u | ((rest >> 13) & 0x03ffu));
  }
  if (rest >= 0x47800000u) { /* 65536 and more; values between 65504 and that round below */
    return (uint16_t)(sign | 0x7c00u);
  }
  if (rest < 0x38800000u) { /* subnormal: floats near 0.5 are as far apart as these */
    return (uint16_t)(sign | (mlf_bits_of_float(mlf_float_of_bits(rest) + 0.5f) - 0x3f000000u));
  }
  return (uint16_t)(sign | ((rest - 0x38000000u + 0x0fffu + ((rest >> 13) & 1u)) >> 13));
}

static inline float mlf_float_of_bf16(uint16_t top) {
  return mlf_float_of_bits((uint32_t)top << 16);
}

static inline uint16_t mlf_bf16_of_float(float x) {
  const uint32_t bits = mlf_bits_of_float(x);
  if (x != x) {
    return (uint16_t)((bits >> 16) | 0x0040u);
  }
  return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/* The code, without sign, of |x| in a type of `mantissa` bits and this bias, as if its exponent had
 * no end. */
static inline uint32_t mlf_small_of_float_(float x, int32_t mantissa, int32_t bias) {
  const uint32_t rest = mlf_bits_of_float(x) & 0x7fffffffu;
  const uint32_t shift = (uint32_t)(23 - mantissa);
  if (rest < (uint32_t)(128 - bias) << 23) { /* subnormal there */
    return (uint32_t)mlf_round_even(mlf_float_of_bits(rest) *
                                    mlf_power_of_two(bias - 1 + mantissa));
  }
  return ((rest + (1u << (shift - 1)) - 1u + ((rest >> shift) & 1u)) >> shift) -
         ((uint32_t)(127 - bias) << mantissa);
}

/* The value of a code without sign. */
static inline float mlf_float_of_small_(uint32_t code, int32_t mantissa, int32_t bias) {
  if (code < 1u << mantissa) {
    return (float)code * mlf_power_of_two(1 - bias - mantissa);
  }
  return mlf_float_of_bits((code << (23 - mantissa)) + ((uint32_t)(127 - bias) << 23));
}

static inline float mlf_with_sign_(float magnitude, uint32_t sign) {
  return sign ? -magnitude : magnitude;
}

/* clang-format off */
/* One line per 8-bit float: largest finite code, code above it (infinity or nan), nan. The kinds
 * without negative zero use its code for nan. */
#define MLF_FLOAT8_(name, mantissa, bias, largest, beyond, quiet, fnuz)                           \
  static inline float mlf_float_of_##name(uint8_t code) {                                         \
    const uint32_t rest = code & 0x7fu;                                                           \
    if ((fnuz) ? code == 0x80u : rest > (largest)) {                                              \
      return (beyond) != (quiet) && rest == (beyond)                                              \
          ? mlf_with_sign_(mlf_float_of_bits(0x7f800000u), code & 0x80u)                          \
          : mlf_with_sign_(mlf_float_of_bits(0x7fc00000u), code & 0x80u);                         \
    }                                                                                             \
    return mlf_with_sign_(mlf_float_of_small_(rest, mantissa, bias), code & 0x80u);               \
  }                                                                                               \
  static inline uint8_t mlf_##name##_clipped_(float x, uint32_t over) {                           \
    const uint32_t sign = (mlf_bits_of_float(x) >> 24) & 0x80u;                                   \
    uint32_t code = mlf_small_of_float_(x, mantissa, bias);                                       \
    if (x != x) {                                                                                 \
      return (uint8_t)((fnuz) ? 0x80u : (sign | (quiet)));                                        \
    }                                                                                             \
    code = code > (largest) ? over : code;                                                        \
    return (uint8_t)((fnuz) && (code == 0 || code == 0x80u) ? code : (sign | code));              \
  }                                                                                               \
  static inline uint8_t mlf_##name##_of_float(float x) {                                          \
    return mlf_##name##_clipped_(x, beyond);                                                      \
  }                                                                                               \
  static inline uint8_t mlf_##name##_of_float_sat(float x) {                                      \
    return mlf_##name##_clipped_(x, largest);                                                     \
  }
MLF_FLOAT8_(e4m3fn, 3, 7, 0x7eu, 0x7fu, 0x7fu, false)
MLF_FLOAT8_(e4m3fnuz, 3, 8, 0x7fu, 0x80u, 0x80u, true)
MLF_FLOAT8_(e5m2, 2, 15, 0x7bu, 0x7cu, 0x7eu, false)
MLF_FLOAT8_(e5m2fnuz, 2, 16, 0x7fu, 0x80u, 0x80u, true)
#undef MLF_FLOAT8_
/* clang-format on */

/* float4 has neither infinity nor nan: larger values become 6, a nan a zero of the
 * other sign, as in ml_dtypes. */
static inline float mlf_float_of_e2m1(uint8_t code) {
  return mlf_with_sign_(mlf_float_of_small_(code & 7u, 1, 1), code & 8u);
}

static inline uint8_t mlf_e2m1_of_float(float x) {
  const uint32_t sign = (mlf_bits_of_float(x) >> 28) & 8u;
  const uint32_t code = mlf_small_of_float_(x, 1, 1);
  if (x != x) {
    return (uint8_t)(sign ^ 8u);
  }
  return (uint8_t)(sign | (code > 7u ? 7u : code));
}

/* float8e8m0 is an exponent without a sign: 2^(code - 127), 255 is nan. */
static inline float mlf_float_of_e8m0(uint8_t code) {
  if (code == 0xffu) {
    return mlf_float_of_bits(0x7fc00000u);
  }
  return mlf_float_of_bits(code ? (uint32_t)code << 23 : 0x00400000u);
}

/* `extra` of 2^23 is what is added before the mantissa is cut off: 0 rounds down, one less than
 * 2^23 up, 2^22 to nearest. Infinity and nan become nan, as in ONNX's reference. */
static inline uint8_t mlf_e8m0_clipped_(float x, uint32_t extra, uint32_t over) {
  const uint32_t rest = mlf_bits_of_float(x) & 0x7fffffffu;
  if (rest >= 0x7f800000u) {
    return 0xffu;
  }
  return (uint8_t)(((rest + extra) >> 23) > 0xfeu ? over : (rest + extra) >> 23);
}

static inline uint8_t mlf_e8m0_of_float(float x) {
  return mlf_e8m0_clipped_(x, 0x00400000u, 0xffu);
}

static inline uint8_t mlf_e8m0_of_float_up(float x) {
  return mlf_e8m0_clipped_(x, 0x007fffffu, 0xffu);
}

static inline uint8_t mlf_e8m0_of_float_up_sat(float x) {
  return mlf_e8m0_clipped_(x, 0x007fffffu, 0xfeu);
}

static inline uint8_t mlf_e8m0_of_float_down(float x) {
  return mlf_e8m0_clipped_(x, 0u, 0xffu);
}

static inline uint8_t mlf_e8m0_of_float_nearest_sat(float x) {
  return mlf_e8m0_clipped_(x, 0x00400000u, 0xfeu);
}

/* Element `i` of a tensor of 4-bit or 2-bit elements; the first one is in the lowest bits. */
static inline uint8_t mlf_get_u4(const uint8_t *at, int32_t i) {
  return (uint8_t)(((uint32_t)at[i >> 1] >> ((uint32_t)i & 1u) * 4u) & 15u);
}

static inline uint8_t mlf_get_u2(const uint8_t *at, int32_t i) {
  return (uint8_t)(((uint32_t)at[i >> 2] >> ((uint32_t)i & 3u) * 2u) & 3u);
}

/* The low bits of `x` as a number with a sign. */
static inline int8_t mlf_wrap_i4(int32_t x) {
  return (int8_t)((x & 15) - ((x & 8) << 1));
}

static inline int8_t mlf_wrap_i2(int32_t x) {
  return (int8_t)((x & 3) - ((x & 2) << 1));
}

static inline uint8_t mlf_wrap_u4(int32_t x) {
  return (uint8_t)(x & 15);
}

static inline uint8_t mlf_wrap_u2(int32_t x) {
  return (uint8_t)(x & 3);
}

static inline int8_t mlf_get_i4(const uint8_t *at, int32_t i) {
  return mlf_wrap_i4(mlf_get_u4(at, i));
}

static inline int8_t mlf_get_i2(const uint8_t *at, int32_t i) {
  return mlf_wrap_i2(mlf_get_u2(at, i));
}

/* Sets element `i` to the low bits of `x`. A tensor must be written in ascending order: the first
 * element of a byte clears the others, so that a last byte is the same however full it is. */
static inline void mlf_put_4(uint8_t *at, int32_t i, int32_t x) {
  const uint32_t bits = (uint32_t)x & 15u;
  at[i >> 1] = (uint8_t)(i & 1 ? at[i >> 1] | bits << 4 : bits);
}

static inline void mlf_put_2(uint8_t *at, int32_t i, int32_t x) {
  const uint32_t bits = (uint32_t)x & 3u;
  at[i >> 2] = (uint8_t)(i & 3 ? at[i >> 2] | bits << ((uint32_t)i & 3u) * 2u : bits);
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_CONVERT_H_ */
