"""An operator is one record in the file of its family (docs/DESIGN.md): who names operators is read
from the sources."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import onnx
import pytest
from shared import REPO

import mlftool.compile  # noqa: F401  registers those that are not in mlftool/ops, too
from mlftool.ops import OPS, Op, Trait
from mlftool.ops.base import OLD, Layout

PACKAGE = REPO / "mlftool"
NAMES = {s.name for s in onnx.defs.get_all_schemas_with_history()} | OPS.keys()
# Passes make nodes of these; of what is there they ask traits and fields.
MADE = {"Add", "Cast", "Concat", "Div", "Mul", "Reshape", "Slice", "Transpose"}
MADE |= {"mlf.Copy", "mlf.Table", "mlf.TopBit"}
# Everything between the importer and the operators' families. Kernels of targets say which
# operators they compute.
ROOMS = ("passes", "plan", "codegen", "tune", "advice", "compile", "describe", "module")
ASKING = [
    file
    for room in ROOMS
    for file in sorted([*(PACKAGE / room).rglob("*.py"), *PACKAGE.glob(f"{room}.py")])
]
# Calls whose argument is the operator of a node that they make: a pass's, and those of rules.
PASS = ("add", "Node")
RULE = (*PASS, "s", "steps", "result", "make_node", "_node")
# What is left, and may only become less: operators of which four files or more say something, and
# operators that a file of the importer says something of. A rule that makes a node of an operator
# says nothing of it.
IN_FOUR_FILES = 14
IN_IMPORTER = 23
# Files that read and write ONNX models as exporters do, before anything is imported: they know
# operators by the names of the standard.
QUANTIZE = {
    *("network.py", "prepare.py", "recurrent.py", "reference.py", "sink.py", "studio.py"),
    "write.py",
}


def named(file: Path, makers: Sequence[str] = PASS) -> Iterator[tuple[ast.Constant, bool]]:
    """The string literals that are operators, and whether a node is made of them there."""
    tree = ast.parse(file.read_text())
    made = set()
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        made |= {id(k.value) for k in call.keywords if k.arg == "op"}
        function = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        function = call.func.id if isinstance(call.func, ast.Name) else function
        if function in makers:
            first = call.args[:2] if function == "_node" else call.args[:1]
            made |= {id(argument) for argument in first}
    for literal in ast.walk(tree):
        if isinstance(literal, ast.Constant) and literal.value in NAMES:
            yield literal, id(literal) in made


def judged_by_name(file: Path) -> Iterator[ast.Compare]:
    """Comparisons of a node's operator with anything but another node's, or the registry."""
    for test in ast.walk(ast.parse(file.read_text())):
        if not isinstance(test, ast.Compare):
            continue
        sides = [test.left, *test.comparators]
        ops = [isinstance(s, ast.Attribute) and s.attr == "op" for s in sides]
        registry = [isinstance(s, ast.Name) and s.id == "OPS" for s in sides]
        if any(ops) and not all(a or b for a, b in zip(ops, registry, strict=True)):
            yield test


@pytest.mark.parametrize("file", ASKING, ids=lambda f: f.relative_to(PACKAGE).as_posix())
def test_what_lies_between_asks_traits(file: Path) -> None:
    strangers = [
        f"{file.name}:{literal.lineno} {literal.value}"
        for literal, made in named(file)
        if not made or literal.value not in MADE
    ]
    assert not strangers, "ask a trait or a field of mlftool.ops.record"
    assert not [f"{file.name}:{test.lineno}" for test in judged_by_name(file)]


def test_the_list_of_what_passes_make_is_short() -> None:
    made = {literal.value for file in ASKING for literal, _ in named(file)}
    assert made == MADE


def test_what_a_rule_makes(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('s("Add", s("Conv", x), x); s.q("Mul"); op("Sub"); f(s, "Div")')
    said = {n.value for n, made in named(tmp_path / "a.py", RULE) if not made}
    assert said == {"Mul", "Sub", "Div"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('if node.op == "Conv": pass', ["Conv"]),
        ('TABLE = {"Conv": 1}', ["Conv"]),
        ('e.add("Conv", x)', []),
        ('Node("Conv", x, op="Gemm")', []),
        ('replace(node, op=f("Conv"))', ["Conv"]),
        ('e.add(x, "Conv")', ["Conv"]),
    ],
)
def test_what_names_an_operator(text: str, found: list[str], tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(text)
    assert [n.value for n, made in named(tmp_path / "a.py") if not made] == found
    compares = list(judged_by_name(tmp_path / "a.py"))
    assert len(compares) == text.count(".op ==")


def test_few_files_say_something_of_an_operator() -> None:
    """Their family's, and those of kernels for targets."""
    files: dict[str, set[Path]] = defaultdict(set)
    for file in sorted(set(PACKAGE.rglob("*.py")) - set((PACKAGE / "quantize").iterdir())):
        for literal, made in named(file, RULE):
            if not made:
                files[literal.value].add(file)
    counts = Counter({name: len(files[name]) for name in OPS})
    assert set(counts.values()) >= {1, 2}
    many = {name: count for name, count in counts.items() if count >= 4}
    assert len(many) <= IN_FOUR_FILES, many


def test_few_files_of_quantize_name_an_operator() -> None:
    """The others ask a layer what it is."""
    naming = {f.name for f in (PACKAGE / "quantize").glob("*.py") if any(named(f, RULE))}
    assert naming == QUANTIZE


def test_the_importers_tables_shrink() -> None:
    pairs = {
        (file.name, literal.value)
        for file in (PACKAGE / "importer").rglob("*.py")
        for literal, made in named(file, RULE)
        if not made
    }
    assert len(pairs) <= IN_IMPORTER


@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
def test_what_a_record_says_fits_together(op: Op) -> None:
    """A pass that follows a record finds an operator with operands where it says."""
    c, form = op.contracts, OPS[op.quantised] if op.quantised else None
    if c is not None and form is not None:
        assert form.contracts is not None
        assert form.contracts.quantised
        assert not c.quantised
        assert form.contracts.layout in (c.layout, Layout.MATRIX)
        assert bool(c.computed) == (c.layout in (Layout.MATRIX, Layout.MATRICES))
    if c is not None and c.computed:
        computed = OPS[c.computed].contracts
        assert computed is not None
        assert (computed.quantised, computed.layout) == (True, Layout.MATRICES)
    if c is not None and c.rows:
        rows = OPS[c.rows].contracts
        assert rows is not None
        assert (rows.layout, rows.weights, rows.quantised) == (
            Layout.MATRIX, c.weights, c.quantised,
        )  # fmt: skip
    assert bool(c and c.forward) == bool(c and c.layout is Layout.TRANSPOSED)
    if c is not None and c.forward:
        forward = OPS[c.forward].contracts
        assert forward is not None
        places = (forward.weights, forward.bias, forward.y_scale, forward.layout)
        assert places == (c.weights, c.bias, c.y_scale, Layout.CONVOLUTION)
    if op.turned is not None:
        turned = op.turned({"axis": 1, "axes": [1]}, [0, 2, 1])
        assert turned.get("axis") == 2 or turned["axes"] == [2]
    assert bool({Trait.ELEMENTWISE, Trait.TABLE} & op.traits) == (op.expression is not None)


def test_an_operator_has_one_record() -> None:
    assert not OPS.keys() & OLD.keys()
    assert all(name == op.name for name, op in (OPS | OLD).items())
