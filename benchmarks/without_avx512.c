/* A processor without AVX-512 and VNNI, for libraries whose CPUID instructions became UD2.
 *
 * UD2 traps; the handler asks the real CPUID, clears what x86-64-v3 does not have, and goes on
 * after the instruction. without_avx512.py makes such libraries. Preload it: LD_PRELOAD. */
#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>

static unsigned without(unsigned value, const int *bits) {
  for (; *bits >= 0; bits++) {
    value &= ~(1u << *bits);
  }
  return value;
}

/* Intel's manual, volume 2, CPUID, leaf 7: F DQ IFMA PF ER CD BW VL; VBMI VBMI2 VNNI BITALG
 * VPOPCNTDQ; 4VNNIW 4FMAPS VP2INTERSECT AMX FP16; then subleaf 1: AVX-VNNI BF16 AMX IFMA; VNNI
 * on bytes and words, AVX10. */
static const int EBX[] = {16, 17, 21, 26, 27, 28, 30, 31, -1}, ECX[] = {1, 6, 11, 12, 14, -1},
                 EDX[] = {2, 3, 8, 22, 23, 24, 25, -1};
static const int EAX_1[] = {4, 5, 21, 22, 23, -1}, EDX_1[] = {4, 5, 10, 19, -1};

static void on_trap(int number, siginfo_t *info, void *context) {
  greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
  (void)info;
  if (memcmp((const void *)r[REG_RIP], "\x0f\x0b", 2) != 0) {
    signal(number, SIG_DFL);
    return;
  }
  unsigned leaf = (unsigned)r[REG_RAX], sub = (unsigned)r[REG_RCX], a, b, c, d;
  __cpuid_count(leaf, sub, a, b, c, d);
  if (leaf == 7 && sub == 0) {
    b = without(b, EBX);
    c = without(c, ECX);
    d = without(d, EDX);
  } else if (leaf == 7 && sub == 1) {
    a = without(a, EAX_1);
    d = without(d, EDX_1);
  }
  r[REG_RAX] = a;
  r[REG_RBX] = b;
  r[REG_RCX] = c;
  r[REG_RDX] = d;
  r[REG_RIP] += 2;
}

__attribute__((constructor)) static void install(void) {
  struct sigaction action = {.sa_flags = SA_SIGINFO};
  action.sa_sigaction = on_trap;
  sigaction(SIGILL, &action, NULL);
}
