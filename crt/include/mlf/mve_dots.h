/* Sums of products with Helium, in assembly; mve_plain.h has them for every other processor.
 *
 * A quad is four int32 of neighbouring channels; an octet is eight, the even ones before the odd.
 */
#ifndef MLF_MVE_DOTS_H_
#define MLF_MVE_DOTS_H_

#include "dsp.h"
#include "mve_feature.h"
#include "rescale.h"

#ifdef __cplusplus
extern "C" {
#endif

#if MLF_MVE

typedef int32x4_t mlf_quad;

typedef struct {
  int32x4_t even, odd;
} mlf_octet;

typedef int16x8_t mlf_halves;

/* Defines `name`: b[k] + the products of `groups` registers of x with those of channel k, whose
 * weights take turns. `load_x` and `load_w` fill a register with their elements, `step` is the size
 * of the latter; `w` moves on. `reach` are the registers that hold `w`: "+&l", the lower eight, for
 * a load that widens. */
#define MLF_QUAD_DOT(name, type, load_x, load_w, step, mac, reach) \
  static inline mlf_quad name(const type *x, const int8_t **w, int32_t groups, const int32_t *b) { \
    int32_t sum0 = b[0]; \
    int32_t sum1 = b[1]; \
    int32_t sum2 = b[2]; \
    int32_t sum3 = b[3]; \
    mlf_quad sums; \
    __asm__ volatile("dls lr, %[groups]\n" \
                     "1:\n\t" load_x " q0, [%[x]], #16\n\t" load_w " q1, [%[w]], #" step \
                     "\n\t" mac " %[sum0], q0, q1\n\t" load_w " q2, [%[w]], #" step "\n\t" mac \
                     " %[sum1], q0, q2\n\t" load_w " q1, [%[w]], #" step "\n\t" mac \
                     " %[sum2], q0, q1\n\t" load_w " q2, [%[w]], #" step "\n\t" mac \
                     " %[sum3], q0, q2\n\t" \
                     "le lr, 1b\n\t" \
                     "vmov q0[2], q0[0], %[sum0], %[sum2]\n\t" \
                     "vmov q0[3], q0[1], %[sum1], %[sum3]\n\t" \
                     "vmov %q[sums], q0" \
                     : [x] "+&r"(x), [w] reach(*w), [sum0] "+&Te"(sum0), [sum1] "+&Te"(sum1), \
                       [sum2] "+&Te"(sum2), [sum3] "+&Te"(sum3), [sums] "=w"(sums) \
                     : [groups] "r"(groups) \
                     : "q0", "q1", "q2", "lr", "cc", "memory"); \
    return sums; \
  }

MLF_QUAD_DOT(mlf_quad_dot, int8_t, "vldrb.8", "vldrb.8", "16", "vmladava.s8", "+&r")

/* GCC has too few registers left for the assembly below if it does not optimise. */
#if defined(__OPTIMIZE__) || defined(__clang__)
#define MLF_MVE_OPTIMISED
#else
#define MLF_MVE_OPTIMISED __attribute__((optimize("O1")))
#endif

/* Bytes of two pixels that all channels multiply: the first 32 of each, or sixteen if there are no
 * more. They stay in registers, where a pixel's further bytes are loaded again for each channel. */
typedef struct {
  int8x16_t here[2], there[2];
} mlf_pair_first;

static inline mlf_pair_first mlf_pair_first_of(const int8_t *x, int32_t groups) {
  mlf_pair_first first;
  for (int32_t k = 0; k < 2; k++) {
    first.here[k] = vldrbq_s8(x + (k < groups ? 16 * k : 0));
    first.there[k] = vldrbq_s8(x + 16 * groups + (k < groups ? 16 * k : 0));
  }
  return first;
}

/* Sixteen products for each of two pixels, in the registers `x0` and `x1`, and four channels; `mac`
 * is vmladav for the first time, vmladava when there is a sum to add to. Sums are in the eight even
 * registers, all that these instructions take. */
#define MLF_PAIR_MACS(mac, x0, x1) \
  "vldrb.8 %q[turn], [%[w]], #16\n\t" mac " r0, " x0 ", %q[turn]\n\t" mac " r2, " x1 \
  ", %q[turn]\n\t" \
  "vldrb.8 %q[turn], [%[w]], #16\n\t" mac " r4, " x0 ", %q[turn]\n\t" mac " r6, " x1 \
  ", %q[turn]\n\t" \
  "vldrb.8 %q[turn], [%[w]], #16\n\t" mac " r8, " x0 ", %q[turn]\n\t" mac " r10, " x1 \
  ", %q[turn]\n\t" \
  "vldrb.8 %q[turn], [%[w]], #16\n\t" mac " r12, " x0 ", %q[turn]\n\t" mac " lr, " x1 \
  ", %q[turn]\n\t"
#define MLF_PAIR_ONE MLF_PAIR_MACS("vmladav.s8", "%q[here0]", "%q[there0]")
#define MLF_PAIR_TWO MLF_PAIR_ONE MLF_PAIR_MACS("vmladava.s8", "%q[here1]", "%q[there1]")
/* The same of bytes at the C text `at0` and `at1`. */
#define MLF_PAIR_LOADED(at0, at1) \
  "vldrb.8 %q[even], " at0 "\n\tvldrb.8 %q[odd], " at1 \
  "\n\t" MLF_PAIR_MACS("vmladava.s8", "%q[even]", "%q[odd]")
/* Of few groups, whose bytes are all within reach of x. */
#define MLF_PAIR_N(at0, at1) MLF_PAIR_LOADED("[%[x], #" #at0 "]", "[%[x], #" #at1 "]")
/* Of many. */
#define MLF_PAIR_NEXT MLF_PAIR_LOADED("[%[x]], #16", "[%[x1]], #16")
#define MLF_PAIR_LOOP "1:\n\t" MLF_PAIR_NEXT MLF_PAIR_NEXT "subs %[n], %[n], #1\n\tbne 1b\n\t"
#define MLF_PAIR_DOT(groups_text, pointers, read) \
  __asm__ volatile( \
      groups_text "vmov %q[even][2], %q[even][0], r0, r8\n\t" \
                  "vmov %q[even][3], %q[even][1], r4, r12\n\t" \
                  "vmov %q[odd][2], %q[odd][0], r2, r10\n\t" \
                  "vmov %q[odd][3], %q[odd][1], r6, lr" \
      : [w] "+&r"(at), [even] "=&w"(sums.even), [odd] "=&w"(sums.odd), [turn] "=&w"(turn)pointers \
      : [here0] "w"(first.here[0]), [there0] "w"(first.there[0])read \
      : "r0", "r2", "r4", "r6", "r8", "r10", "r12", "lr", "cc", "memory")
#define MLF_PAIR_BOTH      , [here1] "w"(first.here[1]), [there1] "w"(first.there[1])
#define MLF_PAIR_AT        , [x] "r"(x), [here1] "w"(first.here[1]), [there1] "w"(first.there[1])
#define MLF_PAIR_POINTERS  , [x] "+&r"(x), [x1] "+&r"(x1), [n] "+&r"(twice)
#define MLF_PAIR_FEW(more) MLF_PAIR_DOT(MLF_PAIR_TWO more, , MLF_PAIR_AT)
#define MLF_PAIR_MANY(more) \
  MLF_PAIR_DOT(MLF_PAIR_TWO more MLF_PAIR_LOOP, MLF_PAIR_POINTERS, MLF_PAIR_BOTH)
/* How many groups have no loop; each takes 56 bytes of code. */
#ifdef __OPTIMIZE_SIZE__
#define MLF_PAIR_UNROLLED 4
#else
#define MLF_PAIR_UNROLLED 8
#endif

/* b[k] + the products of 16 * groups bytes of x with those of channel k in the even half, of as
 * many bytes that follow them in the odd one. `first` is of x; `w` moves on. */
MLF_MVE_OPTIMISED static inline mlf_octet mlf_pair_dot(mlf_pair_first first, const int8_t *x,
                                                       const int8_t **w, int32_t groups,
                                                       const int32_t *b) {
  const int8_t *at = *w;
  mlf_octet sums;
  int32x4_t turn;
  if (groups == 1) {
    MLF_PAIR_DOT(MLF_PAIR_ONE, , );
  } else if (groups == 2) {
    MLF_PAIR_DOT(MLF_PAIR_TWO, , MLF_PAIR_BOTH);
  } else if (groups == 3) {
    MLF_PAIR_FEW(MLF_PAIR_N(32, 80));
  } else if (groups == 4) {
    MLF_PAIR_FEW(MLF_PAIR_N(32, 96) MLF_PAIR_N(48, 112));
  } else if (groups <= MLF_PAIR_UNROLLED) {
    x += 120; /* the middle, from which a load reaches 127 bytes either way */
    if (groups == 5) {
      MLF_PAIR_FEW(MLF_PAIR_N(-88, -8) MLF_PAIR_N(-72, 8) MLF_PAIR_N(-56, 24));
    } else if (groups == 6) {
      MLF_PAIR_FEW(MLF_PAIR_N(-88, 8) MLF_PAIR_N(-72, 24) MLF_PAIR_N(-56, 40) MLF_PAIR_N(-40, 56));
    } else if (groups == 7) {
      MLF_PAIR_FEW(MLF_PAIR_N(-88, 24) MLF_PAIR_N(-72, 40) MLF_PAIR_N(-56, 56) MLF_PAIR_N(-40, 72)
                       MLF_PAIR_N(-24, 88));
    } else {
      MLF_PAIR_FEW(MLF_PAIR_N(-88, 40) MLF_PAIR_N(-72, 56) MLF_PAIR_N(-56, 72) MLF_PAIR_N(-40, 88)
                       MLF_PAIR_N(-24, 104) MLF_PAIR_N(-8, 120));
    }
  } else {
    const int8_t *x1 = x + 16 * groups + 32;
    int32_t twice = (groups - 2) / 2;
    x += 32;
    if (groups % 2 == 1) {
      MLF_PAIR_MANY(MLF_PAIR_NEXT);
    } else {
      MLF_PAIR_MANY();
    }
  }
  *w = at;
  const int32x4_t bias = vld1q_s32(b); /* after the block, which has no register for it */
  sums.even = vaddq_s32(sums.even, bias);
  sums.odd = vaddq_s32(sums.odd, bias);
  return sums;
}

/* Sixteen products for each of eight channels; `sign` makes int8 of what was loaded. */
#define MLF_ROW_MAC(mac, w, sum) "vldrb.8 " w ", [%[w]], #16\n\t" mac " " sum ", q0, " w "\n\t"
#define MLF_ROW_GROUP(mac, sign) \
  "vldrb.8 q0, [%[x]], #16\n\t" sign MLF_ROW_MAC(mac, "q1", "r0") MLF_ROW_MAC(mac, "q2", "r2") \
      MLF_ROW_MAC(mac, "q3", "r4") MLF_ROW_MAC(mac, "q1", "r6") MLF_ROW_MAC(mac, "q2", "r8") \
          MLF_ROW_MAC(mac, "q3", "r10") MLF_ROW_MAC(mac, "q1", "r12") MLF_ROW_MAC(mac, "q2", "lr")
#define MLF_ROW_FIRST(sign) MLF_ROW_GROUP("vmladav.s8", sign)
#define MLF_ROW_NEXT(sign)  MLF_ROW_GROUP("vmladava.s8", sign)
#define MLF_ROW_LOOP(sign) \
  "1:\n\t" MLF_ROW_NEXT(sign) MLF_ROW_NEXT(sign) "subs %[n], %[n], #1\n\tbne 1b\n\t"
#define MLF_ROW_FEW(groups_text, half)  MLF_ROW_SUMS(groups_text, MLF_ROW_POINTER, half)
#define MLF_ROW_MANY(groups_text, half) MLF_ROW_SUMS(groups_text, MLF_ROW_POINTERS, half)
#define MLF_ROW_SUMS(groups_text, pointers, read) \
  __asm__ volatile(groups_text "vmov %q[even][2], %q[even][0], r0, r8\n\t" \
                               "vmov %q[even][3], %q[even][1], r4, r12\n\t" \
                               "vmov %q[odd][2], %q[odd][0], r2, r10\n\t" \
                               "vmov %q[odd][3], %q[odd][1], r6, lr" \
                   : [w] "+r"(at), [even] "=w"(sums.even), [odd] "=w"(sums.odd)pointers:read \
                   : "q0", "q1", "q2", "q3", "r0", "r2", "r4", "r6", "r8", "r10", "r12", "lr", \
                     "cc", "memory")
#define MLF_ROW_POINTER  , [x] "+&r"(x)
#define MLF_ROW_POINTERS , [x] "+&r"(x), [n] "+&r"(twice)
#define MLF_ROW_DOT(sign, half) \
  do { \
    int32_t twice = (groups - 1) / 2; \
    if (groups == 1) { \
      MLF_ROW_FEW(MLF_ROW_FIRST(sign), half); \
    } else if (groups == 2) { \
      MLF_ROW_FEW(MLF_ROW_FIRST(sign) MLF_ROW_NEXT(sign), half); \
    } else if (groups % 2 == 1) { \
      MLF_ROW_MANY(MLF_ROW_FIRST(sign) MLF_ROW_LOOP(sign), half); \
    } else { \
      MLF_ROW_MANY(MLF_ROW_FIRST(sign) MLF_ROW_NEXT(sign) MLF_ROW_LOOP(sign), half); \
    } \
  } while (0)

static inline mlf_octet mlf_octet_of(const int32_t *b) {
  mlf_octet v;
  v.even = vld1q_s32(b);
  v.odd = vld1q_s32(b + 4);
  return v;
}

/* The sums of eight channels and their biases b, the even ones before the odd. `w` moves on. */
MLF_MVE_OPTIMISED static inline mlf_octet mlf_row_dot(const int8_t *x, const int8_t **w,
                                                      int32_t groups, const int32_t *b) {
  const mlf_octet bias = mlf_octet_of(b);
  const int8_t *at = *w;
  mlf_octet sums;
  MLF_ROW_DOT("", );
  *w = at;
  sums.even = vaddq_s32(sums.even, bias.even);
  sums.odd = vaddq_s32(sums.odd, bias.odd);
  return sums;
}

/* The same of bytes less 128. */
MLF_MVE_OPTIMISED static inline mlf_octet mlf_row_dot_u8(const uint8_t *x, const int8_t **w,
                                                         int32_t groups, const int32_t *b) {
  const mlf_octet bias = mlf_octet_of(b);
  const int8_t *at = *w;
  const uint32_t half = 128;
  mlf_octet sums;
  MLF_ROW_DOT("vadd.i8 q0, q0, %[half]\n\t", [half] "r"(half));
  *w = at;
  sums.even = vaddq_s32(sums.even, bias.even);
  sums.odd = vaddq_s32(sums.odd, bias.odd);
  return sums;
}

/* acc[k] += x[offset + k] * w[k] for eight channels; `w` moves on. `offset` is a constant within
 * 127; the weights of `_S16` are int16. One block, because gcc 12 would load all taps first and
 * keep them on the stack. */
#define MLF_OCTET_MADD(acc, x, offset, w) \
  MLF_OCTET_MADD_OF("vldrb.s16", "vldrb.s16 q1, [%[taps]], #8\n\t", acc, x, offset, w)
#define MLF_OCTET_MADD_S16(acc, x, offset, w) \
  MLF_OCTET_MADD_OF("vldrb.s16", "vldrh.u16 q1, [%[taps]], #16\n\t", acc, x, offset, w)
#define MLF_OCTET_MADD_OF(load_x, load, acc, x, offset, w) \
  __asm__ volatile(load_x " q0, [%[at], %[by]]\n\t" load "vmullb.s16 q2, q0, q1\n\t" \
                          "vmullt.s16 q3, q0, q1\n\t" \
                          "vadd.i32 %q[even], %q[even], q2\n\t" \
                          "vadd.i32 %q[odd], %q[odd], q3" \
                   : [even] "+&w"((acc).even), [odd] "+&w"((acc).odd), [taps] "+&l"(w) \
                   : [at] "l"(x), [by] "i"(offset) \
                   : "q0", "q1", "q2", "q3", "memory")

/* Defines the same for the first n channels, n < 8, of whose weights `load` takes eight. */
#define MLF_OCTET_MADD_SOME(name, type, load) \
  static inline mlf_octet name(mlf_octet acc, const int8_t *x, const type **w, int32_t n) { \
    const int16x8_t v = vldrbq_z_s16(x, vctp16q((uint32_t)n)); \
    const int16x8_t u = load(*w); \
    acc.even = vaddq_s32(acc.even, vmullbq_int_s16(v, u)); \
    acc.odd = vaddq_s32(acc.odd, vmulltq_int_s16(v, u)); \
    *w += 8; \
    return acc; \
  }

MLF_OCTET_MADD_SOME(mlf_octet_madd_some, int8_t, vldrbq_s16)
MLF_OCTET_MADD_SOME(mlf_octet_madd_some_s16, int16_t, vld1q_s16)

#endif /* MLF_MVE */

#ifdef __cplusplus
}
#endif

#endif /* MLF_MVE_DOTS_H_ */
