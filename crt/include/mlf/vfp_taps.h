/* Sums of depthwise float products in a Cortex-M's FPU, of eight channels or four: one VLDM loads a
 * tap of all. Plain C for every other processor gives the same bits. */
#ifndef MLF_VFP_TAPS_H_
#define MLF_VFP_TAPS_H_

#include "vfp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* mlf_<mode>_taps_<lanes>: to[k] = start[k] + the products of `taps` of channel k, added in turn;
 * weights are [tap][lanes]. `taps` has a row and a column at least. */
#if MLF_VFP

/* clang-format off */
#define MLF_TAPS_(name, lanes, zeros, sums, xs, ws, products, totals) \
  MLF_CALLED void name(const float *x, const float *w, const mlf_float_taps *taps, \
                       const float *start, float *to) { \
    int32_t rows = taps->rows, k = 0; \
    __asm__ volatile( \
        zeros \
        "1:\n\tldr %[k], [%[taps], %[columns]]\n" \
        "2:\n\tvldmia %[x], {" xs "}\n\tadd %[x], %[step]\n\tvldmia %[w]!, {" ws "}\n\t" \
        "subs %[k], #1\n\t" products "bne 2b\n\t" \
        "ldr %[k], [%[taps], %[skip]]\n\tadd %[x], %[k]\n\t" \
        "ldr %[k], [%[taps], %[wskip]]\n\tadd %[w], %[k]\n\t" \
        "subs %[rows], #1\n\tbne 1b\n\t" \
        "vldmia %[start], {" xs "}\n\t" totals "vstmia %[to], {" sums "}" \
        : [x] "+&r"(x), [w] "+&r"(w), [k] "+&r"(k), [rows] "+&r"(rows) \
        : [taps] "r"(taps), [start] "r"(start), [to] "r"(to), [step] "r"(taps->step), \
          [columns] "i"(offsetof(mlf_float_taps, columns)), \
          [skip] "i"(offsetof(mlf_float_taps, skip)), \
          [wskip] "i"(offsetof(mlf_float_taps, w_skip)) \
        : "memory", "cc", "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", \
          "s11", "s12", "s13", "s14", "s15", "s16", "s17", "s18", "s19", "s20", "s21", "s22", \
          "s23"); \
  }
#define MLF_FUSED_TAPS_4_(a, b, c, d, x0, x1, x2, x3, w0, w1, w2, w3) \
  MLF_FMA_(a, x0, w0) MLF_FMA_(b, x1, w1) MLF_FMA_(c, x2, w2) MLF_FMA_(d, x3, w3)
#define MLF_EXACT_TAPS_4_(a, b, c, d, x0, x1, x2, x3, w0, w1, w2, w3) \
  MLF_MUL_(x0, x0, w0) MLF_MUL_(x1, x1, w1) MLF_MUL_(x2, x2, w2) MLF_MUL_(x3, x3, w3) \
  MLF_ADD_(a, x0) MLF_ADD_(b, x1) MLF_ADD_(c, x2) MLF_ADD_(d, x3)
#define MLF_TAPS_8_(name, four) \
  MLF_TAPS_(name, 8, \
            MLF_ZEROS_(0, 1) MLF_ZEROS_(2, 3) MLF_ZEROS_(4, 5) MLF_ZEROS_(6, 7), "s0-s7", \
            "s8-s15", "s16-s23", \
            four(0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19) \
            four(4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23), \
            MLF_ADD_(0, 8) MLF_ADD_(1, 9) MLF_ADD_(2, 10) MLF_ADD_(3, 11) \
            MLF_ADD_(4, 12) MLF_ADD_(5, 13) MLF_ADD_(6, 14) MLF_ADD_(7, 15))
#define MLF_TAPS_4_(name, four) \
  MLF_TAPS_(name, 4, MLF_ZEROS_(0, 1) MLF_ZEROS_(2, 3), "s0-s3", "s4-s7", "s8-s11", \
            four(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), \
            MLF_ADD_(0, 4) MLF_ADD_(1, 5) MLF_ADD_(2, 6) MLF_ADD_(3, 7))
MLF_TAPS_8_(mlf_exact_taps_8, MLF_EXACT_TAPS_4_)
MLF_TAPS_8_(mlf_fused_taps_8, MLF_FUSED_TAPS_4_)
MLF_TAPS_4_(mlf_exact_taps_4, MLF_EXACT_TAPS_4_)
MLF_TAPS_4_(mlf_fused_taps_4, MLF_FUSED_TAPS_4_)
/* clang-format on */

#else

#ifndef MLF_NEEDS /* what the assembly takes for granted: mlftool proves it of each call */
#define MLF_NEEDS(condition) ((void)0)
#endif
#define MLF_EXACT_PRODUCT_(sum, x, w) sum += (x) * (w)
#define MLF_FUSED_PRODUCT_(sum, x, w) sum = fmaf(x, w, sum)
#define MLF_TAPS_(name, lanes, product) \
  static inline void name(const float *x, const float *w, const mlf_float_taps *taps, \
                          const float *start, float *to) { \
    const int32_t size = (int32_t)sizeof *x; \
    const int32_t line = (taps->columns * taps->step + taps->skip) / size; \
    const int32_t w_line = taps->columns * (lanes) + taps->w_skip / size; \
    MLF_NEEDS(taps->rows > 0 && taps->columns > 0); \
    for (int32_t k = 0; k < (lanes); k++) { \
      float sum = 0.0f; \
      for (int32_t row = 0; row < taps->rows; row++) { \
        for (int32_t column = 0; column < taps->columns; column++) { \
          product(sum, x[row * line + column * (taps->step / size) + k], \
                  w[row * w_line + column * (lanes) + k]); \
        } \
      } \
      to[k] = start[k] + sum; \
    } \
  }
MLF_TAPS_(mlf_exact_taps_8, 8, MLF_EXACT_PRODUCT_)
MLF_TAPS_(mlf_fused_taps_8, 8, MLF_FUSED_PRODUCT_)
MLF_TAPS_(mlf_exact_taps_4, 4, MLF_EXACT_PRODUCT_)
MLF_TAPS_(mlf_fused_taps_4, 4, MLF_FUSED_PRODUCT_)

#endif

#ifdef __cplusplus
}
#endif

#endif /* MLF_VFP_TAPS_H_ */
