/* Sums of vfp.h whose products are rounded after the multiplication and after the addition. */
#ifndef MLF_VFP_EXACT_H_
#define MLF_VFP_EXACT_H_

#include "vfp.h"

#ifdef __cplusplus
extern "C" {
#endif

MLF_SUMS_4X4(mlf_exact_4x4, MLF_EXACT_4X4_, MLF_EXACT_)
MLF_SUMS_1X8(mlf_exact_1x8, MLF_EXACT_1X8_, MLF_EXACT_)

#ifdef __cplusplus
}
#endif

#endif /* MLF_VFP_EXACT_H_ */
