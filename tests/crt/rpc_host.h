/* The host's end of the line for C tests: frames made and taken apart bit by bit, as the reference
 * says, without a function of the runtime. */
#ifndef TESTS_CRT_RPC_HOST_H_
#define TESTS_CRT_RPC_HOST_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

enum { kHostRoom = 1 << 16 };

typedef struct {
  uint8_t bytes[kHostRoom];
  size_t size;
} Bytes;

static inline void put(Bytes *b, uint64_t number, int width) {
  while (width-- > 0) {
    b->bytes[b->size++] = (uint8_t)(number & 0xff);
    number >>= 8;
  }
}

static inline void put_bytes(Bytes *b, const void *data, size_t size) {
  memcpy(b->bytes + b->size, data, size);
  b->size += size;
}

static inline uint64_t number_at(const uint8_t *at, int width) {
  uint64_t number = 0;
  while (width-- > 0) {
    number = number << 8 | at[width];
  }
  return number;
}

static inline uint16_t bitwise_crc(const uint8_t *data, size_t size) {
  uint32_t crc = 0xffff;
  size_t i;
  int bit;
  for (i = 0; i < size; i++) {
    for (bit = 7; bit >= 0; bit--) {
      const uint32_t top = (crc >> 15 & 1) ^ (data[i] >> bit & 1u);
      crc = (crc << 1 & 0xffff) ^ (top ? 0x1021u : 0);
    }
  }
  return (uint16_t)crc;
}

static inline void put_doubled(Bytes *b, const uint8_t *data, size_t size) {
  size_t i;
  for (i = 0; i < size; i++) {
    put(b, data[i], 1);
    if (data[i] == 0xff) {
      put(b, 0xff, 1);
    }
  }
}

/* Appends a frame. */
static inline void put_frame(Bytes *b, const uint8_t *payload, size_t size) {
  const size_t start = b->size;
  uint8_t number[4];
  size_t i;
  uint16_t crc;
  put(b, 0xff, 1);
  put(b, 0xfd, 1);
  for (i = 0; i < 4; i++) {
    number[i] = (uint8_t)(size >> (8 * i));
  }
  put_doubled(b, number, 4);
  put_doubled(b, payload, size);
  crc = bitwise_crc(b->bytes + start, b->size - start);
  number[0] = (uint8_t)(crc & 0xff);
  number[1] = (uint8_t)(crc >> 8);
  put_doubled(b, number, 2);
}

/* Takes `count` bytes, doubled where they are ff. 0, or -1 when they are not right. */
static inline int take_doubled(const Bytes *b, size_t *at, uint8_t *to, size_t count) {
  while (count-- > 0) {
    if (*at >= b->size) {
      return -1;
    }
    *to++ = b->bytes[*at];
    if (b->bytes[(*at)++] == 0xff && (*at >= b->size || b->bytes[(*at)++] != 0xff)) {
      return -1;
    }
  }
  return 0;
}

/* Takes the next frame, which may have a fe before it. Its payload's size, or -1. */
static inline long take_frame(const Bytes *b, size_t *at, uint8_t *payload) {
  uint8_t number[4];
  size_t start;
  size_t size;
  uint16_t crc;
  if (*at < b->size && b->bytes[*at] == 0xfe) {
    ++*at;
  }
  start = *at;
  if (b->size - start < 8 || b->bytes[start] != 0xff || b->bytes[start + 1] != 0xfd) {
    return -1;
  }
  *at += 2;
  if (take_doubled(b, at, number, 4) != 0) {
    return -1;
  }
  size = (size_t)number_at(number, 4);
  if (size > kHostRoom || take_doubled(b, at, payload, size) != 0) {
    return -1;
  }
  crc = bitwise_crc(b->bytes + start, *at - start);
  if (take_doubled(b, at, number, 2) != 0 || number_at(number, 2) != crc) {
    return -1;
  }
  return (long)size;
}

#endif /* TESTS_CRT_RPC_HOST_H_ */
