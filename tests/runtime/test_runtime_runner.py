"""The test runner on the host, under sanitizers, and on every simulated board."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from batch import Job, run_jobs
from onnx import parser
from runtime_archives import HOSTILE, toy, vectors

from mlftool.errors import CHECK_FAILED, ENVIRONMENT, MlfError
from mlftool.mlf import Bundle
from mlftool.mlf.runtime_tree import crt_root
from mlftool.runtime import runner, toolchain
from mlftool.runtime.boards import BOARDS
from mlftool.runtime.compare import compare
from mlftool.runtime.descriptor import c_string
from mlftool.runtime.host import build_runner
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import footprint, link_firmware
from mlftool.runtime.runner import RunResult, run_on_board, run_on_host
from mlftool.runtime.sources import board_files
from mlftool.runtime.vectors import samples_of
from mlftool.targets import TARGETS

needs_boards = pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm",
)


def available(targets: Iterable[str]) -> list[object]:
    """The targets as parameters, skipped where what builds or runs their programs is missing."""
    found = []
    for target in targets:
        command = BOARDS[target].simulator
        needed = (toolchain.compiler_of(TARGETS[target]), toolchain.simulator_of(command))
        missing = [program for program in needed if not shutil.which(program.name)]
        reason = "; ".join(program.install for program in missing)
        found.append(pytest.param(target, marks=pytest.mark.skipif(bool(missing), reason=reason)))
    return found


FIRMWARE = available(name for name, board in BOARDS.items() if not board.hosted)
# Of each folder of crt/boards that starts programs, the one board that has most to go wrong.
STARTED = available(("cortex-m0", "cortex-m4", "rv32imac", "rv64gc"))
PLACES = ["host", *STARTED]


def run(bundle: Bundle, place: str, sanitize: bool = False, repetitions: int = 1) -> RunResult:
    interface = read_interface(bundle)
    samples = samples_of(vectors(), interface.inputs, "vectors")
    if place == "host":
        program = build_runner(bundle, interface, sanitize=sanitize)
        return run_on_host(program, interface, samples, repetitions, time_limit=20)
    elf = link_firmware(bundle, interface, BOARDS[place])
    return run_on_board(elf, BOARDS[place], interface, samples, repetitions, time_limit=20)


def failure(bundle: Bundle, place: str, sanitize: bool = False) -> tuple[str, int]:
    with pytest.raises(MlfError) as caught:
        run(bundle, place, sanitize)
    (problem,) = caught.value.problems
    return problem.message, caught.value.exit_code


@pytest.mark.parametrize("place", PLACES)
def test_outputs_are_right_and_counted(place: str) -> None:
    result = run(toy(), place)
    expected = samples_of(vectors(), read_interface(toy()).outputs, "vectors")
    assert compare(result.outputs, expected, 0).mismatches == 0
    assert result.figures["samples"] == 3
    if place == "host":
        assert 0 < result.figures["microseconds_min"] <= result.figures["microseconds"]
    else:
        assert 40 < result.figures["instructions_min"] <= result.figures["instructions"] < 2000
        assert 0 < result.figures["stack_bytes"] < 400


def test_the_host_runner_is_clean_under_sanitizers() -> None:
    assert run(toy(), "host", sanitize=True).figures["samples"] == 3


@needs_boards
def test_instructions_are_the_same_in_every_run() -> None:
    spin = '__asm volatile("1: subs %0, %0, #1\\n bne 1b" : "+r"(n) : : "cc");'
    busy = toy(f"unsigned n = 500000; {spin} return 0;")
    first, second = (run(busy, "cortex-m4", repetitions=3).figures for _ in range(2))
    assert first == second
    assert first["instructions_max"] - first["instructions_min"] <= 40  # one tick
    assert 1_000_000 < first["instructions"] < 1_001_000


@needs_boards
@pytest.mark.parametrize("place", ["host", "cortex-m4"])
def test_what_is_not_of_the_module_is_compiled_once(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []
    compile_c = toolchain.compile_c

    def listed(command: tuple[str, ...], arguments: tuple[str, ...], *rest: object) -> None:
        compiled.extend(name for name in arguments if name.endswith(".c"))
        compile_c(command, arguments, *rest)

    monkeypatch.setattr(toolchain, "compile_c", listed)

    def build(bundle: Bundle) -> Path:
        if place == "host":
            return build_runner(bundle, read_interface(bundle), tmp_path)
        return link_firmware(bundle, read_interface(bundle), BOARDS[place], tmp_path)

    first = build(toy())
    assert "crt/runner/runner.c" in compiled
    compiled.clear()
    assert build(toy("return 0; /* other bytes */")) != first
    assert compiled
    assert not [name for name in compiled if name.startswith("crt/")]


@pytest.mark.parametrize("place", FIRMWARE)
def test_stack_use_is_measured(place: str) -> None:
    figures = run(
        toy("{ volatile char deep[1200]; deep[0] = 1; deep[1199] = 2; } return 0;"), place
    )
    assert 1200 <= figures.figures["stack_bytes"] < 1600


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("return -1;", "'toy': the run function reports failure"),
        ("sum[4] = 1; return 0;", "sum: bytes next to this tensor were overwritten"),
        ("scaled[-1] = 1; return 0;", "s/c: bytes next to this tensor were overwritten"),
        ("a[-1] = 1; return 0;", "a:0: bytes next to this tensor were overwritten"),
        ("a[0] ^= 1; return 0;", "'toy': the inputs were changed"),
        ("{ static short n; sum[0] = n++; } return 0;", "'toy': a second inference gives other"),
    ],
)  # fmt: skip
def test_misbehaviour_is_found(place: str, fault: str, message: str) -> None:
    text, status = failure(toy(fault), place)
    assert message in text
    assert status == CHECK_FAILED


def test_an_output_that_is_not_written_is_found() -> None:
    bundle = toy()
    member = "codegen/host/src/toy_lib0.c"
    source = bundle.files[member].replace(b"i < 6", b"i < 5")
    text, _ = failure(Bundle({**bundle.files, member: source}), "host")
    assert "a second inference gives other outputs" in text


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("echo fault: the stack overflowed; exit 3", "sh: fault: the stack overflowed"),
        ("exit 3", "sh: (the program ended with status 3)"),
    ],
)
def test_a_count_that_fails_says_what_the_program_said(command: str, reason: str) -> None:
    with pytest.raises(MlfError) as caught:
        runner.output_of(["sh", "-c", command], ".", "instructions cannot be counted")
    assert f"instructions cannot be counted: {reason}" in str(caught.value)


def test_sanitizers_speak_in_one_line() -> None:
    text, status = failure(toy("{ int8_t *volatile p = a; p[72] = 1; } return 0;"), "host", True)
    assert "AddressSanitizer" in text or "runtime error" in text
    assert "\n" not in text
    assert status == CHECK_FAILED


@pytest.mark.parametrize("place", FIRMWARE)
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("*(volatile int *)0x5ffffff0 = 1; return 0;", "bfar=0x5ffffff0"),
        ("{ volatile char big[70000]; big[0] = 1; return big[0] - 1; }", "the stack overflowed"),
    ],
)
def test_a_crash_on_a_board_says_where(place: str, fault: str, message: str) -> None:
    if place == "cortex-m0":  # other addresses are free there, and no register tells them
        fault = fault.replace("0x5ffffff0", "0x7ffffff0")
        message = message.replace("bfar=0x5ffffff0", "fault: pc=")
    if place.startswith("rv"):
        wide = "0" * 8 * place.startswith("rv64")
        message = message.replace("bfar=0x", f"mtval=0x{wide}")
    text, status = failure(toy(fault), place)
    assert message in text
    assert status == CHECK_FAILED


ENDLESS = "{ volatile int forever = 1; while (forever) { } } return 0;"


def test_an_endless_run_on_the_host_is_stopped() -> None:
    interface = read_interface(toy(ENDLESS))
    samples = samples_of(vectors(), interface.inputs, "vectors")
    runner_program = build_runner(toy(ENDLESS), interface)
    with pytest.raises(MlfError, match="did not finish within 1 seconds"):
        run_on_host(runner_program, interface, samples, time_limit=1)


@needs_boards
def test_an_endless_run_on_a_board_is_stopped() -> None:
    interface = read_interface(toy(ENDLESS))
    samples = samples_of(vectors(), interface.inputs, "vectors")
    elf = link_firmware(toy(ENDLESS), interface, BOARDS["cortex-m4"])
    with pytest.raises(MlfError, match="did not finish within 1 seconds"):
        run_on_board(elf, BOARDS["cortex-m4"], interface, samples, time_limit=1)


@needs_boards
def test_a_counter_that_counts_time_makes_the_run_void(monkeypatch: pytest.MonkeyPatch) -> None:
    real = runner.qemu_command

    def without_icount(*args: object) -> list[str]:
        command = real(*args)
        at = command.index("-icount")
        return command[:at] + command[at + 2 :]

    monkeypatch.setattr(runner, "qemu_command", without_icount)
    text, status = failure(toy(), "cortex-m4")
    assert "2,000,000 instructions do not count as 2,000,000" in text
    assert status == ENVIRONMENT


@needs_boards
def test_what_does_not_fit_is_one_line() -> None:
    with pytest.raises(MlfError, match="does not fit: RAM") as caught:
        run(
            toy("{ static volatile char huge[5 << 20]; huge[a[0] & 1] = 1; } return 0;"),
            "cortex-m3",
        )
    (problem,) = caught.value.problems
    assert problem.code == "MLF0608"
    numbers = re.search(
        r"RAM is ([\d,]+) bytes, ([\d,]+) are needed: ([\d,]+) too many", str(problem)
    )
    assert numbers
    has, needs, over = (int(n.replace(",", "")) for n in numbers.groups())
    assert needs == has + over > 5 << 20
    assert has % 1024 == 0


@needs_boards
def test_the_footprint_counts_what_is_there() -> None:
    interface = read_interface(toy())
    small = footprint(link_firmware(toy(), interface, BOARDS["cortex-m4"]))
    table = toy("{ static const char t[4096] = {1}; return t[a[0] & 4095] > 1; }")
    more = footprint(link_firmware(table, interface, BOARDS["cortex-m4"]))
    pool = toy("{ static volatile char t[4096]; t[a[0] & 4095] = 0; return 0; }")
    ram = footprint(link_firmware(pool, interface, BOARDS["cortex-m4"]))
    assert 4096 <= more.flash - small.flash < 4300
    assert ram.ram - small.ram == 4096
    assert small.stack_reserved == 64 * 1024


def program(tmp_path: Path) -> Path:
    return build_runner(toy(), read_interface(toy()), sanitize=True)


def test_a_model_without_inputs_runs(tmp_path: Path) -> None:
    """As exporters leave it where nothing depends on the input."""
    text = '<ir_version: 8, opset_import: ["": 17]> g () => (float[2] y) {'
    text += " y = Constant <value_floats = [1.5, 2.0]> () }"
    job = Job(parser.parse_model(text), [{}])
    run_jobs([job], tmp_path)
    assert not job.failure, job.failure
    assert [r["y"].tolist() for r in job.results] == [[1.5, 2.0]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "usage"),
        (["in.bin"], "usage"),
        (["in.bin", "out.bin", "0"], "usage"),
        (["in.bin", "out.bin", "x"], "usage"),
        (["in.bin", "out.bin", "1000000000000"], "usage"),
        (["in.bin", "out.bin", "1", "2"], "usage"),
        (["absent.bin", "out.bin"], "absent.bin: cannot be opened"),
        (["short.bin", "out.bin"], "no multiple of a sample's"),
        (["empty.bin", "out.bin"], "no multiple of a sample's"),
        (["in.bin", "no/such/folder/out.bin"], "cannot be opened for writing"),
        (["in.bin", "/dev/full"], "cannot be written"),
    ],
)
def test_wrong_arguments_and_full_disks_have_their_status(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    (tmp_path / "in.bin").write_bytes(bytes(28))
    (tmp_path / "short.bin").write_bytes(bytes(27))
    (tmp_path / "empty.bin").write_bytes(b"")
    command = [program(tmp_path), *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == (4 if "writ" in message else 2)
    assert message in done.stderr
    assert done.stdout == ""


def test_a_full_disk_is_no_fault_of_the_module(tmp_path: Path) -> None:
    with pytest.raises(MlfError) as caught:
        runner._execute(["sh", "-c", "exit 4"], tmp_path, Path("program"), "m", 9)
    (problem,) = caught.value.problems
    assert (problem.code, caught.value.exit_code) == ("MLF0704", ENVIRONMENT)
    assert str(problem).startswith(f"{tmp_path.parent}: error[MLF0704]: the outputs of 'm' cannot")


def test_descriptors_escape_hostile_names(tmp_path: Path) -> None:
    literal = c_string(HOSTILE)
    source = tmp_path / "name.c"
    text = f"#include <stdio.h>\nint main(void) {{ fputs({literal}, stdout); return 0; }}\n"
    source.write_text(text)
    flags = ["-std=c99", "-trigraphs", "-Wall", "-Werror"]
    subprocess.run(["cc", *flags, source, "-o", tmp_path / "name"], check=True)
    shown = subprocess.run([tmp_path / "name"], capture_output=True, check=True)
    assert shown.stdout == HOSTILE.encode()


@pytest.mark.parametrize("place", PLACES)
def test_runner_and_platform_compile_without_a_warning(place: str, tmp_path: Path) -> None:
    root = crt_root()
    sources = [root / "runner/runner.c"]
    folders = [root / "runner", root / "platform"]
    compiler, machine = "gcc", ()
    if place == "host":
        sources += [root / "platform/host/platform.c"]
    else:
        program, board = toolchain.compiler_of(TARGETS[place]), BOARDS[place]
        compiler, machine = program.name, (*program.flags, *TARGETS[place].cflags)
        platform = sorted({root.parent / name for name in board_files(board)})
        folders += sorted({path.parent for path in platform})
        sources += [path for path in platform if path.suffix == ".c"]
    flags = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"]
    for source in sources:
        command = [compiler, *machine, *flags, *(f"-I{f}" for f in folders), "-c", source]
        done = subprocess.run([*command, "-o", tmp_path / "x.o"], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), source.name


@pytest.mark.parametrize("place", FIRMWARE)
def test_firmware_has_no_heap_and_no_stdio(place: str) -> None:
    elf = link_firmware(toy(), read_interface(toy()), BOARDS[place])
    done = subprocess.run(["nm", elf], capture_output=True, text=True, check=True)
    symbols = {line.split()[-1] for line in done.stdout.splitlines()}
    assert "platform_print" in symbols
    heap = {"malloc", "_malloc_r", "calloc", "realloc", "free", "_free_r", "sbrk", "_sbrk"}
    assert symbols & {*heap, "printf", "_write", "__sf", "_impure_ptr"} == set()
