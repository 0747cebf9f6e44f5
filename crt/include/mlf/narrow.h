/* Functions of kernels for ARMv6-M: sums of products of bytes, and the bytes for them.
 *
 * There only eight registers can be loaded and multiplied, but an addition reaches all: so five of
 * eight sums lie where nothing else is of use. Compilers do not see that, hence functions that are
 * assembly from their first instruction on; elsewhere they are C. Factors that change fastest are
 * unsigned, because only such bytes are loaded at a constant distance from a pointer. */
#ifndef MLF_NARROW_H_
#define MLF_NARROW_H_

#include "requantize.h"
#include "rescale.h"

/* Without optimisation compilers keep unused functions, unless they are inline. */
#if defined(__ARM_ARCH_6M__) && defined(__OPTIMIZE__) && !defined(MLF_PORTABLE_NARROW)
#if defined(__clang__)
#define MLF_NARROW_ASSEMBLY static __attribute__((naked, noinline, unused))
#elif __GNUC__ >= 8
#define MLF_NARROW_ASSEMBLY static __attribute__((naked, noipa, unused))
#endif
#endif
#if defined(__GNUC__) && defined(__OPTIMIZE__)
#define MLF_NARROW_CALL static __attribute__((noinline, unused))
#else
#define MLF_NARROW_CALL static inline
#endif

#ifdef MLF_NARROW_ASSEMBLY
#define MLF_TAKEN __attribute__((unused)) /* by the assembly */
/* All that follows is text of constants. r0 is free, r1 the common factor of the products, r2 where
 * bytes are read; sums are in r8 to r12 and r4 to r6. */
#define MLF_MAC(sum, at) "ldrb r0, [r2, #" at "]\n\tmuls r0, r1\n\tadd " sum ", r0\n\t"
/* The first n sums; `at` is the place of the first byte, `step` the distance to the next. */
#define MLF_MACS_1(at, step) MLF_MAC("r8", at)
#define MLF_MACS_2(at, step) MLF_MACS_1(at, step) MLF_MAC("r9", at "+" step)
#define MLF_MACS_3(at, step) MLF_MACS_2(at, step) MLF_MAC("r10", at "+2*" step)
#define MLF_MACS_4(at, step) MLF_MACS_3(at, step) MLF_MAC("r11", at "+3*" step)
#define MLF_MACS_5(at, step) MLF_MACS_4(at, step) MLF_MAC("r12", at "+4*" step)
#define MLF_MACS_6(at, step) MLF_MACS_5(at, step) MLF_MAC("r4", at "+5*" step)
#define MLF_MACS_7(at, step) MLF_MACS_6(at, step) MLF_MAC("r5", at "+6*" step)
#define MLF_MACS_8(at, step) MLF_MACS_7(at, step) MLF_MAC("r6", at "+7*" step)
/* They are stored at r0. */
#define MLF_PUT(sum) "mov r1, " sum "\n\tstmia r0!, {r1}\n\t"
#define MLF_PUTS_1   MLF_PUT("r8")
#define MLF_PUTS_2   MLF_PUTS_1 MLF_PUT("r9")
#define MLF_PUTS_3   MLF_PUTS_2 MLF_PUT("r10")
#define MLF_PUTS_4   MLF_PUTS_3 MLF_PUT("r11")
#define MLF_PUTS_5   MLF_PUTS_4 MLF_PUT("r12")
#define MLF_PUTS_6   MLF_PUTS_5 "stmia r0!, {r4}\n\t"
#define MLF_PUTS_7   MLF_PUTS_5 "stmia r0!, {r4, r5}\n\t"
#define MLF_PUTS_8   MLF_PUTS_5 "stmia r0!, {r4, r5, r6}\n\t"
/* Around all of them; 40 bytes of stack, the first word being r0. */
#define MLF_NARROW_ENTER \
  ".syntax unified\n\tpush {r4, r5, r6, r7, lr}\n\tmov r4, r8\n\tmov r5, r9\n\tmov r6, r10\n\t" \
  "mov r7, r11\n\tpush {r0, r4, r5, r6, r7}\n\t"
#define MLF_NARROW_LEAVE \
  "pop {r4, r5, r6, r7}\n\tmov r8, r4\n\tmov r9, r5\n\tmov r10, r6\n\tmov r11, r7\n\t" \
  "pop {r4, r5, r6, r7, pc}\n\t"
/* Products of the bytes at r3, each with the weights at r2, 32 of which make a round: conditional
 * branches reach 256 bytes. */
#define MLF_DOT(n, k, at)   "ldrb r1, [r3, #" k "]\n\t" MLF_MACS_##n(at, "1")
#define MLF_DOT_NEXT(count) "adds r2, #32\n\tadds r3, #" count "\n\tcmp r3, r7\n\tbne 2b\n\t"
#define MLF_DOT_LOOP_8 \
  "2:\n\t" MLF_DOT(8, "0", "0") MLF_DOT(8, "1", "8") MLF_DOT(8, "2", "16") MLF_DOT(8, "3", "24") \
      MLF_DOT_NEXT("4")
#define MLF_DOT_LOOP_4 \
  "2:\n\t" MLF_DOT(4, "0", "0") MLF_DOT(4, "1", "4") MLF_DOT(4, "2", "8") MLF_DOT(4, "3", "12") \
      MLF_DOT(4, "4", "16") MLF_DOT(4, "5", "20") MLF_DOT(4, "6", "24") MLF_DOT(4, "7", "28") \
          MLF_DOT_NEXT("8")
/* The stack of mlf_pixel: three sums, y, k, w and x, the caller's registers, and from 64 on the
 * arguments end, form, more, y_end and rare. Before a block lr is `more`, which all its sums get.
 */
#define MLF_PIXEL_ENTER \
  ".syntax unified\n\tpush {r4, r5, r6, r7, lr}\n\tmov r4, r8\n\tmov r5, r9\n\tmov r6, r10\n\t" \
  "mov r7, r11\n\tpush {r4, r5, r6, r7}\n\tpush {r0, r1, r2, r3}\n\tsub sp, #12\n" \
  "1:\n\tldr r0, [sp, #72]\n\tmov lr, r0\n\tldr r1, [sp, #16]\n\tldmia r1!, {r4, r5, r6, r7}\n\t" \
  "add r4, lr\n\tmov r8, r4\n\tadd r5, lr\n\tmov r9, r5\n\tadd r6, lr\n\tmov r10, r6\n\t" \
  "add r7, lr\n\tmov r11, r7\n\t"
#define MLF_PIXEL_MORE \
  "ldmia r1!, {r0, r4, r5, r6}\n\tadd r0, lr\n\tmov r12, r0\n\tadd r4, lr\n\tadd r5, lr\n\t" \
  "add r6, lr\n\t"
#define MLF_PIXEL_BEGIN \
  "str r1, [sp, #16]\n\tldr r2, [sp, #20]\n\tldr r3, [sp, #24]\n\tldr r7, [sp, #64]\n"
/* Then r0 is y, r1 k, r2 the shift, lr the low limit and r7 the high one. */
#define MLF_PIXEL_FINISH \
  "str r2, [sp, #20]\n\tldr r0, [sp, #12]\n\tldr r1, [sp, #16]\n\tldr r3, [sp, #68]\n\t"
#define MLF_PIXEL_FORM "ldmia r3!, {r2, r4, r7}\n\tmov lr, r4\n\t"
/* mlf_multiply_halves of r3, and the rest of mlf_requantize_halves. A channel with a negative
 * multiplier only stores its sum. */
#define MLF_PIXEL_OUT(get, at) \
  get "ldmia r1!, {r4, r5}\n\tuxth r6, r4\n\tasrs r4, r4, #16\n\tbpl 4f\n\t" \
      "ldr r4, [sp, #80]\n\tstmia r4!, {r3}\n\tstr r4, [sp, #80]\n\tb 6f\n" \
      "4:\n\tmuls r4, r3\n\tadds r5, r4\n\tuxth r4, r3\n\tmuls r4, r6\n\tlsrs r4, r4, #16\n\t" \
      "adds r5, r4\n\tasrs r3, r3, #16\n\tmuls r3, r6\n\tadds r5, r3\n\tasrs r5, r2\n\t" \
      "cmp r5, lr\n\tbge 5f\n\tmov r5, lr\n5:\n\tcmp r5, r7\n\tble 5f\n\tmov r5, r7\n" \
      "5:\n\tstrb r5, [r0, #" at "]\n6:\n\t"
#define MLF_PIXEL_OUTS \
  MLF_PIXEL_OUT("mov r3, r8\n\t", "0") \
  MLF_PIXEL_OUT("mov r3, r9\n\t", "1") \
  MLF_PIXEL_OUT("mov r3, r10\n\t", "2") MLF_PIXEL_OUT("mov r3, r11\n\t", "3")
#define MLF_PIXEL_OUTS_MORE \
  MLF_PIXEL_OUT("mov r3, r12\n\t", "4") \
  MLF_PIXEL_OUT("ldr r3, [sp]\n\t", "5") \
  MLF_PIXEL_OUT("ldr r3, [sp, #4]\n\t", "6") MLF_PIXEL_OUT("ldr r3, [sp, #8]\n\t", "7")
#define MLF_PIXEL_LEAVE(count) \
  "str r1, [sp, #16]\n\tadds r0, #" count "\n\tstr r0, [sp, #12]\n\tldr r1, [sp, #76]\n\t" \
  "cmp r0, r1\n\tbeq 3f\n\tb 1b\n3:\n\tadd sp, #28\n\t" MLF_NARROW_LEAVE
#define MLF_PIXEL_ASSEMBLY_8 \
  MLF_PIXEL_ENTER MLF_PIXEL_MORE MLF_PIXEL_BEGIN MLF_DOT_LOOP_8 MLF_PIXEL_FINISH \
      "str r4, [sp]\n\tstr r5, [sp, #4]\n\tstr r6, [sp, #8]\n\t" MLF_PIXEL_FORM MLF_PIXEL_OUTS \
          MLF_PIXEL_OUTS_MORE MLF_PIXEL_LEAVE("8")
#define MLF_PIXEL_ASSEMBLY_4 \
  MLF_PIXEL_ENTER MLF_PIXEL_BEGIN MLF_DOT_LOOP_4 MLF_PIXEL_FINISH MLF_PIXEL_FORM MLF_PIXEL_OUTS \
      MLF_PIXEL_LEAVE("4")
#endif

/* floor(a * m / 2^16) where that is within 31 bits; m is positive. */
static inline int32_t mlf_multiply_halves(int32_t a, int32_t m) {
  const uint32_t low = (uint32_t)m & 0xffffu;
  const uint32_t least = ((uint32_t)a & 0xffffu) * low;
  return a * (m >> 16) + (a >> 16) * (int32_t)low + (int32_t)(least >> 16);
}

/* mlf_requantize in integers: the compiler chose m, add and shift such that results are equal. */
static inline int32_t mlf_requantize_halves(int32_t acc, int32_t m, int32_t add, int32_t shift,
                                            int32_t low, int32_t high) {
  return mlf_clamp_i32((mlf_multiply_halves(acc, m) + add) >> shift, low, high);
}

/* One pixel's outputs, requantised, in blocks of eight or four channels up to `y_end`. `k` has a
 * block's biases, to which `more` is added, then a multiplier and an addend for each channel; x up
 * to `end` is a multiple of 4, or of 8 for blocks of four, and w has a block's weights for each x.
 * form: shift and limits of the output. A channel whose multiplier is negative has no output, but
 * its sum is the next of `rare`. */
#ifdef MLF_NARROW_ASSEMBLY
#define MLF_DEFINE_PIXEL(n) \
  MLF_NARROW_ASSEMBLY void mlf_pixel_##n( \
      uint8_t *y MLF_TAKEN, const int32_t *k MLF_TAKEN, const uint8_t *w MLF_TAKEN, \
      const uint8_t *x MLF_TAKEN, const uint8_t *end MLF_TAKEN, const int32_t *form MLF_TAKEN, \
      uint32_t more MLF_TAKEN, const uint8_t *y_end MLF_TAKEN, uint32_t *rare MLF_TAKEN) { \
    __asm__(MLF_PIXEL_ASSEMBLY_##n); \
  }
#else
#define MLF_DEFINE_PIXEL(n) \
  MLF_NARROW_CALL void mlf_pixel_##n(uint8_t *y, const int32_t *k, const uint8_t *w, \
                                     const uint8_t *x, const uint8_t *end, const int32_t *form, \
                                     uint32_t more, const uint8_t *y_end, uint32_t *rare) { \
    for (; y != y_end; y += n, k += 3 * n) { \
      uint32_t sums[n]; \
      for (int32_t j = 0; j < n; j++) { \
        sums[j] = (uint32_t)k[j] + more; \
      } \
      for (const uint8_t *at = x; at != end; at++, w += n) { \
        for (int32_t j = 0; j < n; j++) { \
          sums[j] += (uint32_t)*at * w[j]; \
        } \
      } \
      for (int32_t j = 0; j < n; j++) { \
        const int32_t m = k[n + 2 * j], add = k[n + 2 * j + 1]; \
        if (m < 0) { \
          *rare++ = sums[j]; \
        } else { \
          y[j] = \
              (uint8_t)mlf_requantize_halves((int32_t)sums[j], m, add, form[0], form[1], form[2]); \
        } \
      } \
    } \
  }
#endif
MLF_DEFINE_PIXEL(8)
MLF_DEFINE_PIXEL(4)

/* sums[i] = bias + the sum of w[t] * x[i * step + t % row + t / row * pitch] for all t before
 * `end`, `row` being 1 to 5: neighbouring outputs of a depthwise convolution. */
#ifdef MLF_NARROW_ASSEMBLY
#define MLF_TAP(n, step, k) "movs r1, #" k "\n\tldrsb r1, [r3, r1]\n\t" MLF_MACS_##n(k, step)
#define MLF_TAPS_1(n, step) MLF_TAP(n, step, "0")
#define MLF_TAPS_2(n, step) MLF_TAPS_1(n, step) MLF_TAP(n, step, "1")
#define MLF_TAPS_3(n, step) MLF_TAPS_2(n, step) MLF_TAP(n, step, "2")
#define MLF_TAPS_4(n, step) MLF_TAPS_3(n, step) MLF_TAP(n, step, "3")
#define MLF_TAPS_5(n, step) MLF_TAPS_4(n, step) MLF_TAP(n, step, "4")
#define MLF_TAPS_BEGIN \
  "ldr r4, [sp, #40]\n\tmov lr, r4\n\tldr r7, [sp, #44]\n\tmov r8, r1\n\tmov r9, r1\n\t" \
  "mov r10, r1\n\tmov r11, r1\n\tmov r12, r1\n\tmov r4, r1\n\tmov r5, r1\n\tmov r6, r1\n1:\n\t"
#define MLF_TAPS_END(row) "adds r3, #" row "\n\tadd r2, r7\n\tcmp r3, lr\n\tbne 1b\n\tpop {r0}\n\t"
#define MLF_DEFINE_TAPS(row, n, step) \
  MLF_NARROW_ASSEMBLY void mlf_taps_##row##_##n##_##step( \
      uint32_t *sums MLF_TAKEN, int32_t bias MLF_TAKEN, const uint8_t *x MLF_TAKEN, \
      const int8_t *w MLF_TAKEN, const int8_t *end MLF_TAKEN, int32_t pitch MLF_TAKEN) { \
    __asm__(MLF_NARROW_ENTER MLF_TAPS_BEGIN MLF_TAPS_##row(n, #step) MLF_TAPS_END(#row) \
                MLF_PUTS_##n MLF_NARROW_LEAVE); \
  }
#else
#define MLF_DEFINE_TAPS(row, n, step) \
  MLF_NARROW_CALL void mlf_taps_##row##_##n##_##step(uint32_t *sums, int32_t bias, \
                                                     const uint8_t *x, const int8_t *w, \
                                                     const int8_t *end, int32_t pitch) { \
    for (int32_t i = 0; i < n; i++) { \
      const uint8_t *at = x + i * step; \
      sums[i] = (uint32_t)bias; \
      for (const int8_t *tap = w; tap != end; tap += row, at += pitch) { \
        for (int32_t k = 0; k < row; k++) { \
          sums[i] += (uint32_t)(at[k] * tap[k]); \
        } \
      } \
    } \
  }
#endif
#define MLF_DEFINE_ALL_TAPS(row, step) \
  MLF_DEFINE_TAPS(row, 1, step) \
  MLF_DEFINE_TAPS(row, 2, step) \
  MLF_DEFINE_TAPS(row, 3, step) \
  MLF_DEFINE_TAPS(row, 4, step) \
  MLF_DEFINE_TAPS(row, 5, step) \
  MLF_DEFINE_TAPS(row, 6, step) \
  MLF_DEFINE_TAPS(row, 7, step)
MLF_DEFINE_ALL_TAPS(1, 1)
MLF_DEFINE_ALL_TAPS(1, 2)
MLF_DEFINE_ALL_TAPS(1, 3)
MLF_DEFINE_ALL_TAPS(2, 1)
MLF_DEFINE_ALL_TAPS(2, 2)
MLF_DEFINE_ALL_TAPS(2, 3)
MLF_DEFINE_ALL_TAPS(3, 1)
MLF_DEFINE_ALL_TAPS(3, 2)
MLF_DEFINE_ALL_TAPS(3, 3)
MLF_DEFINE_ALL_TAPS(4, 1)
MLF_DEFINE_ALL_TAPS(4, 2)
MLF_DEFINE_ALL_TAPS(4, 3)
MLF_DEFINE_ALL_TAPS(5, 1)
MLF_DEFINE_ALL_TAPS(5, 2)
MLF_DEFINE_ALL_TAPS(5, 3)
/* Eight times five products are beyond what the branch reaches. */
MLF_DEFINE_TAPS(1, 8, 1)
MLF_DEFINE_TAPS(1, 8, 2)
MLF_DEFINE_TAPS(1, 8, 3)
MLF_DEFINE_TAPS(2, 8, 1)
MLF_DEFINE_TAPS(2, 8, 2)
MLF_DEFINE_TAPS(2, 8, 3)
MLF_DEFINE_TAPS(3, 8, 1)
MLF_DEFINE_TAPS(3, 8, 2)
MLF_DEFINE_TAPS(3, 8, 3)
MLF_DEFINE_TAPS(4, 8, 1)
MLF_DEFINE_TAPS(4, 8, 2)
MLF_DEFINE_TAPS(4, 8, 3)

/* mlf_requantize_halves for a channel in which m and add are not right for all results: within
 * `near` of the middle of two it is computed as floats would. */
MLF_NARROW_CALL int32_t mlf_requantize_halves_near(int32_t acc, int32_t m, int32_t add,
                                                   int32_t shift, int32_t near, float scale,
                                                   int32_t zero_point, int32_t low, int32_t high) {
  const int32_t fine = mlf_multiply_halves(acc, m) + add;
  const uint32_t part = (uint32_t)(fine + near) & ((1u << shift) - 1u);
  if (part < 2u * (uint32_t)near) {
    return mlf_requantize_soft(acc, scale, zero_point, low, high);
  }
  return mlf_clamp_i32(fine >> shift, low, high);
}

/* The same for what rounds twice. */
MLF_NARROW_CALL int32_t mlf_requantize_halves_twice(int32_t acc, int32_t m, int32_t add,
                                                    int32_t shift, int32_t near, int64_t factor,
                                                    int32_t zero_point, int32_t low, int32_t high) {
  const int32_t fine = mlf_multiply_halves(acc, m) + add;
  const uint32_t part = (uint32_t)(fine + near) & ((1u << shift) - 1u);
  if (part < 2u * (uint32_t)near) {
    return mlf_requantize_twice(acc, factor, zero_point, low, high);
  }
  return mlf_clamp_i32(fine >> shift, low, high);
}

/* to[i] = from[i] ^ flip; returns the sum of these. Words where all are aligned. */
MLF_NARROW_CALL uint32_t mlf_take_bytes(uint8_t *to, const void *from, int32_t count,
                                        uint32_t flip) {
  const uint8_t *at = (const uint8_t *)from;
  const uint8_t *const end = at + count;
  uint32_t sum = 0;
#if defined(__GNUC__)
  if ((((uintptr_t)to | (uintptr_t)at | (uint32_t)count) & 3) == 0) {
    const uint32_t flips = flip * 0x01010101u;
    while (at != end) {
      /* Two sums of halfwords, of which each holds that of 128 words. */
      const uint8_t *const stop = end - at > 512 ? at + 512 : end;
      uint32_t sums = 0;
      do {
        uint32_t word;
        memcpy(&word, __builtin_assume_aligned(at, 4), sizeof word);
        word ^= flips;
        memcpy(__builtin_assume_aligned(to, 4), &word, sizeof word);
        sums += (word & 0xff00ffu) + ((word >> 8) & 0xff00ffu);
        at += 4;
        to += 4;
      } while (at != stop);
      sum += (sums & 0xffffu) + (sums >> 16);
    }
  }
#endif
  while (at != end) {
    const uint32_t byte = *at++ ^ flip;
    *to++ = (uint8_t)byte;
    sum += byte;
  }
  return sum;
}

/* to[i] = from[i * stride] ^ flip. */
MLF_NARROW_CALL void mlf_take_channel(uint8_t *to, const void *from, int32_t count, int32_t stride,
                                      uint32_t flip) {
  const uint8_t *at = (const uint8_t *)from;
  for (; count >= 4; count -= 4) {
    to[0] = (uint8_t)(*at ^ flip);
    at += stride;
    to[1] = (uint8_t)(*at ^ flip);
    at += stride;
    to[2] = (uint8_t)(*at ^ flip);
    at += stride;
    to[3] = (uint8_t)(*at ^ flip);
    at += stride;
    to += 4;
  }
  for (; count > 0; count--) {
    *to++ = (uint8_t)(*at ^ flip);
    at += stride;
  }
}

#endif /* MLF_NARROW_H_ */
