/* Helium's mean, halves away from zero, is the plain division for every sum of n int8. */
#include "mlf/mve_sums.h"

#include <stdio.h>

#include "mlf/rescale.h"

int main(void) {
  for (int32_t n = 2; n < 256; n++) {
    const uint32_t reciprocal = (uint32_t)((((uint64_t)1 << 32) + (uint32_t)n - 1) / (uint32_t)n);
    for (int32_t sum = -128 * n; sum <= 127 * n; sum++) {
      const int32_t lanes[8] = {sum};
      mlf_octet mean = mlf_octet_mean_away(mlf_octet_of(lanes), reciprocal, n / 2);
      if (*mlf_octet_lane(&mean, 0) != mlf_mean_away(sum, n)) {
        printf("%d / %d\n", sum, n);
        return 1;
      }
    }
  }
  return 0;
}
