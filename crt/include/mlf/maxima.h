/* Maxima of values that are one step apart, of neighbours together: by SEL where a processor has
 * it, with plain C for every other one; mve_maxima.h has them for Helium. */
#ifndef MLF_MAXIMA_H_
#define MLF_MAXIMA_H_

#include "dsp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Defines `name`: to[i] becomes the maximum of from[i], from[step + i] ... from[(k - 1) * step + i]
 * for i below n; k is positive. `many` is the loop of vectors from i on, if there is one. */
#define MLF_MAXIMA(name, type, many) \
  MLF_INLINE void name(type *to, const type *from, int32_t step, int32_t k, int32_t n) { \
    int32_t i = 0; \
    { many } \
    for (; i < n; i++) { \
      type most = from[i]; \
      for (int32_t j = 1; j < k; j++) { \
        const type value = from[j * step + i]; \
        most = value > most ? value : most; \
      } \
      to[i] = most; \
    } \
  }

#if defined(MLF_MAXIMA_MANY_S8) /* by mve_maxima.h */
#elif MLF_DSP

/* The greater of each pair of parts of x and y: `subtract` marks those of x, SEL takes them. */
#define MLF_GREATER(name, subtract) \
  static inline uint32_t name(uint32_t x, uint32_t y) { \
    uint32_t most; \
    __asm__(subtract " %0, %1, %2\n\tsel %0, %1, %2" : "=&r"(most) : "r"(x), "r"(y) : "cc"); \
    return most; \
  }
MLF_GREATER(mlf_greater_s8, "ssub8")
MLF_GREATER(mlf_greater_u8, "usub8")
MLF_GREATER(mlf_greater_s16, "ssub16")

#define MLF_MAXIMA_WORDS(greater) \
  for (; i + 4 / (int32_t)sizeof *to <= n; i += 4 / (int32_t)sizeof *to) { \
    uint32_t most = mlf_load32(from + i); \
    for (int32_t j = 1; j < k; j++) { \
      most = greater(most, mlf_load32(from + j * step + i)); \
    } \
    memcpy(to + i, &most, sizeof most); \
  }
#define MLF_MAXIMA_MANY_S8  MLF_MAXIMA_WORDS(mlf_greater_s8)
#define MLF_MAXIMA_MANY_U8  MLF_MAXIMA_WORDS(mlf_greater_u8)
#define MLF_MAXIMA_MANY_S16 MLF_MAXIMA_WORDS(mlf_greater_s16)

#else

#define MLF_MAXIMA_MANY_S8
#define MLF_MAXIMA_MANY_U8
#define MLF_MAXIMA_MANY_S16

#endif

MLF_MAXIMA(mlf_maxima_s8, int8_t, MLF_MAXIMA_MANY_S8)
MLF_MAXIMA(mlf_maxima_u8, uint8_t, MLF_MAXIMA_MANY_U8)
MLF_MAXIMA(mlf_maxima_s16, int16_t, MLF_MAXIMA_MANY_S16)

#ifdef __cplusplus
}
#endif

#endif /* MLF_MAXIMA_H_ */
