/* Elements that are apart on one side and beside each other on the other, on Helium, as a transpose
 * reads or writes them: gathering loads and scattering stores.
 */
#ifndef MLF_MVE_TURN_H_
#define MLF_MVE_TURN_H_

#include "kernel.h"
#include "mve_feature.h"

#ifdef __cplusplus
extern "C" {
#endif

/* mlf_mve_gather_<name>: n elements, at least one, `step` bytes apart in `from`.
 * mlf_mve_scatter_<name>: the same, apart in `to`. Offsets within a vector fit its lanes. Pointers
 * of loads that widen and of stores that narrow are in r0 to r7. */
#if MLF_MVE
#define MLF_TURN_(name, type, offsets, bits, size, load, store, load_apart, store_apart) \
  static inline void mlf_mve_gather_##name(void *to, const void *from, int32_t step, int32_t n) { \
    const offsets at = vmulq_n_u##bits(vidupq_n_u##bits(0, 1), (type)step); \
    __asm__ volatile("dlstp." #bits " lr, %[n]\n" \
                     "1:\n\t" load_apart " q0, [%[from], %q[at]]\n\t" \
                     "add %[from], %[from], %[skip]\n\t" store " q0, [%[to]], #" #size "\n\t" \
                     "letp lr, 1b" \
                     : [to] "+&l"(to), [from] "+&l"(from) \
                     : [at] "w"(at), [skip] "r"(step * (128 / (bits))), [n] "r"(n) \
                     : "q0", "lr", "cc", "memory"); \
  } \
  static inline void mlf_mve_scatter_##name(void *to, const void *from, int32_t step, int32_t n) { \
    const offsets at = vmulq_n_u##bits(vidupq_n_u##bits(0, 1), (type)step); \
    __asm__ volatile("dlstp." #bits " lr, %[n]\n" \
                     "1:\n\t" load " q0, [%[from]], #" #size "\n\t" store_apart \
                     " q0, [%[to], %q[at]]\n\t" \
                     "add %[to], %[to], %[skip]\n\t" \
                     "letp lr, 1b" \
                     : [to] "+&l"(to), [from] "+&l"(from) \
                     : [at] "w"(at), [skip] "r"(step * (128 / (bits))), [n] "r"(n) \
                     : "q0", "lr", "cc", "memory"); \
  }
MLF_TURN_(near, uint8_t, uint8x16_t, 8, 16, "vldrb.8", "vstrb.8", "vldrb.u8", "vstrb.8")
MLF_TURN_(bytes, uint16_t, uint16x8_t, 16, 8, "vldrb.u16", "vstrb.16", "vldrb.u16", "vstrb.16")
MLF_TURN_(halves, uint16_t, uint16x8_t, 16, 16, "vldrh.16", "vstrh.16", "vldrh.u16", "vstrh.16")
MLF_TURN_(words, uint32_t, uint32x4_t, 32, 16, "vldrw.32", "vstrw.32", "vldrw.u32", "vstrw.32")
#else
#define MLF_TURN_(name, size) \
  static inline void mlf_mve_gather_##name(void *to, const void *from, int32_t step, int32_t n) { \
    for (int32_t i = 0; i < n; i++) { \
      memcpy((uint8_t *)to + i * (size), (const uint8_t *)from + i * step, size); \
    } \
  } \
  static inline void mlf_mve_scatter_##name(void *to, const void *from, int32_t step, int32_t n) { \
    for (int32_t i = 0; i < n; i++) { \
      memcpy((uint8_t *)to + i * step, (const uint8_t *)from + i * (size), size); \
    } \
  }
MLF_TURN_(near, 1)
MLF_TURN_(bytes, 1)
MLF_TURN_(halves, 2)
MLF_TURN_(words, 4)
#endif
#undef MLF_TURN_

#ifdef __cplusplus
}
#endif

#endif /* MLF_MVE_TURN_H_ */
