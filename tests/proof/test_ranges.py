"""Index ranges of kernels: what is shown is true, and what templates write is shown."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from loops import kernel
from small_c import configured, reason

from mlftool.cli import main
from mlftool.mlf import Bundle, checksums, read_tar, write_tar
from mlftool.proof.certificate import CLAIMS
from mlftool.proof.units import digest

EXAMPLES = Path(__file__).parents[2] / "examples" / "models"
MOST_TOUCHES = 20_000


class _EndlessError(Exception):
    pass


def touched(python: str) -> dict[str, tuple[int, int]]:
    """The first and the last element that a kernel touches of each operand."""
    ends = {"x": (0, -1), "w": (0, -1)}
    count = 0

    def touch(memory: str, element: int) -> None:
        nonlocal count
        count += 1
        if count > MOST_TOUCHES:
            raise _EndlessError
        low, high = ends[memory]
        ends[memory] = (min(low, element), max(high, element))

    def div(a: int, b: int) -> int:
        return abs(a) // b if a >= 0 else -(abs(a) // b)

    def mod(a: int, b: int) -> int:
        return a - b * div(a, b)

    scope: dict[str, Callable[..., None]] = {}
    exec(python, scope)
    scope["run"](touch, div, mod)
    return ends


def _stop(*_: object) -> None:
    raise _EndlessError


def test_what_is_shown_is_true() -> None:
    """Random kernels: never shown for operands that are an element too short, and shown for most
    that fit."""
    before = signal.signal(signal.SIGVTALRM, _stop)
    tried = shown = 0
    for seed in range(300):
        c, python = kernel(random.Random(seed))
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.2)
        with suppress(_EndlessError):
            ends = touched(python)
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            (x0, x1), (w0, w1) = ends["x"], ends["w"]
            fits = x0 >= 0 and w0 >= 0
            right = not reason(c, 4 * (x1 + 1), 4 * (w1 + 1))
            assert fits or not right, c
            assert x1 < 0 or reason(c, 4 * x1, 4 * (w1 + 1)), c
            assert w1 < 0 or reason(c, 4 * (x1 + 1), 4 * w1), c
            tried, shown = tried + fits, shown + right
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, before)
    assert shown > 0.6 * tried > 60


# Statements of `k(const float *x, const int8_t *q, float *y)`, of 12, 4 and 12 elements, and
# whether they stay inside.
BODIES = {
    "a row": ("for (int32_t i = 0; i < 12; i++) { y[i] = x[i]; }", True),
    "a row too far": ("for (int32_t i = 0; i <= 12; i++) { y[i] = x[i]; }", False),
    "from the end": ("for (int32_t i = 11; i >= 0; i--) { y[i] = x[i]; }", True),
    "below the start": ("for (int32_t i = 11; i >= -1; i--) { y[i] = x[i]; }", False),
    "pointers": ("for (int32_t i = 0; i < 12; i++) { *y++ = *x++; }", True),
    "pointers that meet": ("const float *const e = x + 12; while (x != e) { *y++ = *x++; }", True),
    "pointers that miss": (
        "const float *const e = x + 11; while (x != e) { y[0] = x[0]; x += 2; }",
        False,
    ),
    "at least once": ("int32_t i = 0; do { y[i] = x[i]; i += 3; } while (i < 12);", True),
    "at least once too often": ("int32_t i = 0; do { y[i] = 0.0f; i++; } while (i <= 12);", False),
    "padding": (
        "for (int32_t i = 0; i < 12; i++) { const int32_t a = i - 1; "
        "if (a >= 0 && a < 12) { y[i] = x[a]; } }",
        True,
    ),
    "padding by another sign": (
        "for (int32_t i = 0; i < 13; i++) { const int32_t a = i - 1; "
        "if ((uint32_t)a < 12u) { y[a] = x[a]; } }",
        True,
    ),
    "padding forgotten": (
        "for (int32_t i = 0; i < 12; i++) { const int32_t a = i - 1; "
        "if (a < 12) { y[i] = x[a]; } }",
        False,
    ),
    "a truth with a name": (
        "for (int32_t i = 0; i < 15; i++) { const bool in = i >= 2 && i < 12; "
        "y[0] = in ? x[i - 2] : 0.0f; }",
        True,
    ),
    "what a tensor says": ("y[q[0]] = 0.0f;", False),
    "what a tensor says within limits": (
        "const int32_t i = q[0]; if (i >= 0 && i < 12) { y[i] = 0.0f; }",
        True,
    ),
    "a byte": ("static const float t[256] = {0.0f}; y[0] = t[(uint8_t)q[3]];", True),
    "a signed byte": ("static const float t[256] = {0.0f}; y[0] = t[q[3]];", False),
    "a helper with addresses": ("mlf_take(x, y, 12);", True),
    "a helper that takes too many": ("mlf_take(x, y, 13);", False),
    "a helper in two ways": ("y[0] = (float)mlf_first(q + 2);", True),
    "a helper that reads on in one way": ("y[0] = (float)mlf_first(q + 3);", False),
    "a stranger": ("mlf_unknown(x, y);", False),
    "a turn that ends early": (
        "int32_t n = 0; for (int32_t i = 0; i < 30; i++) { if (x[0] < 0.0f) { continue; } "
        "y[n] = 0.0f; n++; }",
        False,
    ),
    "the smaller one": ("for (int32_t i = 0; i < 20; i++) { y[mlf_min_i32(i, 11)] = 0.0f; }", True),
    "by its address": (
        "int32_t i = 3; int32_t *p = &i; *p = 90; y[i] = 0.0f;",
        False,
    ),
    "around the end": ("uint8_t i = 250; i += 18; y[i] = 0.0f;", False),
    "around the end, inside": ("uint8_t i = 250; i += 17; y[i] = 0.0f;", True),
    "a truth is 1": ("const bool b = q[0] != 0 ? 2 : 3; y[13 - b] = 0.0f;", False),
    "below nought": ("uint32_t i = 0; i--; y[i] = 0.0f;", False),
    "a large product": ("int32_t i = 65536; y[i * i] = 0.0f;", False),
    "rows of rows": (
        "for (int32_t a = 0; a < 3; a++) { for (int32_t b = a; b < 4; b++) { y[a * 4 + b] = x[b]; "
        "} }",
        True,
    ),
    "a row and its rest": (
        "for (int32_t p = 0; p < 12; p += 5) { const int32_t n = mlf_min_i32(5, 12 - p); "
        "for (int32_t i = 0; i < n; i++) { y[p + i] = 0.0f; } }",
        True,
    ),
    "what goes on over loops": (
        "int32_t n = -1; for (int32_t i = 0; i < 12; i++) { for (; n < i + 2; n++) { "
        "y[(n + 1) % 3] = x[i]; } }",
        True,
    ),
    "what goes back over loops": (
        "int32_t n = 3; for (int32_t i = 0; i < 12; i++) { for (; n > 1 - i; n--) { "
        "y[(n + 1) % 3] = x[i]; } }",
        False,
    ),
    "what starts too low": (
        "int32_t n = -5; for (int32_t i = 0; i < 12; i++) { for (; n < i + 2; n++) { "
        "y[(n + 1) % 3] = x[i]; } }",
        False,
    ),
    "what goes round": (
        "int8_t n = 0; for (int32_t i = 0; i < 300; i++) { if (x[0] < 1.0f) { n++; } "
        "if (n < 12) { y[n] = 0.0f; } }",
        False,
    ),
    "what goes back in a turn": (
        "int32_t n = 0; for (int32_t i = 0; i < 12; i++) { for (; n < i; n++) { "
        "y[n % 3] = x[i]; } n -= 2; if (n < 12) { y[n] = 0.0f; } }",
        False,
    ),
    "its own array": ("float a[4]; for (int32_t i = 0; i < 5; i++) { a[i] = 0.0f; }", False),
    "assembler": ('__asm__("nop");', False),
    "assembler without instructions": ('__asm__("" ::: "memory"); y[11] = x[11];', True),
    "one of two arrays": (
        "float a[3]; for (int32_t i = 0; i < 15; i++) { "
        "const float *p = i < 12 ? x + i : a; y[0] = *p; }",
        True,
    ),
    "one of two arrays, too short": (
        "float a[2]; for (int32_t i = 0; i < 15; i++) { "
        "const float *p = i < 12 ? x : a; y[0] = p[2]; }",
        False,
    ),
    "an array and its step": (
        "float a[4]; const float *p; int32_t s; if (q[0] > 0) { p = x; s = 4; } "
        "else { p = a; s = 1; } for (int32_t i = 0; i < 3; i++) { y[0] = p[i * s]; }",
        True,
    ),
    "an array and the step of the other": (
        "float a[4]; const float *p; int32_t s; if (q[0] > 0) { p = x; s = 1; } "
        "else { p = a; s = 4; } for (int32_t i = 0; i < 3; i++) { y[0] = p[i * s]; }",
        False,
    ),
    "an address that moves on": (
        "const float *p = x; for (int32_t i = 0; i < 4; i++) { y[0] = mlf_next(&p, 3); }",
        True,
    ),
    "an address that moves on too far": (
        "const float *p = x; for (int32_t i = 0; i < 4; i++) { y[0] = mlf_next(&p, 4); }",
        False,
    ),
    "a struct of addresses": (
        "const mlf_two two = {{x, y}, 12}; mlf_sum_two(&two);",
        True,
    ),
    "a struct of addresses and a size": (
        "const mlf_two two = {{x, y}, 13}; mlf_sum_two(&two);",
        False,
    ),
    "a macro": ("const float *p = x; MLF_TAKE(p, 12);", True),
    "a macro that takes too many": ("const float *p = x; MLF_TAKE(p, 13);", False),
    "a function that a macro makes": ("y[11] = mlf_at_11(x);", True),
    "another that a macro makes": ("y[0] = mlf_at_12(x);", False),
    "a vector": ("mlf_f32x4 v; memcpy(&v, x + 8, sizeof v); y[0] = v[3];", True),
    "a vector beyond the end": ("mlf_f32x4 v; memcpy(&v, x + 9, sizeof v);", False),
    "a lane that is not there": ("mlf_f32x4 v; memcpy(&v, x, sizeof v); y[0] = v[4];", False),
    "an intrinsic": ("mlf_f32x4 v = _mm_loadu_si128(x + 8);", True),
    "an intrinsic beyond the end": ("mlf_f32x4 v = _mm_loadu_si128(x + 9);", False),
    "lanes that a predicate allows": (
        "for (int32_t i = 0; i < 4; i += 3) { "
        "vstrbq_p_s32(q + i, v, vctp32q((uint32_t)mlf_min_i32(3, 4 - i))); }",
        True,
    ),
    "lanes without a predicate": (
        "for (int32_t i = 0; i < 4; i += 3) { vstrbq_s32(q + i, v); }",
        False,
    ),
    "a predicate of too many lanes": (
        "for (int32_t i = 0; i < 4; i += 3) { "
        "vstrbq_p_s32(q + i, v, vctp32q((uint32_t)mlf_min_i32(3, 5 - i))); }",
        False,
    ),
    "what a condition says of its second part": (
        "const int32_t i = q[0]; const bool in = i >= 0 && i != 12; y[i / 16] = 0.0f;",
        False,
    ),
    "an even number": ("for (int32_t i = 0; i < (13 & ~1); i++) { y[i] = 0.0f; }", True),
    "an odd number": ("for (int32_t i = 0; i < (13 & ~2); i++) { y[i] = 0.0f; }", False),
    "an even number, of what is not known": (
        "const int32_t n = mlf_min_i32((uint8_t)q[0], 13) & ~1; "
        "for (int32_t i = 0; i < n; i++) { y[i] = 0.0f; }",
        True,
    ),
    "other than nought": (
        "for (int32_t i = 0; i < 13; i++) { if (i) { y[i - 1] = 0.0f; } }",
        True,
    ),
    "either sign": ("const int32_t i = q[0] / 32; if (i) { y[i - 1] = 0.0f; }", False),
    "the rest of rows": (
        "for (int32_t p = 0; p < 12; p += 5) { "
        "for (int32_t i = 0; i < mlf_min_i32(5, 12 - p); i++) { y[p + i] = 0.0f; } }",
        True,
    ),
    "more than the rest of rows": (
        "for (int32_t p = 0; p < 12; p += 5) { "
        "for (int32_t i = 0; i < mlf_min_i32(5, 13 - p); i++) { y[p + i] = 0.0f; } }",
        False,
    ),
    "a helper that calls one": ("y[mlf_within(q[0])] = 0.0f;", True),
    "a helper that calls one, by one": ("y[mlf_within(q[0]) + 1] = 0.0f;", False),
    "an extent that is a product": ("float a[2 * 3 + 1]; a[6] = 0.0f;", True),
    "beyond an extent that is a product": ("float a[2 * 3 + 1]; a[7] = 0.0f;", False),
    "what ends a loop": (
        "int32_t i = q[0]; while (i >= 12) { i = q[1]; } if (i >= 0) { y[i] = 0.0f; }",
        True,
    ),
    "a loop that is left": (
        "int32_t i = q[0]; while (i >= 12) { i = q[1]; if (x[0] < 0.0f) { break; } } "
        "if (i >= 0) { y[i] = 0.0f; }",
        False,
    ),
    "nodes of a tree": (
        "int32_t at = 0; while (at >= 0) { y[at] = 0.0f; at = x[at] < 0.5f ? q[0] >> 4 : -1; }",
        True,
    ),
    "nodes that are not there": (
        "int32_t at = 0; while (at >= 0) { y[at] = 0.0f; at = x[at] < 0.5f ? q[0] >> 3 : -1; }",
        False,
    ),
    "rows of an own array": (
        "float a[3][4]; for (int32_t i = 0; i < 3; i++) { for (int32_t j = 0; j < 4; j++) { "
        "a[i][j] = x[i * 4 + j]; } }",
        True,
    ),
    "more rows than it has": (
        "float a[3][4]; for (int32_t i = 0; i < 4; i++) { for (int32_t j = 0; j < 4; j++) { "
        "a[i][j] = 0.0f; } }",
        False,
    ),
    "longer rows than it has": (
        "float a[3][4]; for (int32_t i = 0; i < 3; i++) { for (int32_t j = 0; j < 5; j++) { "
        "a[i][j] = 0.0f; } }",
        False,
    ),
    "a row by itself": ("float a[3][4]; float *p = a[2]; p[3] = 0.0f;", False),
    "bits of a number": (
        "const uint32_t i = (uint8_t)q[0]; if (i > 2u) { y[30 - __builtin_clz(i)] = 0.0f; }",
        True,
    ),
    "bits of a number that may be one": (
        "const uint32_t i = (uint8_t)q[0]; if (i > 0u) { y[30 - __builtin_clz(i)] = 0.0f; }",
        False,
    ),
    "half of what is missing, rounded up": (
        "for (int32_t i = -3; i < 9; i++) { const int32_t k = i < 0 ? (-i + 1) / 2 : 0; "
        "y[i + 2 * k] = 0.0f; }",
        True,
    ),
    "half of what is missing, rounded down": (
        "for (int32_t i = -3; i < 9; i++) { const int32_t k = i < 0 ? -i / 2 : 0; "
        "y[i + 2 * k] = 0.0f; }",
        False,
    ),
    "members that stay": (
        "mlf_two two = {{x, x}, 9}; for (int32_t i = 0; i < 4; i++) { "
        "two.from[1] = x + i; mlf_sum_two(&two); }",
        True,
    ),
    "members that do not": (
        "mlf_two two = {{x, x}, 9}; for (int32_t i = 0; i < 4; i++) { "
        "two.from[1] = x + i; mlf_sum_two(&two); two.count++; }",
        False,
    ),
    "a member that becomes another": (
        "mlf_two two = {{x, x}, 9}; for (int32_t i = 0; i < 3; i++) { "
        "two.from[0] = two.from[1]; two.from[1] = x + 4; mlf_sum_two(&two); }",
        False,
    ),
    "what a header demands": ("mlf_demands(x, 8);", True),
    "what a header forbids": ("mlf_demands(x, 6);", False),
}


@pytest.mark.parametrize("name", BODIES)
def test_forms(name: str) -> None:
    body, inside = BODIES[name]
    c = f"MLF_KERNEL void k(const float *x, const int8_t *q, float *y) {{\n  {body}\n}}\n"
    assert (reason(c, 48, 4, 48) == "") is inside


KERNEL = """
static inline int32_t mlf_one(int32_t a) {
  return a + 1;
}

static inline int32_t mlf_two(int32_t a) {
  return mlf_one(a);
}

static inline int32_t mlf_other(int32_t a) {
  return a;
}
#ifdef __SSE2__
#define MLF_AT_LAST mlf_two
#else
#define MLF_AT_LAST mlf_other
#endif

MLF_KERNEL void k(const float *x, float *y) {
  y[MLF_AT_LAST(0)] = *x;
}

MLF_KERNEL void more(const float *x, float *y) {
  y[0] = *x;
}
"""
READ = {
    "the kernel": ("(0)] = *x", "(0)] = x[1]"),
    "what one configuration calls": ("return a;", "return a + 9;"),
    "what another one calls": ("return mlf_one(a);", "return mlf_one(a) + 9;"),
    "what that calls": ("return a + 1;", "return a + 9;"),
    "a macro": ("define MLF_AT_LAST mlf_other", "define MLF_AT_LAST mlf_one"),
    "a type": ("#ifdef", "typedef int8_t row;\n#ifdef"),
}


@pytest.mark.parametrize("what", READ)
def test_an_answer_is_kept_for_all_that_was_read(what: str) -> None:
    """Kernels that differ in anything that is read of them, in any configuration, are others."""
    old, new = READ[what]
    assert KERNEL.count(old) == 1
    assert digest(configured(KERNEL), "k") == digest(configured(KERNEL + "int32_t z;\n"), "k")
    assert digest(configured(KERNEL), "k") != digest(configured(KERNEL.replace(old, new)), "k")


def test_another_kernel_changes_no_answer() -> None:
    changed = KERNEL.replace("y[0] = *x", "y[0] = x[1]")
    assert changed != KERNEL
    one, other = configured(KERNEL), configured(changed)
    assert digest(one, "k") == digest(other, "k")
    assert digest(one, "more") != digest(other, "more")


@pytest.mark.parametrize("executor", ["aot", "graph", "vm"])
def test_certificates_say_so(
    executor: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """How many calls are shown stands in the certificate, and `verify` counts again."""
    archive = tmp_path / "m.tar"
    options = ["--verify", "--executor", executor, "--target", "cortex-m0", "-o", str(archive)]
    assert main(["compile", str(EXAMPLES / "vibration_float32.onnx"), *options]) == 0
    capsys.readouterr()
    assert main(["verify", str(archive), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["modules"]["vibration_float32"]
    assert said["proven"][CLAIMS["ranges"]] == 6  # all of its calls
    files = dict(read_tar(archive).files)
    own = f"executor-config/{executor}/vibration_float32.certificate"
    certificate = json.loads(files[own])
    certificate["proven"][CLAIMS["ranges"]] = 7
    files[own] = json.dumps(certificate).encode()
    files[checksums.MEMBER] = checksums.encode(files)
    write_tar(Bundle(files), archive)
    assert main(["verify", str(archive)]) == 2
    assert "6 calls are shown to stay inside their operands, not 7" in capsys.readouterr().err
