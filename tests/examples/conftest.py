"""Puts the training scripts on the import path: the tests use their data and their quantisation."""

import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES / "training"))
