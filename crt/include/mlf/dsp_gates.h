/* Products of two tensors of bytes with the ARMv7E-M DSP instructions, four elements at a time. */
#ifndef MLF_DSP_GATES_H_
#define MLF_DSP_GATES_H_

#include "dsp.h"

#ifdef __cplusplus
extern "C" {
#endif

#if MLF_DSP

/* Bytes 0 and 2 of x, sign-extended, plus the halfwords of `more`. */
static inline uint32_t mlf_sxtab16(uint32_t more, uint32_t x) {
  uint32_t y;
  __asm__("sxtab16 %0, %1, %2" : "=r"(y) : "r"(more), "r"(x));
  return y;
}

/* The same of bytes 1 and 3. */
static inline uint32_t mlf_sxtab16_ror8(uint32_t more, uint32_t x) {
  uint32_t y;
  __asm__("sxtab16 %0, %1, %2, ror #8" : "=r"(y) : "r"(more), "r"(x));
  return y;
}

/* The product of the lower halfwords. */
static inline int32_t mlf_smulbb(uint32_t a, uint32_t b) {
  int32_t y;
  __asm__("smulbb %0, %1, %2" : "=r"(y) : "r"(a), "r"(b));
  return y;
}

/* That of the upper ones. */
static inline int32_t mlf_smultt(uint32_t a, uint32_t b) {
  int32_t y;
  __asm__("smultt %0, %1, %2" : "=r"(y) : "r"(a), "r"(b));
  return y;
}

#else

static inline uint32_t mlf_sxtab16(uint32_t more, uint32_t x) {
  const uint32_t y = mlf_sxtb16(x);
  return ((more & 0xffff0000u) + (y & 0xffff0000u)) | ((more + y) & 0xffffu);
}

static inline uint32_t mlf_sxtab16_ror8(uint32_t more, uint32_t x) {
  const uint32_t y = mlf_sxtb16_ror8(x);
  return ((more & 0xffff0000u) + (y & 0xffff0000u)) | ((more + y) & 0xffffu);
}

static inline int32_t mlf_smulbb(uint32_t a, uint32_t b) {
  return (int16_t)(a & 0xffffu) * (int16_t)(b & 0xffffu);
}

static inline int32_t mlf_smultt(uint32_t a, uint32_t b) {
  return (int16_t)(a >> 16) * (int16_t)(b >> 16);
}

#endif

/* Whether some byte of a is that of `of_a` where the byte of b is that of `of_b`. */
static inline bool mlf_has_pair(uint32_t a, uint32_t b, uint32_t of_a, uint32_t of_b) {
  const uint32_t differs = (a ^ of_a) | (b ^ of_b);
  return ((differs - 0x01010101u) & ~differs & 0x80808080u) != 0;
}

/* t[k] = ((a + more) * (b + other) * 2^14 * m >> 32) + add of byte k of each; `more` and `other`
 * are halfwords, the same in both halves. */
static inline void mlf_gate4(uint32_t a, uint32_t more, uint32_t b, uint32_t other, int32_t m,
                             int32_t add, int32_t *t) {
  const uint32_t even_a = mlf_sxtab16(more, a), odd_a = mlf_sxtab16_ror8(more, a);
  const uint32_t even_b = mlf_sxtab16(other, b), odd_b = mlf_sxtab16_ror8(other, b);
  t[0] = mlf_multiply_high(mlf_smulbb(even_a, even_b) * 16384, m, add);
  t[1] = mlf_multiply_high(mlf_smulbb(odd_a, odd_b) * 16384, m, add);
  t[2] = mlf_multiply_high(mlf_smultt(even_a, even_b) * 16384, m, add);
  t[3] = mlf_multiply_high(mlf_smultt(odd_a, odd_b) * 16384, m, add);
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_DSP_GATES_H_ */
