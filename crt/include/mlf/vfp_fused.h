/* Sums of vfp.h whose products are rounded once. */
#ifndef MLF_VFP_FUSED_H_
#define MLF_VFP_FUSED_H_

#include "vfp.h"

#ifdef __cplusplus
extern "C" {
#endif

MLF_SUMS_4X4(mlf_fused_4x4, MLF_FUSED_4X4_, MLF_FUSED_)
MLF_SUMS_1X8(mlf_fused_1x8, MLF_FUSED_1X8_, MLF_FUSED_)

#ifdef __cplusplus
}
#endif

#endif /* MLF_VFP_FUSED_H_ */
