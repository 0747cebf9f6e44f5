/* Integer Helium (MVE) as int8 kernels use it, with plain C for every other processor, so that
 * sources generated for a Cortex-M55 compile, and give the same bits, anywhere.
 *
 * A quad is four int32 of neighbouring channels; an octet is eight, the even ones before the odd.
 */
#ifndef MLF_MVE_H_
#define MLF_MVE_H_

#include "kernel.h"

#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 1) && !defined(MLF_PORTABLE_DSP)
#define MLF_MVE 1
#include <arm_mve.h>
#else
#define MLF_MVE 0
#endif

#ifdef __cplusplus
extern "C" {
#endif

#if MLF_MVE

typedef int32x4_t mlf_quad;

/* n bytes, sixteen at a time; n is positive. */
static inline void mlf_mve_copy(int8_t *to, const int8_t *from, int32_t n) {
  __asm__ volatile("dlstp.8 lr, %[n]\n"
                   "1:\n\t"
                   "vldrb.8 q0, [%[from]], #16\n\t"
                   "vstrb.8 q0, [%[to]], #16\n\t"
                   "letp lr, 1b"
                   : [to] "+r"(to), [from] "+r"(from)
                   : [n] "r"(n)
                   : "q0", "lr", "cc", "memory");
}

/* b[k] + the products of 16 * groups bytes of x with those of channel k, whose weights lie in turns
 * of sixteen. `w` moves on. */
static inline mlf_quad mlf_quad_dot(const int8_t *x, const int8_t **w, int32_t groups,
                                    const int32_t *b) {
  int32_t sum0 = b[0];
  int32_t sum1 = b[1];
  int32_t sum2 = b[2];
  int32_t sum3 = b[3];
  mlf_quad sums;
  __asm__ volatile("dls lr, %[groups]\n"
                   "1:\n\t"
                   "vldrb.8 q0, [%[x]], #16\n\t"
                   "vldrb.8 q1, [%[w]], #16\n\t"
                   "vmladava.s8 %[sum0], q0, q1\n\t"
                   "vldrb.8 q2, [%[w]], #16\n\t"
                   "vmladava.s8 %[sum1], q0, q2\n\t"
                   "vldrb.8 q1, [%[w]], #16\n\t"
                   "vmladava.s8 %[sum2], q0, q1\n\t"
                   "vldrb.8 q2, [%[w]], #16\n\t"
                   "vmladava.s8 %[sum3], q0, q2\n\t"
                   "le lr, 1b\n\t"
                   "vmov q0[2], q0[0], %[sum0], %[sum2]\n\t"
                   "vmov q0[3], q0[1], %[sum1], %[sum3]\n\t"
                   "vmov %q[sums], q0"
                   : [x] "+r"(x), [w] "+r"(*w), [sum0] "+Te"(sum0), [sum1] "+Te"(sum1),
                     [sum2] "+Te"(sum2), [sum3] "+Te"(sum3), [sums] "=w"(sums)
                   : [groups] "r"(groups)
                   : "q0", "q1", "q2", "lr", "cc", "memory");
  return sums;
}

/* mlf_multiply_high(acc, m, add) >> shift of each, limited to [low, high]. */
static inline mlf_quad mlf_quad_requantize(mlf_quad acc, const int32_t *m, int32_t add,
                                           int32_t shift, int32_t low, int32_t high) {
  const mlf_quad product = vaddq_n_s32(vmulhq_s32(acc, vld1q_s32(m)), add);
  const mlf_quad value = vshlq_r_s32(product, -shift);
  return vminq_s32(vmaxq_s32(value, vdupq_n_s32(low)), vdupq_n_s32(high));
}

/* The low bytes of the first n, n <= 4. */
static inline void mlf_quad_store8(void *to, mlf_quad v, int32_t n) {
  if (n == 4) {
    vstrbq_s32((int8_t *)to, v);
  } else {
    vstrbq_p_s32((int8_t *)to, v, vctp32q((uint32_t)n));
  }
}

static inline void mlf_quad_store32(int32_t *to, mlf_quad v) {
  vst1q_s32(to, v);
}

typedef struct {
  int32x4_t even, odd;
} mlf_octet;

static inline mlf_octet mlf_octet_of(const int32_t *b) {
  mlf_octet v;
  v.even = vld1q_s32(b);
  v.odd = vld1q_s32(b + 4);
  return v;
}

/* acc[k] + x[k] * w[k] for eight channels; `w` moves on. One block, because gcc 12 would load all
 * taps first and keep them on the stack. */
static inline mlf_octet mlf_octet_madd(mlf_octet acc, const int8_t *x, const int8_t **w) {
  __asm__ volatile("vldrb.s16 q0, [%[x]]\n\t"
                   "vldrb.s16 q1, [%[w]], #8\n\t"
                   "vmullb.s16 q2, q0, q1\n\t"
                   "vmullt.s16 q3, q0, q1\n\t"
                   "vadd.i32 %q[even], %q[even], q2\n\t"
                   "vadd.i32 %q[odd], %q[odd], q3"
                   : [even] "+w"(acc.even), [odd] "+w"(acc.odd), [w] "+l"(*w)
                   : [x] "l"(x)
                   : "q0", "q1", "q2", "q3", "memory");
  return acc;
}

/* The same for the first n channels, n < 8. */
static inline mlf_octet mlf_octet_madd_some(mlf_octet acc, const int8_t *x, const int8_t **w,
                                            int32_t n) {
  const int16x8_t v = vldrbq_z_s16(x, vctp16q((uint32_t)n));
  const int16x8_t u = vldrbq_s16(*w);
  acc.even = vaddq_s32(acc.even, vmullbq_int_s16(v, u));
  acc.odd = vaddq_s32(acc.odd, vmulltq_int_s16(v, u));
  *w += 8;
  return acc;
}

/* The low bytes of the first n, in the order of channels; values lie within int16. */
static inline void mlf_octet_store8(void *to, mlf_octet v, int32_t n) {
  const int16x8_t both = vmovntq_s32(vmovnbq_s32(vdupq_n_s16(0), v.even), v.odd);
  if (n == 8) {
    vstrbq_s16((int8_t *)to, both);
  } else {
    vstrbq_p_s16((int8_t *)to, both, vctp16q((uint32_t)n));
  }
}

static inline void mlf_octet_store32(int32_t *to, mlf_octet v) {
  vst1q_s32(to, v.even);
  vst1q_s32(to + 4, v.odd);
}

#else

typedef struct {
  int32_t lane[4];
} mlf_quad;

static inline void mlf_mve_copy(int8_t *to, const int8_t *from, int32_t n) {
  memcpy(to, from, (size_t)n);
}

static inline mlf_quad mlf_quad_dot(const int8_t *x, const int8_t **w, int32_t groups,
                                    const int32_t *b) {
  mlf_quad sums;
  memcpy(sums.lane, b, sizeof sums.lane);
  for (int32_t g = 0; g < groups; g++) {
    for (int32_t k = 0; k < 4; k++) {
      for (int32_t i = 0; i < 16; i++) {
        sums.lane[k] += (int32_t)x[16 * g + i] * (int32_t)(*w)[16 * k + i];
      }
    }
    *w += 64;
  }
  return sums;
}

static inline mlf_quad mlf_quad_requantize(mlf_quad acc, const int32_t *m, int32_t add,
                                           int32_t shift, int32_t low, int32_t high) {
  for (int32_t k = 0; k < 4; k++) {
    acc.lane[k] = mlf_requantize_fixed(acc.lane[k], m[k], add, shift, low, high);
  }
  return acc;
}

static inline void mlf_quad_store8(void *to, mlf_quad v, int32_t n) {
  for (int32_t k = 0; k < n; k++) {
    ((uint8_t *)to)[k] = (uint8_t)v.lane[k];
  }
}

static inline void mlf_quad_store32(int32_t *to, mlf_quad v) {
  memcpy(to, v.lane, sizeof v.lane);
}

typedef struct {
  mlf_quad even, odd;
} mlf_octet;

static inline mlf_octet mlf_octet_of(const int32_t *b) {
  mlf_octet v;
  memcpy(v.even.lane, b, sizeof v.even.lane);
  memcpy(v.odd.lane, b + 4, sizeof v.odd.lane);
  return v;
}

static inline mlf_octet mlf_octet_madd_some(mlf_octet acc, const int8_t *x, const int8_t **w,
                                            int32_t n) {
  for (int32_t k = 0; k < n; k++) {
    int32_t *const sum = k % 2 ? &acc.odd.lane[k / 2] : &acc.even.lane[k / 2];
    *sum += (int32_t)x[k] * (int32_t)(*w)[k];
  }
  *w += 8;
  return acc;
}

static inline mlf_octet mlf_octet_madd(mlf_octet acc, const int8_t *x, const int8_t **w) {
  return mlf_octet_madd_some(acc, x, w, 8);
}

static inline void mlf_octet_store8(void *to, mlf_octet v, int32_t n) {
  for (int32_t k = 0; k < n; k++) {
    ((uint8_t *)to)[k] = (uint8_t)(k % 2 ? v.odd.lane[k / 2] : v.even.lane[k / 2]);
  }
}

static inline void mlf_octet_store32(int32_t *to, mlf_octet v) {
  mlf_quad_store32(to, v.even);
  mlf_quad_store32(to + 4, v.odd);
}

#endif

/* Both halves of an octet; their multipliers lie in the same order. */
static inline mlf_octet mlf_octet_requantize(mlf_octet acc, const int32_t *m, int32_t add,
                                             int32_t shift, int32_t low, int32_t high) {
  acc.even = mlf_quad_requantize(acc.even, m, add, shift, low, high);
  acc.odd = mlf_quad_requantize(acc.odd, m + 4, add, shift, low, high);
  return acc;
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_MVE_H_ */
