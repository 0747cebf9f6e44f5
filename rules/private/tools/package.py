"""`package REQUEST.json OUT.tar`: compiles several models into one archive, for mlf_package."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from mlftool.cli.inputs import parse_values
from mlftool.compile import ModuleSpec, compile_modules
from mlftool.errors import exits
from mlftool.mlf import write_tar
from mlftool.options import OPTIONS, Switch


def option_value(name: str, value: Any) -> Any:
    """An attribute's value as ModuleSpec has it."""
    if isinstance(OPTIONS[name].kind, Switch):
        return bool(value)
    return tuple(value) if isinstance(value, list) else value


def module_spec(entry: dict[str, Any]) -> ModuleSpec:
    """The ModuleSpec that an entry of REQUEST describes; the rule has checked its values."""
    shapes = {
        name: tuple(int(extent) for extent in text.replace(" ", "").split(","))
        for name, text in entry["input_shapes"].items()
    }
    return ModuleSpec(
        model=Path(entry["model"]),
        module_name=entry["module_name"],
        target=entry["target"],
        executor=entry["executor"],
        input_shapes=shapes,
        input_values=parse_values([f"{k}:{v}" for k, v in entry["input_values"].items()]),
        data_files=tuple(Path(file) for file in entry["data_files"]),
        only_declared=True,
        backend_files=tuple(Path(file) for file in entry["backend_files"]),
        tuning=Path(entry["tuning"]) if entry["tuning"] else None,
        **{name: option_value(name, value) for name, value in entry["options"].items()},
    )


@exits
def main(arguments: list[str]) -> None:
    """Exit code as the command line's."""
    request, archive = map(Path, arguments)
    specs = [module_spec(entry) for entry in json.loads(request.read_text())["modules"]]
    write_tar(compile_modules(specs), archive)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
