"""The one place where a foreign exception becomes an MlfError.

A full disk or memory is the machine's fault, anything else is ours: MLF0900, exit code 4, and a
report that says where, in a folder for temporary files. The compiler adds the model to the report,
reduced to the nodes that reproduce the failure (mlftool/minimise.py).
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import platform
import sys
import tempfile
import traceback
import zipfile
from collections.abc import Mapping
from pathlib import Path

from mlftool.errors import ENVIRONMENT, INTERNAL, MlfError, Problem, shown
from mlftool.limits import is_exhausted

PACKAGE = os.path.dirname(os.path.abspath(__file__))
FOLDER = "MLF_REPORTS"  # the environment's name for where reports go; "" writes none


def signature(error: BaseException) -> str:
    """The kind of an exception and the last line of ours that it went through."""
    place, at = "?", error.__traceback__
    while at:
        file = at.tb_frame.f_code.co_filename
        if place == "?" or file.startswith(PACKAGE):
            place = f"{os.path.basename(file)}:{at.tb_lineno}"
        at = at.tb_next
    return f"{type(error).__name__} at {place}"


def as_ours(error: BaseException, path: str = "", files: Mapping[str, bytes] | None = None,
            about: str = "") -> MlfError:  # fmt: skip
    """The MlfError to raise instead of `error`; `files` and `about` go into the report of a bug."""
    from mlftool.mlf.bundle import MACHINE_ERRORS

    if isinstance(error, MlfError):
        return error
    if isinstance(error, MemoryError) or is_exhausted():
        return MlfError(Problem("MLF0703", "not enough memory", path=path), ENVIRONMENT)
    if isinstance(error, OSError) and (error.errno in MACHINE_ERRORS or _is_without_room(error)):
        place = (
            os.fsdecode(error.filename) if error.filename else "standard output or a temporary file"
        )
        text, help = f"refused: {error.strerror}", "make room, then try again"
        return MlfError(Problem("MLF0704", text, place, help=help), ENVIRONMENT)
    text = str(error)[:500]
    text = f"{signature(error)}: {text}" if text else signature(error)
    report = _written(error, about, files or {})
    help = f"please send {report}; read it first" if report else "please report it"
    help += "; MLF_DEBUG=1 shows the traceback"
    return MlfError(Problem("MLF0900", text, path=path, help=help), INTERNAL)


def _is_without_room(error: OSError) -> bool:
    """Whether there is no folder for temporary files: tempfile writes to each, and says so without
    a file's name."""
    return isinstance(error, FileNotFoundError) and error.filename is None


def _written(error: BaseException, about: str, files: Mapping[str, bytes]) -> str:
    """Where the report is, or "" if there is none. The same fault writes the same file."""
    try:
        folder = os.environ[FOLDER] if FOLDER in os.environ else tempfile.gettempdir()
    except FileNotFoundError:
        return ""
    if not folder:
        return ""
    lines = [f"mlftool report: {signature(error)}", about, *_versions(), ""]
    lines += traceback.format_exception(error)
    parts = {"report.txt": "\n".join(lines).encode("utf-8", "replace"), **files}
    digest = hashlib.sha256(repr(sorted(parts.items())).encode()).hexdigest()[:12]
    path = Path(folder, f"mlftool-report-{digest}.zip")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    try:
        from mlftool.mlf.bundle import write_atomically

        write_atomically(path, buffer.getvalue())
    except (MlfError, OSError, ValueError):  # what is wrong already counts for more
        return ""
    return str(path)


def _versions() -> list[str]:
    lines = [f"Python {platform.python_version()}, {platform.platform()}"]
    for name in ("mlftool", "onnx", "numpy", "yaml", "jinja2"):
        with contextlib.suppress(AttributeError, KeyError):
            lines.append(f"{name} {sys.modules[name].__version__}")
    return lines


def print_cause(error: MlfError) -> None:
    """With MLF_DEBUG the original exception of a bug."""
    if os.environ.get("MLF_DEBUG") and error.exit_code == INTERNAL and error.__cause__:
        traceback.print_exception(error.__cause__)


def show(error: MlfError) -> None:
    """Print every problem, and with MLF_DEBUG the original exception of a bug."""
    print_cause(error)
    print(shown(error.problems), file=sys.stderr)
