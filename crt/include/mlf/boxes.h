/* Boxes of detection networks: how much two of them overlap. */
#ifndef MLF_BOXES_H_
#define MLF_BOXES_H_

#include "mlf/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether two intervals' intersection area over union area is above `threshold`; the corners of a
 * box may come in any order, boxes without area overlap nothing. */
static inline bool mlf_areas_overlap(const float *a_low, const float *a_high, const float *b_low,
                                     const float *b_high, float threshold) {
  float common = 1.0f;
  float a_area = 1.0f;
  float b_area = 1.0f;
  for (int axis = 0; axis < 2; axis++) {
    const float low = a_low[axis] > b_low[axis] ? a_low[axis] : b_low[axis];
    const float high = a_high[axis] < b_high[axis] ? a_high[axis] : b_high[axis];
    if (high <= low) {
      return false;
    }
    common *= high - low;
    a_area *= a_high[axis] - a_low[axis];
    b_area *= b_high[axis] - b_low[axis];
  }
  if (a_area <= 0.0f || b_area <= 0.0f) {
    return false;
  }
  return common / (a_area + b_area - common) > threshold;
}

/* Boxes as (y1, x1, y2, x2), two opposite corners. */
static inline bool mlf_boxes_overlap_corners(const float *a, const float *b, float threshold) {
  float low[2][2];
  float high[2][2];
  for (int axis = 0; axis < 2; axis++) {
    const float *const boxes[2] = {a, b};
    for (int k = 0; k < 2; k++) {
      const float p = boxes[k][axis];
      const float q = boxes[k][axis + 2];
      low[k][axis] = p < q ? p : q;
      high[k][axis] = p < q ? q : p;
    }
  }
  return mlf_areas_overlap(low[0], high[0], low[1], high[1], threshold);
}

/* Boxes as (x, y, width, height), x and y of the centre. */
static inline bool mlf_boxes_overlap_center(const float *a, const float *b, float threshold) {
  float low[2][2];
  float high[2][2];
  for (int axis = 0; axis < 2; axis++) {
    low[0][axis] = a[axis] - a[axis + 2] / 2.0f;
    high[0][axis] = a[axis] + a[axis + 2] / 2.0f;
    low[1][axis] = b[axis] - b[axis + 2] / 2.0f;
    high[1][axis] = b[axis] + b[axis + 2] / 2.0f;
  }
  return mlf_areas_overlap(low[0], high[0], low[1], high[1], threshold);
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_BOXES_H_ */
