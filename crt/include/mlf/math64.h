/* Elementary functions of double with the same bits on every target, at most a few ULP off; the
 * float functions of math.h that need more than float inside come from these too.
 *
 * The methods are the classical ones, named at each function; the polynomials are our own
 * (tools/minimax.py computes them anew). Only +, -, *, /, sqrt and integer operations are used.
 */
#ifndef MLF_MATH64_H_
#define MLF_MATH64_H_

#include "math64_angles.h"
#include "math64_exp.h"

#ifdef __cplusplus
extern "C" {
#endif

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
