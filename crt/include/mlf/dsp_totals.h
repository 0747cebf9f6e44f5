/* Totals of a pixel's operands, which weights with a zero point need. */
#ifndef MLF_DSP_TOTALS_H_
#define MLF_DSP_TOTALS_H_

#include "dsp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The sum of n pairs of halfwords that are `step` halfwords apart. */
static inline int32_t mlf_total_s16(const int16_t *x, int32_t n, int32_t step) {
  int32_t sum = 0;
  MLF_UNROLL(4)
  for (int32_t i = 0; i < n; i++) {
    sum = mlf_smlad(mlf_load32_aligned(x + i * step), 0x00010001u, sum);
  }
  return sum;
}

/* Defines the sum of n bytes, a multiple of four, to which `add` adds those of word v. */
#define MLF_TOTAL_BYTES(name, type, add) \
  static inline int32_t name(const type *x, int32_t n) { \
    int32_t sum = 0; \
    MLF_UNROLL(4) \
    for (int32_t i = 0; i < n; i += 4) { \
      const uint32_t v = mlf_load32(x + i); \
      add \
    } \
    return sum; \
  }

MLF_TOTAL_BYTES(mlf_total_s8, int8_t, sum = mlf_smlad(mlf_sxtb16(v), 0x00010001u, sum);
                sum = mlf_smlad(mlf_sxtb16_ror8(v), 0x00010001u, sum);)
MLF_TOTAL_BYTES(mlf_total_u8, uint8_t,
                sum = mlf_smlad((v & 0x00FF00FFu) + (v >> 8 & 0x00FF00FFu), 0x00010001u, sum);)

/* The sum of the halfwords of n words that are `step` words apart. */
static inline int32_t mlf_total_words(const uint32_t *x, int32_t n, int32_t step) {
  int32_t sum = 0;
  MLF_UNROLL(4)
  for (int32_t i = 0; i < n; i++) {
    sum = mlf_smlad(x[i * step], 0x00010001u, sum);
  }
  return sum;
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_DSP_TOTALS_H_ */
