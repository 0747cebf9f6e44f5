/* The functions that have a rule in mlftool/proof/touches.py, by number. */
#include "mlf/narrow_words.h"

static int call(int32_t function, char **p, const int32_t *n) {
  void *const y = p[0], *const k = p[1], *const w = p[2], *const x = p[3], *const end = p[4];
  void *const form = p[5], *const y_end = p[7], *const rare = p[8];
  switch (function) {
  case 0:
    mlf_eights(y, k, w, x, end, form, n[6], y_end, rare);
    return 0;
  case 1:
    mlf_words(y, k, w, x, end, form, (void *)p[6], y_end, rare);
    return 0;
  case 2:
    mlf_pixel_8(y, k, w, x, end, form, (uint32_t)n[6], y_end, rare);
    return 0;
  case 3:
    mlf_pixel_4(y, k, w, x, end, form, (uint32_t)n[6], y_end, rare);
    return 0;
  case 4:
    mlf_take_bytes((uint8_t *)p[0], p[1], n[2], (uint32_t)n[3]);
    return 0;
  default:
    return 2;
  }
}
