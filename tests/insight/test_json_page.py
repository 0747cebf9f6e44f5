"""docs/json.md has the keys that commands print with --json, no more and no fewer.

They are those of a model for this computer, of one for a board, of archives of both, of an archive
that TVM made, of a manifest, and of files with problems. MLFTOOL_WRITE_PAGES=1 writes today's.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from builders import Net
from looks import MODELS, needs_board
from shared import REPO

sys.path.insert(0, os.path.abspath(Path(__file__).parents[1] / "runtime"))
import tvm_archives

from mlftool.cli import GROUPED, main, parser_of, watch
from mlftool.mlf import write_tar

PAGE = REPO / "docs" / "json.md"
BLOCK = re.compile(r"^## `mlftool (\S+)`\n\n```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
KINDS = {str: "text", bool: "true or false", int: "integer", float: "number", type(None): "null"}

# Objects whose keys are names of the user's: the page has <name> for them.
NAMED = {
    "compile": {"kept[].reasons"},
    "diff": {"differences[].figures"},
    "inspect": {"files", "graphs", "interfaces", "params", "params.<name>"},
    "ops": {f"{of}layers[].{key}" for of in ("", "models[].") for key in ("kernels", "why")}
    | {"operators[].own_kernels"},
    "profile": {"profiles[].layers[].constants"},
    "report": {"figures", "hashes"},
    "run": {"tolerances"},
    "verify": {"modules", "modules.<name>.proven"},
}
# What is a file of the archive, described in docs/mlf.md.
FILES = {"inspect": {"metadata", "interfaces.<name>"}}
# Trees: each part is of the same form.
TREES = {"size": {"sizes[].flash.parts[].parts", "sizes[].ram.parts[].parts"}}

# Which are run, with --json after them; those that compile first.
COMMANDS = """
    check net.onnx | check wide.onnx --target cortex-m4 | check m.yaml | check bad.yaml
    ops | ops net.onnx | ops wide.onnx | ops board.tar | ops tvm.tar | ops m.yaml
    init new --model float.onnx
    build m.yaml -o built
    compile net.onnx -o host.tar --verify
    compile net.onnx -o board.tar --target cortex-m4 --verify
    compile net.onnx -o npu.tar --target cortex-m4 --backend cmsis-nn
    quantize float.onnx -o int8.onnx --data float.npz
    bench host.tar --runs 1 --repetitions 1 | bench board.tar
    bench tvm.tar --runs 1 --repetitions 1
    compare net.onnx --against float.onnx --sqnr 90 | compare more.onnx --against wide.onnx
    compare board.tar --on cortex-m4 | compare tvm.tar --against tvm.tar
    diff host.tar net.onnx | diff board.tar net.onnx --target cortex-m4 | diff tvm.tar host.tar
    diff wide.onnx net.onnx --no-run | diff m.yaml net.onnx --no-run
    diff more.onnx wide.onnx --target cortex-m4
    run host.tar --inputs net.npz --expect net.npz
    run board.tar --inputs net.npz --expect net.npz --on cortex-m4
    run tvm.tar
    verify host.tar | verify board.tar
    graph net.onnx | graph net.onnx --before | graph board.tar | graph tvm.tar
    inspect host.tar | inspect board.tar | inspect tvm.tar
    memmap net.onnx | memmap host.tar | memmap board.tar | memmap tvm.tar
    profile net.onnx | profile board.tar
    report net.onnx -o 1.html | report board.tar --inputs net.npz --expect net.npz -o 2.html
    report tvm.tar -o 3.html
    size net.onnx | size board.tar
    trace net.onnx | trace host.tar | trace board.tar
    doctor | explain | explain MLF0106
"""


def commands() -> Iterator[list[str]]:
    for line in COMMANDS.strip().splitlines():
        yield from (words.split() for words in line.split("|"))


def keys(value: Any, command: str, path: str = "") -> Iterator[tuple[str, str]]:
    """Each key's path and what it may hold."""
    if isinstance(value, dict):
        is_named = path in NAMED.get(command, ())
        if path in FILES.get(command, ()):
            yield path, "object"
            return
        for key, inside in value.items():
            name = "<name>" if is_named else key
            yield from keys(inside, command, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        yield path, "list"
        if path not in TREES.get(command, ()):
            for inside in value:
                yield from keys(inside, command, f"{path}[]")
    else:
        yield path, KINDS[type(value)]


def block(found: dict[str, set[str]]) -> str:
    """As the page has it."""
    width = max(map(len, found))
    return "".join(f"{path:{width}}  {', '.join(sorted(found[path]))}\n" for path in sorted(found))


def watched(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> dict[str, set[str]]:
    """Of two builds and of a manifest that was broken since: watch itself never ends."""

    def three(args: argparse.Namespace, files: tuple[Path, ...]) -> None:
        known = watch.Known()
        for manifest in ("m.yaml", "m.yaml", "bad.yaml"):
            args.manifest = Path(manifest)
            watch._round(args, files, known)

    monkeypatch.setattr(watch, "_watch", three)
    main(["watch", "m.yaml", "-o", "built", "--json"])
    here: dict[str, set[str]] = {}
    for line in capsys.readouterr().out.splitlines():
        for path, kind in keys(json.loads(line), "watch"):
            here.setdefault(path, set()).add(kind)
    return here


def two_models() -> None:
    """One of weights that are wider than they need to be, and one of others with a layer more."""
    for scale, name in ((1, "wide"), (2, "more")):
        net = Net()
        weights = net.const(scale * np.eye(40, dtype=np.float16))
        product = net.node("MatMul", net.input("x", np.float32, (1, 40)),
                           net.node("Cast", weights, to=onnx.TensorProto.FLOAT))  # fmt: skip
        last = net.node("Tanh", product) if name == "more" else product
        onnx.save(net.model(last), f"{name}.onnx")


@needs_board
def test_the_page_has_the_keys_that_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, source in (("net", "gesture_int8"), ("float", "gesture_float32")):
        shutil.copy(MODELS / f"{source}.onnx", f"{name}.onnx")
        shutil.copy(MODELS / f"{source}.npz", f"{name}.npz")
    two_models()
    write_tar(tvm_archives.graph_archive(7), Path("tvm.tar"))
    entry = "  net:\n    model: net.onnx\n    targets: [host, cortex-m4]\n"
    Path("m.yaml").write_text("version: 1\nmodels:\n" + entry)
    Path("bad.yaml").write_text("version: 1\nmodels:\n  net:\n    modle: net.onnx\n")
    found: dict[str, dict[str, set[str]]] = {}
    for words in sorted(commands(), key=lambda words: words[0] != "compile"):
        code = main([*words, "--json"])
        out, err = capsys.readouterr()
        assert code in ((2,) if "bad.yaml" in words else (0, 1)), (words, err)
        data = json.loads(out)
        assert data["schema_version"] == 1, words
        here = found.setdefault(words[0], {})
        for path, kind in keys(data, words[0]):
            here.setdefault(path, set()).add(kind)
    listed = [c for group in GROUPED.values() for c in group if has_json(c)]
    found["watch"] = watched(monkeypatch, capsys)
    assert sorted(found) == sorted(listed)
    blocks = {command: block(found[command]) for command in listed if command in found}
    page = PAGE.read_text()
    if os.environ.get("MLFTOOL_WRITE_PAGES"):
        head = page.partition("## `mlftool")[0]
        made = (f"## `mlftool {command}`\n\n```\n{text}```\n" for command, text in blocks.items())
        PAGE.write_text(head + "\n".join(made))
    else:
        assert dict(BLOCK.findall(page)) == blocks


def has_json(command: str) -> bool:
    return "--json" in parser_of(command)._option_string_actions
