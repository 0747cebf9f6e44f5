"""`make_archives FOLDER`: archives in TVM's shapes, and vectors for them, for the targets here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from mlftool.mlf import Bundle, params, write_tar

sys.path.insert(0, os.path.abspath(Path(__file__).parents[1] / "runtime"))
import tvm_archives as tvm
from tvm_sources import KERNELS, PREAMBLE

ONES = np.ones((1, 4), np.int8)


def with_object(folder: Path) -> Bundle:
    """As TVM's llvm targets give it: the kernels are an object file of this machine."""
    files = dict(tvm.graph_archive(7).files)
    del files[tvm.code(7, 1)]
    with tempfile.TemporaryDirectory() as work:
        (Path(work) / "kernels.c").write_text(PREAMBLE + KERNELS)
        command = ["gcc", "-O1", "-ffp-contract=off", f"-I{folder}", "-c", "kernels.c"]
        subprocess.run(command, cwd=work, check=True)
        data = (Path(work) / "kernels.o").read_bytes()
    return Bundle({**files, tvm.code(7, 0, "o"): data})


def with_many_parameters() -> Bundle:
    """So many that C takes them from a file: p0, and one that no operator reads."""
    files = dict(tvm.graph_archive(5).files)
    graph = json.loads(files["executor-config/graph/graph.json"])
    more = {"p0": tvm.P0, "unread": np.zeros((1, 1 << 18), np.float32)}
    files["parameters/default.params"] = params.encode(more)
    graph["nodes"].append({"op": "null", "name": "unread", "inputs": []})
    graph["arg_nodes"].append(len(graph["nodes"]) - 1)
    graph["node_row_ptr"].append(graph["node_row_ptr"][-1] + 1)
    ids = graph["attrs"]["storage_id"][1]
    ids.append(max(ids) + 1)
    graph["attrs"]["shape"][1].append([1, 1 << 18])
    graph["attrs"]["dltype"][1].append("float32")
    return Bundle({**files, "executor-config/graph/graph.json": json.dumps(graph).encode()})


def in_cxx() -> Bundle:
    """As some external code generators give it: kernels in C++."""
    files = dict(tvm.graph_archive(7).files)
    files[tvm.code(7, 1, "cc")] = b"#include <vector>\n" + files.pop(tvm.code(7, 1))
    return Bundle(files)


def main(arguments: list[str]) -> int:
    """Writes them all; INCLUDE is the folder with TVM's headers."""
    out, include = map(Path, arguments)
    archives = {
        "cxx": in_cxx(),
        "graph_1": tvm.graph_archive(1),
        "graph_5": tvm.graph_archive(5),
        "graph_7": tvm.graph_archive(7),
        "graph_big": with_many_parameters(),
        "linked": tvm.linked_archive(),
        "network": tvm.network_archive(3),
        "objects": with_object(include.absolute()),
        "operator": tvm.operator_archive(4),
        "packed": tvm.packed_archive(),
        "packed_4": tvm.packed_archive(4, with_metadata=False),
        "struct": tvm.struct_archive(),
    }
    for name, bundle in archives.items():
        write_tar(bundle, out / f"{name}.tar")
    vectors = {"x": tvm.X, "output": tvm.Y, "output0": tvm.Y}
    np.savez(out / "network.npz", **vectors)
    np.savez(out / "operator.npz", A=ONES[0], B=ONES[0], C=2 * ONES[0])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
