/* A QEMU plugin (API version 1): how often each block of instructions ran, as a line for each,
 * "COUNT ADDRESS ADDRESS ..." with the addresses of its instructions. Build with gcc -shared -fPIC;
 * use as -plugin FILE.so,out=TEXT. It declares the few functions it calls, so that QEMU's header
 * need not be installed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { kAddU64 = 0 }; /* of enum qemu_plugin_op */

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *insn, int op,
                                                void *counter, uint64_t step);
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id,
                                           void (*call)(uint64_t, struct qemu_plugin_tb *));
void qemu_plugin_register_atexit_cb(uint64_t id, void (*call)(uint64_t, void *), void *data);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;
__attribute__((visibility("default"))) int qemu_plugin_install(uint64_t id, const void *info,
                                                               int argc, char **argv);

struct block {
  struct block *next;
  uint64_t count;
  size_t length;
  uint64_t addresses[];
};

static struct block *blocks;
static const char *path;

/* A block is counted at its first instruction: where it is cut short, by an exception or by a
 * counter that is read, its rest is translated and counted as a block of its own. */
static void translated(uint64_t id, struct qemu_plugin_tb *tb) {
  const size_t length = qemu_plugin_tb_n_insns(tb);
  struct block *const block = calloc(1, sizeof *block + length * sizeof block->addresses[0]);
  (void)id;
  if (block == NULL) {
    abort();
  }
  for (size_t i = 0; i < length; i++) {
    block->addresses[i] = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, i));
  }
  block->length = length;
  block->next = blocks;
  blocks = block;
  qemu_plugin_register_vcpu_insn_exec_inline(qemu_plugin_tb_get_insn(tb, 0), kAddU64, &block->count,
                                             1);
}

static void finished(uint64_t id, void *data) {
  FILE *const out = fopen(path, "w");
  (void)id;
  (void)data;
  if (out == NULL) {
    abort();
  }
  for (const struct block *b = blocks; b != NULL; b = b->next) {
    fprintf(out, "%" PRIu64, b->count);
    for (size_t i = 0; i < b->length; i++) {
      fprintf(out, " %" PRIx64, b->addresses[i]);
    }
    fprintf(out, "\n");
  }
  fclose(out);
}

int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv) {
  (void)info;
  if (argc != 1 || strncmp(argv[0], "out=", 4) != 0) {
    return 1;
  }
  path = strdup(argv[0] + 4);
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_atexit_cb(id, finished, NULL);
  return 0;
}
