"""Bills of materials and provenance: functions of the archive's bytes, and nothing left out."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from shared import REPO
from test_versions import graph_module

from mlftool.cli import main
from mlftool.compile import ModuleSpec, compile_modules
from mlftool.errors import MlfError
from mlftool.mlf import Bundle, sbom, tar_bytes
from mlftool.mlf.archive import write
from mlftool.mlf.records import Archive

MODEL = REPO / "examples" / "models" / "gesture_int8.onnx"
DIGEST = hashlib.sha256(MODEL.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return compile_modules([ModuleSpec(MODEL, "one"), ModuleSpec(MODEL, "two", "cortex-m4")])


def made(kind: str, bundle: Bundle, data: bytes = b"") -> Any:
    return json.loads(sbom.FORMATS[kind](bundle, Path("a.tar"), data or tar_bytes(bundle)))


def test_every_file_and_model_is_in_the_bill(bundle: Bundle) -> None:
    bom = made("cyclonedx", bundle)
    assert (bom["bomFormat"], bom["specVersion"]) == ("CycloneDX", "1.6")
    parts = {c["bom-ref"]: c for c in bom["components"]}
    assert len(parts) == len(bom["components"]) == 2 + len(bundle.files)
    for name, data in bundle.files.items():
        wanted = [{"alg": "SHA-256", "content": hashlib.sha256(data).hexdigest()}]
        assert parts[f"file:{name}"]["hashes"] == wanted
    for name in ("one", "two"):
        model = parts[f"model:{name}"]
        assert model["type"] == "machine-learning-model"
        assert model["hashes"] == [{"alg": "SHA-256", "content": DIGEST}]
    (whole,) = bom["dependencies"]
    assert sorted(whole["dependsOn"]) == sorted(parts)


def test_the_statement_is_of_the_archive(bundle: Bundle) -> None:
    data = tar_bytes(bundle)
    statement = made("provenance", bundle, data)
    digest = {"sha256": hashlib.sha256(data).hexdigest()}
    assert statement["subject"] == [{"name": "a.tar", "digest": digest}]
    definition = statement["predicate"]["buildDefinition"]
    assert definition["externalParameters"]["modules"]["two"]["target"] == "cortex-m4"
    assert [d["digest"] for d in definition["resolvedDependencies"]] == [{"sha256": DIGEST}] * 2


@pytest.mark.parametrize("kind", sbom.FORMATS)
def test_the_same_archive_gives_the_same_bytes(kind: str, bundle: Bundle, tmp_path: Path) -> None:
    outs = []
    for k in range(2):
        (tmp_path / str(k)).mkdir()
        archive, out = tmp_path / str(k) / "a.tar", tmp_path / f"{k}.json"
        archive.write_bytes(tar_bytes(bundle))
        assert main(["sbom", str(archive), "--format", kind, "-o", str(out)]) == 0
        outs.append(out.read_bytes())
    assert outs[0] == outs[1] == sbom.FORMATS[kind](bundle, Path("a.tar"), tar_bytes(bundle))


def test_another_archive_gives_another_serial_number(bundle: Bundle) -> None:
    numbers = {made("cyclonedx", bundle, data)["serialNumber"] for data in (b"1", b"2")}
    assert len(numbers) == 2


@pytest.mark.parametrize("kind", sbom.FORMATS)
def test_archives_of_others_are_refused(kind: str) -> None:
    """TVM's do not say which model they are of; a guess would be no statement."""
    bundle = write(Archive(7, (graph_module(),)))
    with pytest.raises(MlfError, match="does not say which model it was compiled from"):
        made(kind, bundle)
