/* Integer Helium (MVE) as int8 kernels use it, with plain C for every other processor, so that
 * sources generated for a Cortex-M55 compile, and give the same bits, anywhere.
 */
#ifndef MLF_MVE_H_
#define MLF_MVE_H_

#include "mve_dots.h"

#ifdef __cplusplus
extern "C" {
#endif

#if MLF_MVE

/* n bytes, sixteen at a time; n is positive. */
static inline void mlf_mve_copy(int8_t *to, const int8_t *from, int32_t n) {
  __asm__ volatile("dlstp.8 lr, %[n]\n"
                   "1:\n\t"
                   "vldrb.8 q0, [%[from]], #16\n\t"
                   "vstrb.8 q0, [%[to]], #16\n\t"
                   "letp lr, 1b"
                   : [to] "+&r"(to), [from] "+&r"(from)
                   : [n] "r"(n)
                   : "q0", "lr", "cc", "memory");
}

/* The same of a number that is known: few vectors need no loop, many take turns of four. */
static inline void mlf_mve_copy_known(int8_t *to, const int8_t *from, int32_t n) {
  if (n == 8) {
    memcpy(to, from, 8);
  } else if (n % 16 == 0 && n <= 64) {
    for (int32_t k = 0; k < n; k += 16) {
      vstrbq_s8(to + k, vldrbq_s8(from + k));
    }
  } else if (n % 64 == 0) {
    __asm__ volatile("dls lr, %[turns]\n"
                     "1:\n\t"
                     "vldrb.8 q0, [%[from]], #16\n\t"
                     "vldrb.8 q1, [%[from]], #16\n\t"
                     "vstrb.8 q0, [%[to]], #16\n\t"
                     "vldrb.8 q0, [%[from]], #16\n\t"
                     "vstrb.8 q1, [%[to]], #16\n\t"
                     "vldrb.8 q1, [%[from]], #16\n\t"
                     "vstrb.8 q0, [%[to]], #16\n\t"
                     "vstrb.8 q1, [%[to]], #16\n\t"
                     "le lr, 1b"
                     : [to] "+&r"(to), [from] "+&r"(from)
                     : [turns] "r"(n / 64)
                     : "q0", "q1", "lr", "cc", "memory");
  } else {
    mlf_mve_copy(to, from, n);
  }
}

/* n times the byte `value`; n is positive. */
static inline void mlf_mve_fill(int8_t *to, int32_t value, int32_t n) {
  __asm__ volatile("vdup.8 q0, %[value]\n\t"
                   "dlstp.8 lr, %[n]\n"
                   "1:\n\t"
                   "vstrb.8 q0, [%[to]], #16\n\t"
                   "letp lr, 1b"
                   : [to] "+&r"(to)
                   : [value] "r"(value), [n] "r"(n)
                   : "q0", "lr", "cc", "memory");
}

/* to[i] = table[from[i]] for n bytes, sixteen at a time; n is positive, `to` may be `from`. */
static inline void mlf_mve_table(const uint8_t *table, const uint8_t *from, uint8_t *to,
                                 int32_t n) {
  __asm__ volatile("dlstp.8 lr, %[n]\n"
                   "1:\n\t"
                   "vldrb.8 q0, [%[from]], #16\n\t"
                   "vldrb.u8 q1, [%[table], q0]\n\t"
                   "vstrb.8 q1, [%[to]], #16\n\t"
                   "letp lr, 1b"
                   : [to] "+&r"(to), [from] "+&r"(from)
                   : [table] "r"(table), [n] "r"(n)
                   : "q0", "q1", "lr", "cc", "memory");
}

/* Values of four lanes, read or all the same; floats are their bits. */
static inline mlf_quad mlf_quad_at(const int32_t *from) {
  return vld1q_s32(from);
}

static inline mlf_quad mlf_quad_all(int32_t value) {
  return vdupq_n_s32(value);
}

static inline mlf_quad mlf_quad_bytes(const int8_t *from) {
  return vldrbq_s32(from);
}

static inline mlf_octet mlf_octet_plus(mlf_octet v, int32_t value) {
  v.even = vaddq_n_s32(v.even, value);
  v.odd = vaddq_n_s32(v.odd, value);
  return v;
}

/* The even half and the odd half plus a number each. */
static inline mlf_octet mlf_octet_halves_plus(mlf_octet v, int32_t even, int32_t odd) {
  v.even = vaddq_n_s32(v.even, even);
  v.odd = vaddq_n_s32(v.odd, odd);
  return v;
}

/* The sum of 16 * groups bytes. */
static inline int32_t mlf_mve_total(const int8_t *x, int32_t groups) {
  int32_t sum = 0;
  for (; groups > 0; groups--, x += 16) {
    sum = vaddvaq_s8(sum, vldrbq_s8(x));
  }
  return sum;
}

/* (2 * acc * m >> 32) + add of each; `even` and `odd` are the multipliers of the halves. */
static inline mlf_octet mlf_octet_products(mlf_octet acc, mlf_quad even, mlf_quad odd,
                                           int32_t add) {
  acc.even = vqdmlashq_n_s32(acc.even, even, add);
  acc.odd = vqdmlashq_n_s32(acc.odd, odd, add);
  return acc;
}

/* Each / 2^shift, rounded half up, limited to int16; v is a name, `shift` a constant from 1 to 16.
 * Narrowed halves take the register of their even quad, which is not used again. The shift without
 * rounding is of no use: binutils 2.40 encodes VQSHRN as VQRSHRN. */
#define mlf_octet_rounded(v, shift) \
  vqrshrntq_n_s32(vqrshrnbq_n_s32(vreinterpretq_s16_s32((v).even), (v).even, shift), (v).odd, shift)

/* acc * m / 2^31 of each, rounded to the nearest, ties up; m is positive. */
static inline mlf_octet mlf_octet_high(mlf_octet acc, mlf_quad even, mlf_quad odd) {
  acc.even = vqrdmulhq_s32(acc.even, even);
  acc.odd = vqrdmulhq_s32(acc.odd, odd);
  return acc;
}

/* Each shifted to the right by what `even` and `odd` say, which is not positive, ties up. */
static inline mlf_octet mlf_octet_shift_up(mlf_octet v, mlf_quad even, mlf_quad odd) {
  v.even = vrshlq_s32(v.even, even);
  v.odd = vrshlq_s32(v.odd, odd);
  return v;
}

static inline int32x4_t mlf_quad_shift_away(int32x4_t v, int32x4_t by) {
  /* One less where both are negative: a shift by 0 has no ties. */
  return vrshlq_s32(vaddq_s32(v, vshrq_n_s32(vandq_s32(v, by), 31)), by);
}

/* The same, ties away from zero. */
static inline mlf_octet mlf_octet_shift_away(mlf_octet v, mlf_quad even, mlf_quad odd) {
  v.even = mlf_quad_shift_away(v.even, even);
  v.odd = mlf_quad_shift_away(v.odd, odd);
  return v;
}

/* What makes a shift that rounds half up round ties away from zero. */
static inline mlf_octet mlf_octet_downwards(mlf_octet v) {
  v.even = vaddq_s32(v.even, vshrq_n_s32(v.even, 31));
  v.odd = vaddq_s32(v.odd, vshrq_n_s32(v.odd, 31));
  return v;
}

/* The low halves of both, interleaved, each limited to int16. */
static inline mlf_halves mlf_octet_narrow(mlf_octet v) {
  /* In place: gcc 12 would copy the register whose other half it keeps. */
  __asm__("vqmovnb.s32 %q0, %q0\n\tvqmovnt.s32 %q0, %q1" : "+&w"(v.even) : "w"(v.odd));
  return vreinterpretq_s16_s32(v.even);
}

static inline mlf_octet mlf_halves_widen(mlf_halves v) {
  mlf_octet wide;
  wide.even = vmovlbq_s16(v);
  wide.odd = vmovltq_s16(v);
  return wide;
}

static inline mlf_halves mlf_halves_add(mlf_halves v, int32_t n) {
  return vqaddq_n_s16(v, (int16_t)n);
}

static inline mlf_halves mlf_halves_clamp(mlf_halves v, int32_t low, int32_t high) {
  return vminq_s16(vmaxq_s16(v, vdupq_n_s16((int16_t)low)), vdupq_n_s16((int16_t)high));
}

/* The same for the limits of int8, in one instruction; only the low bytes mean something then. */
static inline mlf_halves mlf_halves_saturate(mlf_halves v) {
  __asm__("vqmovnb.s16 %q0, %q0" : "+w"(v));
  return v;
}

/* The same where all of the halves is read. */
static inline mlf_halves mlf_halves_limited(mlf_halves v) {
  __asm__("vqmovnb.s16 %q0, %q0\n\tvmovlb.s8 %q0, %q0" : "+w"(v));
  return v;
}

/* Floats in quads. Only these functions use the float half of MVE, whose instructions the compiler
 * must not use on its own: they flush subnormals to zero. Callers must not pass subnormals. */
#define MLF_MVE_FLOAT ".arch_extension mve.fp\n\t"

static inline mlf_octet mlf_octet_to_float(mlf_octet v) {
  __asm__(MLF_MVE_FLOAT "vcvt.f32.s32 %q0, %q0\n\tvcvt.f32.s32 %q1, %q1"
          : "+w"(v.even), "+w"(v.odd));
  return v;
}

/* To the nearest integer, ties to even. */
static inline mlf_octet mlf_octet_round(mlf_octet v) {
  __asm__(MLF_MVE_FLOAT "vcvtn.s32.f32 %q0, %q0\n\tvcvtn.s32.f32 %q1, %q1"
          : "+w"(v.even), "+w"(v.odd));
  return v;
}

static inline mlf_quad mlf_floats_at(const float *from) {
  return vld1q_s32((const int32_t *)(const void *)from);
}

static inline mlf_quad mlf_floats_all(float value) {
  int32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return vdupq_n_s32(bits);
}

static inline mlf_octet mlf_octet_times_each(mlf_octet v, mlf_quad even, mlf_quad odd) {
  __asm__(MLF_MVE_FLOAT "vmul.f32 %q0, %q0, %q2\n\tvmul.f32 %q1, %q1, %q3"
          : "+&w"(v.even), "+&w"(v.odd)
          : "w"(even), "w"(odd));
  return v;
}

/* Floats within 2^15 - 512 as integers: 1.5 * 2^23 more, their low halves are what they are rounded
 * to, ties to even. An odd number more would turn ties around, so what makes a zero point odd is
 * added to the halves. */
#define MLF_ROUNDING(zero_point) (0x4b400000U + (uint32_t)((zero_point) & ~1))
#define MLF_SCALED_TEXT(even_scale, odd_scale) \
  MLF_MVE_FLOAT "vcvt.f32.s32 %q[even], %q[even]\n\t" \
                "vcvt.f32.s32 %q[odd], %q[odd]\n\t" \
                "vmul.f32 %q[even], %q[even], " even_scale "\n\t" \
                "vmul.f32 %q[odd], %q[odd], " odd_scale "\n\t" \
                "vadd.f32 %q[even], %q[even], %[rounding]\n\t" \
                "vadd.f32 %q[odd], %q[odd], %[rounding]\n\t" \
                "vmovnt.i32 %q[even], %q[odd]"

static inline mlf_halves mlf_halves_rounded(mlf_quad v, int32_t zero_point) {
  const mlf_halves halves = vreinterpretq_s16_s32(v);
  return zero_point & 1 ? mlf_halves_add(halves, 1) : halves;
}

/* acc * scale + zero_point, rounded as onnxruntime does, of products within 2^15 - 512. */
static inline mlf_halves mlf_octet_scaled_small(mlf_octet acc, mlf_quad even, mlf_quad odd,
                                                int32_t zero_point) {
  __asm__(MLF_SCALED_TEXT("%q[even_scale]", "%q[odd_scale]")
          : [even] "+&w"(acc.even), [odd] "+&w"(acc.odd)
          : [even_scale] "w"(even), [odd_scale] "w"(odd), [rounding] "r"(MLF_ROUNDING(zero_point)));
  return mlf_halves_rounded(acc.even, zero_point);
}

/* The same of one scale, given by its bits. */
static inline mlf_halves mlf_octet_scaled_by(mlf_octet acc, int32_t scale, int32_t zero_point) {
  __asm__(MLF_SCALED_TEXT("%[scale]", "%[scale]")
          : [even] "+&w"(acc.even), [odd] "+&w"(acc.odd)
          : [scale] "r"(scale), [rounding] "r"(MLF_ROUNDING(zero_point)));
  return mlf_halves_rounded(acc.even, zero_point);
}

/* a * m + b * n + add of each. */
static inline mlf_octet mlf_octet_sum(mlf_octet a, int32_t m, mlf_octet b, int32_t n, int32_t add) {
  a.even = vaddq_n_s32(vmlaq_n_s32(vmulq_n_s32(a.even, m), b.even, n), add);
  a.odd = vaddq_n_s32(vmlaq_n_s32(vmulq_n_s32(a.odd, m), b.odd, n), add);
  return a;
}

/* a * m + b of each, b being `even` and `odd`. */
static inline mlf_octet mlf_octet_biased(mlf_octet a, int32_t m, mlf_quad even, mlf_quad odd) {
  a.even = vmlaq_n_s32(even, a.even, m);
  a.odd = vmlaq_n_s32(odd, a.odd, m);
  return a;
}

static inline int32x4_t mlf_quad_sloped(int32x4_t x, int32_t m, int32x4_t k, int32_t add) {
  const int32x4_t below = vminq_s32(x, vdupq_n_s32(0));
  return vaddq_s32(vmlaq_n_s32(vdupq_n_s32(add), x, m), vmulq_s32(below, k));
}

/* mlf_slope_i32 of each less `zero`, k being `even` and `odd`. */
static inline mlf_octet mlf_octet_sloped(mlf_octet a, int32_t zero, int32_t m, mlf_quad even,
                                         mlf_quad odd, int32_t add) {
  a.even = mlf_quad_sloped(vsubq_n_s32(a.even, zero), m, even, add);
  a.odd = mlf_quad_sloped(vsubq_n_s32(a.odd, zero), m, odd, add);
  return a;
}

/* Those that are `value` and `step` more. */
static inline mlf_octet mlf_octet_except(mlf_octet v, int32_t value, int32_t step) {
  /* Not intrinsics: gcc 12 fails on predicates with constants. */
  uint32_t predicate; /* of the compiler's: clang has no name for the register */
  __asm__("vmrs %[predicate], p0\n\t"
          "vpt.i32 eq, %q[even], %[value]\n\t"
          "vaddt.i32 %q[even], %q[even], %[step]\n\t"
          "vpt.i32 eq, %q[odd], %[value]\n\t"
          "vaddt.i32 %q[odd], %q[odd], %[step]\n\t"
          "vmsr p0, %[predicate]"
          : [predicate] "=&r"(predicate), [even] "+&w"(v.even), [odd] "+&w"(v.odd)
          : [value] "r"(value), [step] "r"(step));
  return v;
}

static inline mlf_octet mlf_octet_shifted(mlf_octet v, int32_t shift) {
  v.even = vshlq_r_s32(v.even, -shift);
  v.odd = vshlq_r_s32(v.odd, -shift);
  return v;
}

static inline mlf_octet mlf_octet_both(mlf_quad v) {
  mlf_octet both;
  both.even = v;
  both.odd = v;
  return both;
}

/* The low bytes of the first n, n <= 8, in the order of channels. */
static inline void mlf_octet_store8(void *to, mlf_halves v, int32_t n) {
  if (n == 8) {
    vstrbq_s16((int8_t *)to, v);
  } else {
    vstrbq_p_s16((int8_t *)to, v, vctp16q((uint32_t)n));
  }
}

static inline mlf_octet mlf_octet_load8(const int8_t *from, int32_t n) {
  return mlf_halves_widen(n == 8 ? vldrbq_s16(from) : vldrbq_z_s16(from, vctp16q((uint32_t)n)));
}

/* The low bytes of the first n even ones, n <= 4, or of the odd ones. */
static inline void mlf_even_store8(void *to, mlf_halves v, int32_t n) {
  if (n == 4) {
    vstrbq_s32((int8_t *)to, vreinterpretq_s32_s16(v));
  } else {
    vstrbq_p_s32((int8_t *)to, vreinterpretq_s32_s16(v), vctp32q((uint32_t)n));
  }
}

static inline void mlf_odd_store8(void *to, mlf_halves v, int32_t n) {
  mlf_even_store8(to, vreinterpretq_s16_s32(vshrq_n_s32(vreinterpretq_s32_s16(v), 16)), n);
}

/* Where four even bytes and four odd ones go that are `pitch` bytes from them. */
typedef uint16x8_t mlf_pair_places;

static inline mlf_pair_places mlf_pair_places_of(int32_t pitch) {
  const uint16x8_t i = vidupq_n_u16(0, 1);
  const uint16x8_t odd = vandq_u16(i, vdupq_n_u16(1));
  return vmlaq_n_u16(vshrq_n_u16(i, 1), odd, (uint16_t)pitch);
}

static inline void mlf_pair_store8(void *to, mlf_halves v, mlf_pair_places at) {
  vstrbq_scatter_offset_s16((int8_t *)to, at, v);
}

/* n values from `even` and n from `odd`, n <= 4. */
static inline mlf_octet mlf_pair_load8(const int8_t *even, const int8_t *odd, int32_t n) {
  const mve_pred16_t first = vctp32q((uint32_t)n);
  mlf_octet v;
  v.even = n == 4 ? vldrbq_s32(even) : vldrbq_z_s32(even, first);
  v.odd = n == 4 ? vldrbq_s32(odd) : vldrbq_z_s32(odd, first);
  return v;
}

static inline void mlf_octet_store32(int32_t *to, mlf_octet v) {
  vst1q_s32(to, v.even);
  vst1q_s32(to + 4, v.odd);
}

#else
#include "mve_plain.h"
#endif

/* acc * scale + zero_point, rounded as onnxruntime does: for channels without a multiplier. */
static inline mlf_halves mlf_octet_scaled(mlf_octet acc, mlf_quad even, mlf_quad odd,
                                          int32_t zero_point) {
  const mlf_octet product = mlf_octet_times_each(mlf_octet_to_float(acc), even, odd);
  return mlf_halves_add(mlf_octet_narrow(mlf_octet_round(product)), zero_point);
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_MVE_H_ */
