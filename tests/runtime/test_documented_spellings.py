"""What TVM's documents say of archives and its code never wrote: read like what it wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shared import OWN, REPO
from tvm_archives import (
    P0,
    RELAY,
    X,
    Y,
    code,
    graph_archive,
    network_archive,
    packed_archive,
    struct_archive,
)

import mlftool
from mlftool.compile import ModuleSpec, compile_modules
from mlftool.errors import MlfError
from mlftool.mlf import Bundle, params, tar_bytes, write_tar
from mlftool.mlf.archive import normal, read, write

MODEL = OWN / "digits_int8.onnx"


def changed(bundle: Bundle, change: Callable[[dict[str, Any]], None]) -> dict[str, bytes]:
    """Its files, with other metadata."""
    data = json.loads(bundle.text("metadata.json"))
    change(data)
    return {**bundle.files, "metadata.json": json.dumps(data).encode()}


def as_map(data: dict[str, Any]) -> None:
    functions = data["memory"]["functions"]
    listed = functions["operator_functions"]
    functions["operator_functions"] = {f["function_name"]: f["workspace"] for f in listed}


def beside_main(data: dict[str, Any]) -> None:
    """TVM's proposal for several modules: no executors, no target, functions beside main."""
    module = data["modules"]["default"]
    functions = module["memory"]["functions"]
    functions |= {f["function_name"]: f["workspace"] for f in functions.pop("operator_functions")}
    module["target"] = []
    del module["executors"]


def in_utc(data: dict[str, Any]) -> None:
    data["export_datetime_utc"] = data.pop("export_datetime")


def one_target(data: dict[str, Any]) -> None:
    (data["target"],) = data["target"].values()


@pytest.mark.parametrize(
    ("bundle", "change"),
    [
        (graph_archive(5), as_map),
        (graph_archive(7), beside_main),
        (packed_archive(), beside_main),
        (struct_archive(), beside_main),
        (graph_archive(1), in_utc),
        (graph_archive(1), one_target),
    ],
    ids=["map", "beside_graph", "beside_packed", "beside_struct", "utc", "target"],
)
def test_metadata(bundle: Bundle, change: Callable[[dict[str, Any]], None], tmp_path: Path) -> None:
    write_tar(Bundle(changed(bundle, change)), tmp_path / "a.tar")
    loaded, plain = mlftool.load(tmp_path / "a.tar"), read(bundle)
    assert loaded.record.modules[0].memory == plain.modules[0].memory
    assert loaded.record.modules[0].exported == plain.modules[0].exported
    assert loaded.record.modules[0].executors == plain.modules[0].executors
    np.testing.assert_array_equal(next(iter(loaded.module().run({"x": X}).values())), Y)


@pytest.mark.parametrize(("number", "said"), [(1, ""), (2, "says version 1; its name says 2")])
def test_metadata_with_the_version_in_their_name(number: int, said: str, tmp_path: Path) -> None:
    files = dict(graph_archive(1).files)
    files[f"metadata-{number}.json"] = files.pop("metadata.json")
    (tmp_path / "a.model-lib").write_bytes(tar_bytes(Bundle(files)))
    if said:
        with pytest.raises(MlfError, match=said):
            mlftool.load(tmp_path / "a.model-lib")
        return
    module = mlftool.load(tmp_path / "a.model-lib").module()
    np.testing.assert_array_equal(module.run({"x": X})["output"], Y)


def test_version_1_has_its_runtime_in_crt() -> None:
    spec = ModuleSpec(MODEL, "m", executor="graph", system_lib=True, mlf_version=1)
    bundle = compile_modules([spec])
    assert "crt/include/tvm/runtime/crt/graph_executor.h" in bundle.files
    assert not [n for n in bundle.files if n.startswith(("runtime/", "templates/"))]
    archive = read(bundle)
    assert "runtime/include/tvm/runtime/crt/graph_executor.h" in archive.shared
    assert archive == normal(archive)
    assert write(archive) == bundle


def test_parameters_as_json_alone(tmp_path: Path) -> None:
    files = dict(graph_archive(7).files)
    del files["parameters/default.params"]
    files["parameters/default.json"] = params.encode_json({"p0": P0})
    write_tar(Bundle(files), tmp_path / "a.tar")
    module = mlftool.load(tmp_path / "a.tar").module()
    np.testing.assert_array_equal(module.params["p0"], P0)
    np.testing.assert_array_equal(module.run({"x": X})["output"], Y)


def test_missing_parameters_are_named(tmp_path: Path) -> None:
    files = dict(graph_archive(7).files)
    del files["parameters/default.params"]
    write_tar(Bundle(files), tmp_path / "a.tar")
    with pytest.raises(MlfError, match=r"no parameters; expected parameters/default\.params"):
        mlftool.load(tmp_path / "a.tar").module()


@pytest.mark.parametrize("linked", [False, True])
def test_missing_parameters_of_our_own_archives_are_named(linked: bool, tmp_path: Path) -> None:
    """Which have an interface file: their graphs ran with zeros. Linked ones need no file."""
    bundle = compile_modules([ModuleSpec(MODEL, "m", executor="graph", link_params=linked)])
    gone = ("checksums.sha256", "parameters/m.params", "parameters/m.json")
    write_tar(Bundle({n: d for n, d in bundle.files.items() if n not in gone}), tmp_path / "a.tar")
    if linked:
        assert mlftool.load(tmp_path / "a.tar").module().inputs
        return
    with pytest.raises(
        MlfError, match=r"parameters/m\.params is missing, with the values of p0, p1"
    ):
        mlftool.load(tmp_path / "a.tar").module()
    files = dict(bundle.files)
    some = {n: v for n, v in params.decode(files[gone[1]]).items() if n != "p1"}
    files = {n: d for n, d in files.items() if n not in gone} | {gone[1]: params.encode(some)}
    write_tar(Bundle(files), tmp_path / "b.tar")
    with pytest.raises(MlfError, match=r"m\.params has no value of p1$"):
        mlftool.load(tmp_path / "b.tar").module()


@pytest.mark.parametrize("bundle", [graph_archive(5), packed_archive()], ids=["graph", "packed"])
def test_unpacked_archives(bundle: Bundle, tmp_path: Path) -> None:
    """Folders, as most public archives are; what is hidden is not theirs."""
    for name, data in {**bundle.files, ".git/HEAD": b"x", ".DS_Store": b"y"}.items():
        (tmp_path / "a" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "a" / name).write_bytes(data)
    loaded = mlftool.load(tmp_path / "a")
    assert loaded.files == bundle.files
    np.testing.assert_array_equal(next(iter(loaded.module().run({"x": X}).values())), Y)
    (tmp_path / "a" / "link.c").symlink_to("metadata.json")
    with pytest.raises(MlfError, match=r"link\.c'?: is a link or no file"):
        mlftool.load(tmp_path / "a")
    (tmp_path / "empty").mkdir()
    with pytest.raises(MlfError, match=r"has no metadata\.json"):
        mlftool.load(tmp_path / "empty")


def test_the_statements_of_the_page_have_tests() -> None:
    page = (REPO / "docs" / "mlf.md").read_text().partition("## What TVM's documents say")[2]
    named = re.findall(r"`(tests/\w+/\w+\.py)(?:::(\w+))?`", page)
    assert len(named) > 20
    assert page.count("tests/") == len(named)
    for file, name in named:
        if (REPO / file).parent.is_dir():  # Bazel shows one room
            text = (REPO / file).read_text()
            assert not name or f"def {name}(" in text, (file, name)


UNTYPED = RELAY.replace(") -> Tensor[(1, 4), float32] {", ") {")


@pytest.mark.parametrize(
    "archive",
    [packed_archive(5, with_metadata=False), network_archive(5)],
    ids=["packed_entry", "network"],
)
def test_relay_without_a_return_type(archive: Bundle, tmp_path: Path) -> None:
    """Its last expression has it."""
    assert UNTYPED != RELAY
    write_tar(Bundle({**archive.files, "src/relay.txt": UNTYPED.encode()}), tmp_path / "a.tar")
    module = mlftool.load(tmp_path / "a.tar").module()
    np.testing.assert_array_equal(module.run({"x": X})["output"], Y)


UNPACKED_RUN = """#include "tvm/runtime/c_runtime_api.h"
TVM_DLL int32_t tvmgen_default_run_model(void* x, void* y);
TVM_DLL int32_t tvmgen_default_run(void* args, void* type_code, int num_args, void* out_value, void* out_type_code, void* resource_handle) {
return tvmgen_default_run_model(((DLTensor*)(((TVMValue*)args)[0].v_handle))[0].data,((DLTensor*)(((TVMValue*)args)[1].v_handle))[0].data);
}
"""  # noqa: E501


def test_an_unpacked_interface_behind_a_packed_entry(tmp_path: Path) -> None:
    """The form of 0.8 with unpacked-api and no C interface."""
    old = network_archive(5)
    files = {**old.files, code(5, 0): UNPACKED_RUN.encode(), "src/relay.txt": UNTYPED.encode()}
    write_tar(Bundle(files), tmp_path / "a.tar")
    module = mlftool.load(tmp_path / "a.tar").module()
    np.testing.assert_array_equal(module.run({"x": X})["output"], Y)
