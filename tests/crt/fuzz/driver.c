/* Runs a fuzzer without libFuzzer: driver EXECUTIONS [SEED], or driver --seeds DIR, or
 * driver FILE... for inputs that were found elsewhere.
 *
 * Every execution mutates a seed, or an earlier mutation of one, a few times. Without coverage to
 * guide it this finds less per execution than libFuzzer; it needs nothing but a C compiler. */
#include "fuzz.h"

#include <string.h>

enum { kMaxSize = 2048, kPool = 64 };

typedef struct {
  uint8_t bytes[kMaxSize];
  size_t size;
} Input;

static uint64_t state;

/* splitmix64, below `n`. */
static size_t below(size_t n) {
  uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return (size_t)((z ^ (z >> 31)) % n);
}

/* Puts `count` bytes in the place of `removed` bytes at `at`. */
static void splice(Input *in, size_t at, size_t removed, const uint8_t *bytes, size_t count) {
  uint8_t tail[kMaxSize];
  const size_t tail_size = in->size - at - removed;
  if (at + count + tail_size > kMaxSize) {
    return;
  }
  memcpy(tail, in->bytes + at + removed, tail_size);
  memmove(in->bytes + at, bytes, count);
  memcpy(in->bytes + at + count, tail, tail_size);
  in->size = at + count + tail_size;
}

/* Numbers and marks at which readers tend to trip. */
static const fuzz_seed kWords[] = {
    {"0", 1},
    {"-1", 2},
    {"7", 1},
    {"65536", 5},
    {"2147483647", 10},
    {"4294967296", 10},
    {"18446744073709551616", 20},
    {"1e9", 3},
    {"[", 1},
    {"]", 1},
    {"{", 1},
    {"}", 1},
    {",", 1},
    {"\"", 1},
    {"\\u0000", 6},
    {"\\ud800", 6},
    {"null", 4},
    {"\xff\xff\xff\xff\xff\xff\xff\xff", 8},
    {"\0\0\0\x80", 4},
    {"\0", 1},
    {"\xff\xff\xff\x7f", 4},
};

static void mutate(Input *in, const Input *other) {
  const size_t at = below(in->size + 1);
  const size_t left = in->size - at;
  const fuzz_seed *const word = &kWords[below(sizeof kWords / sizeof kWords[0])];
  uint8_t byte;
  switch (below(7)) {
  case 0: /* one bit */
    if (left > 0) {
      in->bytes[at] ^= (uint8_t)(1u << below(8));
    }
    break;
  case 1: /* one byte */
    byte = (uint8_t)below(256);
    splice(in, at, left > 0, &byte, 1);
    break;
  case 2:
    splice(in, at, below((left < 8 ? left : 8) + 1), in->bytes, 0);
    break;
  case 3: /* a word, put between or in place */
    splice(in, at, below((left < word->size ? left : word->size) + 1), (const uint8_t *)word->bytes,
           word->size);
    break;
  case 4: /* a piece of this input, twice */
    if (left > 0) {
      splice(in, below(in->size + 1), 0, in->bytes + at, 1 + below(left < 64 ? left : 64));
    }
    break;
  case 5: /* a piece of another input */
    if (other->size > 0) {
      const size_t from = below(other->size);
      splice(in, at, 0, other->bytes + from,
             1 + below(other->size - from < 64 ? other->size - from : 64));
    }
    break;
  default: /* cut off, now and then */
    if (below(8) == 0) {
      in->size = at;
    }
  }
}

/* On the heap at its exact size, so that the sanitizer sees the first byte beyond it. */
static void run(const uint8_t *bytes, size_t size) {
  uint8_t *const copy = malloc(size > 0 ? size : 1);
  REQUIRE(copy != NULL);
  if (size > 0) {
    memcpy(copy, bytes, size);
  }
  (void)LLVMFuzzerTestOneInput(copy, size);
  free(copy);
}

static Input pool[kPool];

static void fuzz(unsigned long executions) {
  size_t i;
  unsigned long n;
  for (i = 0; i < kPool; i++) {
    const fuzz_seed *const seed = &fuzz_seeds[i % fuzz_seed_count];
    memcpy(pool[i].bytes, seed->bytes, seed->size);
    pool[i].size = seed->size;
    run(pool[i].bytes, pool[i].size);
  }
  for (n = 0; n < executions; n++) {
    static Input input;
    const size_t row = below(kPool);
    size_t times = 1 + below(4);
    /* Rows of the pool wander; they go back to a seed before they are all noise. */
    if (below(16) == 0) {
      const fuzz_seed *const seed = &fuzz_seeds[row % fuzz_seed_count];
      memcpy(pool[row].bytes, seed->bytes, seed->size);
      pool[row].size = seed->size;
    }
    input.size = pool[row].size;
    memcpy(input.bytes, pool[row].bytes, pool[row].size);
    while (times-- > 0) {
      mutate(&input, &pool[below(kPool)]);
    }
    run(input.bytes, input.size);
    if (below(4) == 0) {
      pool[row].size = input.size;
      memcpy(pool[row].bytes, input.bytes, input.size);
    }
  }
  printf("%lu executions\n", executions);
}

static void run_file(const char *path) {
  static uint8_t bytes[1 << 20];
  FILE *const file = fopen(path, "rb");
  REQUIRE(file != NULL);
  run(bytes, fread(bytes, 1, sizeof bytes, file));
  fclose(file);
}

static void write_seeds(const char *folder) {
  char path[1024];
  size_t i;
  for (i = 0; i < fuzz_seed_count; i++) {
    FILE *file;
    snprintf(path, sizeof path, "%s/seed%lu", folder, (unsigned long)i);
    file = fopen(path, "wb");
    REQUIRE(file != NULL);
    REQUIRE(fwrite(fuzz_seeds[i].bytes, 1, fuzz_seeds[i].size, file) == fuzz_seeds[i].size);
    fclose(file);
  }
}

int main(int argc, char **argv) {
  char *end = NULL;
  const unsigned long executions = argc > 1 ? strtoul(argv[1], &end, 10) : 0;
  int i;
  if (argc == 3 && strcmp(argv[1], "--seeds") == 0) {
    write_seeds(argv[2]);
  } else if (argc > 1 && *end == '\0') {
    state = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    fuzz(executions);
  } else {
    for (i = 1; i < argc; i++) {
      run_file(argv[i]);
    }
  }
  return 0;
}
