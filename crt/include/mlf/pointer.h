// MLF_POINTER(type, p) is p as a void *, and does not compile if p does not point to a `type`,
// const or not: so an application that hands floats to a model notices when the model takes int8.
#ifndef MLF_POINTER_H_
#define MLF_POINTER_H_
#include <stdint.h>

#if defined(__cplusplus)
extern "C++" {
template <typename T> struct mlf_pointer {
  static void *of(const T *p) {
    return const_cast<T *>(p);
  }
};
}
#define MLF_POINTER(type, p) mlf_pointer<type>::of(p)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define MLF_POINTER(type, p) \
  _Generic(&(p)[0], type * : (void *)(uintptr_t)(p), const type * : (void *)(uintptr_t)(p))
#else // C99 can compare sizes only
#define MLF_POINTER(type, p) \
  ((void *)((char *)(uintptr_t)(p) + 0 * sizeof(char[sizeof((p)[0]) == sizeof(type) ? 1 : -1])))
#endif

#endif // MLF_POINTER_H_
