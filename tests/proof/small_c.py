"""Kernels written for the checker of index ranges, and what it says of them."""

from __future__ import annotations

from collections.abc import Sequence

from mlftool.proof.indices import Memory, UnprovenError, prove
from mlftool.proof.units import Source, sources

HELPERS = """
static inline int32_t mlf_min_i32(int32_t a, int32_t b) {
  return a < b ? a : b;
}

static inline int32_t mlf_within(int32_t i) {
  return mlf_min_i32(i < 0 ? 0 : i, 11);
}

static inline void mlf_take(const float *from, float *to, int32_t n) {
  memcpy(to, from, (uint32_t)n * 4u);
}

static inline int32_t mlf_first(const int8_t *from) {
#if defined(__GNUC__)
  return from[0];
#else
  return from[0] + from[1] * 0;
#endif
}
"""
HELPERS += """
typedef float mlf_f32x4 __attribute__((vector_size(16)));
typedef struct {
  const float *from[2];
  int32_t count;
} mlf_two;
#define MLF_TAKE(p, n) for (int32_t k = 0; k < (n); k++) { y[0] = *(p)++; }
#define MLF_AT(n) static inline float mlf_at_##n(const float *p) { return p[n]; }
MLF_AT(11)
MLF_AT(12)

static inline float mlf_next(const float **p, int32_t n) {
  const float first = (*p)[n - 1];
  *p += n;
  return first;
}

static inline void mlf_sum_two(const mlf_two *two) {
  for (int32_t j = 0; j < 2; j++) {
    const float *at = two->from[j];
    float sum = 0.0f;
    for (int32_t i = 0; i < two->count; i++) {
      sum += at[i];
    }
  }
}

static inline void mlf_demands(const float *p, int32_t n) {
  MLF_NEEDS(n % 4 == 0);
}
"""


def configured(c: str) -> Sequence[Source]:
    return tuple(sources("k.c", {"k.c": HELPERS + c}))


def reason(c: str, *sizes: int, ways: int = 2) -> str:
    """Why the function `k` is not shown to stay inside so many bytes each in the first
    configurations; "" if it is."""
    for source in configured(c)[:ways]:
        made = source.find("k")
        if made is None:
            return "not read"
        try:
            prove(made, [Memory(size) for size in sizes], source.find)
        except (UnprovenError, ValueError) as error:
            return str(error)
    return ""


def check(c: str, *given: Memory) -> None:
    """Raises UnprovenError unless the function `k` is shown to stay inside these in the first
    configuration."""
    source = configured(c)[0]
    made = source.find("k")
    assert made is not None
    prove(made, given, source.find)
