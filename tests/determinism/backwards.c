/* LD_PRELOAD: folders are listed last entry first, as another file system might. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { kFolders = 64 };

/* A folder that is being listed: its entries, and how many have not been given yet. */
struct listing {
  DIR *dir;
  struct dirent64 *entries;
  size_t left;
};
static struct listing listings[kFolders];

static void *next(const char *name) {
  return dlsym(RTLD_NEXT, name);
}

static struct listing *find(DIR *dir) {
  for (int i = 0; i < kFolders; i++) {
    if (listings[i].dir == dir) {
      return &listings[i];
    }
  }
  return NULL;
}

static void forget(DIR *dir) {
  struct listing *l = find(dir);
  if (l != NULL) {
    free(l->entries);
    memset(l, 0, sizeof *l);
  }
}

/* Reads the whole folder. */
static int start(struct listing *l, DIR *dir) {
  struct dirent64 *(*const real)(DIR *) = (struct dirent64 * (*)(DIR *)) next("readdir64");
  const struct dirent64 *entry;
  l->dir = dir;
  while ((entry = real(dir)) != NULL) {
    struct dirent64 *more = realloc(l->entries, (l->left + 1) * sizeof *more);
    if (more == NULL) {
      return 0;
    }
    l->entries = more;
    memcpy(&more[l->left++], entry, entry->d_reclen);
  }
  return 1;
}

struct dirent64 *readdir64(DIR *dir) {
  struct listing *l = find(dir);
  if (l == NULL) {
    l = find(NULL);
    if (l == NULL || !start(l, dir)) {
      abort(); /* never a run that tested less than it says */
    }
  }
  return l->left == 0 ? NULL : &l->entries[--l->left];
}

/* The same on machines with 64-bit files. */
struct dirent *readdir(DIR *dir) {
  return (struct dirent *)readdir64(dir);
}

void rewinddir(DIR *dir) {
  forget(dir);
  ((void (*)(DIR *))next("rewinddir"))(dir);
}

int closedir(DIR *dir) {
  forget(dir);
  return ((int (*)(DIR *))next("closedir"))(dir);
}
