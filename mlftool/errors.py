"""Errors, all in one form:

    FILE:LINE:COL: error[MLFnnnn]: KEY.PATH: what is wrong; got X, expected Y

Every error a user can cause is a `Problem` with a code from `CODES`. A stage that can find several
problems collects them all and raises one `MlfError`; nothing else reaches the terminal.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps

from mlftool.frozen import frozen, replace

CHECK_FAILED = 1  # a comparison, budget or test did not hold
BAD_INPUT = 2  # the user's files or flags are wrong
ENVIRONMENT = 3  # a program or package is missing on this machine
INTERNAL = 4  # our own bug

MOST_PROBLEMS = 200  # reported: a hostile file can have millions

# code -> one sentence for the generated reference page. 01xx manifest, 02xx model file,
# 03xx operators, 04xx flags and targets, 05xx archives, 06xx running and checking,
# 07xx environment, 09xx our own bugs.
CODES: dict[str, str] = {
    "MLF0100": "The manifest cannot be opened or read.",
    "MLF0101": "The manifest is not UTF-8, or holds a character that YAML forbids.",
    "MLF0102": "The manifest is not valid YAML.",
    "MLF0103": "The manifest is larger, deeper or longer than any real one, and reading stopped.",
    "MLF0104": "The manifest uses YAML that manifests do not support: an anchor, alias, tag, "
    "merge key or directive, a second document, a key that is not text.",
    "MLF0105": "A mapping has the same key twice.",
    "MLF0106": "The key does not exist in this mapping.",
    "MLF0107": "A required key is missing.",
    "MLF0108": "A value has the wrong type, such as text where a number is expected.",
    "MLF0109": "A value has the right type but is out of range, misspelt or of the wrong length.",
    "MLF0110": "A name that is not allowed for a model, archive, target or C module.",
    "MLF0111": "Two things in the manifest have the same name.",
    "MLF0112": "A target that is neither built in nor declared in the manifest.",
    "MLF0113": "An executor that does not exist.",
    "MLF0114": "An archive lists a model that the manifest does not have.",
    "MLF0115": "A path that is absolute, leaves the manifest's folder or is not portable.",
    "MLF0116": "A file that the manifest names does not exist.",
    "MLF0117": "This mlftool cannot read the manifest's version.",
    "MLF0118": "A list holds the same name twice.",
    "MLF0119": "The model needs more memory than its budget or its board has.",
    "MLF0120": "Keys of a model that cannot be combined.",
    "MLF0121": "A file generated from a manifest does not match the manifest.",
    "MLF0122": "A manifest or its generated file is in no Bazel workspace, or in another one.",
    "MLF0123": "The label of a board does not name a package of the workspace.",
    "MLF0201": "The model file cannot be read.",
    "MLF0202": "The file is not an ONNX or TensorFlow Lite model, or too large to be one.",
    "MLF0203": "External data of the model are missing, misplaced, linked or do not fit.",
    "MLF0204": "The model's opset is missing, too old or newer than the installed onnx.",
    "MLF0205": "A tensor has an element type or kind that is not supported.",
    "MLF0206": "A shape is unknown, negative, too large, or does not fit its data.",
    "MLF0207": "The graph is malformed: undefined, repeated or cyclic values.",
    "MLF0208": "A given input shape does not fit the model.",
    "MLF0209": "A given input value does not fit the model.",
    "MLF0301": "An operator does not exist or is not supported.",
    "MLF0302": "This form of an operator is not supported; the message says which forms are.",
    "MLF0303": "A node's inputs do not match, or its value cannot be computed.",
    "MLF0304": "The executor cannot run this model; the message says why, and which one can.",
    "MLF0305": "The tensors of a model do not fit into the memory pools.",
    "MLF0311": "Warning: a layer with quantised operands is computed in float.",
    "MLF0312": "Warning: weights are quantised with one scale for all channels.",
    "MLF0313": "Warning: weights are quantised with a zero point.",
    "MLF0314": "Warning: a batch normalisation was not folded before the model was quantised.",
    "MLF0315": "Warning: the model declares another shape for an output than it computes.",
    "MLF0316": "Warning: an output has the name of an input or another output; it gets its own.",
    "MLF0317": "Warning: data are quantised at run time, by a range that each inference looks for.",
    "MLF0318": "Warning: float weights that 8 or 16 bits hold exactly are stored as float32.",
    "MLF0319": "Warning: an input that may hold nothing is taken as absent or empty.",
    "MLF0400": "A command-line argument is missing, unknown or malformed.",
    "MLF0401": "An environment variable has an invalid value.",
    "MLF0402": "An output file cannot be written.",
    "MLF0403": "The target is not known.",
    "MLF0404": "The module name cannot be part of a C identifier.",
    "MLF0405": "Options cannot be combined, or belong to another executor or runtime.",
    "MLF0406": "A target string is malformed, or has an unknown attribute.",
    "MLF0407": "What Bazel sent to the persistent worker does not follow its protocol.",
    "MLF0408": "The file is not a readable tuning record.",
    "MLF0409": "A tuning record was measured with different layers, kernels or options.",
    "MLF0410": "A backend is unknown, or its file does not define a backend.",
    "MLF0411": "A backend failed, or what it returned cannot be used.",
    "MLF0412": "A quantised model cannot reach the given accuracy or flash.",
    "MLF0413": "A model cannot be quantised.",
    "MLF0414": "An argument of a Bazel rule or macro is missing, unknown or invalid.",
    "MLF0501": "An archive or a generated project cannot be read.",
    "MLF0502": "A file is not an archive in Model Library Format, or is unsafe.",
    "MLF0503": "Several modules of one archive have the same name.",
    "MLF0504": "An archive does not contain what was requested.",
    "MLF0505": "An archive's metadata do not follow the format.",
    "MLF0506": "This version of the format cannot hold the content to write.",
    "MLF0507": "A file of an archive is missing or was changed after the archive was written.",
    "MLF0508": "A file of parameters does not follow the format.",
    "MLF0509": "A graph of the graph executor does not follow the format.",
    "MLF0510": "A module has no certificate, or an invalid one.",
    "MLF0511": "A file is not a library that `mlftool library` made, or is damaged.",
    "MLF0600": "A file of test vectors is not a readable .npz file of plain arrays.",
    "MLF0601": "Test vectors have no array for a tensor of the model.",
    "MLF0602": "An array of test vectors does not have its tensor's type or shape.",
    "MLF0603": "Arrays of test vectors hold different numbers of samples.",
    "MLF0604": "Results differ from the reference by more than the tolerance.",
    "MLF0605": "A module failed while it ran: it crashed, ran too long or broke a rule.",
    "MLF0606": "The archive has no such module, or has several and you did not name one.",
    "MLF0607": "The archive does not describe a module well enough to run it.",
    "MLF0608": "The sources of a module do not compile, or the program does not fit the board.",
    "MLF0609": "The file is not a firmware image.",
    "MLF0610": "There is no simulated board for this target.",
    "MLF0611": "The sources of a module need a library that is not in the archive.",
    "MLF0612": "An object file of a module is for another machine.",
    "MLF0613": "An archive was compiled for another processor than the board's.",
    "MLF0614": "The board.json of a board cannot be used.",
    "MLF0615": "A board driven by a host does not answer, was reset, or refused a call.",
    "MLF0616": "A build exceeds a limit that `mlftool diff --fail-on` sets.",
    "MLF0617": "Calibration data have no samples, or numbers that are not finite.",
    "MLF0700": "A program or Python package that this command needs is not installed.",
    "MLF0701": "A compiling process was killed, perhaps for lack of memory.",
    "MLF0702": "The cache of built programs cannot be written.",
    "MLF0703": "There is not enough memory for this model.",
    "MLF0704": "A temporary file cannot be written or read: the disk is full or broken, "
    "or too many files are open.",
    "MLF0705": "A model takes more time or memory to compile than the limit.",
    "MLF0900": "mlftool has a bug; the message says where. Please report it.",
}


# What services that run builds take for a command: GitHub at the start of a line, others anywhere.
_COMMANDS = ((re.compile(r"^(\s*:):"), r"\1\\x3a"), (re.compile(r"##(?=\w*\[)"), r"#\\x23"))


def one_line(text: str) -> str:
    """`text` with control characters escaped, so that hostile names cannot forge output lines, and
    with what would be a command to a service that shows the line in a log."""
    plain = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    for command, escaped in _COMMANDS:
        plain = command.sub(escaped, plain)
    return plain


MOST = 1000  # characters of a message or a help, of a word half as many


def _readable(text: str) -> str:
    """One line that fits a screen: the middle of what is longer, a hostile name as a rule, is
    left out."""
    words = re.sub(rf"\S{{{MOST // 2},}}", lambda found: _cut(found[0], MOST // 2), one_line(text))
    return _cut(words, MOST)


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    left = f" [{len(text):,} characters] "
    return text[: most // 2] + left + text[-most // 4 :]


@frozen
class Problem:
    """One problem and where it is. `line` and `column` count from 1; 0 means unknown."""

    code: str
    message: str
    file: str = ""
    line: int = 0
    column: int = 0
    path: str = ""  # key path in a manifest, node or tensor in a model, member of an archive
    help: str = ""
    severity: str = "error"  # or "warning", which changes no exit code

    def __str__(self) -> str:
        place = self.file or "mlftool"
        if self.line:
            place += f":{self.line}:{self.column}"
        where = f"{_readable(self.path)}: " if self.path else ""
        text = f"{_readable(place)}: {self.severity}[{self.code}]: {where}{_readable(self.message)}"
        return one_line(text) + (f"\nhelp: {_readable(self.help)}" if self.help else "")


AT_MOST = 10  # problems of one kind that are printed


def shown(problems: Iterable[Problem], text_of: Callable[[Problem], str] = str) -> str:
    """The problems as text, as many as are printed."""
    return "\n".join(map(text_of, most(problems)))


def most(problems: Iterable[Problem]) -> list[Problem]:
    """The first ten of each file and code, and of what has more one problem that counts them."""
    listed, seen = [], dict[tuple[str, str, str], int]()
    for problem in problems:
        kind = (problem.file, problem.code, problem.severity)
        seen[kind] = seen.get(kind, 0) + 1
        if seen[kind] <= AT_MOST:
            listed.append(problem)
    for (file, code, severity), count in seen.items():
        if count > AT_MOST:
            text = f"{count - AT_MOST} more of this kind, {count} in all"
            listed.append(Problem(code, text, file, severity=severity))
    return listed


class MlfError(RuntimeError):
    """Raised with every problem found at a stage; the command line prints them and exits. If there
    are more than `MOST_PROBLEMS`, the last says how many."""

    def __init__(self, problems: Problem | Iterable[Problem], exit_code: int = BAD_INPUT) -> None:
        found = (problems,) if isinstance(problems, Problem) else tuple(problems)
        if len(found) > MOST_PROBLEMS:
            more = replace(found[-1], message=f"and {len(found) - MOST_PROBLEMS} more", help="")
            found = (*found[:MOST_PROBLEMS], replace(more, line=0, column=0, path=""))
        self.problems = found
        self.exit_code = exit_code
        super().__init__("\n".join(map(str, self.problems)))


TVMError = MlfError  # the name that scripts written for TVM catch


def exits(main: Callable[[list[str]], int | None]) -> Callable[[list[str]], int]:
    """A program's `main` that prints problems and returns the command line's exit codes; None is
    0."""

    @wraps(main)
    def run(arguments: list[str]) -> int:
        try:
            return main(arguments) or 0
        except MlfError as error:
            if error.problems:
                print(error, file=sys.stderr)
            return error.exit_code

    return run


@contextmanager
def builds_of(file: object) -> Iterator[None]:
    """Adds `file` to problems of C that does not compile or fit: the build knows modules, not the
    file that they come from. Raises MlfError."""
    try:
        yield
    except MlfError as error:
        raise MlfError(
            (
                p if p.file or p.code != "MLF0608" else replace(p, file=str(file))
                for p in error.problems
            ),
            error.exit_code,
        ) from None


class ArgumentError(MlfError, ValueError):
    """An argument of a Python function; scripts written for TVM catch ValueError."""


class NameClashError(MlfError, AssertionError):
    """Two modules of one name; scripts written for TVM catch AssertionError."""


MOST_LISTED = 40


def nearest(word: str, known: Iterable[str]) -> str:
    """The one of `known` that `word` was meant to be; "" if none is near."""
    import difflib

    near = difflib.get_close_matches(str(word), sorted(known), n=1, cutoff=0.6)
    return near[0] if near else ""


def did_you_mean(word: str, known: Iterable[str], listed: str = "one of") -> str:
    """A help line with the nearest of `known`. If none is near, `listed` and all of them, or "" if
    there are too many."""
    names = sorted(known)
    if near := nearest(word, names):
        return f"did you mean '{near}'?"
    return f"{listed}: {', '.join(names)}" if len(names) <= MOST_LISTED else ""
