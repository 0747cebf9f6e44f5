"""Targets of kind `llvm`: a module's C as object files, by a compiler the user names.

The same compiler gives the same bytes wherever it runs: relative names, no time, no debug data.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from mlftool.codegen.sources import LIB
from mlftool.errors import MlfError, Problem
from mlftool.mlf import runtime_tree
from mlftool.runtime import toolchain
from mlftool.targets import CFLAGS, Target

# Separate sections let the linker leave out unused functions.
FLAGS = (*CFLAGS, "-ffunction-sections", "-fdata-sections", "-fno-ident", "-w", "-c")
INCLUDES = ("-Icodegen/host/include", "-Iruntime/include", "-Itemplates")


def compile_objects(
    target: Target,
    sources: Mapping[str, str],
    data: Mapping[str, bytes],
    cc: str = "",
    what: str = "the module",
) -> dict[str, bytes]:
    """codegen/host/lib/*.o of the C files among `sources`, which are by their names in an archive.

    `data` are files that they read.
    `cc` is a command, such as "clang --sysroot=..."; "" stands for the usual one of the target.
    Raises MlfError if there is no such compiler, or it refuses.
    """
    command = _command(target, cc)
    flags = machine_flags(target, clang="clang" in toolchain.identity(command))
    files = {name: text.encode() for name, text in sources.items()}
    files |= data
    files |= runtime_tree.headers_of(files.values()) | runtime_tree.runtime_files()
    files["templates/crt_config.h"] = files["templates/crt_config.h.template"]
    made = {}
    with tempfile.TemporaryDirectory(prefix="mlftool-") as folder:
        work = Path(folder)
        for name, content in files.items():
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            (work / name).write_bytes(content)
        for name in sources:
            if not name.endswith(".c"):
                continue
            made_name = f"{LIB}/{Path(name).stem}.o"
            level = f"-O{target.opt_level}"
            arguments = (*FLAGS, level, *flags, *INCLUDES, name, "-o", "made.o")
            toolchain.compile_c(command, arguments, work, what)
            made[made_name] = (work / "made.o").read_bytes()
    return made


def _command(target: Target, cc: str) -> tuple[str, ...]:
    return toolchain.find_given(cc) if cc else toolchain.find(toolchain.compiler_of(target))


def machine_flags(target: Target, clang: bool) -> tuple[str, ...]:
    """The target's machine in the compiler's own words."""
    flags = list(target.cflags)
    if target.is_host or "linux" in target.toolchain:
        flags.append("-fPIC")  # so that they can be linked into a library
    if clang:
        if target.triple:
            flags.insert(0, f"--target={target.triple}")
        for item in target.mattr:
            flags += ["-Xclang", "-target-feature", "-Xclang", item]
        return tuple(flags)
    for item in target.mattr:
        _add_for_gcc(flags, item[0] == "+", item[1:], target)
    return tuple(flags)


def _add_for_gcc(flags: list[str], on: bool, feature: str, target: Target) -> None:
    """Arm's features are part of -mcpu or -march, RISC-V's of -march, x86's flags of their own."""
    if target.machine == "armv7l":
        at = next(k for k, f in enumerate(flags) if f.startswith(("-mcpu=", "-march=")))
        flags[at] += f"+{'' if on else 'no'}{feature}"
    elif target.machine.startswith("riscv"):
        at = next(k for k, f in enumerate(flags) if f.startswith("-march="))
        base, *parts = flags[at].split("_")
        letters = base[len("-march=rv32") :]
        if len(feature) > 1:
            parts = [p for p in parts if p != feature] + [feature] * on
        elif on != (feature in letters):
            if feature in ("i", "e"):
                text = f"-mattr={'+' if on else '-'}{feature} on {target.name}"
                raise MlfError(Problem("MLF0406", text, help="name another -march"))
            kept = {*letters} ^ {feature}
            letters = "".join(x for x in "iemafdqlcbjtpvn" if x in kept)
        flags[at] = "_".join([base[: len("-march=rv32")] + letters, *parts])
    else:
        flags.append(f"-m{'' if on else 'no-'}{feature}")


__all__ = ["compile_objects", "machine_flags"]
