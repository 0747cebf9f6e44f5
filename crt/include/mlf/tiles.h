/* What integer kernels for processors without FPU, or with a dozen sums in registers, need beside
 * kernel.h. */
#ifndef MLF_TILES_H_
#define MLF_TILES_H_

#include "requantize.h"

/* Nothing is loaded earlier than this says: compilers that load the operands of several turns at
 * once have no registers left for the sums and keep them on the stack. */
#if defined(__GNUC__)
#define MLF_LOADS_STAY() __asm__ volatile("" ::: "memory")
#else
#define MLF_LOADS_STAY() ((void)0)
#endif

/* For the few channels without a multiplier: a call, because its body is long. */
#if defined(__GNUC__)
__attribute__((noinline, unused))
#endif
static int32_t
mlf_requantize_rarely(int32_t acc, float scale, int32_t zero_point, int32_t low, int32_t high) {
  return mlf_requantize_soft(acc, scale, zero_point, low, high);
}

/* mlf_requantize_fixed for a channel that has no such m: within `near` of the middle of two results
 * it is computed as floats would, elsewhere an m that is nearly right will do. */
#if defined(__GNUC__)
__attribute__((noinline, unused))
#endif
static int32_t
mlf_requantize_near(int32_t acc, int32_t m, int32_t add, int32_t shift, int32_t near, float scale,
                    int32_t zero_point, int32_t low, int32_t high) {
  const int32_t fine = mlf_multiply_high(acc, m, add);
  const uint32_t part = (uint32_t)(fine + near) & ((1u << shift) - 1u);
  if (part < 2u * (uint32_t)near) {
    return mlf_requantize_soft(acc, scale, zero_point, low, high);
  }
  return mlf_clamp_i32(fine >> shift, low, high);
}

/* The same where no channel has such an m, as with outputs of 16 bits: only the rare case is
 * called. */
MLF_INLINE int32_t mlf_requantize_close(int32_t acc, int32_t m, int32_t add, int32_t shift,
                                        int32_t near, float scale, int32_t zero_point, int32_t low,
                                        int32_t high) {
  const int32_t fine = mlf_multiply_high(acc, m, add);
  const uint32_t part = (uint32_t)(fine + near) & ((1u << shift) - 1u);
  if (part < 2u * (uint32_t)near) {
    return mlf_requantize_rarely(acc, scale, zero_point, low, high);
  }
  return mlf_clamp_i32(fine >> shift, low, high);
}

#endif /* MLF_TILES_H_ */
