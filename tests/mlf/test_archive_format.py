"""What we write is what the format says, read back by parsers of the tests' own."""

from __future__ import annotations

import json
import struct
import subprocess
import tempfile
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from shared import Network

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.errors import MlfError
from mlftool.mlf import Bundle, params, read_tar, tar_bytes, write_tar

MODEL = Path(__file__).parents[2] / "examples" / "models" / "digits_int8.onnx"
# DLPack's type codes
CODES = {"int8": (0, 8), "int64": (0, 64), "uint8": (1, 8), "float32": (2, 32), "float64": (2, 64)}


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return compile_modules([ModuleSpec(MODEL, "one"), ModuleSpec(MODEL, "two", "cortex-m4")])


PARTS = st.text(
    st.characters(codec="utf-8", exclude_characters="/\\", exclude_categories=["Cc", "Cs"]),
    min_size=1,
    max_size=12,
).filter(lambda p: p not in (".", "..") and len(p.encode()) <= 30)
TREES = st.dictionaries(
    st.lists(PARTS, min_size=1, max_size=3).map("/".join), st.binary(max_size=1100), max_size=6
)


@settings(max_examples=100)
@given(files=TREES)
def test_reading_what_was_written_gives_it_back(
    files: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """load(save(bundle)) is the identity, or the bundle could not be told apart on every disk."""
    path = tmp_path_factory.mktemp("tar") / "a.tar"
    given_bundle = Bundle({**files, "metadata.json": b"{}"})
    write_tar(given_bundle, path)
    if clash(given_bundle):
        with pytest.raises(MlfError, match="occurs twice"):
            read_tar(path)
    else:
        assert read_tar(path) == given_bundle


def clash(bundle: Bundle) -> bool:
    """Whether two files, or a file and a folder, would meet on a disk that folds case."""
    places: dict[str, tuple[str, bool]] = {}
    for name in bundle.files:
        parts = name.split("/")
        for end in range(1, len(parts) + 1):
            is_file = end == len(parts)
            key = unicodedata.normalize("NFC", "/".join(parts[:end])).casefold()
            if places.setdefault(key, (name, is_file))[1] != is_file:
                return True
            if is_file and places[key][0] != name:
                return True
    return False


def test_a_real_archive_survives(bundle: Bundle, tmp_path: Path) -> None:
    write_tar(bundle, tmp_path / "a.tar")
    assert read_tar(tmp_path / "a.tar") == Bundle(dict(bundle.files))
    assert tar_bytes(read_tar(tmp_path / "a.tar")) == (tmp_path / "a.tar").read_bytes()


def headers(data: bytes) -> list[dict[str, object]]:
    """Every header of a tar, cut by hand from the fields POSIX gives."""
    found, at = [], 0
    while data[at : at + 512].strip(b"\0"):
        block = data[at : at + 512]
        size = int(block[124:135], 8)
        found.append(
            {
                "name": block[:100].rstrip(b"\0").decode(),
                "mode": int(block[100:107], 8),
                "ids": (int(block[108:115], 8), int(block[116:123], 8)),
                "mtime": int(block[136:147], 8),
                "kind": block[156:157],
                "magic": block[257:265],
                "names": (block[265:297].rstrip(b"\0"), block[297:329].rstrip(b"\0")),
                "prefix": block[345:500].rstrip(b"\0"),
            }
        )
        at += 512 + -(-size // 512) * 512
    assert data[at:] == bytes(len(data) - at)
    assert len(data) - at >= 1024
    return found


@pytest.mark.parametrize(
    ("epoch", "mtime"), [("", 315532800), ("0", 0), ("1700000000", 1700000000)]
)
def test_headers(epoch: str, mtime: int, bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
    found = headers(tar_bytes(bundle))
    names = [str(h["name"]).removesuffix("/") for h in found]
    assert names[0] == "."
    assert all(n.startswith("./") for n in names[1:])
    assert names == sorted(names)
    assert len(set(names)) == len(names)
    assert {
        n.removeprefix("./") for n, h in zip(names, found, strict=True) if h["kind"] == b"0"
    } == set(bundle.files)
    for h in found:
        assert h["mode"] == (0o644 if h["kind"] == b"0" else 0o755)
        assert h["kind"] in (b"0", b"5")
        assert h["ids"] == (0, 0)
        assert h["names"] == (b"root", b"root")
        assert h["mtime"] == mtime
        assert h["magic"] == b"ustar\x0000"
        assert h["prefix"] == b""


@pytest.mark.parametrize("epoch", ["-1", "1.5", "now", "1 ", "٣", "9" * 5000, str(8**11)])
def test_a_date_that_makes_no_sense(epoch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
    with pytest.raises(MlfError, match="MLF0401"):
        tar_bytes(Bundle({}))


def test_export_date_is_the_given_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    made = compile_modules([ModuleSpec(MODEL, "m")])
    module = json.loads(made.files["metadata.json"])["modules"]["m"]
    assert module["export_datetime"] == "2023-11-14 22:13:20Z"


MODULE_KEYS = {
    "model_name",
    "export_datetime",
    "executors",
    "style",
    "target",
    "memory",
}
MAIN_KEYS = {
    "device",
    "workspace_size_bytes",
    "constants_size_bytes",
    "io_size_bytes",
    "inputs",
    "outputs",
}


def test_metadata_has_exactly_the_keys_of_version_7(bundle: Bundle) -> None:
    text = bundle.files["metadata.json"].decode("ascii")
    data = json.loads(text)
    assert data.keys() == {"version", "modules"}
    assert data["version"] == 7
    assert list(data["modules"]) == ["one", "two"]
    assert text == json.dumps(data, indent=2, sort_keys=True)
    for name, module in data["modules"].items():
        assert module.keys() == MODULE_KEYS
        assert module["model_name"] == name
        assert module["executors"] == ["aot"]
        assert module["style"] == "full-model"
        assert all(isinstance(t, str) and t.startswith("c -keys=") for t in module["target"])
        assert module["memory"].keys() == {"functions"}  # sids belong to the graph executor
        functions = module["memory"]["functions"]
        assert functions.keys() == {"main", "operator_functions"}
        (main,) = functions["main"]
        assert main.keys() == MAIN_KEYS
        tensors = [*main["inputs"].values(), *main["outputs"].values()]
        assert all(t.keys() == {"size", "dtype"} for t in tensors)
        assert main["device"] == 1
        assert main["io_size_bytes"] == sum(t["size"] for t in tensors)
        for entry in functions["operator_functions"]:
            assert entry.keys() == {"function_name", "workspace"}
            assert [w.keys() for w in entry["workspace"]] == [{"device", "workspace_size_bytes"}]


RUNTIME = {
    "struct": {},
    "vm": {"executor": "vm"},
    "packed": {"interface_api": "packed"},
    "graph": {"executor": "graph"},
}


@pytest.mark.parametrize("form", RUNTIME)
@pytest.mark.parametrize("version", [4, 5, 7])
def test_the_runtime_is_there_where_code_calls_it(form: str, version: int) -> None:
    spec = ModuleSpec(MODEL, "m", mlf_version=version, **RUNTIME[form])
    files = compile_modules([spec]).files
    expected = form in ("packed", "graph") and version >= 5
    assert any(n.startswith("runtime/") for n in files) == expected
    assert any(n.startswith("templates/") for n in files) == expected
    metadata = json.loads(files["metadata.json"])
    module = metadata["modules"]["m"] if version == 7 else metadata
    dependencies = module.get("external_dependencies", [])
    assert [(d["short_name"], d["url"], d["url_type"]) for d in dependencies] == (
        [("tvm_standalone_crt", "./runtime", "mlf_path")] * expected
    )
    readme = files["README.md"].decode()
    assert ("runtime/include" in readme) == expected
    assert ("CRT/include" in readme) == (form in ("packed", "graph") and not expected)


@pytest.mark.parametrize("form", RUNTIME)
@pytest.mark.parametrize("target", ["host", "cortex-m4", "x86-64-v3"])
def test_headers_are_those_that_sources_include(form: str, target: str) -> None:
    """gcc says which; each is there once."""
    bundle = compile_modules([ModuleSpec(MODEL, "m", target, **RUNTIME[form])])
    there = [n for n in bundle.files if "/mlf/" in n]
    assert len({n.rpartition("/")[2] for n in there}) == len(there)
    assert all(n.startswith("codegen/host/include/mlf/") for n in there)
    with tempfile.TemporaryDirectory() as folder:
        for name, data in bundle.files.items():
            (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
            (Path(folder) / name).write_bytes(data)
        sources = [n for n in bundle.files if n.endswith(".c") and n.startswith("codegen/")]
        folders = ["-Icodegen/host/include", "-Iruntime/include", "-Itemplates"]
        command = ["gcc", "-std=c99", "-MM", "-MG", *folders, *sources]
        text = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    included = {w for w in text.stdout.replace("\\\n", " ").split() if "/mlf/" in w}
    assert included == set(there)


def test_an_archive_holds_little_beside_its_model() -> None:
    spec = ModuleSpec(Network("kws_int8", True).path, "kws", "cortex-m4")
    assert len(tar_bytes(compile_modules([spec]))) < 170 * 1024


def test_metadata_tells_the_truth(bundle: Bundle) -> None:
    """The header's macros and the metadata's numbers are one."""
    data = json.loads(bundle.files["metadata.json"])
    for name in ("one", "two"):
        header = bundle.text(f"codegen/host/include/tvmgen_{name}.h")
        (main,) = data["modules"][name]["memory"]["functions"]["main"]
        macro = f"#define TVMGEN_{name.upper()}_WORKSPACE_SIZE {main['workspace_size_bytes']}\n"
        assert macro in header
        for kind in ("inputs", "outputs"):
            for tensor, entry in main[kind].items():
                assert f"_{tensor.upper()}_SIZE {entry['size']}\n" in header
        source = bundle.text(f"codegen/host/src/{name}_lib1.c")
        for entry in data["modules"][name]["memory"]["functions"]["operator_functions"]:
            assert f"void {entry['function_name']}(" in source


def test_the_tree_of_version_7(bundle: Bundle) -> None:
    for name in ("one", "two"):
        for member in (
            f"codegen/host/src/{name}_lib0.c",
            f"codegen/host/src/{name}_lib1.c",
            f"codegen/host/include/tvmgen_{name}.h",
            f"parameters/{name}.params",
            f"src/{name}.relay",
        ):
            assert member in bundle.files
        assert len(bundle.files[f"parameters/{name}.params"]) == 32
    tops = {name.split("/")[0] for name in bundle.files}
    assert tops == {
        "README.md",
        "checksums.sha256",
        "metadata.json",
        "codegen",
        "executor-config",
        "parameters",
        "src",
    }


@pytest.mark.sampled(6)
@pytest.mark.parametrize("executor", ["aot", "graph", "vm"])
@pytest.mark.parametrize("version", [1, 4, 5, 7])
def test_the_certificate_is_one_more_file(executor: str, version: int) -> None:
    def files(verify: bool) -> dict[str, bytes]:
        options = {"executor": executor, "mlf_version": version, "verify": verify}
        return dict(compile_modules([ModuleSpec(MODEL, "one", **options)]).files)

    plain, certified = files(False), files(True)
    config = "runtime-config" if version < 5 else "executor-config"
    assert certified.keys() - plain.keys() == {f"{config}/{executor}/one.certificate"}
    changed = [name for name in plain if plain[name] != certified[name]]
    assert changed == ["checksums.sha256"]


def parse_params(data: bytes) -> dict[bytes, tuple[tuple[int, int], tuple[int, ...], bytes]]:
    """mlf.md section 6, field by field."""
    at = 0

    def take(form: str) -> tuple[int, ...]:
        nonlocal at
        values = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return values

    def raw(length: int) -> bytes:
        nonlocal at
        at += length
        assert at <= len(data)
        return data[at - length : at]

    assert take("QQ") == (0xF7E58D4F05049CB7, 0)
    (count,) = take("Q")
    names = [raw(*take("Q")) for _ in range(count)]
    assert take("Q") == (count,)
    found = {}
    for name in names:
        assert take("QQii") == (0xDD5E40F096B4A13F, 0, 1, 0)
        (ndim,) = take("i")
        code, bits, lanes = take("BBH")
        assert lanes == 1
        shape = take(f"{ndim}q")
        content = raw(*take("q"))
        elements = 1
        for extent in shape:
            elements *= extent
        assert len(content) == -(-bits // 8) * elements
        found[name] = ((code, bits), shape, content)
    assert at == len(data)
    assert list(found) == names
    return found


ARRAYS = st.sampled_from(sorted(CODES)).flatmap(
    lambda name: hnp.arrays(
        np.dtype(name), hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
    )
)


@settings(max_examples=200)
@given(
    arrays=st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=20), ARRAYS, max_size=4)
)
def test_params_follow_the_format(arrays: dict[str, np.ndarray]) -> None:
    found = parse_params(params.encode(arrays))
    assert list(found) == [n.encode() for n in arrays]
    for name, array in arrays.items():
        kind, shape, content = found[name.encode()]
        assert kind == CODES[array.dtype.name]
        assert shape == array.shape
        assert content == array.tobytes()


def test_params_are_little_endian_whatever_the_array() -> None:
    big = np.arange(6, dtype=">i4").reshape(2, 3)[:, ::-1]
    (found,) = parse_params(params.encode({"a": big})).values()
    assert found == ((0, 32), (2, 3), struct.pack("<6i", 2, 1, 0, 5, 4, 3))
    assert parse_params(params.encode({"b": np.array([True, False])}))[b"b"][2] == b"\1\0"
