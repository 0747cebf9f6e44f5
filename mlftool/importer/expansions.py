"""All operators that stand for others: importing this module imports every expand_*.py beside it,
which fills the table."""

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from mlftool.importer.expand import EXPANSIONS, expanded, standard_form

for _module in sorted(m.name for m in iter_modules([str(Path(__file__).parent)])):
    if _module.startswith("expand_"):
        import_module(f"mlftool.importer.{_module}")

__all__ = ["EXPANSIONS", "expanded", "standard_form"]
