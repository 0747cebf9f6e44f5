"""Runs a Python module from declared inputs only: `launch.py ROOT[:SITE...] MODULE ARGUMENTS...`.

Started as `python3 -B -s -S launch.py`, so that neither site-packages nor dist-packages of the
machine nor this script's folder is importable: only ROOT, SITE and the standard library are.
"""

import runpy
import sys


def main() -> None:
    """Replaces the import path and runs MODULE as `python -m` would."""
    roots, module = sys.argv[1].split(":"), sys.argv[2]
    sys.path[0:1] = roots
    sys.argv = [module, *sys.argv[3:]]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
