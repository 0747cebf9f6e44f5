/* Functions of kernels for ARMv6-M that compute two pixels with one multiplication.
 *
 * A word holds a byte of each of two pixels, a + b * 2^16, and times a weight the products of both.
 * Their sums stay apart as long as that of the lower half is within 16 bits, so a channel's weights
 * are cut into parts whose magnitudes add up to 255 at most. Each part starts from 2^15 in both
 * halves, which keeps them positive. Afterwards its upper half is added to one sum and the whole
 * word, modulo 2^32, to another; the sum of lower halves is the difference. */
#ifndef MLF_NARROW_PAIRS_H_
#define MLF_NARROW_PAIRS_H_

#include "narrow.h"

#ifdef MLF_NARROW_ASSEMBLY
/* The stack of mlf_eights: a total and an upper sum for each pair, y, k, w and x, the caller's
 * registers, and from 84 on the arguments end, form, stride, y_end and rare. lr is `end`, r12 what
 * parts start from. */
#define MLF_EIGHTS_ENTER \
  ".syntax unified\n\tpush {r4, r5, r6, r7, lr}\n\tmov r4, r8\n\tmov r5, r9\n\tmov r6, r10\n\t" \
  "mov r7, r11\n\tpush {r4, r5, r6, r7}\n\tpush {r0, r1, r2, r3}\n\tsub sp, #32\n\t" \
  "ldr r4, [sp, #84]\n\tmov lr, r4\n\tmovs r4, #128\n\tlsls r4, r4, #8\n\tlsls r5, r4, #16\n\t" \
  "adds r4, r4, r5\n\tmov r12, r4\n"
/* A channel: r0 is less than zero by the weights that are left of a part, which end at r2. */
#define MLF_EIGHTS_BEGIN \
  "1:\n\tldr r1, [sp, #36]\n\tldr r5, [r1]\n\tlsls r4, r5, #16\n\tadds r4, r4, r5\n\tmov r0, " \
  "sp\n\t" \
  "stmia r0!, {r4, r5}\n\tstmia r0!, {r4, r5}\n\tstmia r0!, {r4, r5}\n\tstmia r0!, {r4, r5}\n\t" \
  "ldr r2, [sp, #40]\n\tldr r3, [sp, #44]\n\tmov r8, r12\n\tmov r9, r12\n\tmov r10, r12\n\t" \
  "mov r11, r12\n\tmovs r0, #0\n"
#define MLF_EIGHTS_MAC(x, sum) "muls " x ", r1\n\tadd " sum ", " x "\n\t"
#define MLF_EIGHTS_PART \
  "2:\n\tldrsb r0, [r2, r0]\n\tsubs r2, r2, r0\n\tadds r2, #1\n" \
  "3:\n\tldrsb r1, [r2, r0]\n\tldmia r3!, {r4, r5, r6, r7}\n\t" MLF_EIGHTS_MAC("r4", "r8") \
      MLF_EIGHTS_MAC("r5", "r9") MLF_EIGHTS_MAC("r6", "r10") \
          MLF_EIGHTS_MAC("r7", "r11") "adds r0, #1\n\tbne 3b\n\tmov r1, sp\n\tmov r5, sp\n\t"
#define MLF_EIGHTS_ADD(sum) \
  "mov r4, " sum "\n\tmov " sum ", r12\n\tldmia r1!, {r6, r7}\n\tadds r6, r6, r4\n\t" \
  "lsrs r4, r4, #16\n\tadds r7, r7, r4\n\tstmia r5!, {r6, r7}\n\t"
#define MLF_EIGHTS_ADDS \
  MLF_EIGHTS_ADD("r8") \
  MLF_EIGHTS_ADD("r9") MLF_EIGHTS_ADD("r10") MLF_EIGHTS_ADD("r11") "cmp r3, lr\n\tbne 2b\n\t"
/* r1 and r2 are the multiplier's parts, r3 the shift, r6 is y, r7 the bits of the lower part; r8 is
 * the addend, r9 and r10 the limits, r11 the stride. */
#define MLF_EIGHTS_FORM \
  "str r2, [sp, #40]\n\tldr r0, [sp, #36]\n\tldmia r0!, {r4, r5, r6}\n\tstr r0, [sp, #36]\n\t" \
  "mov r8, r6\n\tldr r6, [sp, #32]\n\tasrs r1, r5, #16\n\tbpl 4f\n\tb 7f\n4:\n\tuxth r2, r5\n\t" \
  "ldr r0, [sp, #88]\n\tldmia r0!, {r3, r4, r5, r7}\n\tmov r9, r4\n\tmov r10, r5\n\t" \
  "ldr r4, [sp, #92]\n\tmov r11, r4\n\t"
#define MLF_EIGHTS_PAIR "pop {r4, r5}\n\tlsls r0, r5, #16\n\tsubs r4, r4, r0\n\t"
#define MLF_EIGHTS_OUT(acc) \
  "mov r0, " acc "\n\tmuls r0, r2\n\tasrs r0, r7\n\tmuls " acc ", r1\n\tadds " acc ", " acc \
  ", r0\n\tadd " acc ", r8\n\tasrs " acc ", r3\n\tcmp " acc ", r9\n\tbge 5f\n\tmov " acc \
  ", r9\n5:\n\tcmp " acc ", r10\n\tble 5f\n\tmov " acc ", r10\n5:\n\tstrb " acc \
  ", [r6]\n\tadd r6, r11\n\t"
#define MLF_EIGHTS_OUTS MLF_EIGHTS_PAIR MLF_EIGHTS_OUT("r4") MLF_EIGHTS_OUT("r5")
#define MLF_EIGHTS_KEEP MLF_EIGHTS_PAIR "stmia r3!, {r4, r5}\n\t"
#define MLF_EIGHTS_LEAVE \
  "6:\n\tsub sp, #32\n\tldr r6, [sp, #32]\n\tadds r6, #1\n\tstr r6, [sp, #32]\n\t" \
  "ldr r7, [sp, #96]\n\tcmp r6, r7\n\tbeq 8f\n\tb 1b\n" \
  "7:\n\tldr r3, [sp, #100]\n\t" MLF_EIGHTS_KEEP MLF_EIGHTS_KEEP MLF_EIGHTS_KEEP MLF_EIGHTS_KEEP \
  "str r3, [sp, #68]\n\tb 6b\n8:\n\tadd sp, #48\n\t" MLF_NARROW_LEAVE
#endif

/* mlf_requantize in integers: the compiler chose the multiplier, whose parts are m >> 16 and the
 * lower half, the latter's `bits`, add and shift such that results are equal. */
static inline int32_t mlf_requantize_parts(int32_t acc, int32_t m, int32_t add, int32_t bits,
                                           int32_t shift, int32_t low, int32_t high) {
  const uint32_t upper = (uint32_t)acc * (uint32_t)(m >> 16) + (uint32_t)add;
  const int32_t lower = acc * (int32_t)((uint32_t)m & 0xffffu) >> bits;
  return mlf_clamp_i32((int32_t)(upper + (uint32_t)lower) >> shift, low, high);
}

/* Eight pixels' outputs of the channels up to `y_end`, requantised: pixel i of a channel is at
 * y[i * stride]. x up to `end` has four words of pairs for each product of a channel. w has parts
 * of a channel's weights, each after the negated number of its weights, all parts together as many
 * as products. k has three numbers of a channel, its bias less 2^15 for each part, its multiplier
 * and its addend; form is shift, limits of the output, and bits. A channel whose multiplier is
 * negative has no output, but its eight sums are the next of `rare`. */
#ifdef MLF_NARROW_ASSEMBLY
MLF_NARROW_ASSEMBLY void mlf_eights(uint8_t *y MLF_TAKEN, const int32_t *k MLF_TAKEN,
                                    const int8_t *w MLF_TAKEN, const uint32_t *x MLF_TAKEN,
                                    const uint32_t *end MLF_TAKEN, const int32_t *form MLF_TAKEN,
                                    int32_t stride MLF_TAKEN, const uint8_t *y_end MLF_TAKEN,
                                    uint32_t *rare MLF_TAKEN) {
  __asm__(MLF_EIGHTS_ENTER MLF_EIGHTS_BEGIN MLF_EIGHTS_PART MLF_EIGHTS_ADDS MLF_EIGHTS_FORM
              MLF_EIGHTS_OUTS MLF_EIGHTS_OUTS MLF_EIGHTS_OUTS MLF_EIGHTS_OUTS MLF_EIGHTS_LEAVE);
}
#else
MLF_NARROW_CALL void mlf_eights(uint8_t *y, const int32_t *k, const int8_t *w, const uint32_t *x,
                                const uint32_t *end, const int32_t *form, int32_t stride,
                                const uint8_t *y_end, uint32_t *rare) {
  for (; y != y_end; y++, k += 3) {
    uint32_t totals[4], uppers[4];
    for (int32_t j = 0; j < 4; j++) {
      uppers[j] = (uint32_t)k[0];
      totals[j] = (uint32_t)k[0] * 0x10001u;
    }
    for (const uint32_t *at = x; at != end;) {
      uint32_t sums[4] = {0x80008000u, 0x80008000u, 0x80008000u, 0x80008000u};
      for (int32_t left = *w++; left < 0; left++, w++, at += 4) {
        const int32_t weight = *w;
        for (int32_t j = 0; j < 4; j++) {
          sums[j] += at[j] * (uint32_t)weight;
        }
      }
      for (int32_t j = 0; j < 4; j++) {
        totals[j] += sums[j];
        uppers[j] += sums[j] >> 16;
      }
    }
    for (int32_t i = 0; i < 8; i++) {
      const int32_t j = i / 2;
      const uint32_t acc = i % 2 ? uppers[j] : totals[j] - (uppers[j] << 16);
      if (k[1] < 0) {
        *rare++ = acc;
      } else {
        y[i * stride] = (uint8_t)mlf_requantize_parts((int32_t)acc, k[1], k[2], form[3], form[0],
                                                      form[1], form[2]);
      }
    }
  }
}
#endif

/* to[4 * i] is the pair of bytes a[i] and b[i], less what makes them signed. */
#define MLF_DEFINE_PAIR_BYTES(name, type, zero) \
  MLF_NARROW_CALL void name(uint32_t *to, const type *a, const type *b, int32_t count) { \
    for (; count >= 4; count -= 4, a += 4, b += 4, to += 16) { \
      to[0] = (uint32_t)(a[0] - zero) + ((uint32_t)(b[0] - zero) << 16); \
      to[4] = (uint32_t)(a[1] - zero) + ((uint32_t)(b[1] - zero) << 16); \
      to[8] = (uint32_t)(a[2] - zero) + ((uint32_t)(b[2] - zero) << 16); \
      to[12] = (uint32_t)(a[3] - zero) + ((uint32_t)(b[3] - zero) << 16); \
    } \
    for (; count > 0; count--, to += 4) { \
      *to = (uint32_t)(*a++ - zero) + ((uint32_t)(*b++ - zero) << 16); \
    } \
  }
MLF_DEFINE_PAIR_BYTES(mlf_pair_s8, int8_t, 0)
MLF_DEFINE_PAIR_BYTES(mlf_pair_u8, uint8_t, 128)

#endif /* MLF_NARROW_PAIRS_H_ */
