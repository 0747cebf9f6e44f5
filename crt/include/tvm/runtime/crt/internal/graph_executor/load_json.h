/* Reads JSON piece by piece, from a text of known length, without allocating memory.
 *
 * The first error stays: from then on nothing is read, TVMJson_More ends every loop, and numbers
 * and strings come out empty. So a caller checks `error` once, at the end. */
#ifndef TVM_RUNTIME_CRT_INTERNAL_GRAPH_EXECUTOR_LOAD_JSON_H_
#define TVM_RUNTIME_CRT_INTERNAL_GRAPH_EXECUTOR_LOAD_JSON_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  const char *text;
  size_t length;
  size_t at;
  const char *error; /* what is wrong at `at`; NULL while nothing is */
} TVMJson;

void TVMJson_Open(TVMJson *json, const char *text, size_t length);

/* Notes an error unless there is one. */
void TVMJson_Fail(TVMJson *json, const char *what);

/* Expects '{' or '['. */
void TVMJson_Begin(TVMJson *json, char open);

/* After Begin and `done` items: 1 if another item follows, 0 after the closing bracket. */
int TVMJson_More(TVMJson *json, char close, uint32_t done);

/* A string into `buffer`, NUL-terminated; longer ones, and those that contain NUL, are errors. */
void TVMJson_String(TVMJson *json, char *buffer, size_t buffer_bytes);

/* A string and the colon after it. */
void TVMJson_Key(TVMJson *json, char *buffer, size_t buffer_bytes);

/* A whole number from 0 to `max`. */
int64_t TVMJson_Number(TVMJson *json, int64_t max);

/* Any value, of at most 32 nested brackets, checked but not kept. */
void TVMJson_Skip(TVMJson *json);

/* Nothing but white space is left. */
void TVMJson_End(TVMJson *json);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_INTERNAL_GRAPH_EXECUTOR_LOAD_JSON_H_ */
