/* Sums of bytes and of their squares, and roundings of four values, with Helium. */
#ifndef MLF_MVE_STANDARDISE_H_
#define MLF_MVE_STANDARDISE_H_

#include "mve.h"
#include "standardise.h"

#ifdef __cplusplus
extern "C" {
#endif

#if MLF_MVE

/* The sum of n bytes, and that of their squares; n is positive. */
static inline int32_t mlf_mve_sums(const int8_t *x, int32_t n, int32_t *squares) {
  int32_t sum = 0, square = 0;
  __asm__ volatile("dlstp.8 lr, %[n]\n"
                   "1:\n\t"
                   "vldrb.8 q0, [%[x]], #16\n\t"
                   "vaddva.s8 %[sum], q0\n\t"
                   "vmladava.s8 %[square], q0, q0\n\t"
                   "letp lr, 1b"
                   : [x] "+&r"(x), [sum] "+&Te"(sum), [square] "+&Te"(square)
                   : [n] "r"(n)
                   : "q0", "lr", "cc", "memory");
  *squares = square;
  return sum;
}

/* v * times + more of each, which wraps around. */
static inline mlf_quad mlf_quad_line(mlf_quad v, int32_t times, int32_t more) {
  return vmlasq_n_s32(v, vdupq_n_s32(times), more);
}

/* The upper words of products. */
static inline mlf_quad mlf_quad_high(mlf_quad a, mlf_quad b) {
  return vmulhq_s32(a, b);
}

static inline mlf_quad mlf_quad_plus(mlf_quad a, mlf_quad b) {
  return vaddq_s32(a, b);
}

/* Each / 2^shift rounded to the nearest, ties to even; shift is positive. */
static inline mlf_quad mlf_quad_shift_even(mlf_quad v, int32_t shift) {
  const mlf_quad odd = vandq_s32(vshlq_r_s32(v, -shift), vdupq_n_s32(1));
  const int32_t below = (int32_t)((UINT32_C(1) << (shift - 1)) - 1U);
  return vshlq_r_s32(vaddq_s32(vaddq_n_s32(v, below), odd), -shift);
}

/* Each + zero, limited. */
static inline mlf_quad mlf_quad_clamp(mlf_quad v, int32_t zero, int32_t low, int32_t high) {
  const mlf_quad moved = vmaxq_s32(vaddq_n_s32(v, zero), vdupq_n_s32(low));
  return vminq_s32(moved, vdupq_n_s32(high));
}

static inline void mlf_quad_store8(int8_t *to, mlf_quad v) {
  vstrbq_s32(to, v);
}

#else

static inline int32_t mlf_mve_sums(const int8_t *x, int32_t n, int32_t *squares) {
  int32_t sum = 0;
  *squares = 0;
  for (int32_t k = 0; k < n; k++) {
    sum += x[k];
    *squares += x[k] * x[k];
  }
  return sum;
}

static inline mlf_quad mlf_quad_line(mlf_quad v, int32_t times, int32_t more) {
  for (int32_t k = 0; k < 4; k++) {
    v.lane[k] = (int32_t)((uint32_t)v.lane[k] * (uint32_t)times + (uint32_t)more);
  }
  return v;
}

static inline mlf_quad mlf_quad_high(mlf_quad a, mlf_quad b) {
  for (int32_t k = 0; k < 4; k++) {
    a.lane[k] = mlf_high_word(a.lane[k], b.lane[k]);
  }
  return a;
}

static inline mlf_quad mlf_quad_plus(mlf_quad a, mlf_quad b) {
  for (int32_t k = 0; k < 4; k++) {
    a.lane[k] += b.lane[k];
  }
  return a;
}

static inline mlf_quad mlf_quad_shift_even(mlf_quad v, int32_t shift) {
  for (int32_t k = 0; k < 4; k++) {
    v.lane[k] = mlf_shift_even(v.lane[k], shift);
  }
  return v;
}

static inline mlf_quad mlf_quad_clamp(mlf_quad v, int32_t zero, int32_t low, int32_t high) {
  for (int32_t k = 0; k < 4; k++) {
    v.lane[k] = mlf_clamp_i32(v.lane[k] + zero, low, high);
  }
  return v;
}

static inline void mlf_quad_store8(int8_t *to, mlf_quad v) {
  for (int32_t k = 0; k < 4; k++) {
    to[k] = (int8_t)v.lane[k];
  }
}

#endif

#ifdef __cplusplus
}
#endif

#endif /* MLF_MVE_STANDARDISE_H_ */
