/* What mve.h has, in plain C: for every processor without Helium, with the same bits. */
#ifndef MLF_MVE_PLAIN_H_
#define MLF_MVE_PLAIN_H_

#include "rescale.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  int32_t lane[4];
} mlf_quad;

static inline void mlf_mve_copy(int8_t *to, const int8_t *from, int32_t n) {
  memcpy(to, from, (size_t)n);
}

static inline void mlf_mve_copy_known(int8_t *to, const int8_t *from, int32_t n) {
  mlf_mve_copy(to, from, n);
}

static inline void mlf_mve_fill(int8_t *to, int32_t value, int32_t n) {
  memset(to, value, (size_t)n);
}

static inline void mlf_mve_table(const uint8_t *table, const uint8_t *from, uint8_t *to,
                                 int32_t n) {
  for (int32_t i = 0; i < n; i++) {
    to[i] = table[from[i]];
  }
}

static inline mlf_quad mlf_quad_dot(const int8_t *x, const int8_t **w, int32_t groups,
                                    const int32_t *b) {
  mlf_quad sums;
  memcpy(sums.lane, b, sizeof sums.lane);
  for (int32_t g = 0; g < groups; g++) {
    for (int32_t k = 0; k < 4; k++) {
      for (int32_t i = 0; i < 16; i++) {
        sums.lane[k] += (int32_t)x[16 * g + i] * (int32_t)(*w)[16 * k + i];
      }
    }
    *w += 64;
  }
  return sums;
}

static inline void mlf_quad_store32(int32_t *to, mlf_quad v) {
  memcpy(to, v.lane, sizeof v.lane);
}

typedef struct {
  mlf_quad half[2]; /* the even lanes, the odd ones */
} mlf_octet;

static inline mlf_octet mlf_octet_of(const int32_t *b) {
  mlf_octet v;
  memcpy(v.half[0].lane, b, sizeof v.half[0].lane);
  memcpy(v.half[1].lane, b + 4, sizeof v.half[1].lane);
  return v;
}

#define MLF_PLAIN_MADD_SOME(name, type) \
  static inline mlf_octet name(mlf_octet acc, const int8_t *x, const type **w, int32_t n) { \
    for (int32_t k = 0; k < n; k++) { \
      acc.half[k % 2].lane[k / 2] += (int32_t)x[k] * (int32_t)(*w)[k]; \
    } \
    *w += 8; \
    return acc; \
  }

MLF_PLAIN_MADD_SOME(mlf_octet_madd_some, int8_t)
MLF_PLAIN_MADD_SOME(mlf_octet_madd_some_s16, int16_t)

#define MLF_OCTET_MADD(acc, x, offset, w) acc = mlf_octet_madd_some(acc, (x) + (offset), &(w), 8)
#define MLF_OCTET_MADD_S16(acc, x, offset, w) \
  acc = mlf_octet_madd_some_s16(acc, (x) + (offset), &(w), 8)

/* Even lanes before odd ones, as in an octet. */
typedef struct {
  int16_t lane[8];
} mlf_halves;

static inline int32_t *mlf_octet_lane(mlf_octet *v, int32_t k) {
  return &v->half[k / 4].lane[k % 4];
}

static inline mlf_octet mlf_octet_both(mlf_quad v) {
  mlf_octet both;
  both.half[0] = v;
  both.half[1] = v;
  return both;
}

typedef const int8_t *mlf_pair_first;

static inline mlf_pair_first mlf_pair_first_of(const int8_t *x, int32_t groups) {
  (void)groups;
  return x;
}

static inline mlf_octet mlf_pair_dot(mlf_pair_first first, const int8_t *x, const int8_t **w,
                                     int32_t groups, const int32_t *b) {
  const int8_t *again = *w;
  mlf_octet sums;
  (void)first;
  sums.half[0] = mlf_quad_dot(x, &again, groups, b);
  sums.half[1] = mlf_quad_dot(x + 16 * groups, w, groups, b);
  return sums;
}

/* Defines the sums of eight channels and their biases b, of elements less a number. */
#define MLF_PLAIN_ROW_DOT(name, type, less) \
  static inline mlf_octet name(const type *x, const int8_t **w, int32_t groups, \
                               const int32_t *b) { \
    mlf_octet sums = mlf_octet_of(b); \
    for (int32_t g = 0; g < groups; g++) { \
      for (int32_t k = 0; k < 8; k++) { \
        for (int32_t i = 0; i < 16; i++) { \
          sums.half[k % 2].lane[k / 2] += (x[16 * g + i] - (less)) * (*w)[16 * k + i]; \
        } \
      } \
      *w += 128; \
    } \
    return sums; \
  }

MLF_PLAIN_ROW_DOT(mlf_row_dot, int8_t, 0)
MLF_PLAIN_ROW_DOT(mlf_row_dot_u8, uint8_t, 128)

static inline mlf_quad mlf_quad_at(const int32_t *from) {
  mlf_quad v;
  memcpy(v.lane, from, sizeof v.lane);
  return v;
}

static inline mlf_quad mlf_quad_all(int32_t value) {
  const int32_t lanes[4] = {value, value, value, value};
  return mlf_quad_at(lanes);
}

static inline mlf_quad mlf_quad_bytes(const int8_t *from) {
  const int32_t lanes[4] = {from[0], from[1], from[2], from[3]};
  return mlf_quad_at(lanes);
}

static inline mlf_quad mlf_floats_at(const float *from) {
  mlf_quad v;
  memcpy(v.lane, from, sizeof v.lane);
  return v;
}

static inline mlf_quad mlf_floats_all(float value) {
  const float lanes[4] = {value, value, value, value};
  return mlf_floats_at(lanes);
}

static inline mlf_octet mlf_octet_plus(mlf_octet v, int32_t value) {
  for (int32_t k = 0; k < 8; k++) {
    *mlf_octet_lane(&v, k) += value;
  }
  return v;
}

static inline mlf_octet mlf_octet_products(mlf_octet acc, mlf_quad even, mlf_quad odd,
                                           int32_t add) {
  for (int32_t k = 0; k < 8; k++) {
    const int32_t m = k < 4 ? even.lane[k] : odd.lane[k - 4];
    const int64_t product = (int64_t)*mlf_octet_lane(&acc, k) * m;
    const int64_t sum = (product >> 31) + add;
    const int64_t most = INT32_MAX;
    *mlf_octet_lane(&acc, k) = (int32_t)(sum > most ? most : sum < -most - 1 ? -most - 1 : sum);
  }
  return acc;
}

static inline mlf_halves mlf_octet_rounded(mlf_octet acc, int32_t shift) {
  mlf_halves v;
  for (int32_t k = 0; k < 8; k++) {
    const int64_t rounded = (int64_t)*mlf_octet_lane(&acc, k) + (1 << (shift - 1));
    v.lane[k] = (int16_t)mlf_clamp_i32((int32_t)(rounded >> shift), -32768, 32767);
  }
  return v;
}

static inline mlf_halves mlf_octet_narrow(mlf_octet v) {
  mlf_halves narrow;
  for (int32_t k = 0; k < 8; k++) {
    narrow.lane[k] = (int16_t)mlf_clamp_i32(*mlf_octet_lane(&v, k), -32768, 32767);
  }
  return narrow;
}

static inline mlf_octet mlf_halves_widen(mlf_halves v) {
  mlf_octet wide;
  for (int32_t k = 0; k < 8; k++) {
    *mlf_octet_lane(&wide, k) = v.lane[k];
  }
  return wide;
}

static inline mlf_octet mlf_octet_high(mlf_octet acc, mlf_quad even, mlf_quad odd) {
  for (int32_t k = 0; k < 4; k++) {
    acc.half[0].lane[k] = mlf_high_product(acc.half[0].lane[k], even.lane[k]);
    acc.half[1].lane[k] = mlf_high_product(acc.half[1].lane[k], odd.lane[k]);
  }
  return acc;
}

static inline mlf_octet mlf_octet_shift_up(mlf_octet v, mlf_quad even, mlf_quad odd) {
  for (int32_t k = 0; k < 8; k++) {
    const int32_t by = k < 4 ? -even.lane[k] : -odd.lane[k - 4];
    const int64_t half = (INT64_C(1) << by) >> 1;
    *mlf_octet_lane(&v, k) = (int32_t)((*mlf_octet_lane(&v, k) + half) >> by);
  }
  return v;
}

static inline mlf_octet mlf_octet_shift_away(mlf_octet v, mlf_quad even, mlf_quad odd) {
  for (int32_t k = 0; k < 8; k++) {
    const int32_t by = k < 4 ? -even.lane[k] : -odd.lane[k - 4];
    *mlf_octet_lane(&v, k) = mlf_shift_away(*mlf_octet_lane(&v, k), by);
  }
  return v;
}

static inline mlf_octet mlf_octet_downwards(mlf_octet v) {
  for (int32_t k = 0; k < 8; k++) {
    *mlf_octet_lane(&v, k) -= *mlf_octet_lane(&v, k) < 0 ? 1 : 0;
  }
  return v;
}

static inline mlf_halves mlf_halves_add(mlf_halves v, int32_t n) {
  for (int32_t k = 0; k < 8; k++) {
    v.lane[k] = (int16_t)mlf_clamp_i32(v.lane[k] + n, -32768, 32767);
  }
  return v;
}

static inline mlf_halves mlf_halves_clamp(mlf_halves v, int32_t low, int32_t high) {
  for (int32_t k = 0; k < 8; k++) {
    v.lane[k] = (int16_t)mlf_clamp_i32(v.lane[k], low, high);
  }
  return v;
}

static inline mlf_halves mlf_halves_saturate(mlf_halves v) {
  return mlf_halves_clamp(v, -128, 127);
}

static inline mlf_halves mlf_halves_limited(mlf_halves v) {
  return mlf_halves_clamp(v, -128, 127);
}

static inline mlf_octet mlf_octet_sum(mlf_octet a, int32_t m, mlf_octet b, int32_t n, int32_t add) {
  for (int32_t k = 0; k < 8; k++) {
    int32_t *const lane = mlf_octet_lane(&a, k);
    *lane = *lane * m + *mlf_octet_lane(&b, k) * n + add;
  }
  return a;
}

static inline mlf_octet mlf_octet_biased(mlf_octet a, int32_t m, mlf_quad even, mlf_quad odd) {
  for (int32_t k = 0; k < 4; k++) {
    a.half[0].lane[k] = a.half[0].lane[k] * m + even.lane[k];
    a.half[1].lane[k] = a.half[1].lane[k] * m + odd.lane[k];
  }
  return a;
}

static inline mlf_octet mlf_octet_sloped(mlf_octet a, int32_t zero, int32_t m, mlf_quad even,
                                         mlf_quad odd, int32_t add) {
  for (int32_t k = 0; k < 4; k++) {
    a.half[0].lane[k] = mlf_slope_i32(a.half[0].lane[k] - zero, m, even.lane[k], add);
    a.half[1].lane[k] = mlf_slope_i32(a.half[1].lane[k] - zero, m, odd.lane[k], add);
  }
  return a;
}

static inline mlf_octet mlf_octet_halves_plus(mlf_octet v, int32_t even, int32_t odd) {
  for (int32_t k = 0; k < 4; k++) {
    v.half[0].lane[k] += even;
    v.half[1].lane[k] += odd;
  }
  return v;
}

static inline int32_t mlf_mve_total(const int8_t *x, int32_t groups) {
  int32_t sum = 0;
  for (int32_t i = 0; i < 16 * groups; i++) {
    sum += x[i];
  }
  return sum;
}

static inline mlf_octet mlf_octet_except(mlf_octet v, int32_t value, int32_t step) {
  for (int32_t k = 0; k < 8; k++) {
    *mlf_octet_lane(&v, k) += *mlf_octet_lane(&v, k) == value ? step : 0;
  }
  return v;
}

static inline mlf_octet mlf_octet_shifted(mlf_octet v, int32_t shift) {
  for (int32_t k = 0; k < 8; k++) {
    *mlf_octet_lane(&v, k) >>= shift;
  }
  return v;
}

/* Floats in quads, by their bits. */
static inline float mlf_octet_float(mlf_octet *v, int32_t k) {
  float value;
  memcpy(&value, mlf_octet_lane(v, k), sizeof value);
  return value;
}

static inline void mlf_octet_put_float(mlf_octet *v, int32_t k, float value) {
  memcpy(mlf_octet_lane(v, k), &value, sizeof value);
}

static inline mlf_octet mlf_octet_to_float(mlf_octet v) {
  for (int32_t k = 0; k < 8; k++) {
    mlf_octet_put_float(&v, k, (float)*mlf_octet_lane(&v, k));
  }
  return v;
}

static inline mlf_octet mlf_octet_round(mlf_octet v) {
  for (int32_t k = 0; k < 8; k++) {
    /* What is further away is limited to int8 next. */
    *mlf_octet_lane(&v, k) = mlf_quantize(mlf_octet_float(&v, k), 0, -1000000, 1000000);
  }
  return v;
}

static inline mlf_octet mlf_octet_times_each(mlf_octet v, mlf_quad even, mlf_quad odd) {
  mlf_octet each;
  each.half[0] = even;
  each.half[1] = odd;
  for (int32_t k = 0; k < 8; k++) {
    mlf_octet_put_float(&v, k, mlf_octet_float(&v, k) * mlf_octet_float(&each, k));
  }
  return v;
}

static inline mlf_halves mlf_octet_scaled_small(mlf_octet acc, mlf_quad even, mlf_quad odd,
                                                int32_t zero_point) {
  const mlf_octet product = mlf_octet_times_each(mlf_octet_to_float(acc), even, odd);
  return mlf_halves_add(mlf_octet_narrow(mlf_octet_round(product)), zero_point);
}

static inline mlf_halves mlf_octet_scaled_by(mlf_octet acc, int32_t scale, int32_t zero_point) {
  const mlf_quad quad = mlf_quad_all(scale);
  return mlf_octet_scaled_small(acc, quad, quad, zero_point);
}

static inline void mlf_octet_store8(void *to, mlf_halves v, int32_t n) {
  for (int32_t k = 0; k < n; k++) {
    ((uint8_t *)to)[k] = (uint8_t)v.lane[k / 2 + k % 2 * 4];
  }
}

static inline mlf_octet mlf_octet_load8(const int8_t *from, int32_t n) {
  mlf_octet v;
  for (int32_t k = 0; k < 8; k++) {
    *mlf_octet_lane(&v, k / 2 + k % 2 * 4) = k < n ? from[k] : 0;
  }
  return v;
}

static inline void mlf_even_store8(void *to, mlf_halves v, int32_t n) {
  for (int32_t k = 0; k < n; k++) {
    ((uint8_t *)to)[k] = (uint8_t)v.lane[k];
  }
}

static inline void mlf_odd_store8(void *to, mlf_halves v, int32_t n) {
  for (int32_t k = 0; k < n; k++) {
    ((uint8_t *)to)[k] = (uint8_t)v.lane[4 + k];
  }
}

typedef int32_t mlf_pair_places;

static inline mlf_pair_places mlf_pair_places_of(int32_t pitch) {
  return pitch;
}

static inline void mlf_pair_store8(void *to, mlf_halves v, mlf_pair_places pitch) {
  mlf_even_store8(to, v, 4);
  mlf_odd_store8((uint8_t *)to + pitch, v, 4);
}

static inline mlf_octet mlf_pair_load8(const int8_t *even, const int8_t *odd, int32_t n) {
  mlf_octet v;
  for (int32_t k = 0; k < 4; k++) {
    v.half[0].lane[k] = k < n ? even[k] : 0;
    v.half[1].lane[k] = k < n ? odd[k] : 0;
  }
  return v;
}

static inline void mlf_octet_store32(int32_t *to, mlf_octet v) {
  mlf_quad_store32(to, v.half[0]);
  mlf_quad_store32(to + 4, v.half[1]);
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_MVE_PLAIN_H_ */
