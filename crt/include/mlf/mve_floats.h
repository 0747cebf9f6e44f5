/* Sums of float products in Helium's vectors, for the float mode `fast`: vfp.h's sums, four
 * channels in the lanes, and depthwise ones. Each lane adds its own products in turn, from zero and
 * with one rounding, so results have the bits of the mode `fused` unless a number on the way is
 * subnormal: Helium takes it for zero. Other processors compute exactly what `fused` does. */
#ifndef MLF_MVE_FLOATS_H_
#define MLF_MVE_FLOATS_H_

#include "vfp.h"

#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 1) && defined(__OPTIMIZE__) && \
    !defined(MLF_PORTABLE_DSP)
#define MLF_MVE_FLOATS 1
#else
#define MLF_MVE_FLOATS 0
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Four pixels x four channels and one pixel x eight are sums as vfp.h has them: mlf_fast_4x4 stores
 * those of pixels `pitch` bytes apart. mlf_fast_taps_16 and mlf_fast_taps_4 have start[k] + the
 * products of the taps for so many channels, the latter for `lanes` if they are fewer; `taps` has a
 * row and a column at least. What is stored is no less than the float whose bits are `least`: 0
 * after a Relu, INT32_MIN without. */
#if MLF_MVE_FLOATS

/* clang-format off */
/* The compiler must not use these instructions on its own in other code: see mve.h. */
#define MLF_FAST_              ".arch_extension mve.fp\n\t"
#define MLF_FAST_FMA_(q, w, x) "vfma.f32 q" #q ", q" #w ", %[" #x "]\n\t"
#define MLF_FAST_LOAD_(q, at)  "vldrw.32 q" #q ", [%[" #at "]], #16\n\t"
#define MLF_FAST_PAIR_(x)      "ldrd %[a], %[c], [%[" #x "]], #8\n\t"
#define MLF_FAST_ONE_(x)       "ldr %[a], [%[" #x "]], #4\n\t"
/* No less than floats whose bits are in q3: zeros, or the least integers, which change nothing. A
 * negative float is a negative integer. */
#define MLF_FAST_CUT_(q)       "vmax.s32 q" #q ", q" #q ", q3\n\t"
#define MLF_FAST_ZERO_(q)      "vmov.i32 q" #q ", #0\n\t"

/* Two products, or one, for each of sixteen sums in q4 to q7. */
#define MLF_FAST_4X4_2_ \
  MLF_FAST_LOAD_(0, w) MLF_FAST_PAIR_(x0) MLF_FAST_LOAD_(1, w) \
  MLF_FAST_FMA_(4, 0, a) MLF_FAST_FMA_(4, 1, c) \
  MLF_FAST_PAIR_(x1) MLF_FAST_FMA_(5, 0, a) MLF_FAST_FMA_(5, 1, c) \
  MLF_FAST_PAIR_(x2) MLF_FAST_FMA_(6, 0, a) MLF_FAST_FMA_(6, 1, c) \
  MLF_FAST_PAIR_(x3) MLF_FAST_FMA_(7, 0, a) MLF_FAST_FMA_(7, 1, c)
#define MLF_FAST_4X4_1_ \
  MLF_FAST_LOAD_(0, w) \
  MLF_FAST_ONE_(x0) MLF_FAST_FMA_(4, 0, a) MLF_FAST_ONE_(x1) MLF_FAST_FMA_(5, 0, a) \
  MLF_FAST_ONE_(x2) MLF_FAST_FMA_(6, 0, a) MLF_FAST_ONE_(x3) MLF_FAST_FMA_(7, 0, a)
#define MLF_FAST_ROW_(x, j) \
  "ldr %[a], [%[pixels], %[skip] + 4 * " #j "]\n\tadd %[" #x "], %[a]\n\t"
#define MLF_FAST_TOTAL_(q) \
  "vldrw.32 q0, [%[start]]\n\tadd %[start], %[a]\n\tvadd.f32 q" #q ", q0, q" #q "\n\t" \
  MLF_FAST_CUT_(q)

MLF_CALLED void mlf_fast_4x4(const mlf_four_pixels *pixels, const float *w, const float *start,
                             float *to, int32_t pitch, int32_t least) {
  const float *x0 = pixels->from[0], *x1 = pixels->from[1];
  const float *x2 = pixels->from[2], *x3 = pixels->from[3];
  int32_t rows = pixels->rows, a, c = least;
  __asm__ volatile(
      MLF_FAST_ "vdup.32 q3, %[c]\n\t" MLF_FAST_ZERO_(4) MLF_FAST_ZERO_(5) MLF_FAST_ZERO_(6) MLF_FAST_ZERO_(7)
      "1:\n\tldr %[a], [%[pixels], %[run]]\n\tlsrs %[a], #2\n\tbeq 3f\n\tdls lr, %[a]\n"
      "2:\n\t" MLF_FAST_4X4_2_ MLF_FAST_4X4_2_ "le lr, 2b\n"
      "3:\n\tldr %[a], [%[pixels], %[run]]\n\tands %[a], #3\n\tbeq 5f\n\tdls lr, %[a]\n"
      "4:\n\t" MLF_FAST_4X4_1_ "le lr, 4b\n"
      "5:\n\tsubs %[rows], #1\n\tbeq 6f\n\t"
      MLF_FAST_ROW_(x0, 0) MLF_FAST_ROW_(x1, 1) MLF_FAST_ROW_(x2, 2) MLF_FAST_ROW_(x3, 3)
      "b 1b\n"
      "6:\n\tldr %[a], [%[pixels], %[next]]\n\t"
      MLF_FAST_TOTAL_(4) MLF_FAST_TOTAL_(5) MLF_FAST_TOTAL_(6) MLF_FAST_TOTAL_(7)
      "vstrw.32 q4, [%[to]]\n\tadd %[to], %[pitch]\n\tvstrw.32 q5, [%[to]]\n\tadd %[to], %[pitch]\n\t"
      "vstrw.32 q6, [%[to]]\n\tadd %[to], %[pitch]\n\tvstrw.32 q7, [%[to]]"
      : [x0] "+&r"(x0), [x1] "+&r"(x1), [x2] "+&r"(x2), [x3] "+&r"(x3), [w] "+&r"(w),
        [start] "+&r"(start), [to] "+&r"(to), [rows] "+&r"(rows), [a] "=&r"(a), [c] "+&r"(c)
      : [pixels] "r"(pixels), [pitch] "r"(pitch), [run] "i"(offsetof(mlf_four_pixels, run)),
        [skip] "i"(offsetof(mlf_four_pixels, skip)), [next] "i"(offsetof(mlf_four_pixels, next))
      : "memory", "cc", "lr", "q0", "q1", "q3", "q4", "q5", "q6", "q7");
}

#define MLF_FAST_1X8_2_ \
  MLF_FAST_LOAD_(0, w) MLF_FAST_PAIR_(x) MLF_FAST_LOAD_(1, w) MLF_FAST_FMA_(4, 0, a) \
  MLF_FAST_LOAD_(2, w) MLF_FAST_FMA_(5, 1, a) MLF_FAST_LOAD_(3, w) MLF_FAST_FMA_(4, 2, c) \
  MLF_FAST_FMA_(5, 3, c)
#define MLF_FAST_1X8_1_ \
  MLF_FAST_LOAD_(0, w) MLF_FAST_ONE_(x) MLF_FAST_LOAD_(1, w) MLF_FAST_FMA_(4, 0, a) \
  MLF_FAST_FMA_(5, 1, a)

MLF_CALLED void mlf_fast_1x8(const float *x, const float *w, int32_t n, const float *start,
                             float *to, int32_t least) {
  int32_t a, c = least;
  __asm__ volatile(
      MLF_FAST_ "vdup.32 q6, %[c]\n\t" MLF_FAST_ZERO_(4) MLF_FAST_ZERO_(5)
      "lsrs %[a], %[n], #2\n\tbeq 3f\n\tdls lr, %[a]\n"
      "2:\n\t" MLF_FAST_1X8_2_ MLF_FAST_1X8_2_ "le lr, 2b\n"
      "3:\n\tands %[a], %[n], #3\n\tbeq 5f\n\tdls lr, %[a]\n"
      "4:\n\t" MLF_FAST_1X8_1_ "le lr, 4b\n"
      "5:\n\tvldrw.32 q0, [%[start]]\n\tvldrw.32 q1, [%[start], #16]\n\t"
      "vadd.f32 q4, q0, q4\n\tvadd.f32 q5, q1, q5\n\t"
      "vmax.s32 q4, q4, q6\n\tvmax.s32 q5, q5, q6\n\t"
      "vstrw.32 q4, [%[to]]\n\tvstrw.32 q5, [%[to], #16]"
      : [x] "+&r"(x), [w] "+&r"(w), [a] "=&r"(a), [c] "+&r"(c)
      : [n] "r"(n), [start] "r"(start), [to] "r"(to)
      : "memory", "cc", "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6");
}

#define MLF_FAST_TAP_(q, at) \
  "vldrw.32 q0, [%[x], #" #at "]\n\t" MLF_FAST_LOAD_(1, w) "vfma.f32 q" #q ", q0, q1\n\t"
#define MLF_FAST_TAPS_(zeros, tap, ends) \
  __asm__ volatile( \
      MLF_FAST_ zeros \
      "1:\n\tldr %[n], [%[taps], %[columns]]\n\tdls lr, %[n]\n\t" \
      "ldr %[n], [%[taps], %[step]]\n" \
      "2:\n\t" tap "add %[x], %[n]\n\tle lr, 2b\n\t" \
      "ldr %[n], [%[taps], %[skip]]\n\tadd %[x], %[n]\n\t" \
      "ldr %[n], [%[taps], %[wskip]]\n\tadd %[w], %[n]\n\t" \
      "subs %[rows], #1\n\tbne 1b\n\t" ends \
      : [x] "+&r"(x), [w] "+&r"(w), [rows] "+&r"(rows), [n] "+&r"(n) \
      : [lanes] "r"(lanes), [taps] "r"(taps), [start] "r"(start), [to] "r"(to), \
        [columns] "i"(offsetof(mlf_float_taps, columns)), \
        [step] "i"(offsetof(mlf_float_taps, step)), [skip] "i"(offsetof(mlf_float_taps, skip)), \
        [wskip] "i"(offsetof(mlf_float_taps, w_skip)) \
      : "memory", "cc", "lr", "q0", "q1", "q3", "q4", "q5", "q6", "q7")
#define MLF_FAST_END_(q, at) \
  "vldrw.32 q0, [%[start], #" #at "]\n\tvadd.f32 q" #q ", q0, q" #q "\n\t" MLF_FAST_CUT_(q) \
  "vstrw.32 q" #q ", [%[to], #" #at "]\n\t"

MLF_CALLED void mlf_fast_taps_16(const float *x, const float *w, const mlf_float_taps *taps,
                                 const float *start, float *to, int32_t least) {
  const int32_t lanes = 16;
  int32_t rows = taps->rows, n = least;
  MLF_FAST_TAPS_(
      "vdup.32 q3, %[n]\n\t" MLF_FAST_ZERO_(4) MLF_FAST_ZERO_(5) MLF_FAST_ZERO_(6) MLF_FAST_ZERO_(7),
      MLF_FAST_TAP_(4, 0) MLF_FAST_TAP_(5, 16) MLF_FAST_TAP_(6, 32) MLF_FAST_TAP_(7, 48),
      MLF_FAST_END_(4, 0) MLF_FAST_END_(5, 16) MLF_FAST_END_(6, 32) MLF_FAST_END_(7, 48));
}

MLF_CALLED void mlf_fast_taps_4(const float *x, const float *w, const mlf_float_taps *taps,
                                const float *start, float *to, int32_t least, int32_t lanes) {
  int32_t rows = taps->rows, n = least;
  MLF_FAST_TAPS_(
      "vdup.32 q3, %[n]\n\tmov %[n], %[lanes]\n\t" MLF_FAST_ZERO_(4) "vctp.32 %[n]\n\t",
      "vpst\n\tvldrwt.32 q0, [%[x]]\n\t" MLF_FAST_LOAD_(1, w) "vfma.f32 q4, q0, q1\n\t",
      MLF_FAST_END_(4, 0));
}
/* clang-format on */

#else

MLF_SUMS_4X4(mlf_fast_sums_4x4, MLF_FUSED_4X4_, MLF_FUSED_)
MLF_SUMS_1X8(mlf_fast_sums_1x8, MLF_FUSED_1X8_, MLF_FUSED_)

/* Helium has one NaN, which is positive; the sign of others' is the processor's or the input's. */
static inline void mlf_fast_store(const float *sums, float *to, int32_t n, int32_t least) {
  for (int32_t k = 0; k < n; k++) {
    const uint32_t sum = sums[k] == sums[k] ? mlf_bits_of_float(sums[k]) : 0x7fc00000u;
    const int32_t bits = (int32_t)sum;
    to[k] = mlf_float_of_bits((uint32_t)(bits < least ? least : bits));
  }
}

static inline void mlf_fast_4x4(const mlf_four_pixels *pixels, const float *w, const float *start,
                                float *to, int32_t pitch, int32_t least) {
  float sums[16];
  mlf_fast_sums_4x4(pixels, w, start, sums);
  for (int32_t j = 0; j < 4; j++) {
    mlf_fast_store(sums + 4 * j, to + j * (pitch / (int32_t)sizeof *to), 4, least);
  }
}

static inline void mlf_fast_1x8(const float *x, const float *w, int32_t n, const float *start,
                                float *to, int32_t least) {
  float sums[8];
  mlf_fast_sums_1x8(x, w, n, start, sums);
  mlf_fast_store(sums, to, 8, least);
}

static inline void mlf_fast_taps(const float *x, const float *w, const mlf_float_taps *taps,
                                 const float *start, float *to, int32_t least, int32_t lanes,
                                 int32_t width) {
  const int32_t size = (int32_t)sizeof *x;
  MLF_TOUCHES(start, width * size);
  MLF_TOUCHES(to, width * size);
  for (int32_t k = 0; k < lanes; k++) {
    const float *xp = x + k, *wp = w + k;
    float sum = 0.0f;
    for (int32_t row = 0; row < taps->rows; row++) {
      for (int32_t column = 0; column < taps->columns; column++) {
        MLF_TOUCHES(wp - k + column * width, width * size);
        sum = fmaf(xp[column * (taps->step / size)], wp[column * width], sum);
      }
      if (row + 1 < taps->rows) {
        xp += (taps->columns * taps->step + taps->skip) / size;
        wp += taps->columns * width + taps->w_skip / size;
      }
    }
    sum += start[k];
    mlf_fast_store(&sum, to + k, 1, least);
  }
}

static inline void mlf_fast_taps_16(const float *x, const float *w, const mlf_float_taps *taps,
                                    const float *start, float *to, int32_t least) {
  mlf_fast_taps(x, w, taps, start, to, least, 16, 16);
}

static inline void mlf_fast_taps_4(const float *x, const float *w, const mlf_float_taps *taps,
                                   const float *start, float *to, int32_t least, int32_t lanes) {
  mlf_fast_taps(x, w, taps, start, to, least, mlf_min_i32(lanes, 4), 4);
}

#endif

#ifdef __cplusplus
}
#endif

#endif /* MLF_MVE_FLOATS_H_ */
