/* The double's arithmetic: loops over the documented formula, one element at a time. */
#include "arm_nnfunctions.h"

#include <string.h>

int32_t double_calls, double_fails_at = -1, double_extra_bytes;

/* What every call does first: it is counted, and fails when it is told to. */
static arm_cmsis_nn_status entered(void) {
  return double_calls++ == double_fails_at ? ARM_CMSIS_NN_FAILURE : ARM_CMSIS_NN_SUCCESS;
}

static arm_cmsis_nn_status buffered(const cmsis_nn_context *ctx, int32_t needed) {
  if (needed > 0 && (ctx->buf == NULL || ctx->size < needed)) {
    return ARM_CMSIS_NN_ARG_ERROR;
  }
  if (needed > 0) {
    memset(ctx->buf, 0xa5, (size_t)needed);
  }
  return entered();
}

static int32_t high(int32_t a, int32_t b) {
  const int64_t product = (int64_t)a * b + (INT64_C(1) << 30);
  return (int32_t)(product >> 31);
}

/* x / 2^by, halves away from zero. */
static int32_t divided(int32_t x, int32_t by) {
  const int64_t half = by > 0 ? INT64_C(1) << (by - 1) : 0;
  const int64_t magnitude = x < 0 ? -(int64_t)x : x;
  const int32_t quotient = (int32_t)((magnitude + half) >> by);
  return x < 0 ? -quotient : quotient;
}

static int32_t requantised(int32_t x, int32_t multiplier, int32_t shift) {
  const int32_t left = shift > 0 ? shift : 0, right = shift > 0 ? 0 : -shift;
  return divided(high((int32_t)((uint32_t)x << left), multiplier), right);
}

static int8_t stored(int32_t x, const cmsis_nn_activation *limits) {
  return (int8_t)(x < limits->min ? limits->min : x > limits->max ? limits->max : x);
}

int32_t arm_convolve_wrapper_s8_get_buffer_size(const cmsis_nn_conv_params *params,
                                                const cmsis_nn_dims *input_dims,
                                                const cmsis_nn_dims *filter_dims,
                                                const cmsis_nn_dims *output_dims) {
  const int32_t depth = (filter_dims->h * filter_dims->w * input_dims->c + 3) / 4 * 4;
  const int plain = filter_dims->h == 1 && filter_dims->w == 1 && params->padding.h == 0 &&
                    params->padding.w == 0 && params->dilation.h == 1 && params->dilation.w == 1;
  (void)output_dims;
  return (plain ? 0 : 4 * depth) + double_extra_bytes;
}

int32_t arm_depthwise_conv_wrapper_s8_get_buffer_size(const cmsis_nn_dw_conv_params *params,
                                                      const cmsis_nn_dims *input_dims,
                                                      const cmsis_nn_dims *filter_dims,
                                                      const cmsis_nn_dims *output_dims) {
  (void)params, (void)input_dims, (void)filter_dims, (void)output_dims;
  return double_extra_bytes;
}

int32_t arm_fully_connected_s8_get_buffer_size(const cmsis_nn_dims *filter_dims) {
  (void)filter_dims;
  return double_extra_bytes;
}

int32_t arm_avgpool_s8_get_buffer_size(int output_width, int channels) {
  (void)output_width, (void)channels;
  return double_extra_bytes;
}

DOUBLE_SUMS(arm_convolve_wrapper_s8, cmsis_nn_conv_params, cmsis_nn_per_channel_quant_params) {
  const cmsis_nn_dims *x = input_dims, *w = filter_dims, *y = output_dims;
  const int32_t needed = arm_convolve_wrapper_s8_get_buffer_size(params, x, w, y);
  const arm_cmsis_nn_status status = buffered(ctx, needed);
  if (status != ARM_CMSIS_NN_SUCCESS) {
    return status;
  }
  if (w->c != x->c || w->n != y->c || bias_dims->c != y->c) {
    return ARM_CMSIS_NN_ARG_ERROR;
  }
  for (int32_t at = 0; at < y->n * y->h * y->w * y->c; at++) {
    const int32_t o = at % y->c, col = at / y->c % y->w, row = at / y->c / y->w % y->h;
    const int8_t *image = input + at / y->c / y->w / y->h * x->h * x->w * x->c;
    int32_t sum = bias ? bias[o] : 0;
    for (int32_t i = 0; i < w->h * w->w; i++) {
      const int32_t r = row * params->stride.h - params->padding.h + i / w->w * params->dilation.h;
      const int32_t c = col * params->stride.w - params->padding.w + i % w->w * params->dilation.w;
      if (r < 0 || r >= x->h || c < 0 || c >= x->w) {
        continue;
      }
      for (int32_t k = 0; k < x->c; k++) {
        sum += (image[(r * x->w + c) * x->c + k] + params->input_offset) *
               filter[(o * w->h * w->w + i) * x->c + k];
      }
    }
    sum = requantised(sum, quant->multiplier[o], quant->shift[o]) + params->output_offset;
    output[at] = stored(sum, &params->activation);
  }
  return ARM_CMSIS_NN_SUCCESS;
}

DOUBLE_SUMS(arm_depthwise_conv_wrapper_s8, cmsis_nn_dw_conv_params,
            cmsis_nn_per_channel_quant_params) {
  const cmsis_nn_dims *x = input_dims, *w = filter_dims, *y = output_dims;
  const int32_t needed = arm_depthwise_conv_wrapper_s8_get_buffer_size(params, x, w, y);
  const arm_cmsis_nn_status status = buffered(ctx, needed);
  if (status != ARM_CMSIS_NN_SUCCESS) {
    return status;
  }
  if (w->n != 1 || w->c != y->c || x->c * params->ch_mult != y->c || bias_dims->c != y->c) {
    return ARM_CMSIS_NN_ARG_ERROR;
  }
  for (int32_t at = 0; at < y->h * y->w * y->c; at++) {
    const int32_t o = at % y->c, col = at / y->c % y->w, row = at / y->c / y->w;
    int32_t sum = bias ? bias[o] : 0;
    for (int32_t i = 0; i < w->h * w->w; i++) {
      const int32_t r = row * params->stride.h - params->padding.h + i / w->w * params->dilation.h;
      const int32_t c = col * params->stride.w - params->padding.w + i % w->w * params->dilation.w;
      if (r >= 0 && r < x->h && c >= 0 && c < x->w) {
        sum += (input[(r * x->w + c) * x->c + o / params->ch_mult] + params->input_offset) *
               filter[i * w->c + o];
      }
    }
    sum = requantised(sum, quant->multiplier[o], quant->shift[o]) + params->output_offset;
    output[at] = stored(sum, &params->activation);
  }
  return ARM_CMSIS_NN_SUCCESS;
}

static void dense(const cmsis_nn_fc_params *params, const int32_t *multiplier, const int32_t *shift,
                  int32_t step, const cmsis_nn_dims *x, const int8_t *input, const cmsis_nn_dims *w,
                  const int8_t *filter, const int32_t *bias, int8_t *output) {
  for (int32_t at = 0; at < x->n * w->c; at++) {
    const int32_t o = at % w->c, row = at / w->c;
    int32_t sum = bias ? bias[o] : 0;
    for (int32_t k = 0; k < w->n; k++) {
      sum += (input[row * w->n + k] + params->input_offset) *
             (filter[o * w->n + k] + params->filter_offset);
    }
    sum = requantised(sum, multiplier[o * step], shift[o * step]) + params->output_offset;
    output[at] = stored(sum, &params->activation);
  }
}

DOUBLE_SUMS(arm_fully_connected_s8, cmsis_nn_fc_params, cmsis_nn_per_tensor_quant_params) {
  const arm_cmsis_nn_status status =
      buffered(ctx, arm_fully_connected_s8_get_buffer_size(filter_dims));
  if (status != ARM_CMSIS_NN_SUCCESS) {
    return status;
  }
  if (bias_dims->c != output_dims->c || output_dims->c != filter_dims->c) {
    return ARM_CMSIS_NN_ARG_ERROR;
  }
  dense(params, &quant->multiplier, &quant->shift, 0, input_dims, input, filter_dims, filter, bias,
        output);
  return ARM_CMSIS_NN_SUCCESS;
}

DOUBLE_SUMS(arm_fully_connected_per_channel_s8, cmsis_nn_fc_params,
            cmsis_nn_per_channel_quant_params) {
  const arm_cmsis_nn_status status =
      buffered(ctx, arm_fully_connected_s8_get_buffer_size(filter_dims));
  if (status != ARM_CMSIS_NN_SUCCESS) {
    return status;
  }
  if (bias_dims->c != output_dims->c || output_dims->c != filter_dims->c) {
    return ARM_CMSIS_NN_ARG_ERROR;
  }
  dense(params, quant->multiplier, quant->shift, 1, input_dims, input, filter_dims, filter, bias,
        output);
  return ARM_CMSIS_NN_SUCCESS;
}

static arm_cmsis_nn_status pooled(int average, const cmsis_nn_pool_params *params,
                                  const cmsis_nn_dims *x, const int8_t *input,
                                  const cmsis_nn_dims *w, const cmsis_nn_dims *y, int8_t *output) {
  for (int32_t at = 0; at < y->h * y->w * y->c; at++) {
    const int32_t k = at % y->c, col = at / y->c % y->w, row = at / y->c / y->w;
    int32_t sum = 0, most = -128, count = 0;
    for (int32_t i = 0; i < w->h * w->w; i++) {
      const int32_t r = row * params->stride.h - params->padding.h + i / w->w;
      const int32_t c = col * params->stride.w - params->padding.w + i % w->w;
      if (r >= 0 && r < x->h && c >= 0 && c < x->w) {
        const int32_t value = input[(r * x->w + c) * x->c + k];
        sum += value;
        most = value > most ? value : most;
        count++;
      }
    }
    if (count == 0) {
      return ARM_CMSIS_NN_ARG_ERROR;
    }
    const int32_t mean = (sum > 0 ? sum + count / 2 : sum - count / 2) / count;
    output[at] = stored(average ? mean : most, &params->activation);
  }
  return ARM_CMSIS_NN_SUCCESS;
}

DOUBLE_POOL(arm_avgpool_s8) {
  const int32_t needed = arm_avgpool_s8_get_buffer_size(output_dims->w, input_dims->c);
  const arm_cmsis_nn_status status = buffered(ctx, needed);
  return status != ARM_CMSIS_NN_SUCCESS
             ? status
             : pooled(1, params, input_dims, input, filter_dims, output_dims, output);
}

DOUBLE_POOL(arm_max_pool_s8) {
  const arm_cmsis_nn_status status = buffered(ctx, 0);
  return status != ARM_CMSIS_NN_SUCCESS
             ? status
             : pooled(0, params, input_dims, input, filter_dims, output_dims, output);
}

arm_cmsis_nn_status arm_elementwise_add_s8(const int8_t *a, const int8_t *b, int32_t a_offset,
                                           int32_t a_mult, int32_t a_shift, int32_t b_offset,
                                           int32_t b_mult, int32_t b_shift, int32_t left_shift,
                                           int8_t *output, int32_t out_offset, int32_t out_mult,
                                           int32_t out_shift, int32_t act_min, int32_t act_max,
                                           int32_t block_size) {
  const cmsis_nn_activation limits = {act_min, act_max};
  for (int32_t i = 0; i < block_size; i++) {
    const int32_t one = (a[i] + a_offset) * (1 << left_shift);
    const int32_t two = (b[i] + b_offset) * (1 << left_shift);
    const int32_t sum = requantised(one, a_mult, a_shift) + requantised(two, b_mult, b_shift);
    output[i] = stored(requantised(sum, out_mult, out_shift) + out_offset, &limits);
  }
  return entered();
}

arm_cmsis_nn_status arm_elementwise_mul_s8(const int8_t *a, const int8_t *b, int32_t a_offset,
                                           int32_t b_offset, int8_t *output, int32_t out_offset,
                                           int32_t out_mult, int32_t out_shift, int32_t act_min,
                                           int32_t act_max, int32_t block_size) {
  const cmsis_nn_activation limits = {act_min, act_max};
  for (int32_t i = 0; i < block_size; i++) {
    const int32_t product = (a[i] + a_offset) * (b[i] + b_offset);
    output[i] = stored(requantised(product, out_mult, out_shift) + out_offset, &limits);
  }
  return entered();
}

/* Fixed point of the softmax: exponentials of numbers with five bits before their point, by a
   series around -1/8 and factors for the bits of the rest; then a reciprocal by Newton's steps. */
static int32_t exponential(int32_t a) {
  static const int32_t factors[] = {1672461947, 1302514674, 790015084, 290630308,
                                    39332535,   720401,     242};
  const int32_t quarter = INT32_C(1) << 24;
  const int32_t t = (a & (quarter - 1)) - quarter;
  const int32_t x = t * 32 + (INT32_C(1) << 28);
  const int32_t x2 = high(x, x), x3 = high(x2, x), x4 = high(x2, x2);
  const int32_t tail = divided(high(divided(x4, 2) + x3, 715827883) + x2, 1);
  int32_t result = 1895147668 + high(1895147668, x + tail);
  const int32_t rest = t - a;
  for (int i = 0; i < 7; i++) {
    if (rest & (INT32_C(1) << (24 + i))) {
      result = high(result, factors[i]);
    }
  }
  return a == 0 ? INT32_MAX : result;
}

static int32_t reciprocal(int32_t half_of_it) {
  int32_t x = 1515870810 + high(half_of_it, -1010580540);
  for (int i = 0; i < 3; i++) {
    const int32_t error = (INT32_C(1) << 29) - high(half_of_it, x);
    x += high(x, error) * 4;
  }
  return x;
}

void arm_softmax_s8(const int8_t *input, int32_t num_rows, int32_t row_size, int32_t mult,
                    int32_t shift, int32_t diff_min, int8_t *output) {
  for (int32_t row = 0; row < num_rows; row++, input += row_size, output += row_size) {
    int32_t top = -128, sum = 0, over = 0;
    for (int32_t i = 0; i < row_size; i++) {
      top = input[i] > top ? input[i] : top;
    }
    for (int32_t i = 0; i < row_size; i++) {
      if (input[i] - top >= diff_min) {
        sum += divided(exponential(high((input[i] - top) * (1 << shift), mult)), 12);
      }
    }
    for (uint32_t bits = (uint32_t)sum; !(bits & 0x80000000u); bits <<= 1) {
      over++;
    }
    /* sum * 2^over is 1.f of 0: its half, rounded away, is what Newton's steps take. */
    const uint32_t fraction = ((uint32_t)sum << over) - 0x80000000u;
    const int64_t both = (int64_t)(int32_t)fraction + INT32_MAX;
    const int32_t scale = reciprocal((int32_t)((both + 1) / 2));
    const int32_t factor = scale > INT32_MAX / 2 ? INT32_MAX : scale * 2;
    for (int32_t i = 0; i < row_size; i++) {
      int32_t value = -128;
      if (input[i] - top >= diff_min) {
        const int32_t e = exponential(high((input[i] - top) * (1 << shift), mult));
        value += divided(high(factor, e), 12 - over + 31 - 8);
      }
      output[i] = (int8_t)(value > 127 ? 127 : value < -128 ? -128 : value);
    }
  }
  (void)entered();
}
