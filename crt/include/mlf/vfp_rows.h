/* Products of four rows with one vector in the registers of a Cortex-M's FPU: one VLDM loads four
 * elements. Elsewhere mlf/dot.h has loops. */
#ifndef MLF_VFP_ROWS_H_
#define MLF_VFP_ROWS_H_

#include "vfp.h"

#if MLF_VFP

#ifdef __cplusplus
extern "C" {
#endif

/* clang-format off */
#define MLF_ROWS_(x, w0, w1, w2, w3) \
  "vldmia %[x]!, {" x "}\n\t" \
  "vldmia %[w0]!, {" w0 "}\n\tvldmia %[w1]!, {" w1 "}\n\t" \
  "vldmia %[w2]!, {" w2 "}\n\tvldmia %[w3]!, {" w3 "}\n\t"
#define MLF_ROWS_TURN_(x, w0, w1, w2, w3) \
  MLF_EXACT_(0, 1, 2, 3, x, w0, w1, w2, w3, 24, 25, 26, 27)

/* sums[row] = the products of n elements of x with those of a row, added in turn from zero; the
 * rows are `stride` elements apart. */
MLF_CALLED void mlf_exact_rows(const float *w, int32_t stride, const float *x, int32_t n,
                               float *sums) {
  const float *w1 = w + stride, *w2 = w1 + stride, *w3 = w2 + stride;
  int32_t k = 0;
  __asm__ volatile(
      MLF_ZEROS_(0, 1) MLF_ZEROS_(2, 3)
      "subs %[k], %[n], #4\n\tblt 3f\n\t"
      "2:\n\t" MLF_ROWS_("s4-s7", "s8-s11", "s12-s15", "s16-s19", "s20-s23")
      MLF_ROWS_TURN_(4, 8, 12, 16, 20) MLF_ROWS_TURN_(5, 9, 13, 17, 21)
      MLF_ROWS_TURN_(6, 10, 14, 18, 22) MLF_ROWS_TURN_(7, 11, 15, 19, 23)
      "subs %[k], #4\n\tbge 2b\n\t"
      "3:\n\tadds %[k], #4\n\tbeq 5f\n\t"
      "4:\n\t" MLF_ROWS_("s4", "s8", "s12", "s16", "s20") MLF_ROWS_TURN_(4, 8, 12, 16, 20)
      "subs %[k], #1\n\tbne 4b\n\t"
      "5:\n\tvstmia %[sums], {s0-s3}"
      : [x] "+&r"(x), [w0] "+&r"(w), [w1] "+&r"(w1), [w2] "+&r"(w2), [w3] "+&r"(w3), [k] "+&r"(k)
      : [n] "r"(n), [sums] "r"(sums)
      : "memory", "cc", MLF_FLOATS_);
}
/* clang-format on */

#ifdef __cplusplus
}
#endif

#endif

#endif /* MLF_VFP_ROWS_H_ */
