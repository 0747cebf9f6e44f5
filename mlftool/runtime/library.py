"""What a C library of an archive consists of: its code, and graphs as C."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from mlftool.mlf import Bundle
from mlftool.mlf.archive import read
from mlftool.mlf.records import ModuleRecord
from mlftool.mlf.runtime_tree import helper_headers
from mlftool.runtime.packed import c_bytes, parameters
from mlftool.runtime.sources import old_headers

_WEIGHTS = "codegen/host/include/mlf/weights.h"
FOLDERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "src": ("codegen/host/src/", (".c", ".cc", ".cpp")),
    "include": ("codegen/host/include/", (".h", ".weights")),
    "lib": ("codegen/host/lib/", (".o",)),
}


def library_files(bundle: Bundle, file: str = "") -> dict[str, dict[str, bytes]]:
    """Folder -> file in it -> contents. `file` is the archive's, for messages. Raises MlfError."""
    found = {
        folder: {
            name.removeprefix(prefix): data
            for name, data in bundle.files.items()
            if name.startswith(prefix) and name.endswith(suffixes)
        }
        for folder, (prefix, suffixes) in FOLDERS.items()
    }
    found["include"] |= old_headers(found["src"])
    # Applications cannot open an archive's files on a board: they get graphs as C.
    for record in read(bundle, file).modules:
        if record.graph is not None:
            data, files = parameters(record)
            header, source = graph_data(record, data, tuple(files))
            found["include"] |= files
            if files:
                found["include"]["mlf/weights.h"] = helper_headers()[_WEIGHTS]
            found["include"][f"tvmgen_{record.name}_graph.h"] = header.encode()
            found["src"][f"{record.name}_graph.c"] = source.encode()
    return found


def graph_data(record: ModuleRecord, data: bytes, files: Sequence[str]) -> tuple[str, str]:
    """The graph executor's JSON and parameters as C: a header and its source.

    `data` are the parameters; they are also in `files`, if that names one.
    """
    name = f"tvmgen_{record.name}"
    parts = {"graph": record.graph or b"", "params": data}
    guard = f"{name.upper()}_GRAPH_H_"
    header = [f"#ifndef {guard}", f"#define {guard}", "#include <stddef.h>", ""]
    source = [f'#include "{name}_graph.h"', ""]
    for part, data in parts.items():
        header.append(f"extern const char {name}_{part}[];")
        header.append(f"extern const size_t {name}_{part}_size;  // without the zero after it")
        if part == "params" and files:
            source += _filed(f"{name}_{part}", data, files[0])
        else:
            source.append(f"const char {name}_{part}[] =\n    {c_bytes(data)};")
        source.append(f"const size_t {name}_{part}_size = {len(data)};")
    return "\n".join([*header, "", "#endif", ""]), "\n".join([*source, ""])


def _filed(symbol: str, data: bytes, file: str) -> list[str]:
    """The digest is there so that the source changes with the file."""
    return [
        f"// {hashlib.sha256(data).hexdigest()}",
        '#include "mlf/weights.h"',
        f'MLF_WEIGHTS_SYMBOL("{symbol}", "{file}", 0, {len(data) + 1}, "");',
    ]
