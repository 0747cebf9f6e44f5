/* Maxima of values that lie one step apart, of neighbours together: by SEL or on Helium where a
 * processor has them, with plain C for every other one. */
#ifndef MLF_MAXIMA_H_
#define MLF_MAXIMA_H_

#include "dsp.h"
#include "mve_dots.h"

#ifdef __cplusplus
extern "C" {
#endif

/* mlf_maxima_<name>: to[i] becomes the maximum of from[i], from[step + i] ... from[(k - 1) * step +
 * i] for i below n; k is positive. MLF_MAXIMA_MANY_ is the loop of vectors from i on, if there is
 * one.
 */
#define MLF_MAXIMA_(name, type) \
  MLF_INLINE void mlf_maxima_##name(type *to, const type *from, int32_t step, int32_t k, \
                                    int32_t n) { \
    int32_t i = 0; \
    MLF_MAXIMA_MANY_(name) \
    for (; i < n; i++) { \
      type most = from[i]; \
      for (int32_t j = 1; j < k; j++) { \
        const type value = from[j * step + i]; \
        most = value > most ? value : most; \
      } \
      to[i] = most; \
    } \
  }

#if MLF_MVE

/* Whole vectors; then the rest, of which no other lane is touched. That is assembly because gcc 12
 * confuses the predicates of several such stores. */
#define MLF_MAXIMA_VECTORS_(vector, lanes, load, store, most_of, width, of, sign) \
  for (; i + (lanes) <= n; i += (lanes)) { \
    vector most = load(from + i); \
    for (int32_t j = 1; j < k; j++) { \
      most = most_of(most, load(from + j * step + i)); \
    } \
    store(to + i, most); \
  } \
  if (i < n) { \
    const void *at = from + i; \
    int32_t left = k; \
    uint32_t predicate; /* of the compiler's: clang has no name for the register */ \
    __asm__ volatile("vmrs %[predicate], p0\n\t" \
                     "vctp." width " %[rest]\n\t" \
                     "vpst\n\t" \
                     "vldr" of "t." width " q0, [%[at]]\n" \
                     "1:\n\t" \
                     "subs %[left], %[left], #1\n\t" \
                     "beq 2f\n\t" \
                     "add %[at], %[at], %[step]\n\t" \
                     "vpst\n\t" \
                     "vldr" of "t." width " q1, [%[at]]\n\t" \
                     "vmax." sign width " q0, q0, q1\n\t" \
                     "b 1b\n" \
                     "2:\n\t" \
                     "vpst\n\t" \
                     "vstr" of "t." width " q0, [%[to]]\n\t" \
                     "vmsr p0, %[predicate]" \
                     : [at] "+&r"(at), [left] "+&r"(left), [predicate] "=&r"(predicate) \
                     : [rest] "r"(n - i), [step] "r"(step * (int32_t)sizeof *to), [to] "r"(to + i) \
                     : "q0", "q1", "cc", "memory"); \
    i = n; \
  }
#define MLF_MAXIMA_MANY_s8 \
  MLF_MAXIMA_VECTORS_(int8x16_t, 16, vldrbq_s8, vstrbq_s8, vmaxq_s8, "8", "b", "s")
#define MLF_MAXIMA_MANY_u8 \
  MLF_MAXIMA_VECTORS_(uint8x16_t, 16, vldrbq_u8, vstrbq_u8, vmaxq_u8, "8", "b", "u")
#define MLF_MAXIMA_MANY_s16 \
  MLF_MAXIMA_VECTORS_(int16x8_t, 8, vldrhq_s16, vstrhq_s16, vmaxq_s16, "16", "h", "s")
#define MLF_MAXIMA_MANY_(name) MLF_MAXIMA_MANY_##name

#elif MLF_DSP

/* The greater of each pair of parts of x and y: `subtract` marks those of x, SEL takes them. */
#define MLF_GREATER_(name, subtract) \
  static inline uint32_t mlf_greater_##name(uint32_t x, uint32_t y) { \
    uint32_t most; \
    __asm__(subtract " %0, %1, %2\n\tsel %0, %1, %2" : "=&r"(most) : "r"(x), "r"(y) : "cc"); \
    return most; \
  }
MLF_GREATER_(s8, "ssub8")
MLF_GREATER_(u8, "usub8")
MLF_GREATER_(s16, "ssub16")

#define MLF_MAXIMA_MANY_(name) \
  for (; i + 4 / (int32_t)sizeof *to <= n; i += 4 / (int32_t)sizeof *to) { \
    uint32_t most = mlf_load32(from + i); \
    for (int32_t j = 1; j < k; j++) { \
      most = mlf_greater_##name(most, mlf_load32(from + j * step + i)); \
    } \
    memcpy(to + i, &most, sizeof most); \
  }

#else

#define MLF_MAXIMA_MANY_(name)

#endif

MLF_MAXIMA_(s8, int8_t)
MLF_MAXIMA_(u8, uint8_t)
MLF_MAXIMA_(s16, int16_t)

#ifdef __cplusplus
}
#endif

#endif /* MLF_MAXIMA_H_ */
