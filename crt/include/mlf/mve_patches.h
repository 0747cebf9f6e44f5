/* Depthwise windows of at most 3 x 3 on Helium. Four rows of four channels are kept as
 * [column][channel][row], 16 bytes a column, so four words with 16 bytes between them are a patch
 * of 4 x 4 bytes of one channel, of which VMLADAV makes an output. 2 x 2 outputs share a patch.
 */
#ifndef MLF_MVE_PATCHES_H_
#define MLF_MVE_PATCHES_H_

#include "mve.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MLF_TAPS 24 /* bytes of a channel's window among zeros */

/* The windows of four channels, in [row][column] at w, as [column][row of four] after five zeros:
 * what is read from a byte or four before is the window of the next row or column. */
static inline void mlf_patch_taps(int8_t *taps, const int8_t *w, int32_t rows, int32_t columns) {
  memset(taps, 0, 4 * MLF_TAPS);
  for (int32_t k = 0; k < 4; k++) {
    for (int32_t r = 0; r < rows; r++) {
      for (int32_t i = 0; i < columns; i++) {
        taps[MLF_TAPS * k + 5 + 4 * i + r] = w[(k * rows + r) * columns + i];
      }
    }
  }
}

#if MLF_MVE

typedef struct {
  int8x16_t here, right, below, across;
} mlf_taps;

typedef uint32x4_t mlf_patch; /* addresses of its columns, 64 bytes before the next one */

static inline mlf_taps mlf_taps_of(const int8_t *taps) {
  mlf_taps t;
  t.here = vld1q_s8(taps + 5);
  t.right = vld1q_s8(taps + 1);
  t.below = vld1q_s8(taps + 4);
  t.across = vld1q_s8(taps);
  return t;
}

static inline mlf_patch mlf_patch_at(const int8_t *patches) {
  const uint32x4_t columns = vshlq_n_u32(vidupq_n_u32(0, 1), 4);
  return vaddq_n_u32(columns, (uint32_t)(patches - 64));
}

/* `n` columns of rows `row` and `row` + 1 of a plane take the place of the lower two rows, which
 * become the upper two. What is outside of `rows` rows is `fill`. */
MLF_MVE_OPTIMISED static inline void mlf_patch_push(int8_t *patches, const int8_t *x, int32_t row,
                                                    int32_t rows, int32_t pitch, int32_t stride,
                                                    int32_t n, int32_t fill) {
  const uint32x4_t columns = vmulq_n_u32(vidupq_n_u32(0, 1), (uint32_t)stride);
  const int32x4_t around = vreinterpretq_s32_s8(vdupq_n_s8((int8_t)fill));
  const uint32_t upper = row >= 0 && row < rows ? 0xffffU : 0U;
  const uint32_t lower = row + 1 >= 0 && row + 1 < rows ? 0xffffU : 0U;
  const int8_t *at0 = upper ? x + row * pitch : x;
  const int8_t *at1 = lower ? x + (row + 1) * pitch : x;
  uint32_t predicate; /* of the compiler's: clang has no name for the register, to say it changes */
  /* One block, because gcc 12 keeps groups of four registers on the stack. */
  __asm__ volatile("vmrs %[predicate], p0\n"
                   "1:\n\t"
                   "vctp.32 %[n]\n\t"
                   "vmrs r1, p0\n\t"
                   "vld40.8 {q0, q1, q2, q3}, [%[to]]\n\t"
                   "vld41.8 {q0, q1, q2, q3}, [%[to]]\n\t"
                   "vld42.8 {q0, q1, q2, q3}, [%[to]]\n\t"
                   "vld43.8 {q0, q1, q2, q3}, [%[to]]\n\t"
                   "vmov q0, q2\n\t"
                   "vmov q1, q3\n\t"
                   "and r0, r1, %[upper]\n\t"
                   "vmsr p0, r0\n\t"
                   "vpst\n\t"
                   "vldrwt.u32 q2, [%[at0], %q[columns]]\n\t"
                   "vpsel q2, q2, %q[around]\n\t"
                   "and r0, r1, %[lower]\n\t"
                   "vmsr p0, r0\n\t"
                   "vpst\n\t"
                   "vldrwt.u32 q3, [%[at1], %q[columns]]\n\t"
                   "vpsel q3, q3, %q[around]\n\t"
                   "vst40.8 {q0, q1, q2, q3}, [%[to]]\n\t"
                   "vst41.8 {q0, q1, q2, q3}, [%[to]]\n\t"
                   "vst42.8 {q0, q1, q2, q3}, [%[to]]\n\t"
                   "vst43.8 {q0, q1, q2, q3}, [%[to]]!\n\t"
                   "add %[at0], %[at0], %[step]\n\t"
                   "add %[at1], %[at1], %[step]\n\t"
                   "subs %[n], %[n], #4\n\t"
                   "bgt 1b\n\t"
                   "vmsr p0, %[predicate]"
                   : [predicate] "=&r"(predicate), [to] "+&r"(patches), [at0] "+&r"(at0),
                     [at1] "+&r"(at1), [n] "+&r"(n)
                   : [columns] "w"(columns), [around] "w"(around), [upper] "r"(upper),
                     [lower] "r"(lower), [step] "r"(4 * stride)
                   : "q0", "q1", "q2", "q3", "r0", "r1", "cc", "memory");
}

/* Eight sums of windows of `taps`: of the patches `step` bytes after `patch`, which moves on, and
 * `half` bytes after those. The last four are registers, whose order is that of the lanes. */
#define MLF_EIGHT_SUMS(sums, patch, taps, step, half, below_, across_, here_, right_) \
  __asm__ volatile("vldrw.u32 %q[even], [%q[at], #" step "]!\n\t" \
                   "vmladav.s8 r0, %q[even], %q[here]\n\t" \
                   "vldrw.u32 %q[odd], [%q[at], #" half "]\n\t" \
                   "vmladav.s8 r2, %q[even], %q[right]\n\t" \
                   "vmladav.s8 " below_ ", %q[even], %q[below]\n\t" \
                   "vmladav.s8 " across_ ", %q[even], %q[across]\n\t" \
                   "vmladav.s8 " here_ ", %q[odd], %q[here]\n\t" \
                   "vmladav.s8 " right_ ", %q[odd], %q[right]\n\t" \
                   "vmladav.s8 r12, %q[odd], %q[below]\n\t" \
                   "vmladav.s8 lr, %q[odd], %q[across]\n\t" \
                   "vmov %q[even][2], %q[even][0], r0, r4\n\t" \
                   "vmov %q[even][3], %q[even][1], r8, r12\n\t" \
                   "vmov %q[odd][2], %q[odd][0], r2, r6\n\t" \
                   "vmov %q[odd][3], %q[odd][1], r10, lr" \
                   : [at] "+&w"(patch), [even] "=&w"((sums).even), [odd] "=&w"((sums).odd) \
                   : [here] "w"((taps).here), [right] "w"((taps).right), \
                     [below] "w"((taps).below), [across] "w"((taps).across) \
                   : "r0", "r2", "r4", "r6", "r8", "r10", "r12", "lr", "memory")

/* Sums of two rows x four columns, the even columns in the even half; `at` moves on. */
MLF_MVE_OPTIMISED static inline mlf_octet mlf_patch_dot(mlf_patch *at, mlf_taps t) {
  mlf_octet sums;
  MLF_EIGHT_SUMS(sums, *at, t, "64", "32", "r4", "r6", "r8", "r10");
  return sums;
}

/* Where the bytes of two rows x four columns go. */
typedef uint16x8_t mlf_places;

static inline mlf_places mlf_places_of(int32_t pitch, int32_t stride) {
  const uint16x8_t i = vidupq_n_u16(0, 1);
  const uint16x8_t column = vandq_u16(i, vdupq_n_u16(3));
  const uint16x8_t row = vmulq_n_u16(vshrq_n_u16(i, 2), (uint16_t)pitch);
  return vmlaq_n_u16(row, column, (uint16_t)stride);
}

static inline void mlf_patch_store(int8_t *to, mlf_halves v, mlf_places at) {
  vstrbq_scatter_offset_s16(to, at, v);
}

/* The same; `lanes` has two bits for each. */
static inline void mlf_patch_store_some(int8_t *to, mlf_halves v, mlf_places at, int32_t lanes) {
  __asm__("" : "+r"(lanes)); /* gcc 12 gets predicates that are constants wrong. */
  vstrbq_scatter_offset_p_s16(to, at, v, (mve_pred16_t)lanes);
}

#else

typedef const int8_t *mlf_taps;
typedef const int8_t *mlf_patch;

static inline mlf_taps mlf_taps_of(const int8_t *taps) {
  MLF_TOUCHES(taps, 21);
  return taps + 5;
}

static inline mlf_patch mlf_patch_at(const int8_t *patches) {
  return patches;
}

static inline void mlf_patch_push(int8_t *patches, const int8_t *x, int32_t row, int32_t rows,
                                  int32_t pitch, int32_t stride, int32_t n, int32_t fill) {
  for (int32_t i = 0; i < (n + 3) / 4 * 4; i++) {
    for (int32_t k = 0; k < 4; k++) {
      int8_t *const word = patches + 16 * i + 4 * k;
      memmove(word, word + 2, 2);
      for (int32_t r = 0; r < 2; r++) {
        const int32_t at = row + r;
        const int inside = at >= 0 && at < rows && i < n;
        word[2 + r] = inside ? x[at * pitch + i * stride + k] : (int8_t)fill;
      }
    }
  }
}

static inline mlf_octet mlf_patch_dot(mlf_patch *at, mlf_taps t) {
  mlf_octet sums;
  for (int32_t lane = 0; lane < 8; lane++) {
    int32_t sum = 0;
    for (int32_t i = 0; i < 3; i++) {
      for (int32_t r = 0; r < 3; r++) {
        sum += (int32_t)(*at)[16 * (lane % 4 + i) + lane / 4 + r] * (int32_t)t[4 * i + r];
      }
    }
    *mlf_octet_lane(&sums, lane % 2 * 4 + lane / 2) = sum;
  }
  *at += 64;
  return sums;
}

typedef struct {
  int32_t pitch, stride;
} mlf_places;

static inline mlf_places mlf_places_of(int32_t pitch, int32_t stride) {
  const mlf_places at = {pitch, stride};
  return at;
}

static inline void mlf_patch_store_some(int8_t *to, mlf_halves v, mlf_places at, int32_t lanes) {
  for (int32_t lane = 0; lane < 8; lane++) {
    if (lanes >> (2 * lane) & 1) {
      to[lane / 4 * at.pitch + lane % 4 * at.stride] = (int8_t)v.lane[lane % 2 * 4 + lane / 2];
    }
  }
}

static inline void mlf_patch_store(int8_t *to, mlf_halves v, mlf_places at) {
  mlf_patch_store_some(to, v, at, 0xffff);
}

#endif

#ifdef __cplusplus
}
#endif

#endif /* MLF_MVE_PATCHES_H_ */
