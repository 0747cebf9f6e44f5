"""`mlftool.load`: any archive in Model Library Format, ours or TVM's, as data and as functions.

TVM's RFC described such a function; TVM never had one.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlftool.errors import MlfError, Problem, did_you_mean
from mlftool.mlf import Bundle, params, read_tar
from mlftool.mlf import archive as archives
from mlftool.mlf import graph as graph_json
from mlftool.mlf.interface import Interface, Tensor
from mlftool.mlf.metadata import MEMBER
from mlftool.mlf.records import Archive, ModuleRecord
from mlftool.mlf.strict import parse_json
from mlftool.runtime.host import HostModule, host_module
from mlftool.runtime.interface import interface_of, module_names
from mlftool.runtime.vectors import Array, load_vectors
from mlftool.runtime.vm import VmModule


def load(
    path: str | os.PathLike[str], cache_dir: str | os.PathLike[str] | None = None
) -> LoadedArchive:
    """The archive in `path`, checked through and through; nothing of it has run yet.

    Raises MlfError for a file that is not safe, not complete or not of the format. What is compiled
    later goes to `cache_dir`, else to $MLFTOOL_CACHE or the user's cache.
    """
    return LoadedArchive(read_tar(Path(path)), str(path), Path(cache_dir) if cache_dir else None)


class LoadedArchive:
    """What an archive holds. `record` is the same as plain data, whatever the version."""

    def __init__(self, bundle: Bundle, file: str = "", cache_dir: Path | None = None) -> None:
        self.file = file
        self.files: Mapping[str, bytes] = bundle.files
        self.record: Archive = archives.read(bundle, file)
        self.metadata: dict[str, Any] = parse_json(bundle.files[MEMBER])
        self._cache = cache_dir
        for m in self.record.modules:  # loading reports every problem at once
            _params(m, file)
            _graph(m, file)

    @property
    def version(self) -> int:
        return self.record.version

    @property
    def modules(self) -> tuple[str, ...]:
        """What `module` takes: names of models, or the functions of an operator archive."""
        return module_names(self.record)

    def module(self, name: str | None = None, outputs: Sequence[str] = ()) -> LoadedModule:
        """A model, or a function of an operator archive; without a name, the only one there is.

        An operator's arguments do not say which are its `outputs`; without names, the last is.
        """
        interface = interface_of(self.record, name, self.file, outputs)
        record = self.record.module(interface.module)
        return LoadedModule(self.record, record, interface, self.file, self._cache)

    def __repr__(self) -> str:
        return f"LoadedArchive({self.file!r}, version={self.version}, modules={self.modules})"


class LoadedModule:
    """A module of an archive. It is compiled for this computer when `run` is first called."""

    def __init__(
        self,
        archive: Archive,
        record: ModuleRecord,
        interface: Interface,
        file: str,
        cache_dir: Path | None,
    ) -> None:
        self.record, self.interface = record, interface
        self._archive, self._file, self._cache = archive, file, cache_dir
        self._host: HostModule | None = None

    @property
    def name(self) -> str:
        return self.record.name if self.record.executors else self.interface.symbol

    @property
    def executor(self) -> str:
        """aot, graph or vm; "" for an operator."""
        return self.record.executor

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """In call order: name, dtype, shape; scale and zero_point if it is quantised."""
        return self.interface.inputs

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return self.interface.results

    @property
    def graph(self) -> dict[str, Any] | None:
        """The graph executor's JSON."""
        return _graph(self.record, self._file)

    @property
    def params(self) -> dict[str, Array]:
        return _params(self.record, self._file)

    @property
    def sources(self) -> dict[str, bytes]:
        """The C and C++ files and the objects, by their names in version 7."""
        return self.record.sources

    @property
    def relay(self) -> str | None:
        """The text of the model the module was made from."""
        text = self.record.relay
        return None if text is None else text.decode("utf-8", "replace")

    def run(
        self, inputs: Mapping[str, Any] | str | os.PathLike[str] | Array | Sequence[Any]
    ) -> dict[str, Array]:
        """One inference on this computer. Raises MlfError.

        `inputs` maps names of inputs to arrays; a model with one input takes its array alone, and
        files in numpy's format (.npz of all, .npy of one) are read. Where an archive tells sizes
        and no shapes, `inputs` has one axis; any array of as many elements is taken then, and
        everywhere.
        """
        host = self.compiled()
        given = self._by_name(inputs)
        for t in self.inputs:
            array = given.get(t.name)
            if array is not None and array.size * array.itemsize == t.size_bytes:
                given[t.name] = array.reshape(t.shape)
        if unknown := sorted(set(given) - {t.name for t in self.inputs}):
            text = f"no input with this name; got '{unknown[0][:100]}'"
            names = [t.name for t in self.inputs]
            hint = did_you_mean(unknown[0], names) if names else ""
            raise MlfError(Problem("MLF0601", text, self._file, path=self.name, help=hint))
        return host(given)

    def _by_name(self, inputs: Any) -> dict[str, Array]:
        """The arrays of all forms that `run` takes."""
        if isinstance(inputs, (str, os.PathLike)):
            arrays = load_vectors(Path(inputs), self.inputs)
            return {t.name: arrays[t.name] for t in self.inputs if t.name in arrays}
        if not isinstance(inputs, Mapping):
            names = ", ".join(f"'{t.name}'" for t in self.inputs)
            if len(self.inputs) != 1 or inputs is None:
                text = f"run() got {type(inputs).__name__}, expected a mapping from input names "
                text += f"({names}) to arrays, or the path of an .npz file"
                raise MlfError(Problem("MLF0400", text, self._file, path=self.name))
            inputs = {self.inputs[0].name: inputs}
        paths = (str, os.PathLike)
        named = {t.name: t for t in self.inputs}
        return {
            str(n): load_vectors(Path(a), [named[n]])[n]
            if isinstance(a, paths) and n in named
            else np.asarray(a)
            for n, a in inputs.items()
        }

    def compiled(self) -> HostModule:
        """The module as a library of this computer."""
        if self._host is None:
            self._host = host_module(self._archive, self.interface, self._cache)
        return self._host

    def interpreter(self) -> VmModule:
        """A module of the vm executor to be interpreted in Python. Raises MlfError for others."""
        member = f"executor-config/vm/{self.name}.vm"
        code = self.record.files.get(member)
        if code is None:
            text = f"the {self.executor or 'operator'} module has no bytecode; only vm modules have"
            raise MlfError(Problem("MLF0607", text, self._file, path=self.name))
        library = ctypes.CDLL(str(self.compiled().library))
        return VmModule(self.interface, code, library)

    def __repr__(self) -> str:
        return f"LoadedModule({self.name!r}, executor={self.executor!r})"


def _params(record: ModuleRecord, file: str) -> dict[str, Array]:
    member = f"parameters/{record.name}.params"
    return params.decode(record.params, file, member) if record.params is not None else {}


def _graph(record: ModuleRecord, file: str) -> dict[str, Any] | None:
    if record.graph is None:
        return None
    member = f"executor-config/graph/{record.name}.graph"
    return graph_json.decode(record.graph, file, member)[1]
