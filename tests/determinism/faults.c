/* LD_PRELOAD: the N-th call that writes below a folder fails, as on a full or broken disk.
 *
 * Calls that count: opening for writing, write, fsync, rename, mkdir. A program is told by
 * mlf_fault_set, or through MLF_FAULT="N ERRNO FOLDER" in its environment. With the errno 0 the
 * N-th call is a write that takes half of what it is given, which is no error.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { kFiles = 4096 };

static char folder[4096];
static int countdown, number, fired;
static char ours[kFiles]; /* file descriptors that write below the folder */

void mlf_fault_set(int n, int error, const char *below);
int mlf_fault_fired(void);

/* `n` = 0: nothing fails. */
void mlf_fault_set(int n, int error, const char *below) {
  snprintf(folder, sizeof folder, "%s", below);
  countdown = n;
  number = error;
  fired = 0;
}

int mlf_fault_fired(void) {
  return fired;
}

__attribute__((constructor)) static void listen(void) {
  const char *text = getenv("MLF_FAULT");
  int n, error, at;
  if (text != NULL && sscanf(text, "%d %d %n", &n, &error, &at) == 2) {
    mlf_fault_set(n, error, text + at);
  }
}

static void *next(const char *name) {
  return dlsym(RTLD_NEXT, name);
}

static int below(const char *path) {
  return countdown > 0 && path != NULL && strncmp(path, folder, strlen(folder)) == 0;
}

/* What can happen to a call: only writes can be short, and no signal interrupts a rename. */
enum kind { kWrite, kWait, kName };

/* Whether this is the call. */
static int fails(enum kind kind) {
  const int counts = number == 0 ? kind == kWrite : number != EINTR || kind != kName;
  if (countdown == 0 || !counts || --countdown > 0) {
    return 0;
  }
  fired = 1;
  errno = number;
  return 1;
}

static int remember(int fd, int counts) {
  if (fd >= 0 && fd < kFiles) {
    ours[fd] = (char)counts;
  }
  return fd;
}

static int opened(const char *name, const char *path, int flags, mode_t mode) {
  const int counts = below(path) && (flags & (O_WRONLY | O_RDWR | O_CREAT)) != 0;
  if (counts && fails(kWait)) {
    return -1;
  }
  return remember(((int (*)(const char *, int, ...))next(name))(path, flags, mode), counts);
}

#define MODE(flags, mode)                                                                          \
  do {                                                                                             \
    va_list more;                                                                                  \
    va_start(more, flags);                                                                         \
    mode = (mode_t)va_arg(more, unsigned int);                                                     \
    va_end(more);                                                                                  \
  } while (0)

int open(const char *path, int flags, ...) {
  mode_t mode = 0;
  MODE(flags, mode);
  return opened("open", path, flags, mode);
}

int open64(const char *path, int flags, ...) {
  mode_t mode = 0;
  MODE(flags, mode);
  return opened("open64", path, flags, mode);
}

int close(int fd) {
  remember(fd, 0);
  return ((int (*)(int))next("close"))(fd);
}

ssize_t write(int fd, const void *data, size_t size) {
  ssize_t (*const real)(int, const void *, size_t) =
      (ssize_t(*)(int, const void *, size_t))next("write");
  if (fd >= 0 && fd < kFiles && ours[fd] && fails(kWrite)) {
    return number == 0 ? real(fd, data, (size + 1) / 2) : -1;
  }
  return real(fd, data, size);
}

int fsync(int fd) {
  if (fd >= 0 && fd < kFiles && ours[fd] && fails(kWait)) {
    return -1;
  }
  return ((int (*)(int))next("fsync"))(fd);
}

int rename(const char *from, const char *to) {
  if (below(to) && fails(kName)) {
    return -1;
  }
  return ((int (*)(const char *, const char *))next("rename"))(from, to);
}

int mkdir(const char *path, mode_t mode) {
  if (below(path) && fails(kName)) {
    return -1;
  }
  return ((int (*)(const char *, mode_t))next("mkdir"))(path, mode);
}
