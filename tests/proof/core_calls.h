/* What is assembly on a Cortex-M4 or a Cortex-M55 and C elsewhere, by number. Arguments are arrays
 * and numbers in turn; sums that are no array go into the last one. */
#include <stdint.h>
#include <string.h>

/* What a header says that assembly reads, its C reads here. */
static inline void touch(const void *at, int32_t bytes) {
  for (int32_t k = 0; k < bytes; k++)
    (void)((const volatile char *)at)[k];
}
#define MLF_TOUCHES(at, bytes) touch(at, bytes)

#include "mlf/dsp_nibbles.h"
#include "mlf/dsp_pairs.h"
#include "mlf/dsp_sixes.h"
#include "mlf/dsp_wide.h"
#include "mlf/mve_floats.h"
#include "mlf/mve_lines.h"
#include "mlf/mve_softmax.h"
#include "mlf/mve_strips.h"
#include "mlf/mve_sums.h"
#include "mlf/mve_turn.h"
#include "mlf/mve_wide.h"
#include "mlf/sparse.h"
#include "mlf/vfp_exact.h"
#include "mlf/vfp_taps.h"

/* Functions of their own: these take nearly all registers of a Cortex-M4. */
MLF_CALLED void dots_3x2(const uint32_t *w, const int16_t *x, int32_t n, int32_t *out) {
  const int16_t *const stop = x + n;
  int32_t low00 = 0, low10 = 0, low20 = 0, all0 = 0, all1 = 0, all2 = 0;
  MLF_DOTS_3X2(MLF_TIMES_2, MLF_AGAIN, w, x, stop, low, all);
  out[0] = low00, out[1] = low10, out[2] = low20, out[3] = all0, out[4] = all1, out[5] = all2;
}

MLF_CALLED void dots_wide_3x2(const uint32_t *w, const int16_t *x, int32_t n, int32_t *out) {
  const int16_t *const stop = x + n;
  int32_t sum00 = 0, sum01 = 0, sum10 = 0, sum11 = 0, sum20 = 0, sum21 = 0;
  MLF_DOTS_WIDE_3X2(MLF_TIMES_1, MLF_AGAIN, w, x, stop, sum);
  out[0] = sum00, out[1] = sum01, out[2] = sum10, out[3] = sum11, out[4] = sum20, out[5] = sum21;
}

/* `end` and `c0` of the steps' words in C. */
#define SIXES(name, type, kind)                                                                    \
  MLF_CALLED void sixes_##name(const uint32_t *w, const type *c0, int32_t n, int32_t *out) {       \
    const type *const end = c0 + n;                                                                \
    int32_t low00, low02, low04, all0, all1, all2;                                                 \
    MLF_DOTS_1X6(MLF_TIMES_1, MLF_TIMES_1, MLF_AGAIN_1X6, kind, w, c0, end, low, all);             \
    out[0] = low00, out[1] = low02, out[2] = low04, out[3] = all0, out[4] = all1, out[5] = all2;   \
  }
SIXES(halves, int16_t, HALVES)
SIXES(bytes, int8_t, BYTES)
SIXES(unsigned, uint8_t, UNSIGNED)

#define GAPS(name, more, step)                                                                     \
  MLF_CALLED void gaps_##name(const uint32_t *w, const int32_t *x, int32_t n, int32_t *out) {      \
    const uint32_t *const stop = w + n;                                                            \
    MLF_GAPS_6(MLF_TIMES_2, more, step, w, x, stop, out[0], out[1], out[2], out[3], out[4],        \
               out[5]);                                                                            \
  }
GAPS(near, MLF_GAPS_AGAIN, MLF_NEAR)
GAPS(far, MLF_GAPS_AGAIN, MLF_FAR)
GAPS(once, MLF_GAPS_ONCE, MLF_NEAR)

static int call_dsp(int32_t function, char **p, const int32_t *n) {
  const uint32_t *w = (const void *)p[0];
  const int16_t *x = (const void *)p[1], *x1 = (const void *)p[2];
  const int16_t *const stop = x + n[2], *c0 = x;
  int32_t *const out = (int32_t *)(void *)p[3];
  int32_t low00 = 0, low02 = 0, all0 = 0, all1 = 0;
  int32_t sum00 = 0, sum01 = 0, sum02 = 0, sum03 = 0, sum10 = 0, sum11 = 0;
  switch (function) {
  case 0:
    mlf_widen_s8_pairs((const int8_t *)p[0], (int16_t *)(void *)p[1], n[2]);
    return 0;
  case 1:
    mlf_dot_2x2(&w, &x, &x1, &sum00, &sum01, &sum02, &sum03);
    break;
  case 2:
    mlf_dot_2x2_s4(&w, &x, &x1, &sum00, &sum01, &sum02, &sum03);
    break;
  case 3:
    mlf_dot_1x4_s4(&w, (uint32_t)n[1], (uint32_t)n[2], &sum00, &sum01, &sum02, &sum03);
    break;
  case 4: {
    const int16_t *const end = x + n[4];
    MLF_DOTS_2X2_S4(w, x, x1, end, sum00, sum01, sum02, sum03);
    break;
  }
  case 5:
    MLF_DOTS_1X4_S4(MLF_INPUT_S4, w, c0, stop, sum00, sum01, sum02, sum03);
    break;
  case 6: {
    const int8_t *const end = (const int8_t *)p[1] + n[2], *c0 = (const int8_t *)p[1];
    MLF_DOTS_1X4_S4(MLF_INPUT_S4_BYTES, w, c0, end, sum00, sum01, sum02, sum03);
    break;
  }
  case 7:
    dots_3x2(w, x, n[2], out);
    return 0;
  case 8:
    MLF_DOTS_1X4(MLF_TIMES_2, MLF_STEP_1X4, MLF_AGAIN_1X4, w, c0, stop, low, all);
    break;
  case 9:
  case 10: {
    const int8_t *const end = (const int8_t *)p[1] + n[2], *c0 = (const int8_t *)p[1];
    if (function == 9) {
      MLF_DOTS_1X4(MLF_TIMES_1, MLF_STEP_1X4_BYTES, MLF_AGAIN_1X4, w, c0, end, low, all);
    } else {
      MLF_DOTS_1X4(MLF_TIMES_1, MLF_STEP_1X4_UNSIGNED, MLF_AGAIN_1X4, w, c0, end, low, all);
    }
    break;
  }
  case 11:
    MLF_START_1X4(w, low, all);
    break;
  case 12:
    dots_wide_3x2(w, x, n[2], out);
    return 0;
  case 13:
    MLF_DOTS_WIDE_1X4(MLF_TIMES_1, MLF_AGAIN_WIDE_1X4, w, x, stop, sum);
    break;
  case 14:
    mlf_copy_s16((const int16_t *)(const void *)p[0], (int16_t *)(void *)p[1], n[2]);
    return 0;
  case 15:
    mlf_copy_s16_triples((const int16_t *)(const void *)p[0], (int16_t *)(void *)p[1], n[2]);
    return 0;
  case 16:
    gaps_near(w, (const int32_t *)(const void *)p[1], n[2], out);
    return 0;
  case 17: {
    const int8_t *from = (const int8_t *)p[1];
    const uint32_t *const end = w + n[2];
    MLF_GAPS_1(w, from, end, sum00);
    break;
  }
  case 18:
    mlf_exact_1x8((float *)(void *)p[0], (float *)(void *)p[1], n[2], (float *)(void *)p[3],
                  (float *)(void *)p[4]);
    return 0;
  case 19: {
    const float *const at = (float *)(void *)p[0];
    const mlf_four_pixels pixels = {
        {at, at + n[4], at + 2 * n[4], at + 3 * n[4]}, {n[5], n[5], n[5], n[5]}, n[6], n[7], 0};
    mlf_exact_4x4(&pixels, (float *)(void *)p[1], (float *)(void *)p[2], (float *)(void *)p[3]);
    return 0;
  }
  case 20:
    MLF_NEXT_2(w, sum00, sum01);
    break;
  case 21:
    sixes_halves(w, x, n[2], out);
    return 0;
  case 22:
    sixes_bytes(w, (const int8_t *)p[1], n[2], out);
    return 0;
  case 23:
    sixes_unsigned(w, (const uint8_t *)p[1], n[2], out);
    return 0;
  case 24:
  case 25: {
    const mlf_float_taps taps = {n[5], n[6], n[7], n[8], n[9]};
    (function == 24 ? mlf_exact_taps_8
                    : mlf_exact_taps_4)((float *)(void *)p[0], (float *)(void *)p[1], &taps,
                                        (float *)(void *)p[3], (float *)(void *)p[4]);
    return 0;
  }
  case 26:
    gaps_far(w, (const int32_t *)(const void *)p[1], n[2], out);
    return 0;
  case 27:
    gaps_once(w, (const int32_t *)(const void *)p[1], n[2], out);
    return 0;
  case 28: {
    const int8_t *const at = (const int8_t *)p[1];
    const int32_t depth = n[2];
    mlf_join_6((int32_t *)(void *)p[0], at, at + depth, at + 2 * depth, at + 3 * depth,
               at + 4 * depth, at + 5 * depth, depth);
    return 0;
  }
  default:
    return 2;
  }
  const int32_t all[10] = {low00, low02, all0, all1, sum00, sum01, sum02, sum03, sum10, sum11};
  memcpy(out, all, sizeof all);
  return 0;
}

static int call_helium(int32_t function, char **p, const int32_t *n) {
  int8_t *const a = (int8_t *)p[0];
  const int8_t *const b = (const int8_t *)p[1], *w = b;
  const int32_t *const bias = (const int32_t *)(const void *)p[3];
  mlf_octet sums;
  mlf_quad quad;
  switch (function) {
  case 0:
    mlf_mve_copy(a, b, n[2]);
    return 0;
  case 1:
    mlf_mve_fill(a, n[1], n[2]);
    return 0;
  case 2:
    mlf_mve_table((const uint8_t *)a, (const uint8_t *)b, (uint8_t *)p[2], n[3]);
    return 0;
  case 3:
    quad = mlf_quad_dot(a, &w, n[2], bias);
    memcpy(p[4], &quad, sizeof quad);
    return 0;
  case 4:
    sums = mlf_pair_dot(mlf_pair_first_of(a, n[2]), a, &w, n[2], bias);
    break;
  case 5:
    sums = mlf_row_dot(a, &w, n[2], bias);
    break;
  case 6:
    sums = mlf_row_dot_u8((const uint8_t *)a, &w, n[2], bias);
    break;
  case 7: {
    const mlf_halves halves = mlf_halves_run(mlf_halves_none(), a, n[1], n[2]);
    sums = mlf_halves_widen(halves);
    break;
  }
  case 8:
    mlf_mve_fill_s16((int16_t *)(void *)a, n[1], n[2]);
    return 0;
  case 9:
    quad = mlf_quad_dot_s16((const int16_t *)(const void *)a, &w, n[2], bias);
    memcpy(p[4], &quad, sizeof quad);
    return 0;
  case 10:
    sums = mlf_pair_dot_s16((const int16_t *)(const void *)a, &w, n[2], bias);
    break;
  case 11: {
    const int32_t most = mlf_mve_most(a, n[1]);
    memcpy(p[4], &most, sizeof most);
    return 0;
  }
  case 12: {
    const uint64_t sum = mlf_mve_worths(a, n[1], (const uint32_t *)(const void *)p[2], n[3], n[5]);
    memcpy(p[4], &sum, sizeof sum);
    return 0;
  }
  case 13:
    mlf_mve_shares(a, (int8_t *)p[4], n[1], (const uint32_t *)(const void *)p[2], n[3], n[5],
                   1u << 22, 12, -128, 127);
    return 0;
  case 14:
    mlf_line_push(a, b, n[2], n[3]);
    return 0;
  case 15: {
    mlf_patch at = mlf_line_at(a);
    sums = mlf_line_dot(&at, mlf_line_taps_of(b, n[2]), n[2]);
    break;
  }
  case 16:
    mlf_patch_push(a, b, n[2], n[3], n[5], n[6], n[7], 7);
    return 0;
  case 17: {
    mlf_patch at = mlf_patch_at(a);
    sums = mlf_patch_dot(&at, mlf_taps_of(b));
    break;
  }
  case 18:
    mlf_mve_spread(a, b, n[2], n[3]);
    return 0;
  case 19:
    mlf_fast_1x8((float *)(void *)p[0], (float *)(void *)p[1], n[2], (float *)(void *)p[3],
                 (float *)(void *)p[4], INT32_MIN);
    return 0;
  case 20: {
    const float *const at = (float *)(void *)p[0];
    const mlf_four_pixels pixels = {
        {at, at + n[4], at + 2 * n[4], at + 3 * n[4]}, {n[5], n[5], n[5], n[5]}, n[6], n[7], 0};
    mlf_fast_4x4(&pixels, (float *)(void *)p[1], (float *)(void *)p[2], (float *)(void *)p[3], 16,
                 INT32_MIN);
    return 0;
  }
  case 21:
    memset(&sums, 0, sizeof sums);
    MLF_OCTET_MADD(sums, a, 8, w);
    break;
  case 22:
  case 23: {
    const mlf_float_taps taps = {n[5], n[6], n[7], n[8], n[9]};
    const float *const x = (float *)(void *)p[0], *const weights = (float *)(void *)p[1];
    const float *const start = (float *)(void *)p[3];
    float *const to = (float *)(void *)p[4];
    if (function == 22) {
      mlf_fast_taps_16(x, weights, &taps, start, to, INT32_MIN);
    } else {
      mlf_fast_taps_4(x, weights, &taps, start, to, INT32_MIN, n[2]);
    }
    return 0;
  }
  case 24:
  case 25: {
    const mlf_octet acc = mlf_octet_of((const int32_t *)(const void *)a);
    const float *const scales = (const float *)(const void *)b;
    int32_t bits;
    memcpy(&bits, scales, sizeof bits);
    sums = mlf_halves_widen(function == 24 ? mlf_octet_scaled_small(acc, mlf_floats_at(scales),
                                                                    mlf_floats_at(scales + 4), n[2])
                                           : mlf_octet_scaled_by(acc, bits, n[2]));
    break;
  }
  case 26:
    mlf_mve_copy_known(a, b, n[2]);
    return 0;
#define TURNS(first, name)                                                                         \
  case first:                                                                                      \
    mlf_mve_gather_##name(a, b, n[2], n[3]);                                                       \
    return 0;                                                                                      \
  case (first) + 1:                                                                                \
    mlf_mve_scatter_##name(a, b, n[2], n[3]);                                                      \
    return 0;
    TURNS(27, near)
    TURNS(29, bytes)
    TURNS(31, halves)
    TURNS(33, words)
  default:
    return 2;
  }
  memcpy(p[4], &sums, sizeof sums);
  return 0;
}

static int call(int32_t function, char **p, const int32_t *n) {
  return function < 100 ? call_dsp(function, p, n) : call_helium(function - 100, p, n);
}
