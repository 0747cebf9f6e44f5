/* Requantisation without an operation on floats, for processors without FPU. */
#ifndef MLF_REQUANTIZE_H_
#define MLF_REQUANTIZE_H_

#include "kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A positive number of any size, with `exponent` raised by what it was cut to 24 bits; ties to
 * even. */
static inline uint64_t mlf_round_to_24_bits(uint64_t value, int32_t *exponent) {
  const int32_t cut = value >> 24 ? 40 - (int32_t)__builtin_clzll(value) : 0;
  if (cut > 0) {
    const uint64_t half = UINT64_C(1) << (cut - 1);
    const uint64_t rest = value & (2 * half - 1);
    value >>= cut;
    value += rest > half || (rest == half && (value & 1));
    *exponent += cut;
  }
  return value;
}

/* mlf_requantize_wide for processors without FPU: what that rounds three times (to a float, to a
 * product, to an integer), in integers. `scale` is a positive normal number. */
static inline int32_t mlf_requantize_soft(int32_t acc, float scale, int32_t zero_point, int32_t low,
                                          int32_t high) {
  uint32_t bits;
  int32_t exponent, magnitude;
  uint64_t value = acc < 0 ? 0u - (uint32_t)acc : (uint32_t)acc;
  memcpy(&bits, &scale, sizeof bits);
  exponent = (int32_t)(bits >> 23) - 150;
  value = mlf_round_to_24_bits(value, &exponent) * ((bits & 0x7fffffu) | 0x800000u);
  value = mlf_round_to_24_bits(value, &exponent);
  if (exponent >= 0) {
    value = exponent > 5 && value ? 1u << 29 : value << (exponent & 7);
  } else if (exponent < -26) {
    value = 0;
  } else {
    const uint64_t half = UINT64_C(1) << (-exponent - 1);
    const uint64_t rest = value & (2 * half - 1);
    value >>= -exponent;
    value += rest > half || (rest == half && (value & 1));
  }
  magnitude = value > (1u << 29) ? 1 << 29 : (int32_t)value;
  return mlf_clamp_i32((acc < 0 ? -magnitude : magnitude) + zero_point, low, high);
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_REQUANTIZE_H_ */
