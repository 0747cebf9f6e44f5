/* Four neighbouring pixels of a row x two channels on Helium. The octet of their sums has pixels 0
 * and 1 in its even half and pixels 2 and 3 in its odd one, two channels of each next to each
 * other.
 */
#ifndef MLF_MVE_STRIPS_H_
#define MLF_MVE_STRIPS_H_

#include "mve.h"

#ifdef __cplusplus
extern "C" {
#endif

#if MLF_MVE

/* n vectors that are `step` bytes apart, a constant below 128; n is positive. */
#define MLF_MVE_SPREAD(to, from, step, n) \
  do { \
    int8_t *spread_to = (to); \
    const int8_t *spread_from = (from); \
    __asm__ volatile("dls lr, %[count]\n" \
                     "1:\n\t" \
                     "vldrb.8 q0, [%[from]], %[by]\n\t" \
                     "vstrb.8 q0, [%[to]], #16\n\t" \
                     "le lr, 1b" \
                     : [to] "+&r"(spread_to), [from] "+&r"(spread_from) \
                     : [count] "r"(n), [by] "i"(step) \
                     : "q0", "lr", "cc", "memory"); \
  } while (0)

/* The same, however far apart they are. */
static inline void mlf_mve_spread(int8_t *to, const int8_t *from, int32_t step, int32_t n) {
  __asm__ volatile("dls lr, %[n]\n"
                   "1:\n\t"
                   "vldrb.8 q0, [%[from]]\n\t"
                   "add %[from], %[from], %[step]\n\t"
                   "vstrb.8 q0, [%[to]], #16\n\t"
                   "le lr, 1b"
                   : [to] "+&r"(to), [from] "+&r"(from)
                   : [n] "r"(n), [step] "r"(step)
                   : "q0", "lr", "cc", "memory");
}

/* from[0], from[1], from[0], from[1]; floats are their bits. */
static inline mlf_quad mlf_twins_at(const int32_t *from) {
  const uint32x4_t at = vandq_u32(vidupq_n_u32(0, 4), vdupq_n_u32(4));
  return vldrwq_gather_offset_s32(from, at);
}

static inline mlf_quad mlf_twins_floats(const float *from) {
  return mlf_twins_at((const int32_t *)(const void *)from);
}

static inline mlf_quad mlf_twins_bytes(const int8_t *from) {
  const uint32x4_t at = vandq_u32(vidupq_n_u32(0, 1), vdupq_n_u32(1));
  return vldrbq_gather_offset_s32(from, at);
}

/* Both halves plus the same quad. */
static inline mlf_octet mlf_octet_each_plus(mlf_octet v, mlf_quad each) {
  v.even = vaddq_s32(v.even, each);
  v.odd = vaddq_s32(v.odd, each);
  return v;
}

/* Where halves of these sums are in tensors whose pixels are `pitch` bytes apart. */
typedef uint16x8_t mlf_strip_places;

static inline mlf_strip_places mlf_strip_places_of(int32_t pitch) {
  const uint16x8_t i = vidupq_n_u16(0, 1);
  const uint16x8_t later = vshlq_n_u16(vandq_u16(i, vdupq_n_u16(1)), 1);
  const uint16x8_t pixel = vaddq_u16(vshrq_n_u16(i, 2), later);
  const uint16x8_t channel = vandq_u16(vshrq_n_u16(i, 1), vdupq_n_u16(1));
  return vmlaq_n_u16(channel, pixel, (uint16_t)pitch);
}

/* The low bytes of those that have two bits each in `lanes`. */
static inline void mlf_strip_store(void *to, mlf_halves v, mlf_strip_places at, int32_t lanes) {
  if (lanes == 0xffff) {
    vstrbq_scatter_offset_s16((int8_t *)to, at, v);
  } else {
    __asm__("" : "+r"(lanes)); /* gcc 12 gets predicates that are constants wrong. */
    vstrbq_scatter_offset_p_s16((int8_t *)to, at, v, (mve_pred16_t)lanes);
  }
}

static inline mlf_octet mlf_strip_load(const int8_t *from, mlf_strip_places at, int32_t lanes) {
  if (lanes == 0xffff) {
    return mlf_halves_widen(vldrbq_gather_offset_s16(from, at));
  }
  __asm__("" : "+r"(lanes));
  return mlf_halves_widen(vldrbq_gather_offset_z_s16(from, at, (mve_pred16_t)lanes));
}

#else

static inline void mlf_mve_spread(int8_t *to, const int8_t *from, int32_t step, int32_t n) {
  for (int32_t k = 0; k < n; k++) {
    memcpy(to + 16 * k, from + k * step, 16);
  }
}

#define MLF_MVE_SPREAD(to, from, step, n) mlf_mve_spread(to, from, step, n)

static inline mlf_quad mlf_twins_at(const int32_t *from) {
  const int32_t lanes[4] = {from[0], from[1], from[0], from[1]};
  return mlf_quad_at(lanes);
}

static inline mlf_quad mlf_twins_floats(const float *from) {
  const float lanes[4] = {from[0], from[1], from[0], from[1]};
  return mlf_floats_at(lanes);
}

static inline mlf_quad mlf_twins_bytes(const int8_t *from) {
  const int32_t lanes[4] = {from[0], from[1], from[0], from[1]};
  return mlf_quad_at(lanes);
}

static inline mlf_octet mlf_octet_each_plus(mlf_octet v, mlf_quad each) {
  for (int32_t k = 0; k < 8; k++) {
    *mlf_octet_lane(&v, k) += each.lane[k % 4];
  }
  return v;
}

typedef int32_t mlf_strip_places; /* the distance of pixels */

static inline mlf_strip_places mlf_strip_places_of(int32_t pitch) {
  return pitch;
}

/* Lane k of halves is of pixel k / 2 and channel k % 2, the lanes' bits are interleaved. */
static inline int mlf_strip_has(int32_t lanes, int32_t k) {
  return (lanes >> (4 * (k % 4) + 2 * (k / 4))) & 1;
}

static inline void mlf_strip_store(void *to, mlf_halves v, mlf_strip_places pitch, int32_t lanes) {
  for (int32_t k = 0; k < 8; k++) {
    if (mlf_strip_has(lanes, k)) {
      ((uint8_t *)to)[k / 2 * pitch + k % 2] = (uint8_t)v.lane[k];
    }
  }
}

static inline mlf_octet mlf_strip_load(const int8_t *from, mlf_strip_places pitch, int32_t lanes) {
  mlf_octet v;
  for (int32_t k = 0; k < 8; k++) {
    *mlf_octet_lane(&v, k) = mlf_strip_has(lanes, k) ? from[k / 2 * pitch + k % 2] : 0;
  }
  return v;
}

/* The sums of `taps` taps of 16 channels in each of `steps` runs of 3 * stride + taps columns. The
 * weights of taps whose columns overlap follow each other. `w` moves on. */
static inline mlf_octet mlf_strip_dot(const int8_t *x, const int8_t **w, int32_t steps,
                                      int32_t taps, int32_t stride) {
  int32_t sums[8] = {0};
  for (int32_t step = 0; step < steps; step++) {
    for (int32_t first = 0; first < mlf_min_i32(taps, stride); first++) {
      for (int32_t tap = first; tap < taps; tap += stride) {
        for (int32_t i = 0; i < 128; i++) {
          const int32_t pixel = i / 32;
          const int32_t column = tap + pixel * stride;
          sums[i / 16] += (int32_t)x[16 * column + i % 16] * (int32_t)(*w)[i % 32];
        }
        *w += 32;
      }
    }
    x += 16 * (3 * stride + taps);
  }
  return mlf_octet_of(sums);
}

#endif

#ifdef __cplusplus
}
#endif

#endif /* MLF_MVE_STRIPS_H_ */
