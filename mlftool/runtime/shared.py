"""A module as a shared library of this computer, for TVM's runtime, mlftool and any program.

Its own C is one file, which calls the module through the descriptor that the test runner uses, too.
What it exports is a list, and all else is hidden: two libraries in one process share nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlftool.errors import MlfError, Problem
from mlftool.frozen import frozen, replace
from mlftool.mlf import graph as graph_json
from mlftool.mlf import params
from mlftool.mlf.interface import SCHEMA_VERSION, Interface, Tensor
from mlftool.mlf.mblob import aot_blob, graph_blob
from mlftool.mlf.records import Archive, ModuleRecord
from mlftool.mlf.runtime_tree import crt_root, headers_of, helper_headers
from mlftool.runtime.build import build_code
from mlftool.runtime.derive import header_name
from mlftool.runtime.descriptor import calls_crt, run_module
from mlftool.runtime.host import machine_flags
from mlftool.runtime.packed import TYPE_CODES, c_string, dl_type, parameters
from mlftool.runtime.signature import sanitised
from mlftool.runtime.sources import module_code
from mlftool.targets import TARGETS

SOURCE, SCRIPT = "library.c", "library.map"
FACTORY = "default"  # what scripts ask TVM's loader for, whatever the module is called
_INCLUDE = "codegen/host/include"


@frozen
class Shared:
    """What a library consists of besides the module's own code: files of its own, by their names,
    and the names that it exports."""

    files: dict[str, bytes]
    exports: tuple[str, ...]


def library_symbol(module: str) -> str:
    """The structure of crt/include/mlf/library.h."""
    return f"tvmgen_{module}_library"


def interface_symbol(module: str) -> str:
    """The text that `mlftool.load` reads."""
    return f"tvmgen_{module}_interface"


def shared_files(interface: Interface, record: ModuleRecord) -> Shared:
    """Raises MlfError for modules that cannot be called here."""
    check_host(interface)
    name = interface.module
    exports = [library_symbol(name), interface_symbol(name), *_own(interface, record)]
    # A run of a library goes on from the run before: the module's own state.
    run = run_module(replace(interface, state_bytes=0), record)
    parts = [_HEAD.format(module=name), *_buffers(interface), run]
    parts += [_description(interface), _structure(interface)]
    files = {f"{_INCLUDE}/{n}": data for n, data in parameters(record)[1].items()}
    if _fits_tvm(interface):
        blob, file = _blob(interface, record), f"tvmgen_{name}.mblob"
        files[f"{_INCLUDE}/{file}"] = blob
        weights = f'MLF_WEIGHTS_SYMBOL("__tvm_dev_mblob", "{file}", 0, {len(blob)}, "");\n'
        parts += ['#include "mlf/weights.h"\n', weights]
        exports += ["__tvm_dev_mblob", "__tvm_module_ctx"]
        parts.append("void *__tvm_module_ctx; /* TVM's loader writes it */\n")
        if interface.executor != "graph":
            exports += ["__TVMAPISetLastError", "get_c_metadata", _entry(name)]
            parts.append(_packed(interface))
    files[SOURCE] = "\n".join(parts).encode()
    files[SCRIPT] = _script(exports).encode()
    return Shared(files, tuple(exports))


def build_library(archive: Archive, interface: Interface, soname: str) -> Path:
    """The library, in the cache. Raises MlfError."""
    record = archive.module(interface.module)
    made = shared_files(interface, record)
    code = module_code(archive, record)
    runner = {f"crt/runner/{n}": (crt_root() / "runner" / n).read_bytes() for n in ("guard.h",)}
    flags = (
        *(*machine_flags(interface.target), interface.flag, "-fPIC", "-shared"),
        *("-Wl,-Bsymbolic", "-Wl,--no-undefined", f"-Wl,--version-script={SCRIPT}"),
        *(f"-Wl,-soname,{soname}", "-Wl,--build-id=none", "-s"),
    )
    crt = record if calls_crt(interface, record) else None
    what = f"module '{interface.module}'"
    return build_code(code, {**made.files, **runner}, flags, "model.so", what, None, crt)


def checked_soname(name: str) -> str:
    """Raises MlfError for a name that the linker's command line would misread."""
    if not re.fullmatch(r"[A-Za-z0-9_+][A-Za-z0-9_.+-]*", name) or name.endswith((".o", ".tar")):
        text = f"'{name}' cannot name a library"
        hint = "expected letters, digits and _ . + -, such as model.so"
        raise MlfError(Problem("MLF0400", text, help=hint))
    return name


def public_headers(archive: Archive, record: ModuleRecord) -> dict[str, bytes]:
    """What programs that call the library include, by their names in a folder of headers."""
    header = header_name(record)
    own = {} if header is None else {Path(header).name: record.files[header]}
    helpers = {"mlf/library.h": helper_headers()[f"{_INCLUDE}/mlf/library.h"]}
    found = headers_of(own.values())
    return {**own, **helpers, **{n.removeprefix(f"{_INCLUDE}/"): d for n, d in found.items()}}


def check_host(interface: Interface, file: str = "") -> None:
    """Raises MlfError for the module of an archive, `file`, that is for another computer."""
    target = TARGETS.get(interface.target)
    if target is not None and not target.is_host:
        text = f"compiled for {interface.target}; a library is for this computer"
        hint = "compile the model for it: mlftool compile MODEL -o FILE.tar --target host"
        raise MlfError(Problem("MLF0613", text, file, path=interface.module, help=hint))


def _own(interface: Interface, record: ModuleRecord) -> list[str]:
    """The functions of the module itself that others call by name."""
    if interface.executor == "graph":
        return list(dict.fromkeys(graph_json.decode(record.graph or b"")[0].functions))
    stem = f"tvmgen_{interface.module.lower()}"
    if interface.interface_api == "packed":
        return [interface.run_symbol]
    maps = [f"{stem}_map_inputs", f"{stem}_map_outputs"] if interface.workspace_io else []
    kept = [f"{stem}_{name}" for name in ("reset", "reset_state", "run_state")]
    return [f"{stem}_run", *maps, *(kept if interface.state_bytes else [])]


def _buffers(interface: Interface) -> list[str]:
    """What the descriptor calls input_0 and so on: here the caller's own memory."""
    kinds = (("input", interface.inputs), ("output", interface.outputs))
    return [f"static uint8_t *{kind}_{i};" for kind, each in kinds for i in range(len(each))]


def _description(interface: Interface) -> str:
    """The interface file as text, for archives of mlftool and TVM."""
    about = {
        "schema_version": SCHEMA_VERSION,
        "module": interface.module,
        "executor": interface.executor,
        "interface_api": interface.interface_api,
        "target": interface.target,
        "inputs": [t.to_json() for t in interface.inputs],
        "outputs": [t.to_json() for t in interface.outputs],
        "workspace_bytes": interface.workspace_bytes,
        "constants_bytes": interface.constants_bytes,
        "state_bytes": interface.state_bytes,
    }
    return (
        f"const char {interface_symbol(interface.module)}[] =\n    {c_string(json.dumps(about))};\n"
    )


def _structure(interface: Interface) -> str:
    name, lines = interface.module, []
    for kind, tensors in (("input", interface.inputs), ("output", interface.outputs)):
        for i, t in enumerate(tensors):
            extents = ", ".join(map(str, t.shape)) or "1"
            lines.append(f"static const int64_t about_{kind}_{i}[] = {{{extents}}};")
        rows = [
            f"    {{{c_string(t.name)}, {c_string(t.dtype.name)}, about_{kind}_{i}, "
            f"{len(t.shape)}, {t.size_bytes}}},"
            for i, t in enumerate(tensors)
        ] or ["    {0, 0, 0, 0, 0},"]
        lines += [f"static const struct mlf_library_tensor about_{kind}s[] = {{", *rows, "};\n"]
    lines += [
        "static int32_t run(const void *const *inputs, void *const *outputs) {",
        "  int32_t status;",
        "  pthread_mutex_lock(&lock);",
        *(f"  input_{i} = (uint8_t *)inputs[{i}];" for i in range(len(interface.inputs))),
        *(f"  output_{i} = (uint8_t *)outputs[{i}];" for i in range(len(interface.outputs))),
        *(["  (void)inputs;"] if not interface.inputs else []),
        "  status = run_module();",
        "  pthread_mutex_unlock(&lock);",
        "  return status;",
        "}\n",
        *(_RESET.format(m=name.lower()).splitlines() if interface.state_bytes else []),
        f"extern const struct mlf_library {library_symbol(name)};",
        f"const struct mlf_library {library_symbol(name)} = {{",
        f"    MLF_LIBRARY_VERSION, {c_string(name)}, about_inputs, {len(interface.inputs)},",
        f"    about_outputs, {len(interface.outputs)}, run, "
        + ("reset," if interface.state_bytes else "NULL,"),
        "};\n",
    ]
    return "\n".join(lines)


def _fits_tvm(interface: Interface) -> bool:
    """Whether DLPack has a type for each tensor; TVM's runtime can call the library then."""
    return all(_has_type(t.dtype) for t in (*interface.inputs, *interface.outputs))


def _has_type(dtype: np.dtype[Any]) -> bool:
    return dtype.name == "bfloat16" or (dtype.kind in TYPE_CODES and dtype.kind != "V")


def _blob(interface: Interface, record: ModuleRecord) -> bytes:
    if interface.executor != "graph":
        return aot_blob(FACTORY)
    given = params.decode(record.params) if record.params else {}
    return graph_blob(FACTORY, record.graph or b"", given)


def _entry(module: str) -> str:
    """What TVM's AOT executor calls: the metadata's name with this end."""
    return f"{library_symbol(module)}___tvm_main__"


def _packed(interface: Interface) -> str:
    """The packed functions of TVM's AOT executor: metadata and the model."""
    tensors = (*interface.inputs, *interface.outputs)
    places = [f"about_input_{i}" for i in range(len(interface.inputs))]
    places += [f"about_output_{i}" for i in range(len(interface.outputs))]
    types = [dl_type(t.dtype) for t in tensors]
    infos = [
        f"    {{{c_string(name)}, {place}, {len(t.shape)}, {{{code}, {bits}, 1}}}},"
        for name, place, t, (code, bits) in zip(
            _tvm_names(tensors), places, tensors, types, strict=True
        )
    ]
    count, first = len(tensors), len(interface.inputs)
    return _PACKED.format(
        entry=_entry(interface.module),
        stem=library_symbol(interface.module),
        infos="\n".join(infos),
        inputs=first,
        outputs=count - first,
        count=count,
    )


def _tvm_names(tensors: Sequence[Tensor]) -> list[str]:
    """As TVM looks them up: sanitised; the second of two equal ones gets a number."""
    names: list[str] = []
    for t in tensors:
        plain = name = sanitised(t.name) or "_"
        number = 1
        while name in names:
            name, number = f"{plain}_{number}", number + 1
        names.append(name)
    return names


def _script(exports: Sequence[str]) -> str:
    """The linker's version script."""
    listed = "\n".join(f"    {name};" for name in exports)
    return f"MLF_1 {{\n  global:\n{listed}\n  local:\n    *;\n}};\n"


_HEAD = """/* Module {module} as a shared library. Generated by `mlftool library`. */
#include "mlf/library.h"

#include <pthread.h>
#include <string.h>

/* The descriptor's tensors have no guards here: they are the caller's. */
enum {{ kGuardBytes = 0 }};
/* What the C runtime refers to weakly is here, so never another library's; nothing needs it. */
const void *no_system_library(void) __asm__("TVMSystemLibEntryPoint")
    __attribute__((weak, visibility("hidden")));
const void *no_system_library(void) {{
  return NULL;
}}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
"""

_RESET = """static void reset(void) {{
  pthread_mutex_lock(&lock);
  tvmgen_{m}_reset();
  pthread_mutex_unlock(&lock);
}}
"""

_PACKED = """#include <stdio.h>
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/metadata_types.h>

/* TVM's loader writes it; others leave it alone. */
void (*__TVMAPISetLastError)(const char *);

static const struct TVMTensorInfo infos[] = {{
{infos}
}};
static const struct TVMMetadata metadata = {{
    1, infos, {inputs}, infos + {inputs}, {outputs}, NULL, 0, NULL, 0, "{stem}",
}};

int get_c_metadata(TVMValue *args, int *codes, int count, TVMValue *result, int *code, void *own);
int get_c_metadata(TVMValue *args, int *codes, int count, TVMValue *result, int *code, void *own) {{
  (void)args, (void)codes, (void)count, (void)own;
  result->v_handle = (void *)&metadata;
  *code = kTVMOpaqueHandle;
  return 0;
}}

static int fail(const char *what, int k) {{
  char text[160];
  snprintf(text, sizeof text, "{stem}: argument %d %s", k, what);
  if (__TVMAPISetLastError != NULL) {{
    __TVMAPISetLastError(text);
  }}
  return -1;
}}

/* NULL, or what is wrong with an argument: a row-major tensor of the CPU is right. */
static const char *mistake(const DLTensor *tensor, const struct TVMTensorInfo *info) {{
  int64_t elements = 1;
  int k;
  if (tensor == NULL || tensor->device.device_type != kDLCPU) {{
    return "is no tensor of the CPU";
  }}
  if (tensor->dtype.code != info->dtype.code || tensor->dtype.bits != info->dtype.bits ||
      tensor->dtype.lanes != 1) {{
    return "has another type";
  }}
  if (tensor->ndim != info->num_shape) {{
    return "has another rank";
  }}
  for (k = tensor->ndim - 1; k >= 0; k--) {{
    if (tensor->shape[k] != info->shape[k]) {{
      return "has another shape";
    }}
    if (tensor->strides != NULL && tensor->shape[k] > 1 && tensor->strides[k] != elements) {{
      return "is not row-major";
    }}
    elements *= tensor->shape[k];
  }}
  return NULL;
}}

int {entry}(TVMValue *args, int *codes, int count, TVMValue *result, int *code, void *own);
int {entry}(TVMValue *args, int *codes, int count, TVMValue *result, int *code, void *own) {{
  void *data[{count}];
  int k;
  (void)result, (void)code, (void)own;
  if (count != {count}) {{
    return fail("is missing, or one too many", count);
  }}
  for (k = 0; k < {count}; k++) {{
    const int is_tensor = codes[k] == kTVMDLTensorHandle || codes[k] == kTVMNDArrayHandle;
    const DLTensor *const tensor = is_tensor ? (const DLTensor *)args[k].v_handle : NULL;
    const char *const what = mistake(tensor, &infos[k]);
    if (what != NULL) {{
      return fail(what, k);
    }}
    data[k] = (uint8_t *)tensor->data + tensor->byte_offset;
  }}
  k = run((const void *const *)data, data + {inputs});
  return k == 0 ? 0 : fail("is right, but the model failed with the status", k);
}}
"""
