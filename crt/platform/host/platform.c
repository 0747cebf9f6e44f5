/* The platform of a desktop computer. */
#define _POSIX_C_SOURCE 199309L /* clock_gettime */

#include "platform.h"

#include <stdio.h>
#include <time.h>

/* stdio streams by small number, so that no pointer is hidden in an int. */
enum { kMaxFiles = 4 };
static FILE *files[kMaxFiles];

const char platform_counter_name[] = "microseconds";
const uint32_t platform_counter_scale = 1000; /* clock_gettime gives nanoseconds */

void platform_print(const char *text) {
  fputs(text, stdout);
}

void platform_complain(const char *text) {
  fputs(text, stderr);
}

static platform_file open_file(const char *path, const char *mode) {
  int i;
  for (i = 0; i < kMaxFiles; i++) {
    if (files[i] == NULL) {
      files[i] = fopen(path, mode);
      return files[i] == NULL ? -1 : i;
    }
  }
  return -1;
}

platform_file platform_open_to_read(const char *path) {
  return open_file(path, "rb");
}

platform_file platform_open_to_write(const char *path) {
  return open_file(path, "wb");
}

int64_t platform_size(platform_file file) {
  const long here = ftell(files[file]);
  long size;
  if (here < 0 || fseek(files[file], 0, SEEK_END) != 0) {
    return -1;
  }
  size = ftell(files[file]);
  return fseek(files[file], here, SEEK_SET) == 0 ? size : -1;
}

int platform_read(platform_file file, void *data, size_t bytes) {
  return fread(data, 1, bytes, files[file]) == bytes ? 0 : -1;
}

int platform_write(platform_file file, const void *data, size_t bytes) {
  return fwrite(data, 1, bytes, files[file]) == bytes ? 0 : -1;
}

int platform_close(platform_file file) {
  FILE *const stream = files[file];
  files[file] = NULL;
  return fclose(stream) == 0 ? 0 : -1;
}

int platform_counter_start(void) {
  return 0;
}

uint64_t platform_counter_begin(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t platform_counter_end(void) {
  return platform_counter_begin();
}

uint64_t platform_counter_cost(uint64_t begin, uint64_t end) {
  return end - begin;
}

void platform_stack_mark(void) {
}

size_t platform_stack_used(void) {
  return 0;
}
