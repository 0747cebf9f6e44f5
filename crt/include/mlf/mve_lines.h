/* Depthwise windows along one axis on Helium. A line of four channels is kept as
 * [element / 4][channel][element % 4], so four words with 16 bytes between them are sixteen
 * elements of one channel, of which VMLADAV makes an output. Four outputs share them.
 */
#ifndef MLF_MVE_LINES_H_
#define MLF_MVE_LINES_H_

#include "mve_patches.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MLF_LINE_MOST 13 /* taps of a window: three more are the zeros of its neighbours */

#if MLF_MVE

/* n elements of four channels, `pitch` bytes apart; what follows them up to a multiple of sixteen
 * is the last one. */
MLF_MVE_OPTIMISED static inline void mlf_line_push(int8_t *line, const int8_t *x, int32_t n,
                                                   int32_t pitch) {
  uint32x4_t at = vmulq_n_u32(vidupq_n_u32(0, 4), (uint32_t)pitch);
  const uint32x4_t last = vdupq_n_u32((uint32_t)((n - 1) * pitch));
  int32_t turns = (n + 15) / 16;
  /* One block, because gcc 12 keeps groups of four registers on the stack. */
  __asm__ volatile("1:\n\t"
                   "vmin.u32 q4, %q[at], %q[last]\n\t"
                   "vadd.i32 %q[at], %q[at], %[pitch]\n\t"
                   "vldrw.u32 q0, [%[x], q4]\n\t"
                   "vmin.u32 q4, %q[at], %q[last]\n\t"
                   "vadd.i32 %q[at], %q[at], %[pitch]\n\t"
                   "vldrw.u32 q1, [%[x], q4]\n\t"
                   "vmin.u32 q4, %q[at], %q[last]\n\t"
                   "vadd.i32 %q[at], %q[at], %[pitch]\n\t"
                   "vldrw.u32 q2, [%[x], q4]\n\t"
                   "vmin.u32 q4, %q[at], %q[last]\n\t"
                   "vadd.i32 %q[at], %q[at], %[skip]\n\t"
                   "vldrw.u32 q3, [%[x], q4]\n\t"
                   "vst40.8 {q0, q1, q2, q3}, [%[to]]\n\t"
                   "vst41.8 {q0, q1, q2, q3}, [%[to]]\n\t"
                   "vst42.8 {q0, q1, q2, q3}, [%[to]]\n\t"
                   "vst43.8 {q0, q1, q2, q3}, [%[to]]!\n\t"
                   "subs %[turns], %[turns], #1\n\t"
                   "bne 1b"
                   : [to] "+&r"(line), [turns] "+&r"(turns), [at] "+&w"(at)
                   : [x] "r"(x), [pitch] "r"(pitch), [skip] "r"(13 * pitch), [last] "w"(last)
                   : "q0", "q1", "q2", "q3", "q4", "cc", "memory");
}

/* A window of n taps, and the same moved by one, two and three elements. */
static inline mlf_taps mlf_line_taps_of(const int8_t *w, int32_t n) {
  mlf_taps t;
  uint32_t zero = 0;
  t.here = vldrbq_z_s8(w, vctp8q((uint32_t)n));
  __asm__(
      "vmov %q[right], %q[here]\n\t"
      "vshlc %q[right], %[zero], #8\n\t"
      "vmov %q[below], %q[here]\n\t"
      "vshlc %q[below], %[zero], #16\n\t"
      "vmov %q[across], %q[here]\n\t"
      "vshlc %q[across], %[zero], #24"
      : [right] "=&w"(t.right), [below] "=&w"(t.below), [across] "=&w"(t.across), [zero] "+&r"(zero)
      : [here] "w"(t.here));
  return t;
}

static inline mlf_patch mlf_line_at(const int8_t *line) {
  return mlf_patch_at(line + 32);
}

/* Eight sums of a window of n taps, in the order of halves; `at` moves on. */
MLF_MVE_OPTIMISED static inline mlf_octet mlf_line_dot(mlf_patch *at, mlf_taps t, int32_t n) {
  mlf_octet sums;
  (void)n;
  MLF_EIGHT_SUMS(sums, *at, t, "32", "16", "r8", "r10", "r4", "r6");
  return sums;
}

#else

static inline void mlf_line_push(int8_t *line, const int8_t *x, int32_t n, int32_t pitch) {
  for (int32_t i = 0; i < (n + 15) / 16 * 16; i++) {
    for (int32_t k = 0; k < 4; k++) {
      line[i / 4 * 16 + 4 * k + i % 4] = x[mlf_min_i32(i, n - 1) * pitch + k];
    }
  }
}

static inline mlf_taps mlf_line_taps_of(const int8_t *w, int32_t n) {
  (void)n;
  return w;
}

static inline mlf_patch mlf_line_at(const int8_t *line) {
  return line;
}

static inline mlf_octet mlf_line_dot(mlf_patch *at, mlf_taps t, int32_t n) {
  mlf_octet sums;
  MLF_TOUCHES(*at, 68);
  for (int32_t lane = 0; lane < 8; lane++) {
    int32_t sum = 0;
    for (int32_t i = 0; i < n; i++) {
      sum += (int32_t)(*at)[(lane + i) / 4 * 16 + (lane + i) % 4] * (int32_t)t[i];
    }
    *mlf_octet_lane(&sums, lane % 2 * 4 + lane / 2) = sum;
  }
  *at += 32;
  return sums;
}

#endif

#ifdef __cplusplus
}
#endif

#endif /* MLF_MVE_LINES_H_ */
