/* The maxima of maxima.h with Helium. */
#ifndef MLF_MVE_MAXIMA_H_
#define MLF_MVE_MAXIMA_H_

#include "mve_feature.h"

#if MLF_MVE

/* Whole vectors; then the rest, of which no other lane is touched. That is assembly because gcc 12
 * confuses the predicates of several such stores. */
#define MLF_MAXIMA_VECTORS(vector, lanes, load, store, most_of, width, of, sign) \
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
#define MLF_MAXIMA_MANY_S8 \
  MLF_MAXIMA_VECTORS(int8x16_t, 16, vldrbq_s8, vstrbq_s8, vmaxq_s8, "8", "b", "s")
#define MLF_MAXIMA_MANY_U8 \
  MLF_MAXIMA_VECTORS(uint8x16_t, 16, vldrbq_u8, vstrbq_u8, vmaxq_u8, "8", "b", "u")
#define MLF_MAXIMA_MANY_S16 \
  MLF_MAXIMA_VECTORS(int16x8_t, 8, vldrhq_s16, vstrhq_s16, vmaxq_s16, "16", "h", "s")

#endif

#include "maxima.h"

#endif /* MLF_MVE_MAXIMA_H_ */
