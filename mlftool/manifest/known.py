"""The names a manifest may use without declaring them."""

from __future__ import annotations

from mlftool.targets import TARGETS

EXECUTORS = ("aot", "graph", "vm")


def targets() -> tuple[str, ...]:
    """The built-in targets."""
    return tuple(TARGETS)


def executors() -> tuple[str, ...]:
    """The executors that can be generated."""
    return EXECUTORS


# C99 and C11, then what C++20 adds and the alternative tokens: generated C also compiles as C++.
_WORDS = (
    "auto break case char const continue default do double else enum extern float for goto if "
    "inline int long register restrict return short signed sizeof static struct switch typedef "
    "union unsigned void volatile while alignas alignof and and_eq asm bitand bitor bool catch "
    "char16_t char32_t char8_t class co_await co_return co_yield compl concept const_cast "
    "consteval constexpr constinit decltype delete dynamic_cast explicit export false friend "
    "mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected "
    "public reinterpret_cast requires static_assert static_cast template this thread_local "
    "throw true try typeid typename using virtual wchar_t xor xor_eq "
)
KEYWORDS = frozenset(_WORDS.split())
