/* Rows of words that dsp_rows.c.j2 keeps. */
#ifndef MLF_DSP_ROWS_H_
#define MLF_DSP_ROWS_H_

#include "dsp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* n times the same word. */
static inline void mlf_fill_words(uint32_t *to, uint32_t word, int32_t n) {
  MLF_UNROLL(8)
  for (int32_t i = 0; i < n; i++) {
    to[i] = word;
  }
}

/* n words to a lower address. */
static inline void mlf_copy_words(const uint32_t *from, uint32_t *to, int32_t n) {
  MLF_UNROLL(8)
  for (int32_t i = 0; i < n; i++) {
    to[i] = from[i];
  }
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_DSP_ROWS_H_ */
