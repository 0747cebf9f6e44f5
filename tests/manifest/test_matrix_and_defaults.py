"""`matrix`, and tests and budgets that come from `defaults` or hold on one target."""

from __future__ import annotations

import shutil
from pathlib import Path

import jsonschema
import pytest
import yaml
from shared import REPO

from mlftool.builder import build, spec_of
from mlftool.cli import main
from mlftool.errors import MlfError
from mlftool.manifest import Budget, Limits, load, schema
from mlftool.manifest import Test as Check  # pytest would collect a class named Test
from mlftool.manifest.bazel import main as repository
from mlftool.manifest.bazel import packages
from mlftool.manifest.entries import entries

MODELS = REPO / "examples/models"
HEAD = "version: 1\nmodels:\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("gesture_int8.onnx", "gesture_int8.npz", "gesture_float32.onnx"):
        (tmp_path / name).write_bytes((MODELS / name).read_bytes())
    return tmp_path


def manifest(text: str) -> Path:
    Path("models.yaml").write_text(text)
    return Path("models.yaml")


def problem(text: str) -> str:
    with pytest.raises(MlfError) as caught:
        load(manifest(text))
    return str(caught.value)


MATRIX = (
    HEAD
    + """  g:
    model: gesture_int8.onnx
    targets: [host, cortex-m4]
    matrix:
      optimize: [speed, size]
      workspace_io: [false, true]
      mlf_version: [6, 7]
archives:
  both: {models: [g-speed-workspace-io-mlf-version-7], target: cortex-m0}
"""
)


def test_a_matrix_is_a_model_for_each_combination(folder: Path) -> None:
    read = load(manifest(MATRIX))
    jsonschema.validate(yaml.safe_load(MATRIX), schema())
    assert list(read.models) == [
        f"g-{optimize}-{io}-mlf-version-{version}"
        for optimize in ("speed", "size")
        for io in ("no-workspace-io", "workspace-io")
        for version in (6, 7)
    ]
    last = read.models["g-size-workspace-io-mlf-version-7"]
    assert (last.optimize, last.workspace_io, last.mlf_version) == ("size", True, 7)
    assert last.module_name == "g_size_workspace_io_mlf_version_7"
    assert len(entries(read)) == 8 * 2 + 1
    results = build(read, entries(read), folder / "out", 1)
    assert [r.problems for r in results] == [()] * 17
    assert len({(folder / "out" / r.entry.output).read_bytes() for r in results}) == 17


def test_bazel_has_the_combinations_too(folder: Path) -> None:
    files = packages(load(manifest(MATRIX)), "//:models.yaml", "")
    assert "g-size-workspace-io-mlf-version-7/BUILD.bazel" in files


def test_all_models_are_in_one_report(folder: Path) -> None:
    """`bazel run @models//:report` takes what everybody may use and here can run."""
    Path("v.npz").touch()
    tested = "model: gesture_int8.onnx, targets: [host, cortex-m4], test: {vectors: v.npz}"
    others = {"other": "visibility: ['//app:__pkg__']", "slow": "tags: [manual]"}
    text = f"{HEAD}  plain: {{model: gesture_int8.onnx}}\n"
    text += "".join(f"  {name}: {{{tested}, {key}}}\n" for name, key in others.items())

    def own(text: str) -> str:
        return packages(load(manifest(text)), "//:models.yaml", "")["BUILD.bazel"]

    assert "report" not in own(text)
    report = own(
        f"{text}  a: {{{tested}}}\n  b: {{{tested}, visibility: ['//visibility:public']}}\n"
    )
    labels = [f"//{name}:{target}_report" for name in "ab" for target in ("host", "cortex-m4")]
    assert [line.strip(' ",') for line in report.splitlines() if "_report" in line] == labels


def test_a_module_name_gets_the_combination(folder: Path) -> None:
    text = "  g: {model: gesture_int8.onnx, module_name: mine, matrix: {optimize: [size]}}\n"
    assert load(manifest(HEAD + text)).models["g-size"].module_name == "mine_size"


def test_every_kind_of_value_gives_a_name(folder: Path) -> None:
    """Names are lower case, sizes are not."""
    given = "ram_budget: [24KiB, none], weights_budget: [64kB], patches: ['2', auto]"
    text = f"  g: {{model: gesture_int8.onnx, matrix: {{{given}}}}}\n"
    read = load(manifest(HEAD + text)).models
    rams, bands = ("24kib", "none"), ("2", "auto")
    assert list(read) == [f"g-{ram}-64kb-{band}" for ram in rams for band in bands]
    assert read["g-24kib-64kb-2"].ram_budget == "24KiB"
    assert read["g-24kib-64kb-2"].module_name == "g_24kib_64kb_2"


def test_a_combination_has_a_name_of_its_own(folder: Path) -> None:
    text = "  g: {model: gesture_int8.onnx, matrix: {optimize: [size]}}\n"
    text += "  g-size: {model: gesture_int8.onnx}\n"
    assert "name taken; got 'g-size' twice" in problem(HEAD + text)


@pytest.mark.parametrize(
    ("matrix", "said"),
    [
        ("[a]", "models.g.matrix: wrong type; got a list, expected a mapping from options"),
        ("{}", "models.g.matrix: wrong type; got an empty mapping, expected a mapping"),
        ("{optimise: [size]}", "unknown option; got 'optimise', expected one of the compiler"),
        ("{pools: [a]}", "models.g.matrix.pools: unknown option"),
        ("{targets: [host]}", "models.g.matrix.targets: unknown option"),
        ("{optimize: size}", "models.g.matrix.optimize: wrong type; got text 'size'"),
        ("{optimize: []}", "models.g.matrix.optimize: wrong type; got an empty list"),
        ("{optimize: [fast]}", "models.g.matrix.optimize[0]: unknown name"),
        ("{optimize: [speed, speed]}", "models.g-speed: name taken; got 'g-speed' twice"),
        ("{mlf_version: [1, 8]}", "models.g.matrix.mlf_version[1]: out of range"),
        ("{workspace_io: [yes]}", "models.g.matrix.workspace_io[0]: wrong type"),
        (f"{{patches: {['2'] * 65}}}", "too many models; got 65, expected at most 64"),
    ],
)
def test_wrong_matrices(matrix: str, said: str, folder: Path) -> None:
    text = problem(f"{HEAD}  g:\n    model: gesture_int8.onnx\n    matrix: {matrix}\n")
    assert said in text
    assert "models.yaml:5:" in text or "models.yaml:3:" in text


def test_an_option_stands_in_the_matrix_or_outside(folder: Path) -> None:
    text = "  g: {model: gesture_int8.onnx, optimize: size, matrix: {optimize: [speed]}}\n"
    assert "'optimize' is in the matrix too; expected it in one place" in problem(HEAD + text)


DEFAULTS = """version: 1
defaults:
  targets: [cortex-m0, cortex-m4]
  test: {vectors: gesture_int8.npz, absolute: 0.5}
  budget: {flash: 100KiB, ram: 10KiB, targets: {cortex-m0: {ram: 1KiB}}}
models:
  plain: {model: gesture_int8.onnx}
  own: {model: gesture_int8.onnx, test: {vectors: gesture_int8.npz}, budget: {ram: 20KiB}}
  exact: {model: gesture_int8.onnx, test: {vectors: gesture_int8.npz, relative: 0.25}}
"""


def test_tests_and_budgets_come_from_defaults(folder: Path) -> None:
    read = load(manifest(DEFAULTS))
    jsonschema.validate(yaml.safe_load(DEFAULTS), schema())
    plain, own, exact = read.models.values()
    assert plain.test == own.test == Check(vectors="gesture_int8.npz", absolute=0.5)
    assert exact.test == Check(vectors="gesture_int8.npz", relative=0.25)
    assert own.budget == Budget(ram=20480)
    assert plain.budget
    assert plain.budget.targets == {"cortex-m0": Limits(ram=1024)}
    limits = [plain.budget.limit(t, n) for t in plain.targets for n in ("flash", "ram")]
    assert [n for n, _ in limits] == [102400, 1024, 102400, 10240]


def test_a_limit_of_one_target_fails_there_only(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "-q", str(manifest(DEFAULTS))]) == 1
    line, _help = capsys.readouterr().err.splitlines()
    assert line.startswith("models.yaml:5:")
    assert "defaults.budget.targets.cortex-m0.ram: plain/cortex-m0-aot.tar is over" in line
    assert main(["check", "models.yaml", "--target", "cortex-m4"]) == 0
    files = packages(load(Path("models.yaml")), "//:models.yaml", "")["plain/BUILD.bazel"]
    calls = {c.split('target = "')[1].split('"')[0]: c for c in files.split("mlf_model(")[1:]}
    assert "ram_bytes = 1024" in calls["cortex-m0"]
    assert "ram_bytes = 10240" in calls["cortex-m4"]
    assert 'ram_budget = "10240"' in calls["cortex-m4"]  # the compiler is to look for it, too


@pytest.mark.parametrize(
    ("limits", "wanted"),
    [
        ("flash: 9KiB, ram: 2KiB", ["max_constants_bytes = 9216", "max_workspace_bytes = 2048"]),
        ("ram: 2KiB", ["max_workspace_bytes = 2048"]),
        ("board: '//b:b'", []),
    ],
)
def test_an_archive_keeps_the_limits_of_its_target(
    folder: Path, limits: str, wanted: list[str]
) -> None:
    """As with `mlftool build`; of a target without limits, or without a board, there are none."""
    text = f"{HEAD}  a: {{model: gesture_int8.onnx}}\n  b: {{model: gesture_int8.onnx}}\n"
    text += f"targets:\n  own: {{base: cortex-m4, {limits}}}\n  pc: {{base: host, ram: 1}}\n"
    text += "archives:\n  x: {models: [a, b], target: own}\n  y: {models: [a, b], target: pc}\n"
    files = packages(load(manifest(text)), "//:models.yaml", "")
    assert [f for f in files["x/BUILD.bazel"].splitlines() if "max_" in f] == [
        f"    {line}," for line in wanted
    ]
    assert "max_" not in files["y/BUILD.bazel"]


def test_what_says_how_memory_is_planned_stays(folder: Path) -> None:
    """A tuned model, and one with a RAM budget of its own, are compiled as they say."""
    Path("t.json").write_text("{}")
    text = (
        HEAD
        + """  t: {model: gesture_int8.onnx, targets: cortex-m4, tuning: t.json, budget: {ram: 9}}
  own: {model: gesture_int8.onnx, targets: cortex-m4, budget: {ram: 1KiB}, ram_budget: 2KiB}
  host: {model: gesture_int8.onnx, budget: {ram: 1KiB}}
"""
    )
    read = load(manifest(text))
    files = packages(read, "//:models.yaml", "")
    assert "ram_budget" not in files["t/BUILD.bazel"] + files["host/BUILD.bazel"]
    assert 'ram_budget = "2KiB"' in files["own/BUILD.bazel"]
    specs = [spec_of(read, e, e.name, "aot") for e in entries(read)]
    assert [s.ram_goal for s in specs] == [None, None, None]


@pytest.mark.parametrize("own", [True, False])
def test_bazel_needs_vectors_for_a_budget(
    folder: Path, capsys: pytest.CaptureFixture[str], own: bool
) -> None:
    """The line is the manifest's: the user has not written the packages that are made of it."""
    budget = "budget: {flash: 1MiB}"
    text = HEAD + f"  g: {{model: gesture_int8.onnx, targets: [cortex-m4], {budget}}}\n"
    if not own:
        text = text.replace(f", {budget}", "").replace(
            "models:", f"defaults: {{{budget}}}\nmodels:"
        )
    text += "  h: {model: gesture_int8.onnx, targets: [host], budget: {flash: 1}}\n"
    file = manifest(text)
    assert main(["check", str(file)]) == 0
    capsys.readouterr()
    Path("WORKSPACE").touch()
    path = ("models.g" if own else "defaults") + ".budget"
    line = next(i for i, t in enumerate(text.splitlines(), 1) if budget in t)
    made = [str(file), "//:models.yaml", "@mlftool", str(folder / "store"), str(folder / "made")]
    for run in (lambda: repository(made), lambda: main(["bazel", str(file), "--write", "BUILD"])):
        assert run() == 2
        said = capsys.readouterr().err
        assert f"{file.name}:{line}:" in said
        assert f" error[MLF0120]: {path}: Bazel checks a budget with a run" in said
        assert "got no test vectors of 'g'" in said
        assert "\nhelp: add test: " in said
        assert "'h'" not in said
    assert not Path("BUILD").exists()


def test_a_budget_for_a_strange_target(folder: Path) -> None:
    text = "  g: {model: gesture_int8.onnx, targets: [cortex-m4], "
    text += "budget: {targets: {cortex-m5: {ram: 1}}}}\n"
    said = problem(HEAD + text)
    assert "models.g.budget.targets.cortex-m5: not a target of the model; got 'cortex-m5'" in said
    assert "did you mean 'cortex-m4'?" in said


def test_bazel_takes_no_file_by_another_alphabet(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each with its line; without Bazel any name will do."""
    for name in ("gesture_int8.onnx", "gesture_int8.npz"):
        shutil.copy(folder / name, folder / f"détails_{name}")
    text = HEAD + "  g:\n    model: détails_gesture_int8.onnx\n    targets: [host]\n"
    text += "    test: {vectors: détails_gesture_int8.npz}\n"
    file = manifest(text)
    assert main(["check", str(file)]) == 0
    capsys.readouterr()
    Path("WORKSPACE").touch()
    made = [str(file), "//:models.yaml", "@mlftool", str(folder / "store"), str(folder / "made")]
    for run in (lambda: repository(made), lambda: main(["bazel", str(file), "--write", "BUILD"])):
        assert run() == 2
        said = capsys.readouterr().err
        for line, key, name in ((4, "model", "onnx"), (6, "test.vectors", "npz")):
            assert f"{file.name}:{line}:" in said
            assert f" error[MLF0115]: models.g.{key}: Bazel takes names of files in ASCII" in said
            assert f"got 'détails_gesture_int8.{name}'" in said
    assert not Path("BUILD").exists()


def test_a_repository_says_which_build_files_its_labels_depend_on(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of every folder above a file, there or not: one more changes labels, one less does, too."""
    (folder / "own/deeper").mkdir(parents=True)
    (folder / "gesture_int8.onnx").rename(folder / "own/deeper/g.onnx")
    manifest(HEAD + "  g: {model: own/deeper/g.onnx, targets: [host]}\n")
    Path("BUILD").touch()

    def made() -> tuple[set[str], str]:
        out = folder / str(len(list(folder.iterdir())))
        assert (
            repository(["models.yaml", "//:models.yaml", "@mlftool", f"{out}/s", f"{out}/m"]) == 0
        )
        return set(capsys.readouterr().out.split()), (out / "m/g/BUILD.bazel").read_text()

    looked_at, text = made()
    assert "//:own/deeper/g.onnx" in text
    for where in (folder, folder / "own", folder / "own/deeper"):
        assert {str(where / "BUILD"), str(where / "BUILD.bazel")} <= looked_at
    assert not [file for file in looked_at if not Path(file).is_relative_to(folder)]
    (folder / "own/BUILD.bazel").touch()
    assert "//own:deeper/g.onnx" in made()[1]
