/* Helpers that generated kernels share: bit casts, rounding and clamping.
 *
 * Everything is `static inline`, so a source that includes this file needs no library, and an
 * unused helper costs no flash. Results are the same on every target, those of floats too: this
 * file turns the contraction of a * b + c off and refuses -ffast-math.
 */
#ifndef MLF_KERNEL_H_
#define MLF_KERNEL_H_

/* A fused multiply-add rounds once where the model rounds twice, in requantisation too. Compilers
 * fuse by default on cores that can, unless told -std=c99; GCC does not know the standard pragma.
 * First of all in a source, so that every function of it is compiled alike. A core without the
 * instruction needs no pragma, with which GCC's code for Cortex-M0 is slower by up to 0.3 %. */
#if defined(__GNUC__) && !defined(__clang__)
#if defined(__FP_FAST_FMAF) || defined(__FP_FAST_FMA)
#pragma GCC optimize("fp-contract=off")
#endif
#else
#pragma STDC FP_CONTRACT OFF
#endif

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || \
    defined(__NO_SIGNED_ZEROS__) || defined(_M_FP_FAST) || \
    (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ > 0)
#error "mlf/kernel.h: results depend on rounding steps that -ffast-math, or a part of it, removes"
#endif
#if defined(FLT_EVAL_METHOD) && (FLT_EVAL_METHOD == 1 || FLT_EVAL_METHOD == 2)
#error "mlf/kernel.h: float must be evaluated as float (on x86: -mfpmath=sse -msse2)"
#endif

/* Kernels promise that their operands do not overlap, unless the memory plan lets them. */
#ifdef __cplusplus
#define MLF_RESTRICT __restrict
#else
#define MLF_RESTRICT restrict
#endif

/* In C that stands for assembly: how many bytes the assembly touches, where it touches more.
 * mlftool proves index ranges from the C. */
#ifndef MLF_TOUCHES
#define MLF_TOUCHES(at, bytes) ((void)0)
#endif

/* One function per kernel: keeps profiles readable and registers free, costs one call per layer. */
#if defined(__GNUC__)
#define MLF_HIDE(value) __asm__("" : "+r"(value)) /* compilers know nothing of it any more */
#define MLF_INLINE      static inline __attribute__((always_inline)) /* at -Os, too */
#if defined(__AVX__) /* neither vectors of 32 bytes nor short loops should span two cache lines \
                      */
#define MLF_KERNEL         static __attribute__((noinline, aligned(64)))
#define MLF_ALIGNED(bytes) __attribute__((aligned((bytes) < 16 ? (bytes) : 64)))
#else
#define MLF_KERNEL         static __attribute__((noinline))
#define MLF_ALIGNED(bytes) __attribute__((aligned(bytes)))
#endif
#else
#define MLF_HIDE(value)
#define MLF_INLINE static inline
#define MLF_KERNEL static
#define MLF_ALIGNED(bytes)
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

/* Whether Arm's SSAT or USAT limits to [low, high], which must be known when compiled. gcc moves
 * these two numbers out of loops, and then compares with each. */
#if defined(__ARM_FEATURE_SAT) && defined(__OPTIMIZE__) && !defined(__clang__)
#define MLF_LIMITS_(low, high, least, most) \
  (__builtin_constant_p(low) && __builtin_constant_p(high) && (low) == (least) && (high) == (most))
#define MLF_SATURATES(low, high)        MLF_LIMITS_(low, high, -128, 127)
#define MLF_SATURATES_SHORT(low, high)  MLF_LIMITS_(low, high, -32768, 32767)
#define MLF_SATURATES_USHORT(low, high) MLF_LIMITS_(low, high, 0, 65535)
#endif

/* Of a function that stands once in an archive for few bytes: gcc takes an asm statement for next
 * to nothing and would inline it at every store. */
#if defined(MLF_SATURATES) && defined(__OPTIMIZE_SIZE__)
#define MLF_SHARED static __attribute__((noinline, unused))
#else
#define MLF_SHARED static inline
#endif

/* `x` limited to [low, high]; low <= high. */
static inline int32_t mlf_clamp_i32(int32_t x, int32_t low, int32_t high) {
#ifdef MLF_SATURATES
  if (MLF_SATURATES(low, high)) {
    __asm__("ssat %0, #8, %1" : "=r"(x) : "r"(x));
    return x;
  }
  if (MLF_SATURATES_SHORT(low, high)) {
    __asm__("ssat %0, #16, %1" : "=r"(x) : "r"(x));
    return x;
  }
  if (MLF_SATURATES_USHORT(low, high)) {
    __asm__("usat %0, #16, %1" : "=r"(x) : "r"(x));
    return x;
  }
#endif
  return x < low ? low : (x > high ? high : x);
}

/* x * m, of what is below zero k times it more, and `add`. */
static inline int32_t mlf_slope_i32(int32_t x, int32_t m, int32_t k, int32_t add) {
  return x * m + (x & (x >> 31)) * k + add;
}

/* x >> shift, limited to [low, high]; 0 < shift < 32. */
static inline int32_t mlf_shift_clamp_i32(int32_t x, int32_t shift, int32_t low, int32_t high) {
#ifdef MLF_SATURATES
  if (MLF_SATURATES(low, high) && __builtin_constant_p(shift)) {
    __asm__("ssat %0, #8, %1, asr %2" : "=r"(x) : "r"(x), "n"(shift));
    return x;
  }
  if (MLF_SATURATES_SHORT(low, high) && __builtin_constant_p(shift)) {
    __asm__("ssat %0, #16, %1, asr %2" : "=r"(x) : "r"(x), "n"(shift));
    return x;
  }
#endif
  return mlf_clamp_i32(x >> shift, low, high);
}

/* `x` limited to [low, high]; low <= high, neither is nan. A nan stays nan. */
static inline float mlf_clamp_f32(float x, float low, float high) {
  return x < low ? low : (x > high ? high : x);
}

/* The smaller of two. */
static inline int32_t mlf_min_i32(int32_t a, int32_t b) {
  return a < b ? a : b;
}

/* Of two weights in one byte, the one in bits 0 to 3. */
static inline int32_t mlf_low_nibble(int8_t both) {
  return (int32_t)((uint32_t)both << 28) >> 28;
}

/* The other. */
static inline int32_t mlf_high_nibble(int8_t both) {
  return both >> 4;
}

/* round_even(x) + zero_point, saturated to [low, high]: ONNX's QuantizeLinear after its division.
 *
 * Any x, infinities included; a nan becomes low. The clamp comes first because mlf_round_even
 * needs a small argument; |low - zero_point| is at most 2^16. */
static inline int32_t mlf_quantize(float x, int32_t zero_point, int32_t low, int32_t high) {
  const float floor = (float)(low - zero_point);
  const float ceiling = (float)(high - zero_point);
  const float at_least = x > floor ? x : floor;
  return mlf_round_even(at_least < ceiling ? at_least : ceiling) + zero_point;
}

/* A 32-bit accumulator as a quantised value, for any accumulator. One float multiplication and one
 * rounding, as onnxruntime's integer path does it, so results are equal bit for bit. */
static inline int32_t mlf_requantize_wide(int32_t acc, float scale, int32_t zero_point, int32_t low,
                                          int32_t high) {
  return mlf_quantize((float)acc * scale, zero_point, low, high);
}

/* The same where |acc * scale| < 2^22 is known beforehand: the clamp is then an integer one. */
MLF_SHARED int32_t mlf_requantize(int32_t acc, float scale, int32_t zero_point, int32_t low,
                                  int32_t high) {
  return mlf_clamp_i32(mlf_round_even((float)acc * scale) + zero_point, low, high);
}

/* add + the upper half of the 64-bit product a * m. */
static inline int32_t mlf_multiply_high(int32_t a, int32_t m, int32_t add) {
#if defined(__ARM_FEATURE_DSP) && __ARM_FEATURE_DSP && !defined(MLF_PORTABLE_DSP)
  int32_t sum;
  __asm__("smmla %0, %1, %2, %3" : "=r"(sum) : "r"(a), "r"(m), "r"(add));
  return sum;
#elif defined(__ARM_ARCH_6M__) && !defined(MLF_PORTABLE_NARROW)
  /* By halves, since no instruction has 64 bits, and the library's function multiplies all four
   * words. m is positive and below 2^31, as all multipliers are. */
  const int32_t low = (int32_t)((uint32_t)a & 0xffffu), high = a >> 16;
  const int32_t m_low = (int32_t)((uint32_t)m & 0xffffu), m_high = m >> 16;
  const int32_t first = (int32_t)(((uint32_t)low * (uint32_t)m_low) >> 16) + high * m_low;
  const int32_t second = low * m_high + (int32_t)((uint32_t)first & 0xffffu);
  return high * m_high + (first >> 16) + (second >> 16) + add;
#else
  return (int32_t)(((int64_t)a * m) >> 32) + add;
#endif
}

/* mlf_requantize in integers: the compiler chose m, add and shift such that results are equal. */
static inline int32_t mlf_requantize_fixed(int32_t acc, int32_t m, int32_t add, int32_t shift,
                                           int32_t low, int32_t high) {
  return mlf_shift_clamp_i32(mlf_multiply_high(acc, m, add), shift, low, high);
}

/* mlf_requantize with the bits of the negated scale. Of what is no asm statement gcc would do a
 * part for channels that do not need it. */
static inline int32_t mlf_requantize_coded(int32_t acc, int32_t m, int32_t zero_point, int32_t low,
                                           int32_t high) {
#if defined(MLF_SATURATES) && defined(__ARM_FP) && (__ARM_FP & 4)
  __asm__ volatile("vmov s14, s15, %0, %1\n\t"
                   "vcvt.f32.s32 s14, s14\n\t"
                   "vnmul.f32 s14, s14, s15\n\t"
                   "vcvtr.s32.f32 s14, s14\n\t"
                   "vmov %0, s14"
                   : "+r"(acc)
                   : "r"(m)
                   : "s14", "s15");
  return mlf_clamp_i32(acc + zero_point, low, high);
#else
  return mlf_requantize(acc, -mlf_float_of_bits((uint32_t)m), zero_point, low, high);
#endif
}

/* mlf_requantize_fixed where a channel may have no such m: it then has the negated scale's bits. */
MLF_INLINE int32_t mlf_requantize_either(int32_t acc, int32_t m, int32_t add, int32_t shift,
                                         int32_t zero_point, int32_t low, int32_t high) {
  return m > 0 ? mlf_requantize_fixed(acc, m, add, shift, low, high)
               : mlf_requantize_coded(acc, m, zero_point, low, high);
}

/* The same where |acc * scale| may reach 2^22. */
MLF_INLINE int32_t mlf_requantize_either_wide(int32_t acc, int32_t m, int32_t add, int32_t shift,
                                              int32_t zero_point, int32_t low, int32_t high) {
  return m > 0 ? mlf_requantize_fixed(acc, m, add, shift, low, high)
               : mlf_requantize_wide(acc, -mlf_float_of_bits((uint32_t)m), zero_point, low, high);
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_KERNEL_H_ */
