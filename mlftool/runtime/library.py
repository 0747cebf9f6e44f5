"""What a C library of an archive consists of: its code, and graphs as C."""

from __future__ import annotations

from collections.abc import Mapping

from mlftool.mlf import Bundle, params
from mlftool.mlf.archive import read
from mlftool.mlf.records import ModuleRecord
from mlftool.runtime.packed import c_bytes
from mlftool.runtime.sources import old_headers

FOLDERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "src": ("codegen/host/src/", (".c", ".cc", ".cpp")),
    "include": ("codegen/host/include/", (".h",)),
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
            header, source = graph_data(record)
            found["include"][f"tvmgen_{record.name}_graph.h"] = header.encode()
            found["src"][f"{record.name}_graph.c"] = source.encode()
    return found


def graph_data(record: ModuleRecord) -> tuple[str, str]:
    """The graph executor's JSON and parameters as C: a header and its source."""
    name = f"tvmgen_{record.name}"
    parts = {"graph": record.graph or b"", "params": record.params or params.encode({})}
    guard = f"{name.upper()}_GRAPH_H_"
    header = [f"#ifndef {guard}", f"#define {guard}", "#include <stddef.h>", ""]
    source = [f'#include "{name}_graph.h"', ""]
    for part, data in parts.items():
        header.append(f"extern const char {name}_{part}[];")
        header.append(f"extern const size_t {name}_{part}_size;  // without the zero behind it")
        source.append(f"const char {name}_{part}[] =\n    {c_bytes(data)};")
        source.append(f"const size_t {name}_{part}_size = sizeof {name}_{part} - 1;")
    return "\n".join([*header, "", "#endif", ""]), "\n".join([*source, ""])
