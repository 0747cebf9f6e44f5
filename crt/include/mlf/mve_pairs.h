/* Products of two tensors of bytes on Helium, eight elements at a time. */
#ifndef MLF_MVE_PAIRS_H_
#define MLF_MVE_PAIRS_H_

#include "mve.h"

#ifdef __cplusplus
extern "C" {
#endif

#if MLF_MVE

static inline int32x4_t mlf_quad_gated(int32x4_t a, int32_t more, int32x4_t b, int32_t other,
                                       int32_t m, int32_t add) {
  const int32x4_t wide = vshlq_n_s32(vmulq_s32(vaddq_n_s32(a, more), vaddq_n_s32(b, other)), 14);
  return vaddq_n_s32(vmulhq_s32(wide, vdupq_n_s32(m)), add);
}

/* ((a + more) * (b + other) * 2^14 * m >> 32) + add of each. */
static inline mlf_octet mlf_octet_gated(mlf_octet a, int32_t more, mlf_octet b, int32_t other,
                                        int32_t m, int32_t add) {
  a.even = mlf_quad_gated(a.even, more, b.even, other, m, add);
  a.odd = mlf_quad_gated(a.odd, more, b.odd, other, m, add);
  return a;
}

/* `step` more where a * 256 + b is `key`. */
static inline mlf_octet mlf_octet_except_pair(mlf_octet v, mlf_octet a, mlf_octet b, int32_t key,
                                              int32_t step) {
  const int32x4_t even = vaddq_s32(vshlq_n_s32(a.even, 8), b.even);
  const int32x4_t odd = vaddq_s32(vshlq_n_s32(a.odd, 8), b.odd);
  uint32_t predicate; /* as in mlf_octet_except */
  __asm__("vmrs %[predicate], p0\n\t"
          "vpt.i32 eq, %q[equal], %[key]\n\t"
          "vaddt.i32 %q[even], %q[even], %[step]\n\t"
          "vpt.i32 eq, %q[also], %[key]\n\t"
          "vaddt.i32 %q[odd], %q[odd], %[step]\n\t"
          "vmsr p0, %[predicate]"
          : [predicate] "=&r"(predicate), [even] "+&w"(v.even), [odd] "+&w"(v.odd)
          : [equal] "w"(even), [also] "w"(odd), [key] "r"(key), [step] "r"(step));
  return v;
}

#else

static inline mlf_octet mlf_octet_gated(mlf_octet a, int32_t more, mlf_octet b, int32_t other,
                                        int32_t m, int32_t add) {
  for (int32_t k = 0; k < 8; k++) {
    int32_t *const lane = mlf_octet_lane(&a, k);
    const int32_t wide = (*lane + more) * (*mlf_octet_lane(&b, k) + other) * 16384;
    *lane = (int32_t)((int64_t)wide * m >> 32) + add;
  }
  return a;
}

static inline mlf_octet mlf_octet_except_pair(mlf_octet v, mlf_octet a, mlf_octet b, int32_t key,
                                              int32_t step) {
  for (int32_t k = 0; k < 8; k++) {
    const int32_t pair = *mlf_octet_lane(&a, k) * 256 + *mlf_octet_lane(&b, k);
    *mlf_octet_lane(&v, k) += pair == key ? step : 0;
  }
  return v;
}

#endif

#ifdef __cplusplus
}
#endif

#endif /* MLF_MVE_PAIRS_H_ */
