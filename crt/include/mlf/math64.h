/* Elementary functions of double with the same bits on every target, at most a few ULP off; the
 * float functions of math.h that need more than float inside come from these too.
 *
 * The methods are the classical ones, named at each function; the polynomials are our own
 * (tools/minimax.py computes them anew). Only +, -, *, /, sqrt and integer operations are used.
 */
#ifndef MLF_MATH64_H_
#define MLF_MATH64_H_

#include "kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A size below 0 means -fsingle-precision-constant, with which the constants below lose half of
 * their digits: compile this source without it. */
typedef char mlf_constants_of_double_are_double[sizeof(0.1) == sizeof(double) ? 1 : -1];

static inline uint64_t mlf_bits_of_double(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static inline double mlf_double_of_bits(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* |x| and the sign of `sign`. */
static inline double mlf_copysign(double x, double sign) {
  const uint64_t top = UINT64_C(1) << 63;
  return mlf_double_of_bits((mlf_bits_of_double(x) & ~top) | (mlf_bits_of_double(sign) & top));
}

/* `x` limited to [low, high]; low <= high, neither is nan. A nan stays nan. */
static inline double mlf_clamp_f64(double x, double low, double high) {
  return x < low ? low : (x > high ? high : x);
}

/* 2^k for -1022 <= k <= 1023. */
static inline double mlf_exp2_of_int_(int32_t k) {
  return mlf_double_of_bits((uint64_t)(k + 1023) << 52);
}

/* x rounded to an integer, ties to even, for |x| < 2^51. */
static inline double mlf_nearest_(double x) {
  return (x + 6755399441055744.0) - 6755399441055744.0; /* 1.5 * 2^52 */
}

/* a * b exactly, as the sum of the result and *low (Dekker, after Veltkamp's splitting). */
static inline double mlf_two_product_(double a, double b, double *low) {
  const double p = a * b;
  const double sa = a * 134217729.0;
  const double sb = b * 134217729.0;
  const double ah = sa - (sa - a);
  const double bh = sb - (sb - b);
  const double al = a - ah;
  const double bl = b - bh;
  *low = ((ah * bh - p) + ah * bl + al * bh) + al * bl;
  return p;
}

/* a + b exactly, as the sum of the result and *low (Knuth). */
static inline double mlf_two_sum_(double a, double b, double *low) {
  const double s = a + b;
  const double t = s - a;
  *low = (a - (s - t)) + (b - t);
  return s;
}

/* exp(r) - 1 for |r| <= ln 2 / 2: r + r^2 P(r), relative error of P 2^-59.2. */
static inline double mlf_expm1_core_(double r) {
  double p = 2.0916416615973896e-09;
  p = p * r + 2.5105486917609143e-08;
  p = p * r + 2.755726881054038e-07;
  p = p * r + 2.7557254657337665e-06;
  p = p * r + 2.480158733009619e-05;
  p = p * r + 1.9841269875523209e-04;
  p = p * r + 1.3888888888882141e-03;
  p = p * r + 8.333333333325874e-03;
  p = p * r + 4.166666666666667e-02;
  p = p * r + 1.666666666666667e-01;
  p = p * r + 5.e-01;
  return r + r * r * p;
}

/* exp(high + low), |low| at most an ULP of high: Cody and Waite's reduction by multiples of ln 2.
 */
static inline double mlf_exp_of_sum_(double high, double low) {
  const double k = mlf_nearest_(high * 1.4426950408889634);
  const double r = ((high - k * 0.6931471803691238) - k * 1.9082149292705877e-10) + low;
  const double y = 1.0 + mlf_expm1_core_(r);
  const int32_t n = (int32_t)k;
  if (n > 1023) {
    return y * mlf_exp2_of_int_(n - 1) * 2.0;
  }
  return n < -1000 ? y * mlf_exp2_of_int_(n + 200) * mlf_exp2_of_int_(-200)
                   : y * mlf_exp2_of_int_(n);
}

static inline double mlf_exp(double x) {
  if (x != x) {
    return x + x;
  }
  if (x > 709.7827128933841) {
    return (double)INFINITY;
  }
  return x < -745.1332191019412 ? 0.0 : mlf_exp_of_sum_(x, 0.0);
}

/* exp(x) - 1 without cancellation near zero: 2^k (exp(r) - 1) + (2^k - 1). */
static inline double mlf_expm1(double x) {
  double k;
  double power;
  if (x != x || x == 0) {
    return x + x;
  }
  if (x > 50.0 || x < -50.0) {
    return mlf_exp(x) - 1.0;
  }
  k = mlf_nearest_(x * 1.4426950408889634);
  power = mlf_exp2_of_int_((int32_t)k);
  return power * mlf_expm1_core_((x - k * 0.6931471803691238) - k * 1.9082149292705877e-10) +
         (power - 1.0);
}

/* x = m * 2^k with m in [sqrt(1/2), sqrt(2)); x is positive and finite. */
static inline double mlf_split_(double x, int32_t *k) {
  int32_t less = 0;
  uint64_t bits;
  int32_t e;
  if (x < 2.2250738585072014e-308) {
    x *= 18014398509481984.0; /* 2^54 makes a subnormal normal */
    less = 54;
  }
  bits = mlf_bits_of_double(x);
  e = (int32_t)(bits >> 52) - 1023;
  bits = (bits & UINT64_C(0x000fffffffffffff)) | UINT64_C(0x3ff0000000000000);
  if (mlf_double_of_bits(bits) >= 1.4142135623730951) {
    bits -= UINT64_C(1) << 52;
    e++;
  }
  *k = e - less;
  return mlf_double_of_bits(bits);
}

/* P in log((1 + s) / (1 - s)) = 2 s + s^3 P(s^2), z = s^2: error 2^-54.6. */
static inline double mlf_log_core_(double z) {
  double p = 1.3286312433677688e-01;
  p = p * z + 1.3246731430785613e-01;
  p = p * z + 1.538721288064481e-01;
  p = p * z + 1.8181773759167755e-01;
  p = p * z + 2.2222222655175694e-01;
  p = p * z + 2.857142856917523e-01;
  p = p * z + 4.0000000000005315e-01;
  p = p * z + 6.666666666666666e-01;
  return p;
}

/* The logarithm of a positive finite number. With f = m - 1 and s = f / (2 + f) it is
 * k ln 2 + 2 s + s z P(z), and 2 s = f - s f, of which the first term is exact. */
static inline double mlf_log_of_positive_(double x) {
  int32_t k;
  const double f = mlf_split_(x, &k) - 1.0;
  const double s = f / (2.0 + f);
  const double z = s * s;
  const double half = 0.5 * f * f;
  const double n = (double)k;
  /* f - s f = f - (f^2 / 2 - s f^2 / 2): the subtrahend is small beside f. */
  return n * 0.6931471803691238 -
         ((half - (s * (half + z * mlf_log_core_(z)) + n * 1.9082149292705877e-10)) - f);
}

static inline double mlf_log(double x) {
  if (x != x || x == (double)INFINITY) {
    return x + x;
  }
  if (x <= 0) {
    return x < 0 ? (double)NAN : -(double)INFINITY;
  }
  return mlf_log_of_positive_(x);
}

/* log(1 + x); what the sum's rounding loses is put back as a factor (Kahan). */
static inline double mlf_log1p(double x) {
  const double u = 1.0 + x;
  if (u == 1.0 || x != x || u == (double)INFINITY) {
    return x;
  }
  return u <= 0 ? mlf_log(u) : mlf_log_of_positive_(u) * (x / (u - 1.0));
}

/* log(x) for positive finite x as the sum of the result and *low, good to 60 bits or so. */
static inline double mlf_log_as_sum_(double x, double *low) {
  int32_t k;
  const double m = mlf_split_(x, &k);
  const double f = m - 1.0;
  const double n = (double)k;
  double below, rest, high, quotient_low, sum, error;
  const double d = mlf_two_sum_(2.0, f, &below);
  const double s = f / d;
  const double back = mlf_two_product_(s, d, &rest);
  quotient_low = (((f - back) - rest) - s * below) / d;
  /* s^2 with its rounding error; the series beyond 2 s is about a hundredth of it. */
  high = mlf_two_product_(s, s, &rest);
  rest = s * high * mlf_log_core_(high) + s * (2.0 * s * quotient_low);
  sum = mlf_two_sum_(n * 0.6931471803691238, 2.0 * s, &error);
  high = mlf_two_sum_(sum, rest, &below);
  below += error + 2.0 * quotient_low + n * 1.9082149292705877e-10;
  sum = high + below;
  *low = (high - sum) + below;
  return sum;
}

/* |x|^y for finite x != 0 and y. */
static inline double mlf_pow_of_positive_(double x, double y) {
  double low, rest, high;
  const double log_x = mlf_log_as_sum_(x, &low);
  if (y > 1e22 || y < -1e22) {
    y = y > 0 ? 1e22 : -1e22; /* Only 1 survives such exponents; the product must not overflow. */
  }
  high = mlf_two_product_(log_x, y, &rest);
  rest += low * y;
  if (high > 710.0) {
    return (double)INFINITY;
  }
  if (high < -746.0) {
    return 0.0;
  }
  return mlf_exp_of_sum_(high, rest);
}

/* x^y with C99's special cases. */
static inline double mlf_pow(double x, double y) {
  const double size = x < 0 ? -x : x;
  const bool whole =
      y >= 9007199254740992.0 || y <= -9007199254740992.0 ||
      (y > -4503599627370496.0 && y < 4503599627370496.0 ? (double)(int64_t)y == y : y == y);
  const double half = 0.5 * y;
  const bool odd = whole && half > -4503599627370496.0 && half < 4503599627370496.0 &&
                   (double)(int64_t)half != half;
  double result;
  if (y == 0 || x == 1.0) {
    return 1.0;
  }
  if (x != x || y != y) {
    return x + y;
  }
  if (y == (double)INFINITY || y == -(double)INFINITY) {
    return size == 1.0 ? 1.0 : ((size > 1.0) == (y > 0) ? (double)INFINITY : 0.0);
  }
  if (size == 0 || size == (double)INFINITY) {
    result = (size == 0) == (y > 0) ? 0.0 : (double)INFINITY;
  } else if (x < 0 && !whole) {
    return (double)NAN;
  } else {
    result = mlf_pow_of_positive_(size, y);
  }
  return odd ? mlf_copysign(result, x) : result;
}

/* x modulo pi / 2 for finite |x| >= 2^20 (Payne and Hanek): x * 2 / pi in integers, from those bits
 * of 2 / pi that neither count whole turns nor come too late to matter. */
static inline double mlf_reduce_huge_(double x, double *low, int32_t *quadrant) {
  static const uint32_t two_over_pi[40] = {
      /* after 64 zero bits */
      0x00000000u, 0x00000000u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u,
      0x3c439041u, 0xfe5163abu, 0xdebbc561u, 0xb7246e3au, 0x424dd2e0u, 0x06492eeau, 0x09d1921cu,
      0xfe1deb1cu, 0xb129a73eu, 0xe88235f5u, 0x2ebb4484u, 0xe99c7026u, 0xb45f7e41u, 0x3991d639u,
      0x835339f4u, 0x9c845f8bu, 0xbdf9283bu, 0x1ff897ffu, 0xde05980fu, 0xef2f118bu, 0x5a0a6d1fu,
      0x6d367ecfu, 0x27cb09b7u, 0x4f463f66u, 0x9e5fea2du, 0x7527bac7u, 0xebe5f17bu, 0x3d0739f7u,
      0x8a5292eau, 0x6bfb5fb1u, 0x1f8d5d08u, 0x56033046u, 0xfc7b6babu};
  const uint64_t bits = mlf_bits_of_double(x);
  const uint64_t m = (bits & UINT64_C(0x000fffffffffffff)) | UINT64_C(0x0010000000000000);
  const int32_t exponent = (int32_t)((bits >> 52) & 0x7ffu) - 1075;
  const uint32_t first = (uint32_t)(exponent + 62); /* the bit that weighs 2, times m */
  const uint32_t shift = first % 32u;
  uint32_t product[6] = {0, 0, 0, 0, 0, 0}; /* lowest word first */
  uint64_t top, next;
  int64_t signed_top;
  double f, tail, rest, high;
  for (uint32_t j = 0; j < 2; j++) {
    const uint64_t factor = j == 0 ? m & 0xffffffffu : m >> 32;
    uint64_t carry = 0;
    for (uint32_t i = 0; i + j < 6; i++) {
      const uint32_t at = first / 32u + 5u - i;
      const uint64_t pair = (uint64_t)two_over_pi[at] << 32 | two_over_pi[at + 1];
      carry += factor * ((pair >> (32u - shift)) & 0xffffffffu) + product[i + j];
      product[i + j] = (uint32_t)carry;
      carry >>= 32;
    }
  }
  /* Two bits of quadrant, then the fraction. */
  top = (uint64_t)product[5] << 32 | product[4];
  next = (uint64_t)product[3] << 32 | product[2];
  *quadrant = (int32_t)(top >> 62);
  signed_top = (int64_t)(top & UINT64_C(0x3fffffffffffffff));
  if (signed_top >= INT64_C(0x2000000000000000)) {
    signed_top -= INT64_C(0x4000000000000000);
    (*quadrant)++;
  }
  f = (double)signed_top;
  tail = ((double)(signed_top - (int64_t)f) + (double)next * 5.421010862427522e-20) *
         2.168404344971009e-19; /* 2^-64, 2^-62 */
  f *= 2.168404344971009e-19;
  high = mlf_two_product_(f, 1.5707963267948966, &rest);
  rest += f * 6.123233995736766e-17 + tail * 1.5707963267948966;
  f = high + rest;
  *low = (high - f) + rest;
  if (bits >> 63) {
    f = -f;
    *low = -*low;
    *quadrant = -*quadrant;
  }
  return f;
}

/* x modulo pi / 2, as the sum of the result and *low, at most pi / 4 in size; x is finite. */
static inline double mlf_reduce_(double x, double *low, int32_t *quadrant) {
  double k, high, rest, r;
  if (x > 1e6 || x < -1e6) {
    return mlf_reduce_huge_(x, low, quadrant);
  }
  /* Cody and Waite: k times the first two parts of pi / 2, 33 bits each, is exact. */
  k = mlf_nearest_(x * 0.6366197723675814);
  high = mlf_two_sum_(x - k * 1.5707963267341256, -(k * 6.077100506303966e-11), &rest);
  rest -= k * 2.0222662487959506e-21;
  r = high + rest;
  *low = (high - r) + rest;
  *quadrant = (int32_t)k;
  return r;
}

/* sin(r + low) for |r| <= pi / 4: r + r^3 P(r^2), error of P 2^-56.6. */
static inline double mlf_sin_core_(double r, double low) {
  const double z = r * r;
  double p = -7.057434529055274e-13;
  p = p * z + 1.604792112303155e-10;
  p = p * z - 2.5052024420857418e-08;
  p = p * z + 2.755731891656748e-06;
  p = p * z - 1.984126984072042e-04;
  p = p * z + 8.333333333332912e-03;
  p = p * z - 1.6666666666666666e-01;
  return r + (z * r * p + low * (1.0 - 0.5 * z));
}

/* cos(r + low) for |r| <= pi / 4: 1 - r^2 / 2 + r^4 P(r^2), error of P 2^-58.6. */
static inline double mlf_cos_core_(double r, double low) {
  const double z = r * r;
  const double w = 1.0 - 0.5 * z;
  double p = 3.422530593449484e-14;
  p = p * z - 1.144393004721171e-11;
  p = p * z + 2.087655121733075e-09;
  p = p * z - 2.755731846425874e-07;
  p = p * z + 2.4801587300222508e-05;
  p = p * z - 1.3888888888887838e-03;
  p = p * z + 4.1666666666666664e-02;
  return w + (((1.0 - w) - 0.5 * z) + (z * z * p - r * low));
}

/* sin(x + quarters * pi / 2). */
static inline double mlf_sine_(double x, int32_t quarters) {
  int32_t quadrant;
  double low, r, y;
  if (x - x != 0) {
    return (double)NAN;
  }
  r = mlf_reduce_(x, &low, &quadrant);
  quadrant += quarters;
  y = quadrant & 1 ? mlf_cos_core_(r, low) : mlf_sin_core_(r, low);
  return quadrant & 2 ? -y : y;
}

static inline double mlf_sin(double x) {
  return x == 0 ? x : mlf_sine_(x, 0);
}

static inline double mlf_cos(double x) {
  return mlf_sine_(x, 1);
}

static inline double mlf_tan(double x) {
  int32_t quadrant;
  double low, r, s, c;
  if (x - x != 0) {
    return (double)NAN;
  }
  if (x == 0) {
    return x;
  }
  r = mlf_reduce_(x, &low, &quadrant);
  s = mlf_sin_core_(r, low);
  c = mlf_cos_core_(r, low);
  return quadrant & 1 ? -c / s : s / c;
}

/* atan(t) for |t| <= tan(pi / 8): t + t^3 P(t^2), error of P 2^-54.8. */
static inline double mlf_atan_core_(double t) {
  const double z = t * t;
  double p = -1.9219318907224198e-02;
  p = p * z + 3.926977410696427e-02;
  p = p * z - 5.0869124132154844e-02;
  p = p * z + 5.858461840125598e-02;
  p = p * z - 6.664552299154684e-02;
  p = p * z + 7.6921865382575e-02;
  p = p * z - 9.090904748728472e-02;
  p = p * z + 1.1111111020429973e-01;
  p = p * z - 1.4285714284751577e-01;
  p = p * z + 1.999999999999615e-01;
  p = p * z - 3.333333333333333e-01;
  return t + t * z * p;
}

/* Beyond tan(pi / 8) by atan(x) = pi/4 + atan((x-1)/(x+1)), beyond its inverse by pi/2 - atan(1/x).
 */
static inline double mlf_atan(double x) {
  const double size = x < 0 ? -x : x;
  double y;
  if (x != x || x == 0) {
    return x + x;
  }
  if (size <= 0.41421356237309503) {
    return mlf_atan_core_(x);
  }
  if (size <= 2.414213562373095) {
    y = 0.7853981633974483 + mlf_atan_core_((size - 1.0) / (size + 1.0));
  } else {
    y = 1.5707963267948966 + (6.123233995736766e-17 - mlf_atan_core_(1.0 / size));
  }
  return mlf_copysign(y, x);
}

/* (asin(t) - t) / t for |t| <= 1/2, z = t^2: z P(z), error of P 2^-55.6. */
static inline double mlf_asin_core_(double z) {
  double p = 2.8966996779166553e-02;
  p = p * z - 1.516809808045355e-02;
  p = p * z + 1.76105316363554e-02;
  p = p * z + 5.377413603633342e-03;
  p = p * z + 1.0342296324121368e-02;
  p = p * z + 1.1476030232428264e-02;
  p = p * z + 1.3971554759894478e-02;
  p = p * z + 1.7352368006034645e-02;
  p = p * z + 2.2372174095492536e-02;
  p = p * z + 3.0381944105801178e-02;
  p = p * z + 4.464285714686375e-02;
  p = p * z + 7.499999999998079e-02;
  p = p * z + 1.6666666666666669e-01;
  return z * p;
}

/* Beyond 1/2 by asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)). */
static inline double mlf_asin(double x) {
  const double size = x < 0 ? -x : x;
  double z, root;
  if (size <= 0.5) {
    return x + x * mlf_asin_core_(x * x);
  }
  if (!(size <= 1.0)) {
    return (double)NAN;
  }
  z = 0.5 * (1.0 - size);
  root = sqrt(z);
  return mlf_copysign(
      1.5707963267948966 - (2.0 * (root + root * mlf_asin_core_(z)) - 6.123233995736766e-17), x);
}

static inline double mlf_acos(double x) {
  double z, root, y;
  if (x >= -0.5 && x <= 0.5) {
    return 1.5707963267948966 - (x - (6.123233995736766e-17 - x * mlf_asin_core_(x * x)));
  }
  if (!(x >= -1.0 && x <= 1.0)) {
    return (double)NAN;
  }
  z = 0.5 * (1.0 - (x < 0 ? -x : x));
  root = sqrt(z);
  y = 2.0 * (root + root * mlf_asin_core_(z));
  return x < 0 ? 3.141592653589793 - (y - 2.0 * 6.123233995736766e-17) : y;
}

static inline double mlf_sinh(double x) {
  const double size = x < 0 ? -x : x;
  double t;
  if (size > 40.0) { /* exp(x) may overflow where half of it does not */
    t = mlf_exp(0.5 * size);
    return mlf_copysign(0.5 * t * t, x);
  }
  t = mlf_expm1(size);
  return mlf_copysign(0.5 * (t + t / (t + 1.0)), x);
}

static inline double mlf_cosh(double x) {
  const double size = x < 0 ? -x : x;
  const double t = mlf_exp(size > 40.0 ? 0.5 * size : size);
  return size > 40.0 ? 0.5 * t * t : 0.5 * (t + 1.0 / t);
}

static inline double mlf_tanh(double x) {
  const double size = x < 0 ? -x : x;
  double t;
  if (size > 22.0) {
    return mlf_copysign(1.0, x);
  }
  t = mlf_expm1(2.0 * size);
  return mlf_copysign(t / (t + 2.0), x);
}

static inline double mlf_asinh(double x) {
  const double size = x < 0 ? -x : x;
  const double square = size * size;
  if (x != x || size < 1e-9) {
    return x;
  }
  if (size > 1e9) {
    return mlf_copysign(mlf_log(size) + 0.6931471805599453, x);
  }
  return mlf_copysign(mlf_log1p(size + square / (1.0 + sqrt(1.0 + square))), x);
}

static inline double mlf_acosh(double x) {
  const double t = x - 1.0;
  if (x > 1e9) {
    return mlf_log(x) + 0.6931471805599453;
  }
  return x >= 1.0 ? mlf_log1p(t + sqrt(2.0 * t + t * t)) : (double)NAN;
}

static inline double mlf_atanh(double x) {
  const double size = x < 0 ? -x : x;
  if (size < 1e-9) {
    return x;
  }
  if (!(size < 1.0)) {
    return size == 1.0 ? mlf_copysign((double)INFINITY, x) : (double)NAN;
  }
  return mlf_copysign(0.5 * mlf_log1p(2.0 * size / (1.0 - size)), x);
}

/* erf(x) = x P(x^2) up to 1 (error 2^-55.9); beyond, 1 - exp(-x^2) Q((x - 3) / (x + 3)) (2^-57.4).
 */
static inline double mlf_erf_small_(double x) {
  const double z = x * x;
  double p = 4.901363642225049e-11;
  p = p * z - 1.0713096821156736e-09;
  p = p * z + 1.4478389295060603e-08;
  p = p * z - 1.6321465180028793e-07;
  p = p * z + 1.645806544763575e-06;
  p = p * z - 1.4925395793939151e-05;
  p = p * z + 1.2055321932141752e-04;
  p = p * z - 8.548326696993655e-04;
  p = p * z + 5.2239776190868975e-03;
  p = p * z - 2.686617064436197e-02;
  p = p * z + 1.1283791670949893e-01;
  p = p * z - 3.761263890318359e-01;
  p = p * z + 1.1283791670955126e+00;
  return x * p;
}

static inline double mlf_erfc_large_(double x) {
  const double t = (x - 3.0) / (x + 3.0);
  double p = -6.471656419909531e-08;
  p = p * t - 3.1868689293698457e-07;
  p = p * t - 3.1415064363693627e-07;
  p = p * t + 1.2775277820986622e-06;
  p = p * t + 2.1380336252143883e-06;
  p = p * t - 7.978545612465514e-06;
  p = p * t - 1.2863990038447493e-05;
  p = p * t + 6.405600141395904e-05;
  p = p * t + 4.5255610604537506e-05;
  p = p * t - 5.970618706517862e-04;
  p = p * t + 7.077464246066165e-04;
  p = p * t + 4.269136328246877e-03;
  p = p * t - 2.4392499318343832e-02;
  p = p * t + 7.166583719810743e-02;
  p = p * t - 1.5011593650078048e-01;
  p = p * t + 2.4560380171232932e-01;
  p = p * t - 3.262335600430372e-01;
  p = p * t + 1.7900115118138996e-01;
  return mlf_exp(-x * x) * p;
}

static inline double mlf_erf(double x) {
  const double size = x < 0 ? -x : x;
  if (x != x) {
    return x + x;
  }
  if (size <= 1.0) {
    return mlf_erf_small_(x);
  }
  return mlf_copysign(size < 6.0 ? 1.0 - mlf_erfc_large_(size) : 1.0, x);
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_MATH64_H_ */
