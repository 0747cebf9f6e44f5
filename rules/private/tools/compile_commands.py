"""Writes compile_commands.json for editors: `bazel run @mlftool//rules:compile_commands -- //:app`.

Asks Bazel how it compiles what the labels depend on; options of Bazel, such as --config=NAME, may
stand among them. The program called `bazel` is asked, or what MLF_BAZEL names.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

SOURCES = (".c", ".cc", ".cpp", ".cxx", ".S")


def server_of(folder: Path) -> list[str]:
    """The startup options by which Bazel finds the server whose `bazel run` began in `folder`.

    Without them, options of that command line would be missing here, and another server would
    build the same into another place.
    """
    if "execroot" not in folder.parts:
        return []
    after = folder.parts[::-1].index("execroot") + 1  # the last: a build may run inside another
    base = Path(*folder.parts[:-after])
    user = [f"--output_user_root={base.parent}"] if (base.parent / "install").is_dir() else []
    return [*user, f"--output_base={base}"]


def ask(workspace: Path, *words: str) -> str:
    """What Bazel prints; ends the program with Bazel's own message if it fails."""
    command = [os.environ.get("MLF_BAZEL", "bazel"), *server_of(Path.cwd()), *words]
    done = subprocess.run(command, cwd=workspace, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout


def entries(
    actions: Iterable[dict[str, object]], workspace: Path, root: Path
) -> list[dict[str, object]]:
    """The database: one entry a source file, those of the workspace by their own paths."""
    found: dict[str, dict[str, object]] = {}
    for action in actions:
        words = [str(word) for word in action.get("arguments", ())]  # type: ignore[attr-defined]
        if "-c" not in words:
            continue
        source = words[words.index("-c") + 1]
        own = not source.startswith(("external/", "bazel-out/"))
        file = str((workspace if own else root) / source)
        if source.endswith(SOURCES):
            words[words.index("-c") + 1] = file
            found.setdefault(file, {"directory": str(root), "file": file, "arguments": words})
    return [found[file] for file in sorted(found)]


def main(arguments: Sequence[str]) -> int:
    """0, or 2 for a call without labels."""
    options = [word for word in arguments if word.startswith("-")]
    labels = [word for word in arguments if not word.startswith("-")]
    if not labels or "BUILD_WORKSPACE_DIRECTORY" not in os.environ:
        print("usage: bazel run @mlftool//rules:compile_commands -- LABEL...", file=sys.stderr)
        return 2
    workspace = Path(os.environ["BUILD_WORKSPACE_DIRECTORY"])
    query = f'mnemonic("CppCompile", deps(set({" ".join(labels)})))'
    answer = json.loads(ask(workspace, "aquery", *options, "--output=jsonproto", query))
    root = Path(ask(workspace, "info", "execution_root").strip())
    made = entries(answer.get("actions", ()), workspace, root)
    file = workspace / "compile_commands.json"
    file.write_text(json.dumps(made, indent=1) + "\n")
    print(f"{file}: {len(made)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
