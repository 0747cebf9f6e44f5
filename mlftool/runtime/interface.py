"""What a module of an archive takes and gives, read from its executor-config."""

from __future__ import annotations

from mlftool.errors import MlfError, Problem, did_you_mean
from mlftool.mlf import Bundle
from mlftool.mlf.interface import Interface, decode

_PREFIX = "executor-config/aot/"


def module_names(bundle: Bundle) -> tuple[str, ...]:
    """The modules of the archive that can be run, sorted."""
    names = (n.removeprefix(_PREFIX) for n in bundle.files if n.startswith(_PREFIX))
    return tuple(sorted(n.removesuffix(".json") for n in names if n.endswith(".json")))


def read_interface(bundle: Bundle, module: str | None = None, file: str = "") -> Interface:
    """The interface of `module`; without a name, of the only module there is.

    `file` is the archive's name, for messages. Raises MlfError.
    """
    names = module_names(bundle)
    if not names:
        text = f"no module that can be run; expected {_PREFIX}MODULE.json"
        raise MlfError(Problem("MLF0606", text, file, help="compile with --executor aot"))
    if module is None and len(names) > 1:
        text = f"the archive holds {len(names)} modules"
        hint = f"choose one with --module: {', '.join(names)}"
        raise MlfError(Problem("MLF0606", text, file, help=hint))
    name = names[0] if module is None else module
    if name not in names:
        text = f"no module of this name; got '{name}', expected one of {', '.join(names)}"
        raise MlfError(Problem("MLF0606", text, file, help=did_you_mean(name, names)))
    member = f"{_PREFIX}{name}.json"
    return decode(name, bundle.files[member], file, member)
