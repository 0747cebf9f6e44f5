/* Sine, cosine and tangent of double and their inverses (math64.h says how they are computed). */
#ifndef MLF_MATH64_ANGLES_H_
#define MLF_MATH64_ANGLES_H_

#include "math64_exp.h"

#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}
#endif

#endif /* MLF_MATH64_ANGLES_H_ */
