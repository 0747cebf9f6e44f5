"""C compilers of one's own: Debian's, moved to a folder and packed into an archive."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
import uuid
from pathlib import Path
from typing import Any

import pytest
from nested import Workspace, digests

pytestmark = pytest.mark.sampled(8)

PREFIX = "arm-none-eabi"
FLAGS = ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")
TOOLS = ("gcc", "ar", "as", "ld", "nm", "objcopy", "strip")
# Of the compiler's parts only what C for a Cortex-M4 needs: all of them are 2 GB.
PARTS = ("cc1", "collect2", "liblto_plugin.so")
LIBRARIES = ("libgcc.a", "libc.a", "libm.a")
WORKSPACE = """
load("@mlftool//rules:repositories.bzl", "mlf_gcc_repository")
"""


def gcc(*arguments: str) -> str:
    command = [f"{PREFIX}-gcc", *FLAGS, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def make_compiler(folder: Path) -> Path:
    """The compiler in a folder of its own, which it finds its parts in."""
    install = Path(gcc("-print-search-dirs").splitlines()[0].removeprefix("install: ")).resolve()
    # /usr, when the compiler is the distribution's.
    root = install.parents[3]
    tools = root / "lib" / PREFIX
    # Resolved: /bin may come first in PATH, and is a link.
    files = [Path(shutil.which(f"{PREFIX}-{tool}") or "").resolve() for tool in TOOLS]
    files += [install / part for part in PARTS]
    files += [tools / "bin" / tool for tool in ("as", "ld")]
    # Not resolve: links lead to where Debian keeps newlib, which is not where gcc looks.
    files += [Path(os.path.normpath(gcc(f"-print-file-name={n}"))) for n in LIBRARIES]
    files += [p for p in (tools / "include").rglob("*.h") if "c++" not in p.parts]
    files += [p for name in ("include", "include-fixed") for p in (install / name).rglob("*.h")]
    for file in files:
        copy = folder / file.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    return folder


@pytest.fixture(scope="module")
def compilers(built: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """The workspace with the compiler as a folder, as an archive and with mistakes."""
    folder = make_compiler(tmp_path_factory.mktemp("compiler") / "gcc-12")
    packed = built.folder / "gcc.tar"
    with tarfile.open(packed, "w") as archive:
        archive.add(folder, "gcc-12")
    checksum = hashlib.sha256(packed.read_bytes()).hexdigest()
    text = WORKSPACE
    for name, attributes in {
        "folder": f'path = "{folder}"',
        "archive": f'archive = "//:gcc.tar", sha256 = "{checksum}", strip_prefix = "gcc-12"',
        **{name: attributes for name, (attributes, _) in REFUSED.items()},
    }.items():
        text += f'mlf_gcc_repository(name = "{name}", prefix = "{PREFIX}", {attributes})\n'
    workspace = built.folder / "WORKSPACE"
    workspace.write_text(workspace.read_text() + text)
    return built


# A repository's attributes and what is said of them.
REFUSED = {
    "two": (
        'path = "/opt/gcc", urls = ["https://example.com/gcc.tar"]',
        "path, archive, urls: got path, urls, expected one of them",
    ),
    "none": ("", "path, archive, urls: got none, expected one of them"),
    "relative": ('path = "gcc"', "path: got 'gcc', expected an absolute path"),
    "empty": (
        'path = "/usr/include"',
        "path: got '/usr/include', and there is no bin/arm-none-eabi-gcc in it",
    ),
    "deeper": (
        'archive = "//:gcc.tar", sha256 = "00"',
        "sha256: got '00', and //:gcc.tar has ",
    ),
    "unchecked": (
        'urls = ["https://example.com/gcc.tar"]',
        "sha256: got '', expected the checksum of what urls name",
    ),
    "no_library": (
        'path = "/usr", flags = ["-nostdinc"]',
        'flags: got ["-nostdinc"], and with them /usr/bin/arm-none-eabi-gcc does not find string.h',
    ),
}


def programs(actions: list[dict[str, Any]]) -> set[str]:
    """What compiled and linked for the board."""
    made = [a["commandArgs"] for a in actions if a["mnemonic"] in ("CppCompile", "MlfLink")]
    tools = [
        next(word for word in line if word.endswith("-gcc")) for line in made if FLAGS[0] in line
    ]
    return set(tools)


def test_a_compiler_from_an_archive_makes_the_same_firmware(compilers: Workspace) -> None:
    actions = compilers.build("--extra_toolchains=@archive//:all", "//:sensor")

    # Files of its repository, so that remote machines have them, too.
    assert programs(actions) == {f"external/archive/bin/{PREFIX}-gcc"}
    (image,) = (path for path in compilers.first if path.endswith("sensor.bin"))
    assert digests(actions)[image] == compilers.first[image]


def test_a_compiler_in_a_folder(compilers: Workspace) -> None:
    board = "--platforms=@mlftool//rules/platforms:cortex-m4"

    actions = compilers.build(
        board, "--extra_toolchains=@folder//:all", "@models//gesture_int8:cortex-m4"
    )

    (program,) = programs(actions)
    assert program.endswith(f"/gcc-12/bin/{PREFIX}-gcc")


def test_clang_for_programs_of_the_host(built: Workspace) -> None:
    actions = built.build("--repo_env=CC=clang", "@models//gesture_int8:host")

    compiled = [a["commandArgs"] for a in actions if a["mnemonic"] == "CppCompile"]
    assert compiled
    assert all(Path(line[0]).name == "clang" for line in compiled)


def test_another_host_compiler_makes_everything_again(built: Workspace, tmp_path: Path) -> None:
    """A compiler that changed in its place: Bazel itself would see the same path."""
    program = tmp_path / "cc"
    options = (f"--repo_env=CC={program}", "@models//gesture_int8:host_runner")

    crt = "@mlftool//crt"
    keyed = f"rdeps({crt}:all, {crt}:host_compiler_key)"
    sources = f'attr(srcs, "[.]c[],]", kind(cc_library, {crt}:all))'
    assert "@mlftool" not in built.bazel("query", *built.loading(), f"{sources} except {keyed}")

    def build(note: str) -> dict[str, bool]:
        """Whether each action of C came from the cache, with a compiler that says `note`."""
        program.write_text(f'#!/bin/sh\n# {note}\nexec gcc "$@"\n')
        program.chmod(0o755)
        built.bazel("clean")
        actions = [a for a in built.build(*options) if a["mnemonic"].startswith("Cpp")]
        assert actions
        return {a["listedOutputs"][0]: a["remoteCacheHit"] for a in actions}

    # A note of this run: the disk cache has what runs of the same day made with theirs.
    one, two = uuid.uuid4().hex, uuid.uuid4().hex
    first = build(one)
    built.shutdown()  # a running server does not look at the machine again
    other = build(two)
    built.shutdown()
    same = build(one)

    assert first.keys() == same.keys() == other.keys()
    assert [path for path, hit in same.items() if not hit] == []
    assert [path for path, hit in other.items() if hit] == []


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (
            "arm-none-eabi",
            "cortex-m4: error[MLF0700]: the C compiler for cortex-m4 is not installed; run: "
            "apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi && bazel shutdown",
        ),
        (
            "qemu",
            "error[MLF0700]: the simulator of cortex-m4 is not installed; run: "
            "apt-get install qemu-system-arm && bazel shutdown",
        ),
    ],
)
def test_a_program_that_is_missing_is_named_with_its_package(
    built: Workspace, tmp_path: Path, missing: str, said: str
) -> None:
    for program in Path("/usr/bin").iterdir():
        if not program.name.startswith(missing):
            (tmp_path / program.name).symlink_to(program)
    words = (f"--repo_env=PATH={tmp_path}", "--nobuild", "@models//gesture_int8:cortex-m4_test")

    talk = built.bazel("build", *built.options(), *words, fails=True)

    assert said in talk, talk


@pytest.fixture(scope="module")
def refused(compilers: Workspace) -> str:
    """What Bazel says of them all."""
    every = " ".join(f"@{name}//:all" for name in REFUSED)
    query = ("--keep_going", *compilers.loading(), f"set({every})")
    return compilers.bazel("query", *query, fails=True)


@pytest.mark.parametrize("name", REFUSED)
def test_a_compiler_that_cannot_be_used_is_refused(refused: str, name: str) -> None:
    assert f'mlf_gcc_repository(name = "{name}"): {REFUSED[name][1]}' in refused, refused
