/* Strings of a fixed size: what a tensor of strings is made of.
 *
 * A slot holds at most 63 bytes of UTF-8 and zeros up to its end, so it is a C string too, and
 * equal strings are equal slots. What would become longer ends after the last whole character that
 * fits.
 */
#ifndef MLF_TEXT_H_
#define MLF_TEXT_H_

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MLF_TEXT_BYTES 64

/* One element of a tensor of strings. Copied by assignment. */
typedef struct {
  char text[MLF_TEXT_BYTES];
} mlf_string;

/* How many bytes a string has; never more than a slot can hold, whatever a caller put into it. */
static inline int32_t mlf_string_bytes(const mlf_string *s) {
  int32_t n = 0;
  while (n < MLF_TEXT_BYTES - 1 && s->text[n] != 0) {
    n++;
  }
  return n;
}

/* Puts `bytes` bytes at `text` after the first `at` of `s`, as far as they fit; the new length. */
static inline int32_t mlf_string_put(mlf_string *s, int32_t at, const char *text, int32_t bytes) {
  int32_t n = bytes;
  if (n > MLF_TEXT_BYTES - 1 - at) {
    n = MLF_TEXT_BYTES - 1 - at;
    while (n > 0 && ((unsigned char)text[n] & 0xc0U) == 0x80U) {
      n--; /* inside a character */
    }
  }
  memmove(s->text + at, text, (size_t)n);
  memset(s->text + at + n, 0, (size_t)(MLF_TEXT_BYTES - at - n));
  return at + n;
}

/* A C string as a slot. */
static inline mlf_string mlf_string_of(const char *text) {
  mlf_string s;
  int32_t n = 0;
  while (n < MLF_TEXT_BYTES && text[n] != 0) {
    n++; /* one more than fits shows that it does not */
  }
  (void)mlf_string_put(&s, 0, text, n);
  return s;
}

/* An integer in decimal: `bits` of it in two's complement. */
static inline mlf_string mlf_string_of_integer(uint64_t bits, bool negative) {
  char digits[21]; /* 2^64 has 20 digits */
  uint64_t left = negative ? 0 - bits : bits;
  int32_t at = 20;
  digits[20] = 0;
  do {
    digits[--at] = (char)('0' + (int)(left % 10));
    left /= 10;
  } while (left != 0);
  if (negative) {
    digits[--at] = '-';
  }
  return mlf_string_of(digits + at);
}

#define MLF_REAL_WORDS  81  /* 53 bits and 5^1074 */
#define MLF_REAL_DIGITS 768 /* of such a number */

/* x in decimal, as printf's %.8g: eight digits, ties of its exact value to even. */
static inline mlf_string mlf_string_of_real(double x) {
  uint32_t words[MLF_REAL_WORDS] = {0};
  char digits[MLF_REAL_DIGITS + 1], text[16];
  uint64_t bits, fraction;
  int32_t exponent, count = 0, point = 0, n = 0, k, used = 2;
  bool up, scientific;
  memcpy(&bits, &x, sizeof(bits));
  exponent = (int32_t)(bits >> 52 & 0x7ff);
  fraction = bits & UINT64_C(0xfffffffffffff);
  if (exponent == 0x7ff) {
    return mlf_string_of(fraction != 0 ? "NaN" : bits >> 63 != 0 ? "-INF" : "INF");
  }
  if (bits >> 63 != 0) {
    text[n++] = '-';
  }
  if (exponent == 0 && fraction == 0) {
    text[n++] = '0';
    text[n] = 0;
    return mlf_string_of(text);
  }
  fraction |= exponent != 0 ? UINT64_C(1) << 52 : 0;
  exponent = (exponent != 0 ? exponent : 1) - 1075;
  words[0] = (uint32_t)(fraction & 0xffffffffu);
  words[1] = (uint32_t)(fraction >> 32);
  for (k = exponent < 0 ? -exponent : exponent; k > 0; k--) { /* times 2, or 5 and a point later */
    uint64_t carry = 0;
    for (int32_t i = 0; i < used; i++) {
      carry += (uint64_t)words[i] * (exponent < 0 ? 5 : 2);
      words[i] = (uint32_t)(carry & 0xffffffffu);
      carry >>= 32;
    }
    if (carry != 0) {
      words[used++] = (uint32_t)carry;
    }
  }
  while (used > 0) { /* the digits from the last one on */
    uint32_t rest = 0;
    for (int32_t i = used - 1; i >= 0; i--) {
      const uint64_t part = (uint64_t)rest << 32 | words[i];
      words[i] = (uint32_t)(part / 10);
      rest = (uint32_t)(part % 10);
    }
    digits[count++] = (char)rest;
    while (used > 0 && words[used - 1] == 0) {
      used--;
    }
  }
  point = count - 1 + (exponent < 0 ? exponent : 0); /* the first digit's power of ten */
  if (count > 8) {
    const int32_t last = count - 8;
    int32_t below = last - 1;
    while (below > 0 && digits[below - 1] == 0) {
      below--;
    }
    up = digits[last - 1] > 5 || (digits[last - 1] == 5 && (below > 0 || digits[last] % 2 != 0));
    for (k = last; up && k < count; k++) {
      up = digits[k] == 9;
      digits[k] = (char)(up ? 0 : digits[k] + 1);
    }
    if (up) {
      digits[count++] = 1;
      point++;
    }
  }
  k = count > 8 ? count - 8 : 0;
  while (k < count - 1 && digits[k] == 0) {
    k++; /* zeros at the end */
  }
  scientific = point < -4 || point >= 8;
  for (int32_t i = scientific || point >= 0 ? 0 : point;
       i < count - k || (!scientific && i <= point); i++) {
    const int32_t at = count - 1 - i;
    if (i == (scientific || point < 0 ? 1 : point + 1) + (scientific || point >= 0 ? 0 : point)) {
      text[n++] = '.';
    }
    text[n++] = (char)('0' + (i < 0 || at < k ? 0 : digits[at]));
  }
  if (scientific) {
    const int32_t power = point < 0 ? -point : point;
    text[n++] = 'e';
    text[n++] = point < 0 ? '-' : '+';
    if (power >= 100) {
      text[n++] = (char)('0' + power / 100);
    }
    text[n++] = (char)('0' + power / 10 % 10);
    text[n++] = (char)('0' + power % 10);
  }
  text[n] = 0;
  return mlf_string_of(text);
}

/* Whether two strings have the same bytes. */
static inline bool mlf_string_equal(const mlf_string *a, const mlf_string *b) {
  return strncmp(a->text, b->text, MLF_TEXT_BYTES - 1) == 0;
}

/* Below, at or above zero as `a` comes before `b`, is equal, or comes after: by code points, which
 * is the order of the bytes of UTF-8. */
static inline int mlf_string_compare(const mlf_string *a, const mlf_string *b) {
  return strncmp(a->text, b->text, MLF_TEXT_BYTES - 1);
}

/* `a` and then `b`. */
static inline mlf_string mlf_string_joined(const mlf_string *a, const mlf_string *b) {
  mlf_string s;
  const int32_t n = mlf_string_put(&s, 0, a->text, mlf_string_bytes(a));
  (void)mlf_string_put(&s, n, b->text, mlf_string_bytes(b));
  return s;
}

/* Whether one byte is white space of ASCII. */
static inline bool mlf_is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Where the first of `count` bytes at `text` from `at` on stands that begins `wanted`; `count` if
 * there is none. */
static inline int32_t mlf_find(const char *text, int32_t at, int32_t count, const char *wanted,
                               int32_t bytes) {
  while (at + bytes <= count && memcmp(text + at, wanted, (size_t)bytes) != 0) {
    at++;
  }
  return at + bytes <= count ? at : count;
}

/* The pieces of `s` between delimiters, or between white space if `bytes` is 0; at most `most` of
 * them, the last with all that is left. Returns how many there are; those beyond `room` are not
 * stored. */
static inline int32_t mlf_string_split(const mlf_string *s, const char *delimiter, int32_t bytes,
                                       int32_t most, mlf_string *pieces, int32_t room) {
  const int32_t count = mlf_string_bytes(s);
  int32_t n = 0;
  int32_t at = 0;
  for (;;) {
    const bool last = n + 1 >= most;
    int32_t end;
    while (bytes == 0 && at < count && mlf_is_space(s->text[at])) {
      at++;
    }
    if (bytes == 0 && at == count) {
      return n;
    }
    end = last ? count : at;
    if (bytes == 0) {
      while (end < count && !mlf_is_space(s->text[end])) {
        end++;
      }
    } else if (!last) {
      end = mlf_find(s->text, at, count, delimiter, bytes);
    }
    if (n < room) {
      (void)mlf_string_put(&pieces[n], 0, s->text + at, end - at);
    }
    n++;
    if (last || end == count) {
      return n;
    }
    at = end + bytes;
  }
}

/* The partner of a letter in the other case: of ASCII, Latin-1, Latin Extended-A, Greek, Cyrillic
 * and Armenian, where there is just one and it has as many bytes. Any other character stays. */
static inline int32_t mlf_other_case(int32_t c, bool upper) {
  /* first and last capital letter, from one to the next, from a capital letter to its small one */
  static const int16_t rows[][4] = {
      {0xc0, 0xd6, 1, 32},     {0xd8, 0xde, 1, 32},    {0x100, 0x12e, 2, 1},
      {0x132, 0x136, 2, 1},    {0x139, 0x147, 2, 1},   {0x14a, 0x176, 2, 1},
      {0x178, 0x178, 1, -121}, {0x179, 0x17d, 2, 1},   {0x370, 0x372, 2, 1},
      {0x376, 0x376, 1, 1},    {0x37f, 0x37f, 1, 116}, {0x3cf, 0x3cf, 1, 8},
      {0x3f7, 0x3f7, 1, 1},    {0x3f9, 0x3f9, 1, -7},  {0x3fa, 0x3fa, 1, 1},
      {0x3fd, 0x3ff, 1, -130}, {0x386, 0x386, 1, 38},  {0x388, 0x38a, 1, 37},
      {0x38c, 0x38c, 1, 64},   {0x38e, 0x38f, 1, 63},  {0x391, 0x3a1, 1, 32},
      {0x3a3, 0x3ab, 1, 32},   {0x3d8, 0x3ee, 2, 1},   {0x400, 0x40f, 1, 80},
      {0x410, 0x42f, 1, 32},   {0x460, 0x480, 2, 1},   {0x48a, 0x4be, 2, 1},
      {0x4c0, 0x4c0, 1, 15},   {0x4c1, 0x4cd, 2, 1},   {0x4d0, 0x52e, 2, 1},
      {0x531, 0x556, 1, 48},
  };
  if (c < 0x80) {
    const int32_t first = upper ? 'a' : 'A';
    return c >= first && c < first + 26 ? c ^ 0x20 : c;
  }
  for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
    const int32_t by = upper ? rows[k][3] : 0;
    const int32_t first = rows[k][0] + by;
    if (c >= first && c <= rows[k][1] + by && (c - first) % rows[k][2] == 0) {
      return upper ? c - by : c + rows[k][3];
    }
  }
  return c;
}

/* `s` in capital letters, or in small ones; with `ascii` others than its letters stay. */
static inline mlf_string mlf_string_cased(const mlf_string *s, bool upper, bool ascii) {
  mlf_string made = *s;
  const int32_t count = mlf_string_bytes(s);
  (void)mlf_string_put(&made, 0, s->text, count);
  for (int32_t i = 0; i < count; i++) {
    const int32_t c = (unsigned char)s->text[i];
    if (c < 0x80) {
      made.text[i] = (char)mlf_other_case(c, upper);
    } else if (!ascii && (c & 0xe0) == 0xc0) {
      const int32_t low = (unsigned char)s->text[i + 1]; /* a zero at worst */
      const int32_t other = mlf_other_case((c & 0x1f) << 6 | (low & 0x3f), upper);
      if ((low & 0xc0) == 0x80) {
        made.text[i] = (char)(unsigned char)(0xc0 | other >> 6);
        made.text[i + 1] = (char)(unsigned char)(0x80 | (other & 0x3f));
        i++;
      }
    }
  }
  return made;
}

/* Whether an automaton takes the whole of `s`: `next` has a row per state with a column for each
 * kind of byte and one, the last, that says whether the text may end there. State 0 is lost. */
static inline bool mlf_string_matches(const mlf_string *s, const uint8_t *column,
                                      const uint16_t *next, int32_t columns, int32_t start) {
  const int32_t count = mlf_string_bytes(s);
  int32_t state = start;
  for (int32_t i = 0; i < count && state != 0; i++) {
    state = next[state * columns + column[(unsigned char)s->text[i]]];
  }
  return next[state * columns + columns - 1] != 0;
}

/* MurmurHash3 for 32 bits, of the bytes of `s`. */
static inline uint32_t mlf_string_hash(const mlf_string *s, uint32_t seed) {
  const uint32_t count = (uint32_t)mlf_string_bytes(s);
  uint32_t hash = seed;
  for (uint32_t i = 0; i < count; i += 4) {
    const uint32_t here = count - i < 4 ? count - i : 4;
    uint32_t word = 0;
    for (uint32_t k = 0; k < here; k++) {
      word |= (uint32_t)(unsigned char)s->text[i + k] << (8U * k);
    }
    word *= 0xcc9e2d51U;
    hash ^= ((word << 15) | (word >> 17)) * 0x1b873593U;
    if (here == 4) {
      hash = ((hash << 13) | (hash >> 19)) * 5 + 0xe6546b64U;
    }
  }
  hash ^= count;
  hash = (hash ^ (hash >> 16)) * 0x85ebca6bU;
  hash = (hash ^ (hash >> 13)) * 0xc2b2ae35U;
  return hash ^ (hash >> 16);
}

/* Whether one byte is of a word: a letter or digit of ASCII or _. */
static inline bool mlf_is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= 'a' && c <= 'z');
}

/* Where the longest match that begins at `at` ends; `at` if there is none or an empty one. The last
 * three columns of `next` say whether one may end where the text ends, before a byte of a word and
 * before another; `starts` has the states at the text's begin, after such bytes. */
static inline int32_t mlf_string_longest(const mlf_string *s, int32_t at, const uint8_t *column,
                                         const uint16_t *next, int32_t columns,
                                         const uint16_t *starts) {
  const int32_t count = mlf_string_bytes(s);
  int32_t state = starts[at == 0 ? 0 : mlf_is_word(s->text[at - 1]) ? 1 : 2];
  int32_t end = at;
  for (int32_t i = at; i <= count && state != 0; i++) {
    const int32_t after = i == count ? 0 : mlf_is_word(s->text[i]) ? 1 : 2;
    if (next[state * columns + columns - 3 + after] != 0) {
      end = i;
    }
    if (i < count) {
      state = next[state * columns + column[(unsigned char)s->text[i]]];
    }
  }
  return end;
}

/* Puts bytes `from` to `end` of `s` into `token` if they are at least `least` characters and one;
 * returns how many tokens that are. */
static inline int32_t mlf_string_token(const mlf_string *s, int32_t from, int32_t end,
                                       int32_t least, mlf_string *token) {
  int32_t characters = 0;
  for (int32_t i = from; i < end; i++) {
    characters += ((unsigned char)s->text[i] & 0xc0U) != 0x80U;
  }
  if (characters < least) {
    return 0;
  }
  (void)mlf_string_put(token, 0, s->text + from, end - from);
  return 1;
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_TEXT_H_ */
