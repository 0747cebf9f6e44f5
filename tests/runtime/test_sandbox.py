"""`mlftool run --sandbox`: the C of an archive reads no file of the user, starts nothing outside
and has no network, whether it runs here, in a simulator, or is only compiled."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from builders import Net

from mlftool.cli import main
from mlftool.compile import ModuleSpec, compile_modules
from mlftool.mlf import Bundle, checksums, write_tar
from mlftool.runtime.sandbox import confined, sandbox

# Of a constructor, since no call of the module is needed for it to run.
HERE = r"""
#include <stdio.h>
#include <stdlib.h>
__attribute__((constructor)) static void hostile(void) {
  FILE *in = fopen("@secret@", "r");
  fopen("@witness@", "w"); /* in the box it may be a file of the box */
  if (in || getenv("MLF_SECRET")) { puts("runner: it got out"); exit(1); }
}
"""
# SYS_SYSTEM of semihosting: a command of the computer that simulates the board.
BOARD = r"""
__attribute__((constructor)) static void hostile(void) {
  static const char command[] = "touch @witness@";
  static const unsigned long block[2] = {(unsigned long)command, sizeof command - 1};
  register int number __asm__("r0") = 0x12;
  register const void *at __asm__("r1") = block;
  __asm volatile("bkpt 0xab" : "+r"(number) : "r"(at) : "memory");
}
"""


def works() -> bool:
    command = ["bwrap", "--ro-bind", "/", "/", "--unshare-all", "true"]
    return (
        bool(shutil.which("bwrap")) and subprocess.run(command, capture_output=True).returncode == 0
    )


needs_bubblewrap = pytest.mark.skipif(not works(), reason="bubblewrap makes no box here")


class Attack:
    """An archive whose C is not only ours, and the command that runs it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.secret, self.witness = folder / "secret.h", folder / "witness"
        self.secret.write_text('#error "the secret was read"\n')

    def run(self, text: str, target: str, *options: str, executor: str = "aot") -> int:
        net = Net()
        model = net.model(net.node("Relu", net.input("x", np.float32, (2,))))
        files = dict(compile_modules([ModuleSpec(model, "m", target, executor)]).files)
        del files[checksums.MEMBER]
        name = next(n for n in files if n.endswith("_lib0.c"))
        for mark, path in (("@secret@", self.secret), ("@witness@", self.witness)):
            text = text.replace(mark, str(path))
        files[name] += text.encode()
        archive, inputs = self.folder / "m.tar", self.folder / "in.npz"
        write_tar(Bundle(files), archive)
        np.savez(inputs, x=np.zeros((1, 2), np.float32))
        return main(["run", str(archive), "--inputs", str(inputs), *options])


@pytest.fixture
def attack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Attack:
    monkeypatch.setenv("MLFTOOL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MLF_SECRET", "1")
    return Attack(tmp_path)


def test_the_attacks_work_without_it(attack: Attack) -> None:
    """Else the tests below would show nothing."""
    assert attack.run(HERE, "host") != 0
    assert attack.witness.exists()


@needs_bubblewrap
def test_a_program_here_stays_inside(attack: Attack) -> None:
    assert attack.run(HERE, "host", "--sandbox") == 0
    assert not attack.witness.exists()


@needs_bubblewrap
def test_the_c_runtime_is_in_the_box_where_a_graph_needs_it(attack: Attack) -> None:
    assert attack.run("", "host", "--sandbox", executor="graph") == 0


@needs_bubblewrap
def test_a_compiler_reads_nothing_else(attack: Attack, capsys: pytest.CaptureFixture[str]) -> None:
    text = '#include "@secret@"\n'
    assert attack.run(text, "host") == 2
    assert "the secret was read" in capsys.readouterr().err
    assert attack.run(text, "host", "--sandbox") == 2
    said = capsys.readouterr().err
    assert "MLF0611" in said
    assert "the secret was read" not in said


@needs_bubblewrap
@pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="no compiler or simulator",
)
def test_a_simulated_board_commands_nobody(attack: Attack) -> None:
    assert attack.run(BOARD, "cortex-m4") == 0
    assert attack.witness.exists(), "semihosting has no such call any more"
    attack.witness.unlink()
    attack.run(BOARD, "cortex-m4", "--sandbox")
    assert not attack.witness.exists()


@needs_bubblewrap
def test_there_is_no_network_and_no_other_process(tmp_path: Path) -> None:
    text = "ls /proc | grep -c '^[0-9]'; cat /proc/net/dev | tail -n +3 | cut -d: -f1"
    with sandbox([shutil.which("bwrap") or ""]):
        command = confined(["/bin/sh", "-c", text], tmp_path)
    done = subprocess.run(command, capture_output=True, text=True)
    count, *interfaces = done.stdout.split()
    assert int(count) <= 6, done.stderr
    assert interfaces == ["lo"]


def test_it_goes_with_no_program_that_is_built_already(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "m.tar", "--inputs", "i.npz", "--runner", "x", "--sandbox"]) == 2
    assert "MLF0405" in capsys.readouterr().err


def test_without_bubblewrap_nothing_runs(
    attack: Attack, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFTOOL_BWRAP", "no-such-bwrap")
    assert attack.run(HERE, "host", "--sandbox") == 3
    assert "apt-get install bubblewrap" in capsys.readouterr().err
    assert not attack.witness.exists()


def test_outside_of_a_sandbox_commands_stay_as_they_are(tmp_path: Path) -> None:
    assert confined(["a", "b"], tmp_path) == ["a", "b"]
