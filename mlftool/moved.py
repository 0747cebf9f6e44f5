"""The messages about names that TVM has and mlftool does not have."""

from __future__ import annotations

import sys

TYPE_CHECKING = (
    False  # typing and mlftool.errors take long to import, and `import mlftool` should not
)
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

PAGE = "docs/migration.md"
# Parts of TVM that scripts import -> what to use instead, or "".
TVM: dict[str, str] = {
    **dict.fromkeys(("arith", "error", "ir", "node", "parser", "relax", "script"), ""),
    **dict.fromkeys(("support", "te", "testing", "tir", "topi"), ""),
    "autotvm": "mlftool tune",
    "auto_scheduler": "mlftool tune",
    "meta_schedule": "mlftool tune",
    "rpc": "mlftool run --on BOARD",
    "driver": "the command mlftool",
    **dict.fromkeys(("debugger", "debug_executor"), "create_executor('debug', ...)"),
    **dict.fromkeys(("VirtualMachine", "vm"), "create_executor('vm', ...)"),
    "IRModule": "from_onnx",
    "lower": "build",
}


# module -> its public names, of those whose missing names are explained
_KNOWN: dict[str, tuple[str, ...]] = {}


def missing(module: str, known: Iterable[str]) -> Callable[[str], Any]:
    """A module's `__getattr__`: an AttributeError of one line, which for a name of TVM names the
    page about coming from TVM. `from module import name` raises ImportError with the same line."""
    _KNOWN[module] = tuple(known)
    # Python asks finders for the names of packages only.
    vars(sys.modules[module]).setdefault("__path__", [])
    if _Finder not in sys.meta_path:
        sys.meta_path.append(_Finder)

    def __getattr__(name: str) -> Any:  # noqa: N807
        raise AttributeError(_said(module, name))

    return __getattr__


class _Finder:
    """Asked for modules that no other finder has. Of an AttributeError Python's `from` statement
    keeps no text, so the line about a name of TVM is raised where Python looks for a module."""

    @staticmethod
    def find_spec(fullname: str, path: object = None, target: object = None) -> None:
        module, _, name = fullname.rpartition(".")
        if module in _KNOWN and _is_explained(module, name):
            raise ImportError(_said(module, name), name=fullname)


def _is_explained(module: str, name: str) -> bool:
    return not name.startswith("__") and (name in TVM or module != "mlftool")


def _said(module: str, name: str) -> str:
    if name.startswith("__"):
        return f"module '{module}' has no attribute '{name}'"
    from mlftool.errors import did_you_mean

    hint = did_you_mean(name, _KNOWN[module])
    if not _is_explained(module, name):
        return f"module '{module}' has no attribute '{name}'; {hint}; {PAGE} has TVM's names"
    place = f"; use {TVM[name]} instead" if TVM.get(name) else ""
    text = f"'{name}' is not in {module}{place}; {PAGE} lists what is supported"
    return text + (f" ({hint})" if hint.startswith("did") else "")


class OfTvm:
    """A class of TVM's, by our hand: what it lacks of TVM's names the page."""

    if not TYPE_CHECKING:  # so that mypy knows which names there are

        def __getattr__(self, name: str) -> Any:
            text = f"'{type(self).__name__}' object has no attribute '{name}'"
            from mlftool.errors import did_you_mean

            known = [n for n in dir(type(self)) if not n.startswith("_")]
            hint = did_you_mean(name, known)
            text += f"; {hint}" if hint.startswith("did") else ""
            raise AttributeError(text + ("" if name[:1] == "_" else f"; {PAGE} has TVM's names"))
