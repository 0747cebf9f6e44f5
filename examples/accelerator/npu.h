/* The driver of an accelerator that multiplies vectors of int8 by matrices. */
#ifndef NPU_H_
#define NPU_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NPU_MEMORY_BYTES 2048

/* y[o] = clamp(round(factor[o] * sum), low, high), sum = bias[o] + w[o][:] . x, in the device's
   memory: offsets in bytes, those of bias and factor multiples of 4. */
struct npu_dense {
  uint32_t x, w, bias, factor, y;
  uint32_t depth, outputs;
  int32_t zero, low, high; /* of y */
};

/* 0, or -1: the device is not open, or the bytes are not in its memory. */
int npu_write(uint32_t to, const void *from, uint32_t bytes);
int npu_read(void *to, uint32_t from, uint32_t bytes);
/* Adds a command to the queue. -1 if that is full. */
int npu_push(const struct npu_dense *command);
/* Waits for the interrupt that says that the queue is empty. -1 if a command was refused. */
int npu_wait(void);

/* How many commands it has run. */
uint32_t npu_commands(void);

#ifdef __cplusplus
}
#endif

#endif
