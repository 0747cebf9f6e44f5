/* Exponentials, logarithms and powers of double (math64.h says how they are computed), and the
 * exact sums and products that they and others are made of.
 */
#ifndef MLF_MATH64_EXP_H_
#define MLF_MATH64_EXP_H_

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

#ifdef __cplusplus
}
#endif

#endif /* MLF_MATH64_EXP_H_ */
