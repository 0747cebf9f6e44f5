/* What a processor's startup.c calls, and what it has in common with others. */
#ifndef MLF_BOARDS_START_H_
#define MLF_BOARDS_START_H_

#include <stdint.h>

/* Exit status of a program that crashed; programs use small numbers of their own. */
enum { kStatusFault = 70 };

/* Guards the stack, sets up memory and runs main with the simulator's arguments. */
__attribute__((noreturn)) void start(void);

/* Prints `label` and the value as hexadecimal digits, all that a register has. */
void start_print_hex(const char *label, uintptr_t value);

/* Before a function whose loops must not become calls of memcpy or memset. */
#ifdef __clang__
#define PLAIN_LOOPS __attribute__((no_builtin("memcpy", "memset")))
#else
#define PLAIN_LOOPS __attribute__((optimize("no-tree-loop-distribute-patterns")))
#endif

#endif /* MLF_BOARDS_START_H_ */
