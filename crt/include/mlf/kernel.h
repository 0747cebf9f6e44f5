/* Helpers that generated kernels share: bit casts, rounding and clamping.
 *
 * Everything is `static inline`, so a source that includes this file needs no library, and an
 * unused helper costs no flash. Integer results are the same on every target; float code keeps that
 * promise when it is built with -ffp-contract=off and without -ffast-math.
 */
#ifndef MLF_KERNEL_H_
#define MLF_KERNEL_H_

#include <float.h>
#include <stdint.h>
#include <string.h>

#if defined(__FAST_MATH__)
#error "mlf/kernel.h: -ffast-math removes the rounding steps that results depend on"
#endif
#if defined(FLT_EVAL_METHOD) && (FLT_EVAL_METHOD == 1 || FLT_EVAL_METHOD == 2)
#error "mlf/kernel.h: float must be evaluated as float (on x86: -mfpmath=sse -msse2)"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The 32 bits of `x`. memcpy, because a union or a pointer cast is undefined in C++; compilers turn
 * it into one register move. */
static inline uint32_t mlf_bits_of_float(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

/* The float whose 32 bits are `bits`. */
static inline float mlf_float_of_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* `x` rounded to the nearest integer, ties to even: ONNX's rounding for quantised values.
 *
 * Valid for |x| < 2^22; anything larger, infinite or nan gives an unspecified value, so clamp
 * first. 12582912 is 1.5 * 2^23: there the distance between floats is 1, so the addition itself
 * rounds to an integer, in the processor's default mode (nearest, ties to even), and leaves that
 * integer in the low mantissa bits. Two operations on every target; lrintf is a library call on
 * most. */
static inline int32_t mlf_round_even(float x) {
  const uint32_t bits = mlf_bits_of_float(x + 12582912.0f);
  return (int32_t)(bits - 0x4b400000u); /* 0x4b400000 = the bits of 12582912.0f */
}

/* `x` limited to [low, high]; low <= high. */
static inline int32_t mlf_clamp_i32(int32_t x, int32_t low, int32_t high) {
  return x < low ? low : (x > high ? high : x);
}

/* `x` limited to [low, high]; low <= high, neither is nan. A nan stays nan. */
static inline float mlf_clamp_f32(float x, float low, float high) {
  return x < low ? low : (x > high ? high : x);
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_KERNEL_H_ */
