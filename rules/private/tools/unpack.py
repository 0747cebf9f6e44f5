"""`unpack ARCHIVE SOURCES HEADERS OBJECTS LINK.ARGS --module M --executor M=E`: for mlf_cc_library.

Writes three folders from an archive of any version, after checking it against the rule, and options
for the linker.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mlftool.errors import INTERNAL, MlfError, Problem, exits
from mlftool.mlf import Bundle, checksums, read_tar, write_atomically
from mlftool.mlf.archive import read
from mlftool.mlf.interface import decode
from mlftool.runtime.library import FOLDERS, library_files
from mlftool.runtime.toolchain import library_of
from mlftool.targets import TARGETS

INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">]', re.MULTILINE)
# Its definition in C, or its name in an object's table of symbols.
SYSTEM_LIBRARY = re.compile(rb"TVMSystemLibEntryPoint\s*\([^)]*\)\s*\{|\0TVMSystemLibEntryPoint\0")
# Of the C and C++ standards and of our runtime, which the library is compiled against.
PROVIDED = re.compile(
    r"[a-z_]+|(tvm/runtime|dlpack|mlf)/[\w/.]+|(assert|ctype|errno|fenv|float|inttypes|limits|math|setjmp"
    r"|stdarg|stdbool|stddef|stdint|stdio|stdlib|string|tgmath|time|arm_acle|arm_mve|emmintrin|immintrin)\.h"
)


def parse(arguments: list[str]) -> argparse.Namespace:
    result = argparse.ArgumentParser("unpack")
    for name in ("archive", *FOLDERS, "link_args"):
        result.add_argument(name, type=Path)
    result.add_argument("--module", action="append", default=[])
    result.add_argument("--executor", action="append", default=[], metavar="MODULE=EXECUTOR")
    result.add_argument("--processor", default="", help="the rule's target")
    result.add_argument("--label", default="", help="the library, for messages")
    result.add_argument("--libraries", action="store_true", help="the user gives some")
    return result.parse_args(arguments)


def check_modules(metadata: Any, args: argparse.Namespace) -> Iterator[Problem]:
    """What the rule's attributes say and the archive does not."""
    modules = metadata.get("modules") or {metadata.get("model_name", ""): metadata}
    if sorted(modules) != sorted(args.module):
        got, expected = ", ".join(args.module), ", ".join(sorted(modules))
        text = f"{args.label}: modules: got {got}; the archive holds {expected}"
        yield Problem("MLF0504", text, str(args.archive))
        return
    for name, _, executor in (pair.partition("=") for pair in args.executor):
        module = modules[name]
        executors = module.get("executors", module.get("runtimes", []))
        if executor not in executors and module.get("style") != "operator":
            text = f"{args.label}: executor: got {executor}; module '{name}' has "
            yield Problem("MLF0504", text + ", ".join(executors), str(args.archive))


def check_processors(bundle: Bundle, args: argparse.Namespace) -> Iterator[Problem]:
    """An archive that says what it was compiled for, and a rule that does not say the same. C of
    ours for any processor, and TVM's, fit a rule that says nothing."""
    for record in read(bundle, str(args.archive)).modules:
        if record.interface is None:
            continue
        made = decode(record.name, record.interface, str(args.archive)).target
        if made not in TARGETS or made == (args.processor or "host"):
            continue
        got = f"got '{args.processor}'" if args.processor else "got none"
        text = f"{args.label}: target: {got}; module '{record.name}' is for {made}"
        hint = f"set target = '{made}'" if made != "host" or not args.processor else "leave it out"
        yield Problem("MLF0504", text, str(args.archive), help=hint)


def check_headers(
    files: Mapping[str, Mapping[str, bytes]], archive: str, label: str
) -> Iterator[Problem]:
    """Headers that neither the archive nor our runtime has: of an external code generator."""
    for source, data in sorted(files["src"].items()):
        for header in sorted({h.decode("utf-8", "replace") for h in INCLUDE.findall(data)}):
            if header in files["include"] or PROVIDED.fullmatch(header):
                continue
            library = library_of(header)
            hint = f"it belongs to {library}; " if library else ""
            yield Problem(
                "MLF0611",
                f"includes '{header}', which neither the archive nor mlftool's C runtime has",
                archive,
                path=f"codegen/host/src/{source}",
                help=f"{hint}give the cc_library that has it: deps of {label}",
            )


def link_args(files: Mapping[str, Mapping[str, bytes]]) -> bytes:
    """Takes the system library out of the library that the files become, if they hold one."""
    code = [*files["src"].values(), *files["lib"].values()]
    has_one = any(SYSTEM_LIBRARY.search(data) for data in code)
    return b"-Wl,-u,TVMSystemLibEntryPoint\n" if has_one else b""


def write(
    files: Mapping[str, Mapping[str, bytes]], folders: Mapping[str, Path], link: Path
) -> None:
    """Writes the parts of an archive into their folders, which are there afterwards."""
    for folder, path in folders.items():
        path.mkdir(parents=True, exist_ok=True)
        for name, data in files[folder].items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path / name, data)
    write_atomically(link, link_args(files))


def beside(archive: Path, sources: list[Path]) -> int:
    """Writes the parts of an archive of ours beside it, its C files where Bazel was told they are.

    Those of old versions of the format do not begin with the module's name. Returns the exit code.
    """
    files = library_files(read_tar(archive), str(archive))
    made = dict(files["src"])
    found = {p.name: p.name if p.name in made else p.name[p.name.rfind("lib") :] for p in sources}
    if sorted(found.values()) != sorted(made):
        text = f"got C files {', '.join(sorted(made))}, expected {', '.join(found)}"
        problem = Problem("MLF0504", text, str(archive), help="report this: the rule is wrong")
        print(MlfError(problem), file=sys.stderr)
        return INTERNAL
    files["src"] = {name: made[own] for name, own in found.items()}
    write(files, {name: archive.parent / name for name in FOLDERS}, archive.parent / "link.args")
    return 0


@exits
def main(arguments: list[str]) -> None:
    """Exit code as the command line's."""
    args = parse(arguments)
    bundle = read_tar(args.archive)
    checksums.verify(bundle.files, str(args.archive))
    files = library_files(bundle, str(args.archive))
    problems = list(check_modules(json.loads(bundle.files["metadata.json"]), args))
    problems += check_processors(bundle, args)
    if not args.libraries:
        problems += check_headers(files, str(args.archive), args.label)
    if problems:
        raise MlfError(problems)
    write(files, {folder: getattr(args, folder) for folder in FOLDERS}, args.link_args)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
