/* What a test program needs from the machine it runs on: text, files, a counter, stack use.
 *
 * crt/platform/host/platform.c implements it with the C library, crt/boards/common/platform.c with
 * semihosting, where the simulator (or a debugger) serves files of the computer it runs on. A
 * program has an ordinary main(argc, argv) on both. Nothing here allocates memory.
 */
#ifndef MLF_PLATFORM_H_
#define MLF_PLATFORM_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Results go to standard output, complaints to standard error (a board has one console for both).
 */
void platform_print(const char *text);
void platform_complain(const char *text);

/* Files of the computer, whole and in order. */
typedef int platform_file; /* negative: could not be opened */
platform_file platform_open_to_read(const char *path);
platform_file platform_open_to_write(const char *path);
/* Size in bytes, or -1. */
int64_t platform_size(platform_file file);
/* 0, or -1 when fewer bytes could be read or written. */
int platform_read(platform_file file, void *data, size_t bytes);
int platform_write(platform_file file, const void *data, size_t bytes);
int platform_close(platform_file file);

/* Counts what a run costs. `platform_counter_start` returns 0, or -1 when the counter does not
 * count what it says it does; then its readings mean nothing. */
int platform_counter_start(void);
/* Readings before and after what is measured, and the cost between them: in platform_counter_name,
 * which is "instructions" on a simulated board and "microseconds" on the host, times
 * platform_counter_scale. Costs are cut to whole ticks of the counter. */
uint64_t platform_counter_begin(void);
uint64_t platform_counter_end(void);
uint64_t platform_counter_cost(uint64_t begin, uint64_t end);
extern const char platform_counter_name[];
extern const uint32_t platform_counter_scale;

/* Marks the unused stack below the caller; `platform_stack_used` then says how deep calls went
 * since, in bytes; SIZE_MAX when they went through the end of the stack. A platform that cannot
 * tell returns 0. */
void platform_stack_mark(void);
size_t platform_stack_used(void);

#ifdef __cplusplus
}
#endif

#endif /* MLF_PLATFORM_H_ */
