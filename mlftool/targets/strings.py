"""Targets by our short names, or as TVM's strings: `c -keys=arm_cpu,cpu -mcpu=cortex-m7`,
`llvm -mtriple=thumbv7em-none-eabihf -mattr=+dsp`, lists of several.

Attributes are those of TVM's target kinds that ATTRIBUTES lists; the others are refused.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mlftool.errors import MlfError, Problem, did_you_mean
from mlftool.targets import FEATURES, TARGETS, Target
from mlftool.targets.foreign import EXTERNAL

KINDS = ("c", "llvm")
MOST_TEXT = 2048  # characters; readers of archives take twice as many
_BOTH, _LLVM = ("c", "llvm"), ("llvm",)
# attribute -> the kinds that have it
ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("keys", "model", "device", "mcpu", "march"), _BOTH),
    **dict.fromkeys(("constants-byte-alignment", "workspace-byte-alignment"), _BOTH),
    **dict.fromkeys(("mtriple", "mattr", "mabi", "mfloat-abi", "opt-level", "num-cores"), _LLVM),
}
# Older TVM had these in the target; now they belong to executor and runtime.
_MOVED = {
    "runtime": "--runtime crt",
    "system-lib": "--runtime-crt-system-lib 1",
    "link-params": "--executor-graph-link-params 1",
    "executor": "--executor",
    "interface-api": "--executor-aot-interface-api",
    "unpacked-api": "--executor-aot-unpacked-api",
}
_AS_BEFORE = {"runtime": ("c", "crt"), "link-params": ("0",), "system-lib": ("0",)}
# The processor of a triple without -mcpu.
_TRIPLES = (
    (r"(x86_64|amd64)-.*", "host"),
    (r"aarch64-.*", "aarch64"),
    (r"arm(v7a?l?)?-.*linux.*", "armv7-a"),
    (r"(powerpc|ppc)-.*", "powerpc"),
    (r"thumbv6m-.*", "cortex-m0"),
    (r"thumbv7m-.*", "cortex-m3"),
    (r"thumbv7em-.*", "cortex-m4"),
    (r"thumbv8m\.main-.*", "cortex-m33"),
    (r"thumbv8\.1m\.main-.*", "cortex-m55"),
    (r"riscv32-.*", "rv32imc"),
    (r"riscv64-.*", "rv64gc"),
)
_BY_LLVM = {feature.llvm: name for name, feature in FEATURES.items() if feature.llvm}


def without_backends(text: str, backends: Iterable[str]) -> tuple[str, tuple[str, ...]]:
    """TVM's list with its backends taken out, and these: `cmsis-nn -mcpu=cortex-m55,c` is
    `c -mcpu=cortex-m55` and cmsis-nn."""
    known = set(backends)
    parts = [part.split() or [""] for part in _split(text)]
    found = [words for words in parts if words[0] in known]
    own = [words for words in parts if words[0] not in known]
    if not found:
        return text, ()
    core = next((w for words in found for w in words[1:] if w.startswith("-mcpu=")), "")
    for words in found:
        if other := [w for w in words[1:] if not w.startswith("-mcpu=")]:
            message = f"target '{words[0]}' has no attribute '{other[0]}'"
            raise MlfError(Problem("MLF0406", message, help="only -mcpu, the core's"))
    own = own or [["c"]]
    if core and own[0][0] in KINDS and not any(w.startswith("-mcpu=") for w in own[0]):
        own[0].append(core)
    return ",".join(map(" ".join, own)), tuple(words[0] for words in found)


def parse(text: str) -> Target:
    """The target that `text` names. Raises MlfError for unknown or external targets, or several."""
    if text in TARGETS:
        return TARGETS[text]
    if len(text) > MOST_TEXT:
        message = f"a target of {len(text)} characters; expected at most {MOST_TEXT}"
        raise MlfError(Problem("MLF0406", message))
    parts = _split(text)
    kinds = [part.split()[0] if part.split() else "" for part in parts]
    outside = [k for k in kinds if k in EXTERNAL]
    own = [part for part, kind in zip(parts, kinds, strict=True) if kind not in EXTERNAL]
    if outside:
        device = re.search(r"-mcpu=[^\s,]+", text)
        rest = " ".join([own[0] if len(own) == 1 else "c", *([device[0]] if device else [])])
        message = f"target '{outside[0]}' is code for {EXTERNAL[outside[0]]}, by a generator"
        message += " that mlftool does not have"
        raise MlfError(
            Problem(
                "MLF0403", message, help=f"leave it out, for our own kernels: --target '{rest}'"
            )
        )
    if len(own) != 1:
        message = f"{len(own)} targets in '{text}'; expected one: a module runs on one device"
        raise MlfError(Problem("MLF0403", message))
    return _one(own[0])


def of_mapping(target: Mapping[str, Any]) -> str:
    """TVM's other spelling, {"kind": "c", "keys": [...], "mcpu": ...}, as a string."""
    words = [str(target.get("kind", "c"))]
    for name, value in target.items():
        if name in ("kind", "host", "tag"):
            continue
        shown = ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
        words.append(f"-{name}={shlex.quote(shown)}")
    return " ".join(words)


def _split(text: str) -> list[str]:
    """The members of a list: a comma ends one unless it is inside an attribute's value."""
    members: list[list[str]] = [[]]
    for word in text.split():
        if word.startswith("-"):
            members[-1].append(word.rstrip(","))
            members += [[]] if word.endswith(",") else []
        else:
            first, *others = word.split(",")
            members[-1].append(first)
            members += [[other] for other in others]
    return [" ".join(filter(None, m)) for m in members if any(m)] or [""]


def _one(text: str) -> Target:
    if text in TARGETS:
        return TARGETS[text]
    if same := [t for t in TARGETS.values() if t.tvm == text]:
        return same[0]
    try:
        kind, *words = shlex.split(text) or [""]
    except ValueError as error:
        raise MlfError(Problem("MLF0406", f"target '{text}': {error}")) from None
    if kind not in KINDS:
        help = did_you_mean(kind, [*TARGETS, *KINDS])
        raise MlfError(Problem("MLF0403", f"unknown target '{text}'", help=help))
    attributes = _attributes(kind, words, text)
    base = _device(attributes, text)
    features, mattr = _mattr(attributes.get("mattr", ""), base, text)
    given = [f"-{n}={attributes[n]}" for n in ("mabi", "mfloat-abi") if n in attributes]
    level = attributes.get("opt-level", "3")
    if level not in ("0", "1", "2", "3", "s", "z"):
        message = f"target '{text}': -opt-level is '{level}', expected 0 to 3, s or z"
        raise MlfError(Problem("MLF0406", message))
    return replace(
        base,
        kind=kind,
        tvm=_canonical(kind, attributes, base),
        features=features,
        cflags=(*base.cflags, *given),
        mattr=mattr,
        triple=attributes.get("mtriple", ""),
        opt_level=level,
    )


def _attributes(kind: str, words: Sequence[str], text: str) -> dict[str, str]:
    problems, found = [], {}
    for word in words:
        match = re.fullmatch(r"--?([A-Za-z][\w-]*)(?:=(.*))?", word)
        if match is None:
            message = f"target '{text}': got '{word}', expected -name=value"
            problems.append(Problem("MLF0406", message))
            continue
        name, value = match[1], match[2] or ""
        if name in _MOVED:
            if value not in _AS_BEFORE.get(name, ()):
                help = f"say it with {_MOVED[name]}"
                message = f"target '{text}': -{name} is not part of a target"
                problems.append(Problem("MLF0406", message, help=help))
        elif kind not in ATTRIBUTES.get(name, ()):
            others = ATTRIBUTES.get(name, ())
            known = [n for n, kinds in ATTRIBUTES.items() if kind in kinds]
            help = f"only {others[0]} has it" if others else did_you_mean(name, known)
            message = f"target '{text}': {kind} has no attribute '-{name}'"
            problems.append(Problem("MLF0406", message, help=help))
        elif name.endswith("byte-alignment"):
            if value not in ("1", "2", "4", "8", "16"):
                message = f"target '{text}': -{name} is '{value}', expected at most 16"
                problems.append(Problem("MLF0406", message))
        else:
            found[name] = value
    if problems:
        raise MlfError(problems)
    return found


def _device(attributes: Mapping[str, str], text: str) -> Target:
    """The device whose kernels and machine flags are used."""
    name = attributes.get("mcpu") or attributes.get("march") or ""
    triple = attributes.get("mtriple", "")
    if not name and triple:
        name = next((device for form, device in _TRIPLES if re.fullmatch(form, triple)), triple)
    name = name or "host"
    if name not in TARGETS:
        help = did_you_mean(name, TARGETS)
        raise MlfError(Problem("MLF0403", f"unknown device '{name}' in '{text}'", help=help))
    return TARGETS[name]


def _mattr(value: str, base: Target, text: str) -> tuple[frozenset[str], tuple[str, ...]]:
    """The device's features with `-mattr=+x,-y` applied, and its items."""
    features, items = set(base.features), []
    for item in filter(None, value.split(",")):
        if not re.fullmatch(r"[+-][a-z0-9._-]+", item):
            message = f"target '{text}': -mattr has '{item}', expected +feature or -feature"
            raise MlfError(Problem("MLF0406", message))
        if item[1:] in _BY_LLVM:
            (features.add if item[0] == "+" else features.discard)(_BY_LLVM[item[1:]])
        items.append(item)
    return frozenset(features), tuple(items)


def _canonical(kind: str, attributes: Mapping[str, str], base: Target) -> str:
    """The string as TVM prints it: kind, keys, then the others by name."""
    if not attributes:
        return " ".join([kind, *base.tvm.split()[1:]])
    keys = attributes.get("keys") or re.sub(r".*-keys=(\S+).*", r"\1", base.tvm)
    others = [f"-{n}={v}" for n, v in sorted(attributes.items()) if n != "keys"]
    return " ".join([kind, f"-keys={keys}", *others])
