"""The inputs and outputs of a module, for every kind of archive."""

from __future__ import annotations

from collections.abc import Sequence

from mlftool.errors import MlfError, Problem, did_you_mean
from mlftool.mlf import Bundle
from mlftool.mlf.archive import read
from mlftool.mlf.interface import Interface, stated
from mlftool.mlf.records import OPERATOR, Archive
from mlftool.runtime import probe
from mlftool.runtime.derive import check_parameters, derive, header_name, operator_interface


def module_names(archive: Archive) -> tuple[str, ...]:
    """What can be run: the modules, or the functions of an operator archive; sorted."""
    if archive.modules[0].style == OPERATOR:
        return tuple(sorted(archive.modules[0].memory.operators))
    return tuple(sorted(m.name for m in archive.modules))


def read_interface(bundle: Bundle, module: str | None = None, file: str = "") -> Interface:
    """The interface of `module`; without a name, of the only module there is.

    An operator's last argument is its output. `file` is the archive's name, for messages. Raises
    MlfError.
    """
    return interface_of(read(bundle, file), module, file)


def interface_of(
    archive: Archive, module: str | None, file: str = "", outputs: Sequence[str] = ()
) -> Interface:
    """The same of an archive that has been read."""
    name = _choose(module_names(archive), module, file)
    first = archive.modules[0]
    if first.style == OPERATOR:
        return operator_interface(first, name, outputs, file)
    record = archive.module(name)
    interface = stated(record, file)
    if interface is not None:
        check_parameters(record, interface, file)
        return interface
    if record.executor == "aot" and header_name(record) is None and probe.has_metadata(record):
        return probe.c_metadata(archive, record)
    return derive(record, file)


def _choose(names: tuple[str, ...], module: str | None, file: str) -> str:
    if not names:
        raise MlfError(Problem("MLF0606", "the archive names no function to run", file))
    if module is None and len(names) > 1:
        text = f"the archive holds {len(names)} modules"
        hint = f"choose one with --module: {', '.join(names)}"
        raise MlfError(Problem("MLF0606", text, file, help=hint))
    name = names[0] if module is None else module
    if name not in names:
        text = f"no module with this name; got '{name}', expected one of {', '.join(names)}"
        raise MlfError(Problem("MLF0606", text, file, help=did_you_mean(name, names)))
    return name
