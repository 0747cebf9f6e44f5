/* Arm semihosting, which RISC-V took over: the program stops at a breakpoint, the simulator or
 * debugger does the work.
 *
 * https://github.com/ARM-software/abi-aa/blob/main/semihosting/semihosting.rst names the calls.
 */
#ifndef MLF_BOARDS_SEMIHOSTING_H_
#define MLF_BOARDS_SEMIHOSTING_H_

#include <stddef.h>
#include <stdint.h>

#include "cpu.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  SYS_OPEN = 0x01,
  SYS_CLOSE = 0x02,
  SYS_WRITE0 = 0x04,
  SYS_WRITE = 0x05,
  SYS_READ = 0x06,
  SYS_FLEN = 0x0c,
  SYS_GET_CMDLINE = 0x15,
  SYS_EXIT_EXTENDED = 0x20
};

/* One call: `argument` is a pointer to a block of words, or to text, as the call wants. */
static inline intptr_t semihosting(intptr_t operation, const void *argument) {
  return cpu_semihosting(operation, argument);
}

/* Ends the simulation; `status` becomes its exit status. */
__attribute__((noreturn)) static inline void semihosting_exit(int status) {
  const intptr_t block[2] = {0x20026 /* ADP_Stopped_ApplicationExit */, status};
  for (;;) {
    (void)semihosting(SYS_EXIT_EXTENDED, block);
  }
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_BOARDS_SEMIHOSTING_H_ */
