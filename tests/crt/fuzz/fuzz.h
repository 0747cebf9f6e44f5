/* What the fuzzers share. Each is one file with LLVMFuzzerTestOneInput and seeds; it links with
 * libFuzzer, with AFL++ (afl-clang-fast -fsanitize=fuzzer) or with driver.c and any compiler. */
#ifndef TESTS_CRT_FUZZ_FUZZ_H_
#define TESTS_CRT_FUZZ_FUZZ_H_

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Blocks of TVMPlatformMemoryAllocate that were not given back. */
extern int fuzz_live_blocks;

/* How many more it gives; INT_MAX is no limit. */
extern int fuzz_blocks_left;

#define REQUIRE(condition)                                                                         \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                              \
      abort();                                                                                     \
    }                                                                                              \
  } while (0)

/* Inputs to start from; the driver mutates them. libFuzzer reads them from files that
 * `driver --seeds DIR` writes. */
typedef struct {
  const char *bytes;
  size_t size;
} fuzz_seed;

extern const fuzz_seed fuzz_seeds[];
extern const size_t fuzz_seed_count;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif /* TESTS_CRT_FUZZ_FUZZ_H_ */
