/* The calls of core_calls.h on a simulated Cortex-M55, whose memory protection unit allows each
 * buffer and nothing around it, in steps of 32 bytes: a buffer ends or begins at one. The texts of
 * calls, as assembly.c reads them with their sizes before them, are at 0x70800000; what each gave
 * goes to the console in hexadecimal digits, a line for each call, "fault" if it went beyond. */
#include <setjmp.h>

#include "core_calls.h"

#define ROOM    4096
#define BUFFERS 0x31200000u
#define MOST    8

typedef void (*function)(void);
extern uint32_t __stack_top[];
static jmp_buf before;
static volatile uint32_t *const mpu = (volatile uint32_t *)0xe000ed90u;

static void say(const char *text) {
  register int r0 __asm__("r0") = 4;
  register const char *r1 __asm__("r1") = text;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}

__attribute__((noreturn)) static void leave(void) {
  register int r0 __asm__("r0") = 0x18;
  register int r1 __asm__("r1") = 0x20026;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  for (;;) {
  }
}

/* Where a call that went beyond goes on, its loop forgotten. */
__attribute__((used, noreturn)) static void recovered(void) {
  __asm__ volatile("vmsr fpscr, %0" : : "r"(0x40000));
  longjmp(before, 1);
}

__attribute__((used)) static void leave_the_call(uint32_t *frame) {
  frame[6] = (uint32_t)(uintptr_t)recovered & ~1u;
  frame[7] = 1u << 24;
  *(volatile uint32_t *)0xe000ed28u = 0xffffffffu; /* the fault is known */
}

__attribute__((naked)) static void fault_handler(void) {
  __asm volatile("mrs r0, msp\n"
                 "b leave_the_call\n");
}

static void allow(uint32_t region, uint32_t from, uint32_t bytes) {
  mpu[2] = region;
  mpu[3] = from | 2u; /* all may write */
  mpu[4] = ((from + bytes - 1) & ~31u) | 1u;
}

/* `sizes` has what each buffer needs and whether it begins where it may. */
static void place(int32_t count, int32_t (*sizes)[2], char **buffers) {
  mpu[1] = 0;
  for (int32_t b = 0; b < MOST - 2; b++) {
    mpu[2] = (uint32_t)b + 2;
    mpu[4] = 0;
  }
  for (int32_t b = 0; b < count; b++) {
    const uint32_t room = BUFFERS + (uint32_t)b * 4 * ROOM, size = (uint32_t)sizes[b][0];
    const uint32_t most = size ? (size + 31) / 32 * 32 : 0;
    buffers[b] = (char *)(sizes[b][1] ? room : room + most - size);
    if (size)
      allow((uint32_t)b + 2, room, most);
  }
}

static void answer(const char *bytes, int32_t count) {
  for (int32_t k = 0; k < count; k++) {
    const char text[3] = {"0123456789abcdef"[bytes[k] >> 4 & 15], "0123456789abcdef"[bytes[k] & 15],
                          0};
    say(text);
  }
}

static void one(const char *text) {
  static int32_t head[3], sizes[MOST][2], arguments[16][2], numbers[16];
  static char *buffers[MOST], *given[16];
  memcpy(head, text, sizeof head);
  memcpy(sizes, text += sizeof head, 8 * (size_t)head[1]);
  memcpy(arguments, text += 8 * head[1], 8 * (size_t)head[2]);
  text += 8 * head[2];
  place(head[1], sizes, buffers);
  for (int32_t b = 0; b < head[1]; b++) {
    memcpy(buffers[b], text, (size_t)sizes[b][0]);
    text += sizes[b][0];
  }
  for (int32_t a = 0; a < head[2]; a++) {
    numbers[a] = arguments[a][1];
    given[a] = arguments[a][0] < 0 ? 0 : buffers[arguments[a][0]] + arguments[a][1];
  }
  if (setjmp(before)) {
    mpu[1] = 0;
    say("fault\n");
    return;
  }
  mpu[1] = 3;
  __asm__ volatile("dsb\n\tisb" : : : "memory");
  const int status = call(head[0], given, numbers);
  mpu[1] = 0;
  __asm__ volatile("dsb\n\tisb" : : : "memory");
  for (int32_t b = 0; b < head[1] && !status; b++)
    answer(buffers[b], sizes[b][0]);
  say(status ? "unknown\n" : "\n");
}

__attribute__((used)) static void start(void) {
  const char *text = (const char *)0x70800000u;
  *(volatile uint32_t *)0xe000ed24u |= 0x70000u; /* faults have their own handlers */
  mpu[12] = 0x000000ffu;                         /* memory attributes: normal */
  allow(0, 0x70000000u, 0x01000000u);
  allow(1, 0x31000000u, 0x00100000u);
  for (int32_t size; memcpy(&size, text, sizeof size), size > 0; text += 4 + size)
    one(text + 4);
  leave();
}

__attribute__((naked, noreturn, used)) void reset_handler(void);
__attribute__((naked, noreturn, used)) void reset_handler(void) {
  __asm volatile("movw r0, #0xed88\n"
                 "movt r0, #0xe000\n"
                 "ldr r1, [r0]\n"
                 "orr r1, r1, #0xf00000\n"
                 "str r1, [r0]\n"
                 "dsb\n"
                 "isb\n"
                 "b start\n");
}

__attribute__((section(".vectors"), used)) static const function vectors[16] = {
    (function)(uintptr_t)__stack_top,
    reset_handler,
    fault_handler,
    fault_handler,
    fault_handler,
    fault_handler,
    fault_handler,
    fault_handler,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0};
