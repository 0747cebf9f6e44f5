/* The ARMv7E-M DSP instructions that int8 kernels use, with plain C for every other processor, so
 * that sources generated for a Cortex-M4 compile, and give the same bits, anywhere. */
#ifndef MLF_DSP_H_
#define MLF_DSP_H_

#include "kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Four bytes, little-endian order in memory kept; `from` need not be aligned. */
static inline uint32_t mlf_load32(const void *from) {
  uint32_t word;
  memcpy(&word, from, sizeof word);
  return word;
}

/* n bytes from `from`, sign-extended, to `to`. */
static inline void mlf_widen_s8(const int8_t *from, int16_t *to, int32_t n) {
  for (int32_t i = 0; i < n; i++) {
    to[i] = from[i];
  }
}

#if defined(__ARM_FEATURE_DSP) && __ARM_FEATURE_DSP && !defined(MLF_PORTABLE_DSP)

/* Bytes 0 and 2, sign-extended to halfwords. */
static inline uint32_t mlf_sxtb16(uint32_t x) {
  uint32_t y;
  __asm__("sxtb16 %0, %1" : "=r"(y) : "r"(x));
  return y;
}

/* Bytes 1 and 3, sign-extended to halfwords. */
static inline uint32_t mlf_sxtb16_ror8(uint32_t x) {
  uint32_t y;
  __asm__("sxtb16 %0, %1, ror #8" : "=r"(y) : "r"(x));
  return y;
}

/* acc + the products of the low and of the high halfwords. */
static inline int32_t mlf_smlad(uint32_t x, uint32_t y, int32_t acc) {
  int32_t sum;
  __asm__("smlad %0, %1, %2, %3" : "=r"(sum) : "r"(x), "r"(y), "r"(acc));
  return sum;
}

#else

/* The byte of x at bit `shift`, sign-extended to 16 bits. */
static inline uint32_t mlf_sign_extended_(uint32_t x, uint32_t shift) {
  return (uint32_t)(uint16_t)(int16_t)(int8_t)(uint8_t)(x >> shift);
}

static inline uint32_t mlf_sxtb16(uint32_t x) {
  return mlf_sign_extended_(x, 0) | mlf_sign_extended_(x, 16) << 16;
}

static inline uint32_t mlf_sxtb16_ror8(uint32_t x) {
  return mlf_sign_extended_(x, 8) | mlf_sign_extended_(x, 24) << 16;
}

static inline int32_t mlf_smlad(uint32_t x, uint32_t y, int32_t acc) {
  const int32_t low = (int32_t)(int16_t)(uint16_t)x * (int32_t)(int16_t)(uint16_t)y;
  const int32_t high =
      (int32_t)(int16_t)(uint16_t)(x >> 16) * (int32_t)(int16_t)(uint16_t)(y >> 16);
  return acc + low + high;
}

#endif

#ifdef __cplusplus
}
#endif

#endif /* MLF_DSP_H_ */
