/* Rows of depthwise 3x3 windows, on cores with the DSP extension, for few bytes of code. */
#ifndef MLF_DSP_WINDOWS_H_
#define MLF_DSP_WINDOWS_H_

#include "dsp_small.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What mlf_windows_3x3 reads, in the order of its registers: first the FPU's. The first two taps of
 * each row are a word, the last ones of two rows are `odd01`. */
typedef struct {
  float scale;
  int32_t next_row, next_row_to; /* bytes from the end of a row to the next one's begin */
  int32_t rows;
  uint32_t last; /* the last tap, and above it the number of windows in a row, less one */
  int32_t bias, zero_point;
  const int16_t *at;
  int8_t *to;
  uint32_t row0, row1, row2, odd01;
  int32_t width; /* bytes of a row */
  int32_t next;  /* bytes from the third element of a window to the next window */
  int32_t step;  /* bytes between outputs */
} mlf_windows;

/* Windows of all rows from `at`. gcc with -Os keeps five words of weights in memory, as it counts
 * instructions and not how often they run; here they stay in registers: twenty-four instructions
 * for an output. */
MLF_APART void mlf_windows_3x3(const mlf_windows *all) {
#if MLF_DSP && defined(__OPTIMIZE__) && !defined(__clang__) && defined(__ARM_FP) && (__ARM_FP & 4)
  register const mlf_windows *from __asm__("r0") = all;
  __asm__ volatile("vldmia r0!, {s1-s7}\n\t"
                   "ldm r0, {r0, r1, r2, r3, r4, r5, r8, r9, r10}\n\t"
                   "vmov r6, r11, s5, s6\n\t"
                   "1:\n\t"
                   "ldr lr, [r0]\n\t"
                   "smlad r12, lr, r2, r11\n\t"
                   "ldr lr, [r0, r8]\n\t"
                   "smlad r12, lr, r3, r12\n\t"
                   "ldr lr, [r0, r8, lsl #1]\n\t"
                   "smlad r12, lr, r4, r12\n\t"
                   "ldrh lr, [r0, #4]!\n\t"
                   "smlabb r12, lr, r5, r12\n\t"
                   "ldrh lr, [r0, r8]\n\t"
                   "smlabt r12, lr, r5, r12\n\t"
                   "ldrh lr, [r0, r8, lsl #1]\n\t"
                   "smlabb r12, lr, r6, r12\n\t"
                   "add r0, r0, r9\n\t"
                   "vmov s6, r12\n\t"
                   "vcvt.f32.s32 s6, s6\n\t"
                   "vmul.f32 s6, s6, s1\n\t"
                   "vcvtr.s32.f32 s6, s6\n\t"
                   "vmov r12, lr, s6, s7\n\t"
                   "add r12, r12, lr\n\t"
                   "ssat r12, #8, r12\n\t"
                   "strb r12, [r1]\n\t"
                   "add r1, r1, r10\n\t"
                   "subs r6, r6, #65536\n\t"
                   "bpl 1b\n\t"
                   "vmov r12, lr, s2, s3\n\t"
                   "add r0, r0, r12\n\t"
                   "add r1, r1, lr\n\t"
                   "vmov r12, r6, s4, s5\n\t"
                   "subs r12, r12, #1\n\t"
                   "vmov s4, r12\n\t"
                   "bne 1b"
                   : [from] "+r"(from)
                   :
                   : "memory", "cc", "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11",
                     "r12", "lr", "s1", "s2", "s3", "s4", "s5", "s6", "s7");
#else
  const int16_t *at = all->at;
  int8_t *to = all->to;
  const int32_t width = all->width / 2;
  for (int32_t row = all->rows; row > 0; row--) {
    for (int32_t count = (int32_t)(all->last >> 16); count >= 0; count--) {
      const int16_t *const at1 = at + width;
      const int16_t *const at2 = at1 + width;
      int32_t acc = mlf_smlad(mlf_load32(at), all->row0, all->bias);
      acc = mlf_smlabb((uint32_t)at[2], all->odd01, acc);
      acc = mlf_smlad(mlf_load32(at1), all->row1, acc);
      acc = mlf_smlabt((uint32_t)at1[2], all->odd01, acc);
      acc = mlf_smlad(mlf_load32(at2), all->row2, acc);
      acc = mlf_smlabb((uint32_t)at2[2], all->last, acc);
      *to = (int8_t)mlf_requantize_here(acc, all->scale, all->zero_point, -128, 127);
      at += all->next / 2 + 2;
      to += all->step;
    }
    at += all->next_row / 2;
    to += all->next_row_to;
  }
#endif
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_DSP_WINDOWS_H_ */
