/* Whether the processor has integer Helium (MVE), and its intrinsics. */
#ifndef MLF_MVE_FEATURE_H_
#define MLF_MVE_FEATURE_H_

#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 1) && !defined(MLF_PORTABLE_DSP)
#define MLF_MVE 1
#include <arm_mve.h>
#else
#define MLF_MVE 0
#endif

#endif /* MLF_MVE_FEATURE_H_ */
