/* Constants in a prefix code (Huffman's): the more often a value occurs, the fewer bits it takes.
 *
 * The words of a code are its shortest length and its longest, of at most 16 bits; for each length
 * between them the last 16 bits that begin with a code no longer; for each what turns a code into
 * the index of its value, modulo 2^16; then the codes, the first in the highest bits. */
#ifndef MLF_UNPACK_H_
#define MLF_UNPACK_H_

#include "kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

struct mlf_codes {
  const uint16_t *last;  /* by length, from the shortest on */
  const uint16_t *index; /* by length */
  const uint16_t *next;  /* the words that were not read yet */
  uint32_t window;       /* the bits that follow, from the highest on */
  int32_t held;          /* how many they are */
  int32_t shortest;
};

MLF_INLINE struct mlf_codes mlf_codes_of(const uint16_t *words) {
  const int32_t lengths = (int32_t)words[1] - (int32_t)words[0] + 1;
  struct mlf_codes codes;
  codes.last = words + 2;
  codes.index = codes.last + lengths;
  codes.next = codes.index + lengths;
  codes.window = 0;
  codes.held = 0;
  codes.shortest = words[0];
  return codes;
}

/* The index of the next value. */
MLF_INLINE uint16_t mlf_next_index(struct mlf_codes *codes) {
  if (codes->held < 16) {
    codes->window |= (uint32_t)*codes->next << (16 - codes->held);
    codes->next++;
    codes->held += 16;
  }
  const uint32_t word = codes->window >> 16;
  int32_t longer = 0;
  while (word > codes->last[longer]) {
    longer++;
  }
  const int32_t length = codes->shortest + longer;
  codes->window <<= length;
  codes->held -= length;
  return (uint16_t)(codes->index[longer] + (word >> (16 - length)));
}

/* n values; one function for all layers, since flash is what this is for. */
#if defined(__GNUC__)
__attribute__((noinline, unused))
#endif
static void
mlf_unpack_octets(void *to, const void *values, const uint16_t *words, int32_t n) {
  struct mlf_codes codes = mlf_codes_of(words);
  uint8_t *octets = (uint8_t *)to;
  for (int32_t i = 0; i < n; i++) {
    octets[i] = ((const uint8_t *)values)[mlf_next_index(&codes)];
  }
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_UNPACK_H_ */
