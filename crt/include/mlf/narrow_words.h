/* Functions of kernels for ARMv6-M that compute two channels with one multiplication.
 *
 * A word has a weight of each of four channels, plus 128, in its bytes: those of channels 0 and 1
 * in bytes 0 and 2, those of 2 and 3 in bytes 1 and 3. Times an input, bytes 0 and 2 alone are
 * products of channels 0 and 1 that stay apart in the halves of a sum, as in narrow_pairs.h; the
 * word without its first byte makes products of channels 2, 1 and 3, of which the second are known
 * then. What 128 adds is the sum of inputs, once for all channels. */
#ifndef MLF_NARROW_WORDS_H_
#define MLF_NARROW_WORDS_H_

#include "narrow_pairs.h"

#ifdef MLF_NARROW_ASSEMBLY
/* The stack of mlf_words: for each word of channels the sums of halves so far, those of channel 1,
 * the others so far, those of channel 3; a mask; y, k, w and x, the caller's registers, and from 88
 * on the arguments end, form, totals, y_end and rare. */
#define MLF_WORDS_ENTER \
  ".syntax unified\n\tpush {r4, r5, r6, r7, lr}\n\tmov r4, r8\n\tmov r5, r9\n\tmov r6, r10\n\t" \
  "mov r7, r11\n\tpush {r4, r5, r6, r7}\n\tpush {r0, r1, r2, r3}\n\tsub sp, #36\n\t" \
  "movs r7, #255\n\tlsls r0, r7, #16\n\tadds r7, r7, r0\n\tstr r7, [sp, #32]\n"
#define MLF_WORDS_BEGIN \
  "1:\n\tldr r0, [sp, #40]\n\tldmia r0!, {r4, r5, r6, r7}\n\tstr r0, [sp, #40]\n\tmovs r0, #0\n\t" \
  "str r0, [sp]\n\tstr r4, [sp, #4]\n\tstr r0, [sp, #8]\n\tstr r5, [sp, #12]\n\t" \
  "str r0, [sp, #16]\n\tstr r6, [sp, #20]\n\tstr r0, [sp, #24]\n\tstr r7, [sp, #28]\n\t" \
  "mov r8, r0\n\tmov r9, r0\n\tmov r10, r0\n\tmov r11, r0\n\tldr r2, [sp, #44]\n\t" \
  "ldr r3, [sp, #48]\n"
/* A part ends at lr, r12 is the sum of its inputs. */
#define MLF_WORDS_PART \
  "2:\n\tldmia r2!, {r4}\n\tadds r4, r4, r3\n\tmov lr, r4\n\tmovs r0, #0\n\tmov r12, r0\n\t" \
  "ldr r7, [sp, #32]\n"
#define MLF_WORDS_MAC(w, x, even, odd) \
  "movs r0, " w "\n\tands r0, r7\n\tmuls r0, " x "\n\tadd " even ", r0\n\tlsrs " w ", " w \
  ", #8\n\tmuls " w ", " x "\n\tadd " odd ", " w "\n\t"
#define MLF_WORDS_MACS(x) \
  "ldmia r2!, {r4, r5}\n\t" MLF_WORDS_MAC("r4", x, "r8", "r9") MLF_WORDS_MAC("r5", x, "r10", "r11")
#define MLF_WORDS_LOOP \
  "3:\n\tldmia r3!, {r1, r6}\n\tadd r12, r1\n\tadd r12, r6\n\t" MLF_WORDS_MACS("r1") \
      MLF_WORDS_MACS("r6") "cmp r3, lr\n\tbne 3b\n\t"
/* r12 becomes 2^15 less what 128 adds, in both halves, and lr the same with the second channel's.
 */
#define MLF_WORDS_START \
  "mov r4, r12\n\tlsls r4, r4, #7\n\tmovs r0, #1\n\tlsls r0, r0, #15\n\tsubs r0, r0, r4\n\t" \
  "lsls r4, r0, #16\n\tadds r4, r4, r0\n\tmov r12, r4\n\tlsls r0, r0, #8\n\tadds r4, r4, r0\n\t" \
  "mov lr, r4\n\tmov r1, sp\n\tmov r5, sp\n\t"
#define MLF_WORDS_ADD(even, odd) \
  "mov r4, " even \
  "\n\tldmia r1!, {r0, r6}\n\tsubs r0, r4, r0\n\tadd r0, r12\n\tlsrs r0, r0, #16\n" \
  "\tadds r6, r6, r0\n\tstmia r5!, {r4, r6}\n\tlsls r0, r0, #8\n\tmov r4, " odd \
  "\n\tldmia r1!, {r6, r7}\n\tsubs r6, r4, r6\n\tsubs r6, r6, r0\n\tadd r6, lr\n\t" \
  "lsrs r6, r6, #16\n\tadds r7, r7, r6\n\tstmia r5!, {r4, r7}\n\t"
#define MLF_WORDS_ADDS \
  MLF_WORDS_START MLF_WORDS_ADD("r8", "r9") \
      MLF_WORDS_ADD("r10", "r11") "ldr r0, [sp, #88]\n\tcmp r0, r3\n\tbne 2b\n\t"
/* The sums of channels 0 and 2, which were in the lower halves, at their places on the stack. */
#define MLF_WORDS_LOW(even, odd, a, b, at0, at1, at2, at3) \
  "mov r0, " even "\n\tsubs r0, r0, r1\n\tadds " a ", " a ", r0\n\tldr r0, [sp, #" at1 "]\n\t" \
  "lsls r0, r0, #16\n\tsubs " a ", " a ", r0\n\tstr " a ", [sp, #" at0 "]\n\tmov r0, " odd "\n\t" \
  "subs r0, r0, r2\n\tadds " b ", " b ", r0\n\tldr r0, [sp, #" at1 "]\n\tlsls r0, r0, #8\n\t" \
  "subs " b ", " b ", r0\n\tldr r0, [sp, #" at3 "]\n\tlsls r0, r0, #16\n\tsubs " b ", " b \
  ", r0\n\tstr " b ", [sp, #" at2 "]\n\t"
#define MLF_WORDS_FINISH \
  "str r2, [sp, #44]\n\tldr r3, [sp, #40]\n\tldmia r3!, {r4, r5, r6, r7}\n\tldr r0, [sp, #96]\n\t" \
  "ldmia r0!, {r1, r2}\n\t" MLF_WORDS_LOW("r8", "r9", "r4", "r5", "0", "4", "8", "12") \
      MLF_WORDS_LOW("r10", "r11", "r6", "r7", "16", "20", "24", \
                    "28") "ldr r7, [sp, #36]\n\tldr r0, [sp, #92]\n\tldmia r0!, {r2, r4, r5, " \
                          "r6}\n\tmov r9, r4\n\t" \
                          "mov r10, r5\n\tldr r0, [sp, #104]\n\tmov r8, r0\n\t"
/* A channel with a negative multiplier only stores its sum. */
#define MLF_WORDS_OUT(at) \
  "pop {r4}\n\tldmia r3!, {r0, r1}\n\tasrs r5, r0, #16\n\tbpl 4f\n\tmov r0, r8\n\t" \
  "stmia r0!, {r4}\n\tmov r8, r0\n\tb 6f\n4:\n\tuxth r0, r0\n\tmuls r0, r4\n\tasrs r0, r6\n\t" \
  "muls r5, r4\n\tadds r5, r5, r0\n\tadds r5, r5, r1\n\tasrs r5, r2\n\tcmp r5, r9\n\tbge 5f\n\t" \
  "mov r5, r9\n5:\n\tcmp r5, r10\n\tble 5f\n\tmov r5, r10\n5:\n\tstrb r5, [r7, #" at "]\n6:\n\t"
#define MLF_WORDS_OUTS \
  MLF_WORDS_OUT("0") \
  MLF_WORDS_OUT("1") \
  MLF_WORDS_OUT("2") \
  MLF_WORDS_OUT("3") MLF_WORDS_OUT("4") MLF_WORDS_OUT("5") MLF_WORDS_OUT("6") MLF_WORDS_OUT("7")
#define MLF_WORDS_LEAVE \
  "sub sp, #32\n\tstr r3, [sp, #40]\n\tmov r0, r8\n\tstr r0, [sp, #104]\n\tadds r7, #8\n\t" \
  "str r7, [sp, #36]\n\tldr r0, [sp, #100]\n\tcmp r7, r0\n\tbeq 8f\n\tb 1b\n8:\n\tadd sp, " \
  "#52\n\t" MLF_NARROW_LEAVE
#endif

/* One pixel's outputs, requantised, in blocks of eight channels up to `y_end`. x has signed inputs
 * up to `end`, an even number of them. w has parts of a block's weights, each after four times the
 * number of its inputs: two words for each. k has for a block, with n the number of its parts, u
 * the sums of channels 1, 3, 5 and 7 to begin with, their biases less n * 2^15; what remains of the
 * biases when the other sums are taken out of words, for channels 0, 2, 4 and 6; a multiplier and
 * an addend for each channel. totals: 128 times the sum of inputs, times 0x10001 and 0x10101. form
 * and rare are those of mlf_eights. */
#ifdef MLF_NARROW_ASSEMBLY
MLF_NARROW_ASSEMBLY void mlf_words(uint8_t *y MLF_TAKEN, const int32_t *k MLF_TAKEN,
                                   const uint32_t *w MLF_TAKEN, const int32_t *x MLF_TAKEN,
                                   const int32_t *end MLF_TAKEN, const int32_t *form MLF_TAKEN,
                                   const uint32_t *totals MLF_TAKEN, const uint8_t *y_end MLF_TAKEN,
                                   uint32_t *rare MLF_TAKEN) {
  __asm__(MLF_WORDS_ENTER MLF_WORDS_BEGIN MLF_WORDS_PART MLF_WORDS_LOOP MLF_WORDS_ADDS
              MLF_WORDS_FINISH MLF_WORDS_OUTS MLF_WORDS_LEAVE);
}
#else
MLF_NARROW_CALL void mlf_words(uint8_t *y, const int32_t *k, const uint32_t *w, const int32_t *x,
                               const int32_t *end, const int32_t *form, const uint32_t *totals,
                               const uint8_t *y_end, uint32_t *rare) {
  (void)totals;
  for (; y != y_end; y += 8, k += 24) {
    uint32_t sums[8] = {0}, parts = 0;
    for (const int32_t *at = x; at != end; parts++) {
      for (uint32_t left = *w++; left > 0; left -= 4, at++) {
        for (int32_t j = 0; j < 8; j++) {
          const uint32_t byte = w[j / 4] >> (j % 2 * 16 + j / 2 % 2 * 8) & 255u;
          sums[j] += (byte - 128u) * (uint32_t)*at;
        }
        w += 2;
      }
    }
    for (int32_t j = 0; j < 2; j++) {
      const uint32_t one = (uint32_t)k[2 * j] + (parts << 15);
      const uint32_t three = (uint32_t)k[2 * j + 1] + (parts << 15);
      sums[4 * j] += (uint32_t)k[2 * j + 4] - (one << 16);
      sums[4 * j + 1] += one;
      sums[4 * j + 2] += (uint32_t)k[2 * j + 5] - (one << 8) - (three << 16);
      sums[4 * j + 3] += three;
    }
    for (int32_t j = 0; j < 8; j++) {
      const int32_t m = k[2 * j + 8], add = k[2 * j + 9];
      if (m < 0) {
        *rare++ = sums[j];
      } else {
        y[j] = (uint8_t)mlf_requantize_parts((int32_t)sums[j], m, add, form[3], form[0], form[1],
                                             form[2]);
      }
    }
  }
}
#endif

/* to[i] is byte from[i], less what makes it signed; returns their sum. */
#define MLF_DEFINE_TAKE_WORDS(name, type, zero) \
  MLF_NARROW_CALL uint32_t name(int32_t *to, const type *from, int32_t count) { \
    uint32_t sum = 0; \
    for (int32_t i = 0; i < count; i++) { \
      const int32_t value = from[i] - zero; \
      to[i] = value; \
      sum += (uint32_t)value; \
    } \
    return sum; \
  }
MLF_DEFINE_TAKE_WORDS(mlf_take_words_s8, int8_t, 0)
MLF_DEFINE_TAKE_WORDS(mlf_take_words_u8, uint8_t, 128)

#endif /* MLF_NARROW_WORDS_H_ */
