/* Sums of float products in all thirty-two registers of a Cortex-M's FPU. One VLDM loads several
 * operands, which compilers load one by one; the functions stand once for all layers. Plain C for
 * every other processor gives the same bits: each sum adds its products in turn, from zero.
 * vfp_exact.h and vfp_fused.h define the functions. Without optimisation gcc has too few core
 * registers for the assembly. */
#ifndef MLF_VFP_H_
#define MLF_VFP_H_

#include <stddef.h>

#include "kernel.h"

#if defined(__ARM_FEATURE_FMA) && defined(__ARM_ARCH_PROFILE) && defined(__thumb2__) && \
    defined(__ARM_FP) && defined(__OPTIMIZE__) && !defined(MLF_PORTABLE_VFP)
#define MLF_VFP (__ARM_ARCH_PROFILE == 'M' && (__ARM_FP & 4))
#else
#define MLF_VFP 0
#endif

#if defined(__GNUC__)
#define MLF_CALLED static __attribute__((noinline, unused))
#else
#define MLF_CALLED static inline
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The operands of four pixels: `rows` times `run` floats, from `from` on, and `skip` bytes between
 * the end of a row and the next. Their sums are added to four floats each, `next` bytes apart. */
typedef struct {
  const float *from[4];
  int32_t skip[4];
  int32_t rows;
  int32_t run;
  int32_t next;
} mlf_four_pixels;

/* The taps of a window that are inside the image, in bytes: `step` from one to the next, `skip`
 * from the last of a row to the first of the next, of pixels and of weights. */
typedef struct {
  int32_t rows;
  int32_t columns;
  int32_t step;
  int32_t skip;
  int32_t w_skip;
} mlf_float_taps;

/* MLF_SUMS_4X4: sums[4 * pixel + channel] = start + the products of a pixel with weights
 * [product][4]. MLF_SUMS_1X8: sums[channel] = start + the n products of x with weights
 * [product][8]. `pair` and `four` are the assembly of two products and of four. */
#if MLF_VFP

/* clang-format off */
#define MLF_FMA_(sum, x, w) "vfma.f32 s" #sum ", s" #x ", s" #w "\n\t"
#define MLF_MUL_(to, x, w)  "vmul.f32 s" #to ", s" #x ", s" #w "\n\t"
#define MLF_ADD_(sum, x)    "vadd.f32 s" #sum ", s" #sum ", s" #x "\n\t"
/* A factor times four others, rounded once or twice. */
#define MLF_FUSED_(a, b, c, d, x, w0, w1, w2, w3, t0, t1, t2, t3) \
  MLF_FMA_(a, x, w0) MLF_FMA_(b, x, w1) MLF_FMA_(c, x, w2) MLF_FMA_(d, x, w3)
#define MLF_EXACT_(a, b, c, d, x, w0, w1, w2, w3, t0, t1, t2, t3) \
  MLF_MUL_(t0, x, w0) MLF_MUL_(t1, x, w1) MLF_MUL_(t2, x, w2) MLF_MUL_(t3, x, w3) \
  MLF_ADD_(a, t0) MLF_ADD_(b, t1) MLF_ADD_(c, t2) MLF_ADD_(d, t3)
#define MLF_WEIGHTS_(n)  "vldmia %[w]!, {" n "}\n\t"
#define MLF_ZEROS_(n, m) "vmov s" #n ", s" #m ", %[k], %[k]\n\t"
#define MLF_PLACE_(name) [name] "i"(offsetof(mlf_four_pixels, name))
#define MLF_FLOATS_ \
  "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "s12", "s13", "s14", \
  "s15", "s16", "s17", "s18", "s19", "s20", "s21", "s22", "s23", "s24", "s25", "s26", "s27", \
  "s28", "s29", "s30", "s31"

/* One product for each of sixteen sums in s16 to s31. */
#define MLF_TURN_4X4(four, x0, x1, x2, x3, w0, w1, w2, w3) \
  four(16, 17, 18, 19, x0, w0, w1, w2, w3, 12, 13, 14, 15) \
  four(20, 21, 22, 23, x1, w0, w1, w2, w3, 12, 13, 14, 15) \
  four(24, 25, 26, 27, x2, w0, w1, w2, w3, 12, 13, 14, 15) \
  four(28, 29, 30, 31, x3, w0, w1, w2, w3, 12, 13, 14, 15)
#define MLF_PIXELS_(n0, n1, n2, n3) \
  "vldmia %[x0]!, {" n0 "}\n\tvldmia %[x1]!, {" n1 "}\n\t" \
  "vldmia %[x2]!, {" n2 "}\n\tvldmia %[x3]!, {" n3 "}\n\t"
#define MLF_PIXEL_PAIRS_ MLF_PIXELS_("s0-s1", "s2-s3", "s4-s5", "s6-s7")
/* Two products for each. */
#define MLF_FUSED_4X4_ \
  MLF_WEIGHTS_("s8-s15") MLF_PIXEL_PAIRS_ \
  MLF_TURN_4X4(MLF_FUSED_, 0, 2, 4, 6, 8, 9, 10, 11) \
  MLF_TURN_4X4(MLF_FUSED_, 1, 3, 5, 7, 12, 13, 14, 15)
#define MLF_EXACT_4X4_ \
  MLF_WEIGHTS_("s8-s11") MLF_PIXEL_PAIRS_ \
  MLF_TURN_4X4(MLF_EXACT_, 0, 2, 4, 6, 8, 9, 10, 11) \
  MLF_WEIGHTS_("s8-s11") \
  MLF_TURN_4X4(MLF_EXACT_, 1, 3, 5, 7, 8, 9, 10, 11)
#define MLF_NEXT_ROW_(x, j) "ldr %[k], [%[pixels], %[skip] + 4 * " #j "]\n\tadd %[" #x "], %[k]\n\t"
#define MLF_TOTALS_(a, b, c, d) \
  "vldmia %[start], {s0-s3}\n\tadd %[start], %[k]\n\t" \
  MLF_ADD_(a, 0) MLF_ADD_(b, 1) MLF_ADD_(c, 2) MLF_ADD_(d, 3)

#define MLF_SUMS_4X4(name, pair, four) \
  MLF_CALLED void name(const mlf_four_pixels *pixels, const float *w, const float *start, \
                       float *sums) { \
    const float *x0 = pixels->from[0], *x1 = pixels->from[1]; \
    const float *x2 = pixels->from[2], *x3 = pixels->from[3]; \
    int32_t k = 0, rows = pixels->rows; \
    __asm__ volatile( \
        MLF_ZEROS_(16, 17) MLF_ZEROS_(18, 19) MLF_ZEROS_(20, 21) MLF_ZEROS_(22, 23) \
        MLF_ZEROS_(24, 25) MLF_ZEROS_(26, 27) MLF_ZEROS_(28, 29) MLF_ZEROS_(30, 31) \
        "1:\n\tldr %[k], [%[pixels], %[run]]\n\tsubs %[k], #4\n\tblt 3f\n\t" \
        "2:\n\t" pair pair "subs %[k], #4\n\tbge 2b\n\t" \
        "3:\n\tadds %[k], #4\n\tbeq 5f\n\t" \
        "4:\n\t" MLF_PIXELS_("s0", "s2", "s4", "s6") MLF_WEIGHTS_("s8-s11") \
        MLF_TURN_4X4(four, 0, 2, 4, 6, 8, 9, 10, 11) "subs %[k], #1\n\tbne 4b\n\t" \
        "5:\n\tsubs %[rows], #1\n\tbeq 6f\n\t" \
        MLF_NEXT_ROW_(x0, 0) MLF_NEXT_ROW_(x1, 1) MLF_NEXT_ROW_(x2, 2) MLF_NEXT_ROW_(x3, 3) \
        "b 1b\n\t" \
        "6:\n\tldr %[k], [%[pixels], %[next]]\n\t" \
        MLF_TOTALS_(16, 17, 18, 19) MLF_TOTALS_(20, 21, 22, 23) \
        MLF_TOTALS_(24, 25, 26, 27) MLF_TOTALS_(28, 29, 30, 31) \
        "vstmia %[sums], {s16-s31}" \
        : [x0] "+&r"(x0), [x1] "+&r"(x1), [x2] "+&r"(x2), [x3] "+&r"(x3), [w] "+&r"(w), \
          [start] "+&r"(start), [k] "+&r"(k), [rows] "+&r"(rows) \
        : [pixels] "r"(pixels), [sums] "r"(sums), MLF_PLACE_(run), MLF_PLACE_(skip), \
          MLF_PLACE_(next) \
        : "memory", "cc", MLF_FLOATS_); \
  }

/* One product for each of eight sums in s0 to s7. */
#define MLF_TURN_1X8(four, x, w0, w1, w2, w3, w4, w5, w6, w7) \
  four(0, 1, 2, 3, x, w0, w1, w2, w3, 24, 25, 26, 27) \
  four(4, 5, 6, 7, x, w4, w5, w6, w7, 28, 29, 30, 31)
#define MLF_FUSED_1X8_(x, y) \
  MLF_WEIGHTS_("s16-s31") \
  MLF_TURN_1X8(MLF_FUSED_, x, 16, 17, 18, 19, 20, 21, 22, 23) \
  MLF_TURN_1X8(MLF_FUSED_, y, 24, 25, 26, 27, 28, 29, 30, 31)
#define MLF_EXACT_1X8_(x, y) \
  MLF_WEIGHTS_("s16-s23") MLF_TURN_1X8(MLF_EXACT_, x, 16, 17, 18, 19, 20, 21, 22, 23) \
  MLF_WEIGHTS_("s16-s23") MLF_TURN_1X8(MLF_EXACT_, y, 16, 17, 18, 19, 20, 21, 22, 23)

#define MLF_SUMS_1X8(name, pair, four) \
  MLF_CALLED void name(const float *x, const float *w, int32_t n, const float *start, \
                       float *sums) { \
    int32_t k = 0; \
    __asm__ volatile( \
        MLF_ZEROS_(0, 1) MLF_ZEROS_(2, 3) MLF_ZEROS_(4, 5) MLF_ZEROS_(6, 7) \
        "subs %[k], %[n], #8\n\tblt 3f\n\t" \
        "2:\n\tvldmia %[x]!, {s8-s15}\n\t" pair(8, 9) pair(10, 11) pair(12, 13) pair(14, 15) \
        "subs %[k], #8\n\tbge 2b\n\t" \
        "3:\n\tadds %[k], #8\n\tbeq 5f\n\t" \
        "4:\n\tvldmia %[x]!, {s8}\n\t" MLF_WEIGHTS_("s16-s23") \
        MLF_TURN_1X8(four, 8, 16, 17, 18, 19, 20, 21, 22, 23) "subs %[k], #1\n\tbne 4b\n\t" \
        "5:\n\tvldmia %[start], {s8-s15}\n\t" \
        MLF_ADD_(0, 8) MLF_ADD_(1, 9) MLF_ADD_(2, 10) MLF_ADD_(3, 11) \
        MLF_ADD_(4, 12) MLF_ADD_(5, 13) MLF_ADD_(6, 14) MLF_ADD_(7, 15) \
        "vstmia %[sums], {s0-s7}" \
        : [x] "+&r"(x), [w] "+&r"(w), [k] "+&r"(k) \
        : [n] "r"(n), [start] "r"(start), [sums] "r"(sums) \
        : "memory", "cc", MLF_FLOATS_); \
  }
/* clang-format on */

#else

#define MLF_FUSED_(sum, x, w) fmaf(x, w, sum)
#define MLF_EXACT_(sum, x, w) ((sum) + (x) * (w))
#define MLF_FUSED_4X4_
#define MLF_EXACT_4X4_
#define MLF_FUSED_1X8_
#define MLF_EXACT_1X8_

#define MLF_SUMS_4X4(name, pair, add) \
  MLF_CALLED void name(const mlf_four_pixels *pixels, const float *w, const float *start, \
                       float *sums) { \
    for (int32_t j = 0; j < 4; j++) { \
      const float *x = pixels->from[j], *wp = w; \
      float part[4] = {0.0f, 0.0f, 0.0f, 0.0f}; \
      for (int32_t row = 0; row < pixels->rows; row++) { \
        for (int32_t k = 0; k < pixels->run; k++, wp += 4) { \
          for (int32_t b = 0; b < 4; b++) { \
            part[b] = add(part[b], x[k], wp[b]); \
          } \
        } \
        x += pixels->run + pixels->skip[j] / (int32_t)sizeof *x; \
      } \
      for (int32_t b = 0; b < 4; b++) { \
        sums[4 * j + b] = start[j * (pixels->next / (int32_t)sizeof *start) + b] + part[b]; \
      } \
    } \
  }

#define MLF_SUMS_1X8(name, pair, add) \
  MLF_CALLED void name(const float *x, const float *w, int32_t n, const float *start, \
                       float *sums) { \
    float part[8] = {0.0f}; \
    for (int32_t k = 0; k < n; k++, w += 8) { \
      for (int32_t b = 0; b < 8; b++) { \
        part[b] = add(part[b], x[k], w[b]); \
      } \
    } \
    for (int32_t b = 0; b < 8; b++) { \
      sums[b] = start[b] + part[b]; \
    } \
  }

#endif

#ifdef __cplusplus
}
#endif

#endif /* MLF_VFP_H_ */
