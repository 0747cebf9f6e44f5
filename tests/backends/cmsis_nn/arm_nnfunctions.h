/* A double of CMSIS-NN 7's interface, as far as mlftool calls it, written for these tests. */
#ifndef DOUBLE_OF_ARM_NNFUNCTIONS_H
#define DOUBLE_OF_ARM_NNFUNCTIONS_H

#include <stddef.h>
#include <stdint.h>

typedef enum {
  ARM_CMSIS_NN_SUCCESS = 0,
  ARM_CMSIS_NN_ARG_ERROR = -1,
  ARM_CMSIS_NN_NO_IMPL_ERROR = -2,
  ARM_CMSIS_NN_FAILURE = -3
} arm_cmsis_nn_status;

typedef struct {
  int32_t w, h;
} cmsis_nn_tile;

typedef struct {
  int32_t n, h, w, c;
} cmsis_nn_dims;

typedef struct {
  void *buf;
  int32_t size;
} cmsis_nn_context;

typedef struct {
  int32_t min, max;
} cmsis_nn_activation;

typedef struct {
  int32_t *multiplier, *shift;
} cmsis_nn_per_channel_quant_params;

typedef struct {
  int32_t multiplier, shift;
} cmsis_nn_per_tensor_quant_params;

typedef struct {
  int32_t input_offset, output_offset;
  cmsis_nn_tile stride, padding, dilation;
  cmsis_nn_activation activation;
} cmsis_nn_conv_params;

typedef struct {
  int32_t input_offset, output_offset, ch_mult;
  cmsis_nn_tile stride, padding, dilation;
  cmsis_nn_activation activation;
} cmsis_nn_dw_conv_params;

typedef struct {
  cmsis_nn_tile stride, padding;
  cmsis_nn_activation activation;
} cmsis_nn_pool_params;

typedef struct {
  int32_t input_offset, filter_offset, output_offset;
  cmsis_nn_activation activation;
} cmsis_nn_fc_params;

/* Version 6 has no upscale_dims: with -DDOUBLE_VERSION=6 this is its form. */
#ifndef DOUBLE_VERSION
#define DOUBLE_VERSION 7
#endif
arm_cmsis_nn_status arm_convolve_s8(const cmsis_nn_context *ctx, const cmsis_nn_conv_params *params,
                                    const cmsis_nn_per_channel_quant_params *quant,
                                    const cmsis_nn_dims *input_dims, const int8_t *input,
                                    const cmsis_nn_dims *filter_dims, const int8_t *filter,
                                    const cmsis_nn_dims *bias_dims, const int32_t *bias,
#if DOUBLE_VERSION >= 7
                                    const cmsis_nn_dims *upscale_dims,
#endif
                                    const cmsis_nn_dims *output_dims, int8_t *output);

#define DOUBLE_SUMS(name, params_type, quant_type)                                                 \
  arm_cmsis_nn_status name(const cmsis_nn_context *ctx, const params_type *params,                 \
                           const quant_type *quant, const cmsis_nn_dims *input_dims,               \
                           const int8_t *input, const cmsis_nn_dims *filter_dims,                  \
                           const int8_t *filter, const cmsis_nn_dims *bias_dims,                   \
                           const int32_t *bias, const cmsis_nn_dims *output_dims, int8_t *output)

DOUBLE_SUMS(arm_convolve_wrapper_s8, cmsis_nn_conv_params, cmsis_nn_per_channel_quant_params);
DOUBLE_SUMS(arm_depthwise_conv_wrapper_s8, cmsis_nn_dw_conv_params,
            cmsis_nn_per_channel_quant_params);
DOUBLE_SUMS(arm_fully_connected_s8, cmsis_nn_fc_params, cmsis_nn_per_tensor_quant_params);
DOUBLE_SUMS(arm_fully_connected_per_channel_s8, cmsis_nn_fc_params,
            cmsis_nn_per_channel_quant_params);

int32_t arm_convolve_wrapper_s8_get_buffer_size(const cmsis_nn_conv_params *params,
                                                const cmsis_nn_dims *input_dims,
                                                const cmsis_nn_dims *filter_dims,
                                                const cmsis_nn_dims *output_dims);
int32_t arm_depthwise_conv_wrapper_s8_get_buffer_size(const cmsis_nn_dw_conv_params *params,
                                                      const cmsis_nn_dims *input_dims,
                                                      const cmsis_nn_dims *filter_dims,
                                                      const cmsis_nn_dims *output_dims);
int32_t arm_fully_connected_s8_get_buffer_size(const cmsis_nn_dims *filter_dims);
int32_t arm_avgpool_s8_get_buffer_size(int output_width, int channels);

#define DOUBLE_POOL(name)                                                                          \
  arm_cmsis_nn_status name(const cmsis_nn_context *ctx, const cmsis_nn_pool_params *params,        \
                           const cmsis_nn_dims *input_dims, const int8_t *input,                   \
                           const cmsis_nn_dims *filter_dims, const cmsis_nn_dims *output_dims,     \
                           int8_t *output)

DOUBLE_POOL(arm_avgpool_s8);
DOUBLE_POOL(arm_max_pool_s8);

arm_cmsis_nn_status arm_elementwise_add_s8(const int8_t *a, const int8_t *b, int32_t a_offset,
                                           int32_t a_mult, int32_t a_shift, int32_t b_offset,
                                           int32_t b_mult, int32_t b_shift, int32_t left_shift,
                                           int8_t *output, int32_t out_offset, int32_t out_mult,
                                           int32_t out_shift, int32_t act_min, int32_t act_max,
                                           int32_t block_size);
arm_cmsis_nn_status arm_elementwise_mul_s8(const int8_t *a, const int8_t *b, int32_t a_offset,
                                           int32_t b_offset, int8_t *output, int32_t out_offset,
                                           int32_t out_mult, int32_t out_shift, int32_t act_min,
                                           int32_t act_max, int32_t block_size);
void arm_softmax_s8(const int8_t *input, int32_t num_rows, int32_t row_size, int32_t mult,
                    int32_t shift, int32_t diff_min, int8_t *output);

/* What tests set and read: calls so far, the call that fails, bytes that sizes ask for besides. */
extern int32_t double_calls, double_fails_at, double_extra_bytes;

#endif
