/* Walks the names of a function registry, which may be no registry at all. */
#ifndef TVM_RUNTIME_CRT_INTERNAL_COMMON_FUNC_NAMES_H_
#define TVM_RUNTIME_CRT_INTERNAL_COMMON_FUNC_NAMES_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  const char *at;
  size_t left;    /* bytes from `at` to the end of the blob */
  uint16_t count; /* names still to come, if the blob says the truth */
} TVMFuncNames;

/* Reads the count, in whichever form it is. 0, or -1 when `length` bytes do not hold it. Registries
 * of generated code are passed with SIZE_MAX: their length is nowhere written. */
int TVMFuncNames_Open(TVMFuncNames *names, const char *blob, size_t length);

/* The next name; NULL after the last one, at an empty one (which ends the list whatever the count
 * says), and at one that does not end within the blob. */
const char *TVMFuncNames_Next(TVMFuncNames *names);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_INTERNAL_COMMON_FUNC_NAMES_H_ */
