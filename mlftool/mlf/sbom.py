"""What an archive consists of and what made it: CycloneDX 1.6, and an in-toto statement with SLSA's
provenance. Both are JSON, functions of the archive's bytes alone: no clock, no random number.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mlftool.errors import MlfError, Problem
from mlftool.mlf.archive import read
from mlftool.mlf.bundle import Bundle
from mlftool.mlf.records import Archive, ModuleRecord
from mlftool.mlf.strict import parse_json

BUILD_TYPE = "urn:mlftool:compile:1"
# Of the interface file: what was asked of the compiler.
OPTIONS = (
    *("executor", "interface_api", "unpacked_api", "system_lib", "target", "optimize"),
    "workspace_io",
)
_SHA256 = re.compile("[0-9a-f]{64}")
LICENCE = {"license": {"id": "Apache-2.0"}}  # of mlftool's headers and runtime


def cyclonedx(bundle: Bundle, file: Path, data: bytes) -> bytes:
    """The bill of materials of an archive, which is `data`: the modules, the models that they
    were compiled from, and every file. Raises MlfError for archives that mlftool did not write."""
    archive = read(bundle, str(file))
    models = [_model(m, str(file)) for m in archive.modules]
    bom = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, _sha256(data))}",
        "version": 1,
        "metadata": {
            "tools": {"components": [_tool(archive, str(file))]},
            "component": {
                "type": "library",
                "bom-ref": "archive",
                "name": file.name,
                "hashes": _hashes(_sha256(data)),
            },
        },
        "components": [*models, *_files(bundle)],
        "dependencies": [
            {"ref": "archive", "dependsOn": [*(m["bom-ref"] for m in models), *_refs(bundle)]}
        ],
    }
    return _text(bom)


def provenance(bundle: Bundle, file: Path, data: bytes) -> bytes:
    """A statement of in-toto, version 1, with SLSA's provenance, version 1. Raises MlfError like
    `cyclonedx`. It is not signed: sign these bytes with a key of yours."""
    archive = read(bundle, str(file))
    interfaces = {m.name: _interface(m, str(file)) for m in archive.modules}
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": file.name, "digest": {"sha256": _sha256(data)}}],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {
                    "mlf_version": archive.version,
                    "modules": {
                        module: {key: about[key] for key in OPTIONS if key in about}
                        for module, about in interfaces.items()
                    },
                },
                "internalParameters": {},
                "resolvedDependencies": [
                    {"name": f"model of {module}", "digest": {"sha256": about["model_sha256"]}}
                    for module, about in interfaces.items()
                ],
            },
            "runDetails": {
                "builder": {
                    "id": "urn:mlftool",
                    "version": {"mlftool": _version(archive, str(file))},
                }
            },
        },
    }
    return _text(statement)


FORMATS = {"cyclonedx": cyclonedx, "provenance": provenance}


def _text(data: Any) -> bytes:
    return json.dumps(data, indent=2).encode() + b"\n"


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _hashes(digest: str) -> list[dict[str, str]]:
    return [{"alg": "SHA-256", "content": digest}]


def _interface(m: ModuleRecord, file: str) -> dict[str, Any]:
    """Our description of a module, with the keys that are needed here."""
    try:
        data = parse_json(m.interface or b"")
    except ValueError:
        data = None
    digest = data.get("model_sha256") if isinstance(data, dict) else None
    if not isinstance(data, dict) or not _SHA256.fullmatch(str(digest)):
        text = f"module {m.name} does not say which model it was compiled from"
        raise MlfError(Problem("MLF0607", text, file, help="only mlftool's archives say so"))
    return data


def _version(archive: Archive, file: str) -> str:
    return str(_interface(archive.modules[0], file).get("mlftool_version", ""))


def _tool(archive: Archive, file: str) -> dict[str, Any]:
    version = _version(archive, file)
    return {"type": "application", "name": "mlftool", "version": version, "licenses": [LICENCE]}


def _model(m: ModuleRecord, file: str) -> dict[str, Any]:
    about = _interface(m, file)
    properties = [
        {"name": f"mlftool:{key}", "value": json.dumps(about[key])}
        for key in OPTIONS
        if key in about
    ]
    return {
        "type": "machine-learning-model",
        "bom-ref": f"model:{m.name}",
        "name": m.name,
        "hashes": _hashes(about["model_sha256"]),
        "properties": properties,
    }


def _files(bundle: Bundle) -> Iterator[dict[str, Any]]:
    for name, data in sorted(bundle.files.items()):
        ours = name.startswith(("codegen/host/include/mlf/", "runtime/"))
        yield {
            "type": "file",
            "bom-ref": f"file:{name}",
            "name": name,
            "hashes": _hashes(_sha256(data)),
            **({"licenses": [LICENCE]} if ours else {}),
        }


def _refs(bundle: Bundle) -> list[str]:
    return [f"file:{name}" for name in sorted(bundle.files)]
