/* One call of a function with a contract, each of whose buffers ends where a page does that nothing
 * may touch, or begins where one ends. Standard input: the number of the function, of buffers and
 * of arguments; for each buffer its size, and 1 if it begins at a page; for each argument a buffer,
 * or -1, and a number, which is added to its address; then what buffers hold. Standard output: what
 * they hold then. CALLS is a file with the functions. */
#include CALLS

#define MOST 16
#define PAGE 4096
#define ROOM (4 * PAGE)

#ifdef __arm__
/* The system calls of Linux: bare-metal compilers have none. */
static long system_call(long number, long a, long b, long c) {
  register long r0 __asm__("r0") = a;
  register long r1 __asm__("r1") = b;
  register long r2 __asm__("r2") = c;
  register long r7 __asm__("r7") = number;
  __asm__ volatile("svc #0" : "+r"(r0) : "r"(r1), "r"(r2), "r"(r7) : "memory");
  return r0;
}
#define read(from, to, n)        system_call(3, from, (long)(to), n)
#define write(to, from, n)       system_call(4, to, (long)(from), n)
#define mprotect(at, n, allowed) system_call(125, (long)(at), n, allowed)
#define leave(status)            system_call(1, status, 0, 0)
#else
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#define leave(status) exit(status)
#endif

static char pages[MOST][ROOM + 2 * PAGE] __attribute__((aligned(PAGE)));

static void take(void *to, int32_t size) {
  for (char *at = to; size > 0;) {
    const int32_t got = (int32_t)read(0, at, (size_t)size);
    if (got <= 0)
      leave(2);
    at += got;
    size -= got;
  }
}

int main(void) {
  int32_t head[3], sizes[MOST][2], arguments[MOST][2], numbers[MOST] = {0};
  char *buffers[MOST], *given[MOST] = {0};
  take(head, sizeof head);
  take(sizes, head[1] * 8);
  take(arguments, head[2] * 8);
  for (int32_t b = 0; b < head[1]; b++) {
    char *const room = pages[b] + PAGE;
    buffers[b] = sizes[b][1] ? room : room + ROOM - sizes[b][0];
    take(buffers[b], sizes[b][0]);
    mprotect(pages[b], PAGE, 0);
    mprotect(room + ROOM, PAGE, 0);
  }
  for (int32_t a = 0; a < head[2]; a++) {
    numbers[a] = arguments[a][1];
    given[a] = arguments[a][0] < 0 ? 0 : buffers[arguments[a][0]] + arguments[a][1];
  }
  const int status = call(head[0], given, numbers);
  for (int32_t b = 0; b < head[1]; b++) {
    if (write(1, buffers[b], (size_t)sizes[b][0]) != sizes[b][0])
      leave(2);
  }
  leave(status);
  return 0;
}

#ifdef __arm__
void _start(void);
void _start(void) {
  main();
}
#endif
