/* A row of depthwise 3x3 windows, on cores with the DSP extension, for few bytes of code. */
#ifndef MLF_DSP_WINDOWS_H_
#define MLF_DSP_WINDOWS_H_

#include "dsp_small.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `count` windows from `at`, whose rows are `width` elements apart, each `stride` from the one
 * before; outputs are `step` bytes apart. The first two taps of each row are a word, the last ones
 * of two rows are `odd01`. gcc with -Os keeps five words of weights in memory, as it counts
 * instructions and not how often they run; here they stay in registers: twenty-nine instructions
 * for an output. */
MLF_INLINE void mlf_windows_3x3(const int16_t *at, int32_t count, int32_t width, int32_t stride,
                                uint32_t row0, uint32_t row1, uint32_t row2, uint32_t odd01,
                                uint32_t odd2, int32_t bias, int8_t *to, int32_t step, float scale,
                                int32_t zero_point, int32_t low, int32_t high) {
#if MLF_DSP && defined(__OPTIMIZE__) && !defined(__clang__) && defined(MLF_SATURATES) && \
    defined(__ARM_FP) && (__ARM_FP & 4)
  if (MLF_SATURATES(low, high) && __builtin_constant_p(zero_point)) {
    int32_t acc, x;
    uint32_t last = mlf_pair_s16((int32_t)odd2, count - 1); /* there is no register more */
    float product, place = mlf_float_of_bits((uint32_t)(uintptr_t)to);
    __asm__ volatile(
        "1:\n\t"
        "vmov %[acc], %[bias]\n\t"
        "ldr %[x], [%[at]]\n\t"
        "smlad %[acc], %[x], %[row0], %[acc]\n\t"
        "ldr %[x], [%[at], %[width]]\n\t"
        "smlad %[acc], %[x], %[row1], %[acc]\n\t"
        "ldr %[x], [%[at], %[width], lsl #1]\n\t"
        "smlad %[acc], %[x], %[row2], %[acc]\n\t"
        "ldrh %[x], [%[at], #4]!\n\t"
        "smlabb %[acc], %[x], %[odd01], %[acc]\n\t"
        "ldrh %[x], [%[at], %[width]]\n\t"
        "smlabt %[acc], %[x], %[odd01], %[acc]\n\t"
        "ldrh %[x], [%[at], %[width], lsl #1]\n\t"
        "smlabb %[acc], %[x], %[last], %[acc]\n\t"
        "vmov %[x], %[next]\n\t"
        "add %[at], %[at], %[x]\n\t"
        "vmov %[y], %[acc]\n\t"
        "vcvt.f32.s32 %[y], %[y]\n\t"
        "vmul.f32 %[y], %[y], %[scale]\n\t"
        "vcvtr.s32.f32 %[y], %[y]\n\t"
        "vmov %[acc], %[y]\n\t"
        "add %[acc], %[acc], %[zero]\n\t"
        "ssat %[acc], #8, %[acc]\n\t"
        "vmov %[x], %[to]\n\t"
        "strb %[acc], [%[x]]\n\t"
        "vmov %[acc], %[step]\n\t"
        "add %[x], %[x], %[acc]\n\t"
        "vmov %[to], %[x]\n\t"
        "subs %[last], %[last], #65536\n\t"
        "bpl 1b"
        : [at] "+&r"(at), [to] "+&t"(place), [last] "+&r"(last), [acc] "=&r"(acc), [x] "=&r"(x),
          [y] "=&t"(product)
        : [bias] "t"(mlf_float_of_bits((uint32_t)bias)), [scale] "t"(scale), [row0] "r"(row0),
          [row1] "r"(row1), [row2] "r"(row2), [odd01] "r"(odd01), [width] "r"(2 * width),
          [next] "t"(mlf_float_of_bits((uint32_t)(2 * stride - 4))),
          [step] "t"(mlf_float_of_bits((uint32_t)step)), [zero] "n"(zero_point)
        : "memory", "cc");
    return;
  }
#endif
  do {
    const int16_t *const at1 = at + width;
    const int16_t *const at2 = at1 + width;
    int32_t acc = mlf_smlad(mlf_load32(at), row0, bias);
    acc = mlf_smlabb((uint32_t)at[2], odd01, acc);
    acc = mlf_smlad(mlf_load32(at1), row1, acc);
    acc = mlf_smlabt((uint32_t)at1[2], odd01, acc);
    acc = mlf_smlad(mlf_load32(at2), row2, acc);
    acc = mlf_smlabb((uint32_t)at2[2], odd2, acc);
    *to = (int8_t)mlf_requantize_here(acc, scale, zero_point, low, high);
    at += stride;
    to += step;
  } while (--count > 0);
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_DSP_WINDOWS_H_ */
