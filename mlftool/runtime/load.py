"""`mlftool.load`: any archive in Model Library Format, ours or TVM's, as data and as functions.

TVM's RFC described such a function; TVM never had one.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mlftool.errors import MlfError, Problem
from mlftool.mlf import Bundle, params, read_tar
from mlftool.mlf import archive as archives
from mlftool.mlf import graph as graph_json
from mlftool.mlf.interface import Interface
from mlftool.mlf.metadata import MEMBER, member
from mlftool.mlf.records import Archive, ModuleRecord
from mlftool.mlf.strict import parse_json
from mlftool.moved import OfTvm
from mlftool.runtime.callable import CallableModule
from mlftool.runtime.executor import ExecutorModule, factory_of
from mlftool.runtime.host import HostModule, host_module
from mlftool.runtime.interface import interface_of, module_names
from mlftool.runtime.vectors import Array
from mlftool.runtime.vm import VmModule


def load(
    path: str | os.PathLike[str], cache_dir: str | os.PathLike[str] | None = None
) -> LoadedArchive:
    """The archive in `path`, checked through and through; nothing of it has run yet.

    Raises MlfError for a file that is not safe, not complete or not of the format. What is compiled
    later goes to `cache_dir`, else to $MLFTOOL_CACHE or the user's cache.
    """
    return LoadedArchive(read_tar(Path(path)), str(path), Path(cache_dir) if cache_dir else None)


class LoadedArchive(OfTvm):
    """What an archive holds. `record` is the same as plain data, whatever the version."""

    def __init__(self, bundle: Bundle, file: str = "", cache_dir: Path | None = None) -> None:
        self.file = file
        self.files: Mapping[str, bytes] = bundle.files
        self.record: Archive = archives.read(bundle, file)
        about = member(bundle.files) or MEMBER
        self.metadata: dict[str, Any] = parse_json(bundle.files[about])
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

    @property
    def graph(self) -> dict[str, Any] | None:
        """The graph executor's JSON of the only module."""
        return self.module().graph

    @property
    def params(self) -> dict[str, Array]:
        """The parameters of the only module."""
        return self.module().params

    def __getitem__(self, name: str) -> Callable[..., ExecutorModule]:
        """`archive["default"](device)` as of TVM's factories, of the only module or the one of this
        name. Raises KeyError for other names."""
        only = self.modules[0] if len(self.modules) == 1 else ""
        own = name if name in self.modules else only
        if not own:
            raise KeyError(name)
        return factory_of(lambda: self.module(own), name, own)

    def __repr__(self) -> str:
        return f"LoadedArchive({self.file!r}, version={self.version}, modules={self.modules})"

    def _repr_html_(self) -> str:
        """For notebooks: every module's inputs and outputs."""
        return "".join(self.module(name)._repr_html_() for name in self.modules)


class LoadedModule(CallableModule):
    """A module of an archive. It is compiled for this computer when `run` is first called."""

    def __init__(
        self,
        archive: Archive,
        record: ModuleRecord,
        interface: Interface,
        file: str,
        cache_dir: Path | None,
    ) -> None:
        super().__init__(interface, file)
        self.record = record
        self._archive, self._cache = archive, cache_dir
        self._host: HostModule | None = None

    @property
    def name(self) -> str:
        return self.record.name if self.record.executors else self.interface.symbol

    @property
    def executor(self) -> str:
        """aot, graph or vm; "" for an operator."""
        return self.record.executor

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


def _params(record: ModuleRecord, file: str) -> dict[str, Array]:
    member = f"parameters/{record.name}.params"
    return params.decode(record.params, file, member) if record.params is not None else {}


def _graph(record: ModuleRecord, file: str) -> dict[str, Any] | None:
    if record.graph is None:
        return None
    member = f"executor-config/graph/{record.name}.graph"
    return graph_json.decode(record.graph, file, member)[1]
