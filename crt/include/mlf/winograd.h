/* Winograd's convolutions of 3x3 in integers: what becomes of inputs before they are multiplied,
 * and of products after.
 *
 * F(2x2, 3x3) makes 2 x 2 outputs of 4 x 4 inputs, F(4x4, 3x3) 4 x 4 of 6 x 6. The compiler has
 * proven that no sum leaves its type.
 */
#ifndef MLF_WINOGRAD_H_
#define MLF_WINOGRAD_H_

#include "mlf/simd.h"

#ifdef __cplusplus
extern "C" {
#endif

static inline mlf_simd_wide mlf_load_wide(const int16_t *from) {
  mlf_simd_wide v;
  memcpy(&v, from, sizeof v);
  return v;
}

/* Four elements `apart` elements apart: a - c, b + c, c - b, b - d. */
static inline void mlf_winograd_put(int16_t *to, int32_t apart, mlf_simd_wide a, mlf_simd_wide b,
                                    mlf_simd_wide c, mlf_simd_wide d) {
  const mlf_simd_wide first = a - c, second = b + c, third = c - b, fourth = b - d;
  memcpy(to, &first, sizeof first);
  memcpy(to + apart, &second, sizeof second);
  memcpy(to + 2 * apart, &third, sizeof third);
  memcpy(to + 3 * apart, &fourth, sizeof fourth);
}

/* Winograd's F(2x2, 3x3) in integers. Of 4 x 4 input pixels, `line` and `next` elements apart down
 * and across, the 16 sums that are multiplied with weights; n channels, stored `apart` elements
 * apart. */
static inline void mlf_winograd_tiles(const int16_t *from, int32_t line, int32_t next, int16_t *to,
                                      int32_t apart, int32_t n) {
  for (int32_t c = 0; c < n; c += MLF_WIDENED) {
    const int16_t *const a = from + c, *const b = a + line, *const d = b + line,
                         *const e = d + line;
    int16_t *const at = to + c;
    const mlf_simd_wide b0 = mlf_load_wide(b), b1 = mlf_load_wide(b + next),
                        b2 = mlf_load_wide(b + 2 * next), b3 = mlf_load_wide(b + 3 * next);
    const mlf_simd_wide d0 = mlf_load_wide(d), d1 = mlf_load_wide(d + next),
                        d2 = mlf_load_wide(d + 2 * next), d3 = mlf_load_wide(d + 3 * next);
    mlf_winograd_put(at, apart, mlf_load_wide(a) - d0, mlf_load_wide(a + next) - d1,
                     mlf_load_wide(a + 2 * next) - d2, mlf_load_wide(a + 3 * next) - d3);
    mlf_winograd_put(at + 4 * apart, apart, b0 + d0, b1 + d1, b2 + d2, b3 + d3);
    mlf_winograd_put(at + 8 * apart, apart, d0 - b0, d1 - b1, d2 - b2, d3 - b3);
    mlf_winograd_put(at + 12 * apart, apart, b0 - mlf_load_wide(e), b1 - mlf_load_wide(e + next),
                     b2 - mlf_load_wide(e + 2 * next), b3 - mlf_load_wide(e + 3 * next));
  }
}

/* Of six elements `step` elements apart, what F(4, 3) multiplies with weights. */
static inline void mlf_winograd_line6(const int16_t *from, int32_t step, int16_t *to,
                                      int32_t apart) {
  const mlf_simd_wide d1 = mlf_load_wide(from + step), d2 = mlf_load_wide(from + 2 * step),
                      d3 = mlf_load_wide(from + 3 * step), d4 = mlf_load_wide(from + 4 * step);
  const mlf_simd_wide even = d4 - d2 * 4, odd = d3 - d1 * 4;
  const mlf_simd_wide near = d4 - d2, far = (d3 - d1) * 2;
  const mlf_simd_wide line[6] = {
      (mlf_load_wide(from) - d2) * 4 + near,        even + odd, even - odd, near + far, near - far,
      mlf_load_wide(from + 5 * step) - d3 - far * 2};
  memcpy(to, &line[0], sizeof line[0]);
  memcpy(to + apart, &line[1], sizeof line[1]);
  memcpy(to + 2 * apart, &line[2], sizeof line[2]);
  memcpy(to + 3 * apart, &line[3], sizeof line[3]);
  memcpy(to + 4 * apart, &line[4], sizeof line[4]);
  memcpy(to + 5 * apart, &line[5], sizeof line[5]);
}

/* The same for F(4x4, 3x3): of 6 x 6 input pixels, 36 sums. */
static inline void mlf_winograd_tiles6(const int16_t *from, int32_t line, int32_t next, int16_t *to,
                                       int32_t apart, int32_t n) {
  int16_t down[36 * MLF_WIDENED];
  for (int32_t c = 0; c < n; c += MLF_WIDENED) {
    MLF_ROLLED
    for (int32_t x = 0; x < 6; x++) {
      mlf_winograd_line6(from + x * next + c, line, down + x * MLF_WIDENED, 6 * MLF_WIDENED);
    }
    MLF_ROLLED
    for (int32_t y = 0; y < 6; y++) {
      mlf_winograd_line6(down + 6 * y * MLF_WIDENED, MLF_WIDENED, to + 6 * y * apart + c, apart);
    }
  }
}

#if defined(__AVX2__)
/* Four times the sums of 2 x 2 output pixels, of the 16 products `apart` elements apart; `bias` is
 * four times the bias. */
static inline void mlf_winograd_sums_x8(const int32_t *from, int32_t apart, mlf_i32x8 bias,
                                        mlf_i32x8 *sums) {
  mlf_i32x8 upper[4], lower[4];
#define MLF_DOWN(x, add) \
  { \
    const mlf_i32x8 b = mlf_load_i32x8(from + (4 + x) * apart) add; \
    const mlf_i32x8 c = mlf_load_i32x8(from + (8 + x) * apart); \
    upper[x] = mlf_load_i32x8(from + x * apart) + b + c; \
    lower[x] = b - c - mlf_load_i32x8(from + (12 + x) * apart); \
  }
  MLF_DOWN(0, )
  MLF_DOWN(1, +bias)
  MLF_DOWN(2, )
  MLF_DOWN(3, )
#undef MLF_DOWN
  sums[0] = upper[0] + upper[1] + upper[2];
  sums[1] = upper[1] - upper[2] - upper[3];
  sums[2] = lower[0] + lower[1] + lower[2];
  sums[3] = lower[1] - lower[2] - lower[3];
}

static inline mlf_u32x8 mlf_load_u32x8(const int32_t *from) {
  mlf_u32x8 v;
  memcpy(&v, from, sizeof v);
  return v;
}

/* Four outputs of F(4, 3), times 24, 12, 6 and 6, of six products `apart` elements apart. */
static inline void mlf_winograd_sums6(const int32_t *from, int32_t apart, mlf_u32x8 *sums) {
  const mlf_u32x8 a = mlf_load_u32x8(from), f = mlf_load_u32x8(from + 5 * apart);
  const mlf_u32x8 b = mlf_load_u32x8(from + apart), c = mlf_load_u32x8(from + 2 * apart);
  const mlf_u32x8 d = mlf_load_u32x8(from + 3 * apart), e = mlf_load_u32x8(from + 4 * apart);
  const mlf_u32x8 p = b + c, q = b - c, r = d + e, s = d - e;
  sums[0] = (a << 2) + (a << 1) - (p << 2) + r;
  sums[1] = s - (q << 1);
  sums[2] = r - p;
  sums[3] = (f << 2) + (f << 1) + (s << 1) - q;
}

/* What is 9 * 2^shift times an output, and the bias: the inverse of 9 modulo 2^32 divides. */
static inline mlf_i32x8 mlf_winograd_output6(mlf_u32x8 sum, int32_t shift, mlf_i32x8 bias) {
  const mlf_u32x8 ninths = (mlf_u32x8)((mlf_i32x8)sum >> shift);
  return (mlf_i32x8)(ninths * 0x38e38e39u) + bias;
}

/* The sums of 4 x 4 output pixels, of the 36 products `apart` elements apart. */
static inline void mlf_winograd_sums6_x8(const int32_t *from, int32_t apart, mlf_i32x8 bias,
                                         mlf_i32x8 *sums) {
  int32_t down[24 * 8];
  MLF_ROLLED
  for (int32_t x = 0; x < 6; x++) {
    mlf_u32x8 y[4];
    mlf_winograd_sums6(from + x * apart, 6 * apart, y);
    memcpy(down + 8 * x, &y[0], sizeof y[0]);
    memcpy(down + 8 * (6 + x), &y[1], sizeof y[1]);
    memcpy(down + 8 * (12 + x), &y[2], sizeof y[2]);
    memcpy(down + 8 * (18 + x), &y[3], sizeof y[3]);
  }
  MLF_ROLLED
  for (int32_t y = 0; y < 4; y++) {
    const int32_t shift = y == 0 ? 3 : y == 1 ? 2 : 1;
    mlf_u32x8 x[4];
    mlf_winograd_sums6(down + 48 * y, 8, x);
    sums[4 * y] = mlf_winograd_output6(x[0], shift + 3, bias);
    sums[4 * y + 1] = mlf_winograd_output6(x[1], shift + 2, bias);
    sums[4 * y + 2] = mlf_winograd_output6(x[2], shift + 1, bias);
    sums[4 * y + 3] = mlf_winograd_output6(x[3], shift + 1, bias);
  }
}

#endif

#ifdef __cplusplus
}
#endif

#endif /* MLF_WINOGRAD_H_ */
