/* Functions in the fixed point of TensorFlow Lite's integer kernels, bit for bit.
 *
 * A number "of k" has k bits before its point: 1 is 2^(31 - k); of 0, 1 is the greatest integer.
 */
#ifndef MLF_FIXED_H_
#define MLF_FIXED_H_

#include "rescale.h"

#ifdef __cplusplus
extern "C" {
#endif

/* x * 2^by, saturated. */
static inline int32_t mlf_shift_left(int32_t x, int32_t by) {
  const int64_t y = (int64_t)x * (INT64_C(1) << by);
  return y > INT32_MAX ? INT32_MAX : (y < INT32_MIN ? INT32_MIN : (int32_t)y);
}

/* (a + b) / 2, halves away from zero. */
static inline int32_t mlf_half_sum(int32_t a, int32_t b) {
  const int64_t sum = (int64_t)a + b;
  return (int32_t)((sum + (sum >= 0 ? 1 : -1)) / 2);
}

/* The zeros before the highest bit of x; 32 if there is none. */
static inline int32_t mlf_leading_zeros(uint32_t x) {
  return x ? (int32_t)__builtin_clz(x) : 32;
}

/* 1 / (1 + a) for a of 0, from 0 to 1: Newton's steps. */
static inline int32_t mlf_one_over_one_plus(int32_t a) {
  const int32_t half = mlf_half_sum(a, INT32_MAX);
  int32_t x = 1515870810 + mlf_high_product(half, -1010580540);
  for (int32_t k = 0; k < 3; k++) {
    x += mlf_shift_left(mlf_high_product(x, 536870912 - mlf_high_product(half, x)), 2);
  }
  return mlf_shift_left(x, 1);
}

/* 1 / x for x > 0: of 0, times 2^-(over - digits), where x has `digits` bits before its point. */
static inline int32_t mlf_reciprocal(uint32_t x, int32_t digits, int32_t *over) {
  const int32_t zeros = mlf_leading_zeros(x);
  *over = digits - zeros;
  return mlf_one_over_one_plus((int32_t)((x << zeros) & 0x7fffffffu));
}

/* x * r * 2^(e - 31) is x / sqrt(v), with r the result; v is not negative. */
static inline int32_t mlf_inverse_root(int32_t v, int32_t *e) {
  int32_t shift = 11, up, x = 268435456, half, doubled;
  if (v <= 1) {
    *e = 0;
    return INT32_MAX;
  }
  for (; v >= 536870912; v /= 4) {
    shift++;
  }
  up = (mlf_leading_zeros((uint32_t)v) - 1) / 2 - 1;
  shift -= up;
  doubled = v << (2 * up) >> 1;
  half = mlf_shift_away(doubled, 1);
  for (int32_t k = 0; k < 5; k++) {
    const int32_t cube = mlf_shift_left(mlf_high_product(mlf_high_product(x, x), x), 6);
    x = mlf_shift_left(mlf_high_product(402653184, x) - mlf_high_product(half, cube), 3);
  }
  x = mlf_high_product(x, 1518500250);
  if (shift < 0) {
    x = (int32_t)((uint32_t)x << -shift);
    shift = 0;
  }
  *e = -shift;
  return x;
}

/* 1 / sqrt(v) times m * 2^exponent, as TensorFlow Lite has it; v > 0. */
static inline int32_t mlf_inverse_root_fixed(int32_t v, int32_t m, int32_t exponent) {
  int32_t e;
  const int32_t root = mlf_inverse_root(v, &e);
  return mlf_rescale(mlf_rescale(1, root, e + 20), m, exponent - 20);
}

/* log(z) of 5 for z >= 1 of 12. */
static inline int32_t mlf_log_fixed(int32_t z) {
  const int32_t quarter = mlf_shift_away(536870912, 6);
  const int32_t a = mlf_leading_zeros((uint32_t)z);
  const int32_t ra = mlf_shift_left(mlf_high_product(mlf_shift_left(z, a - 1), 1518500250), 1);
  const int32_t ea = mlf_shift_left(12 - a, 25) + quarter;
  const int32_t zb = mlf_high_product(z, 1518500250);
  const int32_t b = mlf_leading_zeros((uint32_t)zb) - 1;
  const int32_t rb = mlf_shift_left(z, b), eb = mlf_shift_left(12 - b, 25) - quarter;
  const int32_t r = ra < rb ? ra : rb, e = ea > eb ? ea : eb;
  const int32_t p = mlf_half_sum(r, 1805811301);
  const int32_t q = (int32_t)((uint32_t)(r - 1805811301) * 2u), c = mlf_high_product(q, q);
  const int32_t top = mlf_high_product(q, r) + mlf_high_product(mlf_high_product(q, c), 117049297);
  const int32_t below = mlf_high_product(p, 1057819769 + q + mlf_high_product(127690142, c)) +
                        mlf_high_product(638450708, q);
  const int32_t rest = mlf_high_product(mlf_shift_away(top, 6), mlf_one_over_one_plus(below));
  return mlf_shift_left(mlf_high_product(e, 1488522236) + rest, 1);
}

/* x to the nearest integer, halves away from zero, and the zero point; a nan becomes low. The clamp
 * comes first, because what int32_t cannot hold must not be converted. */
static inline int32_t mlf_quantize_away(float x, int32_t zero_point, int32_t low, int32_t high) {
  const float floor = (float)(low - zero_point);
  const float ceiling = (float)(high - zero_point);
  const float at_least = x > floor ? x : floor;
  const float within = at_least < ceiling ? at_least : ceiling;
  const int32_t whole = (int32_t)within;
  const float rest = within - (float)whole;
  return whole + (rest >= 0.5f) - (rest <= -0.5f) + zero_point;
}

/* a / b * m * 2^(exponent - 31); b is not 0, but for which the result is 0. */
static inline int32_t mlf_divide_fixed(int32_t a, int32_t b, int32_t m, int32_t exponent) {
  const int32_t x = b < 0 ? -a : a;
  int32_t over, ahead, factor;
  if (b == 0 || x == 0) {
    return 0;
  }
  factor = mlf_reciprocal(b < 0 ? 0u - (uint32_t)b : (uint32_t)b, 31, &over);
  ahead = mlf_leading_zeros((uint32_t)(x < 0 ? ~x : x)) - 1;
  factor = mlf_high_product((int32_t)((uint32_t)x << ahead), factor);
  ahead = over + ahead - exponent;
  return ahead > 31 ? 0 : mlf_shift_away(mlf_high_product(factor, m), ahead);
}

/* A function of int16 by 513 values, with lines between them. */
static inline int32_t mlf_between(const int16_t *table, int32_t x) {
  const int32_t i = 256 + (x >> 7), step = (int16_t)(table[i + 1] - table[i]);
  return table[i] + ((step * (x & 127) + 64) >> 7);
}

/* 65536 / (1 + e^(-i / 24)). */
static inline uint32_t mlf_sigmoid_entry(int32_t i) {
  static const uint16_t table[256] = {
      32768, 33451, 34133, 34813, 35493, 36169, 36843, 37513, 38180, 38841, 39498, 40149, 40794,
      41432, 42064, 42688, 43304, 43912, 44511, 45102, 45683, 46255, 46817, 47369, 47911, 48443,
      48964, 49475, 49975, 50464, 50942, 51409, 51865, 52311, 52745, 53169, 53581, 53983, 54374,
      54755, 55125, 55485, 55834, 56174, 56503, 56823, 57133, 57433, 57724, 58007, 58280, 58544,
      58800, 59048, 59288, 59519, 59743, 59959, 60168, 60370, 60565, 60753, 60935, 61110, 61279,
      61441, 61599, 61750, 61896, 62036, 62172, 62302, 62428, 62549, 62666, 62778, 62886, 62990,
      63090, 63186, 63279, 63368, 63454, 63536, 63615, 63691, 63765, 63835, 63903, 63968, 64030,
      64090, 64148, 64204, 64257, 64308, 64357, 64405, 64450, 64494, 64536, 64576, 64614, 64652,
      64687, 64721, 64754, 64786, 64816, 64845, 64873, 64900, 64926, 64950, 64974, 64997, 65019,
      65039, 65060, 65079, 65097, 65115, 65132, 65149, 65164, 65179, 65194, 65208, 65221, 65234,
      65246, 65258, 65269, 65280, 65291, 65301, 65310, 65319, 65328, 65337, 65345, 65352, 65360,
      65367, 65374, 65381, 65387, 65393, 65399, 65404, 65410, 65415, 65420, 65425, 65429, 65433,
      65438, 65442, 65445, 65449, 65453, 65456, 65459, 65462, 65465, 65468, 65471, 65474, 65476,
      65479, 65481, 65483, 65485, 65488, 65489, 65491, 65493, 65495, 65497, 65498, 65500, 65501,
      65503, 65504, 65505, 65507, 65508, 65509, 65510, 65511, 65512, 65513, 65514, 65515, 65516,
      65517, 65517, 65518, 65519, 65520, 65520, 65521, 65522, 65522, 65523, 65523, 65524, 65524,
      65525, 65525, 65526, 65526, 65526, 65527, 65527, 65528, 65528, 65528, 65529, 65529, 65529,
      65529, 65530, 65530, 65530, 65530, 65531, 65531, 65531, 65531, 65531, 65532, 65532, 65532,
      65532, 65532, 65532, 65533, 65533, 65533, 65533, 65533, 65533, 65533, 65533, 65534, 65534,
      65534, 65534, 65534, 65534, 65534, 65534, 65534, 65534, 65535,
  };
  return table[i];
}

/* x, whose 3.12 bits `m` and `by` make, as 1 / (1 + e^-x), of 0 in 16 bits. */
static inline int32_t mlf_logistic_fixed(int32_t x, int32_t m, int32_t by) {
  const int32_t v = (x * m + (by > 0 ? 1 << (by - 1) : 0)) >> by;
  const uint32_t size = v < 0 ? 0u - (uint32_t)v : (uint32_t)v, i = size >> 9;
  const uint32_t low = mlf_sigmoid_entry((int32_t)(i < 255 ? i : 254));
  const uint32_t step = mlf_sigmoid_entry((int32_t)(i < 255 ? i + 1 : 255)) - low;
  const uint32_t r = i >= 255 ? 0x7fffu << 10 : (low << 9) + (size & 511u) * step;
  return (int32_t)((v >= 0 ? r + 512u : (1u << 25) - r + 511u) >> 10);
}

/* The same as tanh. */
static inline int32_t mlf_tanh_fixed(int32_t x, int32_t m, int32_t by) {
  const int32_t v = (x * m + (by > 0 ? 1 << (by - 1) : 0)) >> by;
  const uint32_t size = v < 0 ? 0u - (uint32_t)v : (uint32_t)v, i = size >> 8;
  const uint32_t low = mlf_sigmoid_entry((int32_t)(i < 255 ? i : 254));
  const uint32_t step = mlf_sigmoid_entry((int32_t)(i < 255 ? i + 1 : 255)) - low;
  const int32_t r = (int32_t)(i >= 255 ? 0xffffu << 8 : (low << 8) + (size & 255u) * step);
  return v >= 0 ? (r - (1 << 23) + 128) >> 8 : (-r + (1 << 23) + 127) >> 8;
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_FIXED_H_ */
