/* EXPECT(condition) prints a condition that does not hold and counts it in `failures`. */
#ifndef TESTS_CRT_EXPECT_H_
#define TESTS_CRT_EXPECT_H_

#include <stdio.h>

static int failures;

#define EXPECT(condition)                                                                          \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      failures++;                                                                                  \
      printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                       \
    }                                                                                              \
  } while (0)

#endif /* TESTS_CRT_EXPECT_H_ */
