/* Sizes that cannot wrap around, and reading of little-endian bytes that cannot run off their end.
 */
#ifndef TVM_RUNTIME_CRT_INTERNAL_COMMON_BYTES_H_
#define TVM_RUNTIME_CRT_INTERNAL_COMMON_BYTES_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 0, or -1 (and nothing stored) when the result does not fit. */
static inline int TVMSize_Add(size_t a, size_t b, size_t *sum) {
  if (b > SIZE_MAX - a) {
    return -1;
  }
  *sum = a + b;
  return 0;
}

static inline int TVMSize_Mul(size_t a, size_t b, size_t *product) {
  if (b != 0 && a > SIZE_MAX / b) {
    return -1;
  }
  *product = a * b;
  return 0;
}

/* Up to a multiple of `alignment`, a power of two. */
static inline int TVMSize_AlignUp(size_t size, size_t alignment, size_t *aligned) {
  if (TVMSize_Add(size, alignment - 1, aligned) != 0) {
    return -1;
  }
  *aligned &= ~(alignment - 1);
  return 0;
}

/* Bytes still to be read. */
typedef struct {
  const uint8_t *at;
  size_t left;
} TVMByteCursor;

/* The next `count` bytes, or NULL (and nothing taken) when there are fewer. */
static inline const uint8_t *TVMByteCursor_Take(TVMByteCursor *cursor, size_t count) {
  const uint8_t *const taken = cursor->at;
  if (count > cursor->left) {
    return NULL;
  }
  cursor->at += count;
  cursor->left -= count;
  return taken;
}

/* An unsigned number of 1 to 8 bytes, low byte first. 0, or -1 at the end of the bytes. */
static inline int TVMByteCursor_Number(TVMByteCursor *cursor, size_t bytes, uint64_t *number) {
  const uint8_t *const p = TVMByteCursor_Take(cursor, bytes);
  size_t i;
  if (p == NULL) {
    return -1;
  }
  *number = 0;
  for (i = 0; i < bytes; i++) {
    *number |= (uint64_t)p[i] << (8 * i);
  }
  return 0;
}

/* Copies little-endian elements into this machine's byte order. */
static inline void TVMCopyFromLittleEndian(void *to, const uint8_t *from, size_t total_bytes,
                                           size_t element_bytes) {
  const uint16_t probe = 1;
  uint8_t low_byte_first;
  size_t i;
  memcpy(&low_byte_first, &probe, 1);
  if (low_byte_first || element_bytes < 2) {
    if (total_bytes > 0) { /* an empty tensor may have no address */
      memcpy(to, from, total_bytes);
    }
    return;
  }
  for (i = 0; i < total_bytes; i++) {
    const size_t in_element = i % element_bytes;
    ((uint8_t *)to)[i] = from[i - in_element + (element_bytes - 1 - in_element)];
  }
}

/* Where byte `at` of little-endian elements is in this machine's memory. */
static inline size_t TVMLittleEndianPlace(size_t at, size_t element_bytes) {
  const uint16_t probe = 1;
  uint8_t low_byte_first;
  memcpy(&low_byte_first, &probe, 1);
  return low_byte_first ? at : at - at % element_bytes + (element_bytes - 1 - at % element_bytes);
}

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_INTERNAL_COMMON_BYTES_H_ */
