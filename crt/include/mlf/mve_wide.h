/* Products of int16 and int8 with Helium: eight for each instruction, whose weights are widened as
 * they are loaded. */
#ifndef MLF_MVE_WIDE_H_
#define MLF_MVE_WIDE_H_

#include "mve.h"

#ifdef __cplusplus
extern "C" {
#endif

#if MLF_MVE

/* n halfwords, eight at a time; n is positive. */
static inline void mlf_mve_copy_s16(int16_t *to, const int16_t *from, int32_t n) {
  mlf_mve_copy((int8_t *)to, (const int8_t *)from, 2 * n);
}

/* n times `value`; n is positive. */
static inline void mlf_mve_fill_s16(int16_t *to, int32_t value, int32_t n) {
  __asm__ volatile("vdup.16 q0, %[value]\n\t"
                   "dlstp.16 lr, %[n]\n"
                   "1:\n\t"
                   "vstrh.16 q0, [%[to]], #16\n\t"
                   "letp lr, 1b"
                   : [to] "+&r"(to)
                   : [value] "r"(value), [n] "r"(n)
                   : "q0", "lr", "cc", "memory");
}

MLF_QUAD_DOT(mlf_quad_dot_s16, int16_t, "vldrh.16", "vldrb.s16", "8", "vmladava.s16", "+&l")

/* The even half is of x, the odd one of as many halfwords that follow it. */
MLF_MVE_OPTIMISED static inline mlf_octet mlf_pair_dot_s16(const int16_t *x, const int8_t **w,
                                                           int32_t groups, const int32_t *b) {
  const int32x4_t bias = vld1q_s32(b);
  const int16_t *x1 = x + 8 * groups;
  const int8_t *at = *w;
  mlf_octet sums;
  __asm__ volatile("movs r0, #0\n\tmovs r2, #0\n\tmovs r4, #0\n\tmovs r6, #0\n\t"
                   "mov r8, #0\n\tmov r10, #0\n\tmov r12, #0\n\tmov lr, #0\n"
                   "1:\n\t"
                   "vldrb.s16 q2, [%[w]], #8\n\t"
                   "vldrh.16 q0, [%[x]], #16\n\t"
                   "vldrh.16 q1, [%[x1]], #16\n\t"
                   "vmladava.s16 r0, q0, q2\n\t"
                   "vldrb.s16 q3, [%[w]], #8\n\t"
                   "vmladava.s16 r2, q1, q2\n\tvmladava.s16 r4, q0, q3\n\t"
                   "vldrb.s16 q2, [%[w]], #8\n\t"
                   "vmladava.s16 r6, q1, q3\n\tvmladava.s16 r8, q0, q2\n\t"
                   "vldrb.s16 q3, [%[w]], #8\n\t"
                   "vmladava.s16 r10, q1, q2\n\tvmladava.s16 r12, q0, q3\n\t"
                   "vmladava.s16 lr, q1, q3\n\t"
                   "subs %[n], %[n], #1\n\t"
                   "bne 1b\n\t"
                   "vmov %q[even][2], %q[even][0], r0, r8\n\t"
                   "vmov %q[even][3], %q[even][1], r4, r12\n\t"
                   "vmov %q[odd][2], %q[odd][0], r2, r10\n\t"
                   "vmov %q[odd][3], %q[odd][1], r6, lr"
                   : [w] "+l"(at), [x] "+r"(x), [x1] "+r"(x1), [n] "+r"(groups),
                     [even] "=w"(sums.even), [odd] "=w"(sums.odd)
                   :
                   : "q0", "q1", "q2", "q3", "r0", "r2", "r4", "r6", "r8", "r10", "r12", "lr", "cc",
                     "memory");
  *w = at;
  sums.even = vaddq_s32(sums.even, bias);
  sums.odd = vaddq_s32(sums.odd, bias);
  return sums;
}

/* MLF_OCTET_MADD of halfwords. */
#define MLF_OCTET_MADD_WIDE(acc, x, offset, w) \
  MLF_OCTET_MADD_OF("vldrh.u16", "vldrb.s16 q1, [%[taps]], #8\n\t", acc, x, 2 * (offset), w)

/* The same for the first n channels, n < 8. */
static inline mlf_octet mlf_octet_madd_some_wide(mlf_octet acc, const int16_t *x, const int8_t **w,
                                                 int32_t n) {
  const int16x8_t v = vldrhq_z_s16(x, vctp16q((uint32_t)n));
  const int16x8_t u = vldrbq_s16(*w);
  acc.even = vaddq_s32(acc.even, vmullbq_int_s16(v, u));
  acc.odd = vaddq_s32(acc.odd, vmulltq_int_s16(v, u));
  *w += 8;
  return acc;
}

/* n halfwords, n <= 8. */
static inline void mlf_octet_store16(int16_t *to, mlf_halves v, int32_t n) {
  if (n == 8) {
    vst1q_s16(to, v);
  } else {
    vstrhq_p_s16(to, v, vctp16q((uint32_t)n));
  }
}

/* Each + value, limited to int32, then to int16. */
static inline mlf_halves mlf_octet_moved(mlf_octet v, int32_t value) {
  v.even = vqaddq_n_s32(v.even, value);
  v.odd = vqaddq_n_s32(v.odd, value);
  return mlf_octet_narrow(v);
}

/* n even lanes, n <= 4. */
static inline void mlf_even_store16(int16_t *to, mlf_halves v, int32_t n) {
  if (n == 4) {
    vstrhq_s32(to, vreinterpretq_s32_s16(v));
  } else {
    vstrhq_p_s32(to, vreinterpretq_s32_s16(v), vctp32q((uint32_t)n));
  }
}

static inline void mlf_odd_store16(int16_t *to, mlf_halves v, int32_t n) {
  mlf_even_store16(to, vreinterpretq_s16_s32(vshrq_n_s32(vreinterpretq_s32_s16(v), 16)), n);
}

#else

static inline void mlf_mve_copy_s16(int16_t *to, const int16_t *from, int32_t n) {
  memcpy(to, from, 2 * (size_t)n);
}

static inline void mlf_mve_fill_s16(int16_t *to, int32_t value, int32_t n) {
  for (int32_t i = 0; i < n; i++) {
    to[i] = (int16_t)value;
  }
}

static inline mlf_quad mlf_quad_dot_s16(const int16_t *x, const int8_t **w, int32_t groups,
                                        const int32_t *b) {
  mlf_quad sums;
  memcpy(sums.lane, b, sizeof sums.lane);
  for (int32_t g = 0; g < groups; g++) {
    for (int32_t i = 0; i < 32; i++) {
      const uint32_t product = (uint32_t)((int32_t)x[8 * g + i % 8] * (int32_t)(*w)[i]);
      sums.lane[i / 8] = (int32_t)((uint32_t)sums.lane[i / 8] + product);
    }
    *w += 32;
  }
  return sums;
}

static inline mlf_octet mlf_pair_dot_s16(const int16_t *x, const int8_t **w, int32_t groups,
                                         const int32_t *b) {
  const int8_t *again = *w;
  mlf_octet sums;
  sums.half[0] = mlf_quad_dot_s16(x, &again, groups, b);
  sums.half[1] = mlf_quad_dot_s16(x + 8 * groups, w, groups, b);
  return sums;
}

static inline mlf_octet mlf_octet_madd_some_wide(mlf_octet acc, const int16_t *x, const int8_t **w,
                                                 int32_t n) {
  for (int32_t k = 0; k < n; k++) {
    acc.half[k % 2].lane[k / 2] += (int32_t)x[k] * (int32_t)(*w)[k];
  }
  *w += 8;
  return acc;
}

#define MLF_OCTET_MADD_WIDE(acc, x, offset, w) \
  acc = mlf_octet_madd_some_wide(acc, (x) + (offset), &(w), 8)

static inline void mlf_octet_store16(int16_t *to, mlf_halves v, int32_t n) {
  for (int32_t k = 0; k < n; k++) {
    to[k] = v.lane[k / 2 + k % 2 * 4];
  }
}

static inline mlf_halves mlf_octet_moved(mlf_octet v, int32_t value) {
  for (int32_t k = 0; k < 8; k++) {
    const int64_t sum = (int64_t)*mlf_octet_lane(&v, k) + value;
    *mlf_octet_lane(&v, k) = sum > 32767 ? 32767 : sum < -32768 ? -32768 : (int32_t)sum;
  }
  return mlf_octet_narrow(v);
}

static inline void mlf_even_store16(int16_t *to, mlf_halves v, int32_t n) {
  memcpy(to, v.lane, 2 * (size_t)n);
}

static inline void mlf_odd_store16(int16_t *to, mlf_halves v, int32_t n) {
  memcpy(to, v.lane + 4, 2 * (size_t)n);
}

#endif

/* acc * scale + zero_point, rounded as onnxruntime does, as int16. */
static inline mlf_halves mlf_octet_scaled_s16(mlf_octet acc, mlf_quad even, mlf_quad odd,
                                              int32_t zero_point) {
  const mlf_octet product = mlf_octet_times_each(mlf_octet_to_float(acc), even, odd);
  return mlf_octet_moved(mlf_octet_round(product), zero_point);
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_MVE_WIDE_H_ */
