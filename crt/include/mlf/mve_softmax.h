/* Softmax in integers on Helium, four elements at a time: the numbers of softmax.h. */
#ifndef MLF_MVE_SOFTMAX_H_
#define MLF_MVE_SOFTMAX_H_

#include "mve.h"
#include "softmax.h"

#ifdef __cplusplus
extern "C" {
#endif

#if MLF_MVE

/* The greatest of n bytes; n is positive. */
static inline int32_t mlf_mve_most(const int8_t *x, int32_t n) {
  int32_t most = -128;
  __asm__ volatile("dlstp.8 lr, %[n]\n"
                   "1:\n\t"
                   "vldrb.8 q0, [%[x]], #16\n\t"
                   "vmaxv.s8 %[most], q0\n\t"
                   "letp lr, 1b"
                   : [x] "+&r"(x), [most] "+&r"(most)
                   : [n] "r"(n)
                   : "q0", "lr", "cc", "memory");
  return most;
}

/* The sum of the table's entries for the distances of n bytes from `most`, up to `last`. */
static inline uint64_t mlf_mve_worths(const int8_t *x, int32_t n, const uint32_t *table,
                                      int32_t most, int32_t last) {
  const int32x4_t from = vdupq_n_s32(most);
  const int32x4_t end = vdupq_n_s32(last);
  register uint32_t low __asm__("r0") = 0;
  register uint32_t high __asm__("r1") = 0;
  __asm__ volatile("dlstp.32 lr, %[n]\n"
                   "1:\n\t"
                   "vldrb.s32 q0, [%[x]], #4\n\t"
                   "vsub.i32 q0, %q[from], q0\n\t"
                   "vmin.u32 q0, q0, %q[end]\n\t"
                   "vldrw.u32 q1, [%[table], q0, uxtw #2]\n\t"
                   "vaddlva.u32 %[low], %[high], q1\n\t"
                   "letp lr, 1b"
                   : [x] "+&l"(x), [low] "+&r"(low), [high] "+&r"(high)
                   : [n] "r"(n), [table] "r"(table), [from] "w"(from), [end] "w"(end)
                   : "q0", "q1", "lr", "cc", "memory");
  return ((uint64_t)high << 32) | low;
}

/* Their shares plus `zero`, `high` at most, as bytes; `y` may be `x`. */
static inline void mlf_mve_shares(const int8_t *x, int8_t *y, int32_t n, const uint32_t *table,
                                  int32_t most, int32_t last, uint32_t factor, int32_t shift,
                                  int32_t zero, int32_t high) {
  const int32x4_t from = vdupq_n_s32(most);
  const int32x4_t end = vdupq_n_s32(last);
  const uint32x4_t factors = vdupq_n_u32(factor);
  const int32x4_t down = vdupq_n_s32(-shift);
  const uint32x4_t one = vdupq_n_u32(1);
  const int32x4_t limit = vdupq_n_s32(high);
  const uint32_t less = (UINT32_C(1) << (shift - 1)) - 1U; /* than half a step */
  __asm__ volatile(
      "dlstp.32 lr, %[n]\n"
      "1:\n\t"
      "vldrb.s32 q0, [%[x]], #4\n\t"
      "vsub.i32 q0, %q[from], q0\n\t"
      "vmin.u32 q0, q0, %q[end]\n\t"
      "vldrw.u32 q1, [%[table], q0, uxtw #2]\n\t"
      "vmulh.u32 q1, q1, %q[factors]\n\t"
      "vshl.u32 q0, q1, %q[down]\n\t"
      "vand q0, q0, %q[one]\n\t"
      "vadd.i32 q1, q1, %[less]\n\t"
      "vadd.i32 q0, q0, q1\n\t"
      "vshl.u32 q0, q0, %q[down]\n\t"
      "vadd.i32 q0, q0, %[zero]\n\t"
      "vmin.s32 q0, q0, %q[limit]\n\t"
      "vstrb.32 q0, [%[y]], #4\n\t"
      "letp lr, 1b"
      : [x] "+&l"(x), [y] "+&l"(y)
      : [n] "r"(n), [table] "r"(table), [less] "r"(less), [zero] "r"(zero), [from] "w"(from),
        [end] "w"(end), [factors] "w"(factors), [down] "w"(down), [one] "w"(one), [limit] "w"(limit)
      : "q0", "q1", "lr", "cc", "memory");
}

#else

static inline int32_t mlf_mve_most(const int8_t *x, int32_t n) {
  int32_t most = x[0];
  for (int32_t k = 1; k < n; k++) {
    most = x[k] > most ? x[k] : most;
  }
  return most;
}

static inline uint64_t mlf_mve_worths(const int8_t *x, int32_t n, const uint32_t *table,
                                      int32_t most, int32_t last) {
  uint64_t sum = 0;
  for (int32_t k = 0; k < n; k++) {
    sum += table[mlf_min_i32(most - x[k], last)];
  }
  return sum;
}

static inline void mlf_mve_shares(const int8_t *x, int8_t *y, int32_t n, const uint32_t *table,
                                  int32_t most, int32_t last, uint32_t factor, int32_t shift,
                                  int32_t zero, int32_t high) {
  for (int32_t k = 0; k < n; k++) {
    const uint32_t worth = table[mlf_min_i32(most - x[k], last)];
    const int32_t share = mlf_softmax_share(worth, factor, shift) + zero;
    y[k] = (int8_t)mlf_min_i32(share, high);
  }
}

#endif

#ifdef __cplusplus
}
#endif

#endif /* MLF_MVE_SOFTMAX_H_ */
