"""`unpack ARCHIVE SOURCES HEADERS OBJECTS --module M --executor E`: for mlf_cc_library.

Writes three folders from an archive of any version, after checking it against the rule.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mlftool.errors import MlfError, Problem
from mlftool.mlf import Bundle, read_tar, write_atomically

FOLDERS = {
    "sources": ("codegen/host/src/", (".c", ".cc", ".cpp")),
    "headers": ("codegen/host/include/", (".h",)),
    "objects": ("codegen/host/lib/", (".o",)),
}
INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">]', re.MULTILINE)
# Of the C standard and of our runtime, which the library is compiled against.
PROVIDED = re.compile(
    r"(tvm/runtime|dlpack|mlf)/[\w/.]+|(assert|ctype|errno|fenv|float|inttypes|limits|math|setjmp"
    r"|stdarg|stdbool|stddef|stdint|stdio|stdlib|string|tgmath|time|arm_acle|arm_mve|immintrin)\.h"
)


def parse(arguments: list[str]) -> argparse.Namespace:
    result = argparse.ArgumentParser("unpack")
    for name in ("archive", *FOLDERS):
        result.add_argument(name, type=Path)
    result.add_argument("--module", action="append", default=[])
    result.add_argument("--executor", default="aot")
    result.add_argument("--label", default="", help="the library, for messages")
    result.add_argument("--libraries", action="store_true", help="the user gives some")
    return result.parse_args(arguments)


def members(bundle: Bundle) -> dict[str, dict[str, bytes]]:
    """Folder -> file in it -> contents."""
    return {
        folder: {
            name.removeprefix(prefix): data
            for name, data in bundle.files.items()
            if name.startswith(prefix) and name.endswith(suffixes)
        }
        for folder, (prefix, suffixes) in FOLDERS.items()
    }


def check_modules(metadata: Any, args: argparse.Namespace) -> Iterator[Problem]:
    """What the rule's attributes say and the archive does not."""
    modules = metadata.get("modules") or {metadata.get("model_name", ""): metadata}
    if sorted(modules) != sorted(args.module):
        got, expected = ", ".join(args.module), ", ".join(sorted(modules))
        text = f"{args.label}: modules: got {got}; the archive holds {expected}"
        yield Problem("MLF0504", text, str(args.archive))
        return
    for name, module in sorted(modules.items()):
        executors = module.get("executors", module.get("runtimes", []))
        if args.executor not in executors and module.get("style") != "operator":
            text = f"{args.label}: executor: got {args.executor}; module '{name}' has "
            yield Problem("MLF0504", text + ", ".join(executors), str(args.archive))


def check_headers(files: Mapping[str, Mapping[str, bytes]], archive: str) -> Iterator[Problem]:
    """Headers that neither the archive nor our runtime has: of an external code generator."""
    for source, data in sorted(files["sources"].items()):
        for header in sorted({h.decode("utf-8", "replace") for h in INCLUDE.findall(data)}):
            if header not in files["headers"] and not PROVIDED.fullmatch(header):
                yield Problem(
                    "MLF0611",
                    f"includes '{header}', which neither the archive nor mlftool's C runtime has",
                    archive,
                    path=f"codegen/host/src/{source}",
                    help="add the cc_library with that header to deps",
                )


def main(arguments: list[str]) -> int:
    """Exit code as the command line's."""
    args = parse(arguments)
    try:
        bundle = read_tar(args.archive)
        files = members(bundle)
        problems = list(check_modules(json.loads(bundle.files["metadata.json"]), args))
        if not args.libraries:
            problems += check_headers(files, str(args.archive))
        if problems:
            raise MlfError(problems)
        for folder in FOLDERS:
            for name, data in files[folder].items():
                path = getattr(args, folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(path, data)
    except MlfError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
