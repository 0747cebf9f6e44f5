"""All operators that stand for others; importing this module fills the table."""

from mlftool.importer import expand_microsoft, expand_ml, expand_trees
from mlftool.importer.expand import EXPANSIONS, OPSETS, Steps, standard_form

__all__ = [
    "EXPANSIONS",
    "OPSETS",
    "Steps",
    "expand_microsoft",
    "expand_ml",
    "expand_trees",
    "standard_form",
]
