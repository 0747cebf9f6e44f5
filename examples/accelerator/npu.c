/* The driver, and the device in C: a queue of commands, memory of its own, an interrupt flag. In a
   real one, step() is hardware, and the queue and the flag are registers. */
#include "npu.h"

#include <string.h>

#include "mlf/kernel.h"

enum { kQueue = 4 };

static struct {
  union {
    int8_t bytes[NPU_MEMORY_BYTES];
    int32_t words[NPU_MEMORY_BYTES / 4];
    float floats[NPU_MEMORY_BYTES / 4];
  } memory;
  struct npu_dense queue[kQueue];
  uint32_t first, count, run;
  volatile int interrupt, refused;
  int active, open;
} npu;

static int inside(uint32_t at, uint32_t bytes) {
  return at <= NPU_MEMORY_BYTES && bytes <= NPU_MEMORY_BYTES - at;
}

/* What the device does when it is given time: it runs one command. */
static void step(void) {
  const struct npu_dense c = npu.queue[npu.first];
  const int fits = c.depth <= NPU_MEMORY_BYTES && c.outputs <= NPU_MEMORY_BYTES &&
                   inside(c.x, c.depth) && inside(c.w, c.depth * c.outputs) &&
                   inside(c.bias, 4 * c.outputs) && inside(c.factor, 4 * c.outputs) &&
                   inside(c.y, c.outputs) && c.bias % 4 == 0 && c.factor % 4 == 0;
  npu.refused |= !fits;
  for (uint32_t o = 0; fits && o < c.outputs; o++) {
    int32_t sum = npu.memory.words[c.bias / 4 + o];
    for (uint32_t k = 0; k < c.depth; k++) {
      sum += npu.memory.bytes[c.x + k] * npu.memory.bytes[c.w + o * c.depth + k];
    }
    const int32_t value = mlf_round_even((float)sum * npu.memory.floats[c.factor / 4 + o]) + c.zero;
    npu.memory.bytes[c.y + o] = (int8_t)(value < c.low ? c.low : value > c.high ? c.high : value);
  }
  npu.first = (npu.first + 1) % kQueue;
  npu.count--;
  npu.run++;
  npu.interrupt = npu.count == 0;
}

int npu_write(uint32_t to, const void *from, uint32_t bytes) {
  if (!npu.open || !inside(to, bytes)) {
    return -1;
  }
  memcpy(npu.memory.bytes + to, from, bytes);
  return 0;
}

int npu_read(void *to, uint32_t from, uint32_t bytes) {
  if (!npu.open || !inside(from, bytes)) {
    return -1;
  }
  memcpy(to, npu.memory.bytes + from, bytes);
  return 0;
}

int npu_push(const struct npu_dense *command) {
  if (!npu.open || npu.count == kQueue) {
    return -1;
  }
  npu.queue[(npu.first + npu.count) % kQueue] = *command;
  npu.count++;
  npu.interrupt = 0;
  return 0;
}

int npu_wait(void) {
  if (!npu.open) {
    return -1;
  }
  while (npu.count > 0 && !npu.interrupt) {
    step();
  }
  return npu.refused ? -1 : 0;
}

uint32_t npu_commands(void) {
  return npu.run;
}

/* What mlftool's code calls: before and after a run, and each use. */
int32_t TVMDeviceNpuActivate(void *context);
int32_t TVMDeviceNpuOpen(void *context);
int32_t TVMDeviceNpuClose(void *context);
int32_t TVMDeviceNpuDeactivate(void *context);

int32_t TVMDeviceNpuActivate(void *context) {
  (void)context;
  npu.active = 1;
  npu.count = 0;
  npu.refused = 0;
  return 0;
}

int32_t TVMDeviceNpuOpen(void *context) {
  (void)context;
  if (!npu.active || npu.open) {
    return -1;
  }
  npu.open = 1;
  return 0;
}

int32_t TVMDeviceNpuClose(void *context) {
  (void)context;
  npu.open = 0;
  return 0;
}

int32_t TVMDeviceNpuDeactivate(void *context) {
  (void)context;
  npu.active = 0;
  return 0;
}
