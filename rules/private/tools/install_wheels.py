"""Installs a hash-locked file of packages: `install_wheels.py LOCK FOLDER [--whole]`.

Runs in Bazel's repository phase. With --wheels HOUSE the wheels are those of that folder. Otherwise
pip fetches them and keeps its own configuration (index, proxy, wheelhouse). Every file must match a
hash in LOCK and nothing is built from source. Without --whole, files that the build never imports
(test suites, stubs, C headers) are dropped: each costs every sandbox a link. Processes in sandboxes
keep no bytecode, and imports take half the time with it: it is made here, in FOLDER.bytecode
(bytecode.py) or, with --whole, beside the sources.
"""

from __future__ import annotations

import compileall
import hashlib
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

PIP = (
    "install", "--quiet", "--no-input", "--disable-pip-version-check", "--root-user-action=ignore",
    "--no-deps", "--no-compile", "--only-binary=:all:", "--require-hashes",
)  # fmt: skip
UNUSED_FOLDERS = ("onnx/backend/test", "numpy/_core/include", "numpy/f2py", "onnx/bin")
UNUSED_SUFFIXES = frozenset((".pyi", ".h", ".hpp", ".a", ".lib", ".pyx", ".pxd", ".proto", ".cc"))


def install(lock: Path, site: Path) -> int:
    """pip's exit code; its talk goes to our stderr."""
    command = [sys.executable, "-m", "pip", *PIP, "--target", str(site), "-r", str(lock)]
    return subprocess.run(command, check=False).returncode


def locked(lock: Path) -> dict[tuple[str, str], set[str]]:
    """(name, version) -> the sha256 of its files."""
    found: dict[tuple[str, str], set[str]] = {}
    for entry in lock.read_text().replace("\\\n", " ").splitlines():
        if match := re.match(r"([\w.-]+)==([^\s;]+)", entry):
            key = (normal(match[1]), match[2])
            found[key] = set(re.findall(r"--hash=sha256:([0-9a-f]{64})", entry))
    return found


def normal(name: str) -> str:
    """A package's name as wheels' names and lock files can be compared."""
    return re.sub(r"[-_.]+", "_", name).lower()


def fits(wheel: str) -> bool:
    """Whether this interpreter on this machine can load a wheel, by its name."""
    pythons, abis, platforms = (
        part.split(".") for part in wheel.removesuffix(".whl").split("-")[-3:]
    )
    minor = sys.version_info.minor
    exact = f"cp3{minor}" in pythons and {f"cp3{minor}", "none"} & set(abis)
    stable = "abi3" in abis and any(f"cp3{m}" in pythons for m in range(2, minor + 1))
    pure = "none" in abis and {"py3", f"py3{minor}"} & set(pythons)
    machine = sysconfig.get_platform().split("-")[-1]
    here = "any" in platforms or any("linux" in p and p.endswith(machine) for p in platforms)
    return bool(exact or stable or pure) and here and not all("musllinux" in p for p in platforms)


def unpack(lock: Path, site: Path, house: Path) -> int:
    """The same as `install` from a folder of wheels, without pip: 2 if one is missing."""
    for (name, version), hashes in locked(lock).items():
        found = [
            w
            for w in sorted(house.glob("*.whl"))
            if (normal(w.name.split("-")[0]), w.name.split("-")[1]) == (name, version)
        ]
        good = [w for w in found if hashlib.sha256(w.read_bytes()).hexdigest() in hashes]
        if not (usable := [w for w in good if fits(w.name)]):
            why = "has no such wheel"
            if found:
                why = "has none with a hash of the lock file"
                why = "has none for this interpreter" if good else why
            remedy = f"python3 -m pip download --no-deps --require-hashes -r {lock} -d {house}"
            said = f"{house}: {name}=={version}: the folder {why}; run: {remedy}"
            print(said, file=sys.stderr)
            return 2
        with zipfile.ZipFile(usable[0]) as archive:
            archive.extractall(site)
        for data in site.glob("*.data/*lib"):
            shutil.copytree(data, site, dirs_exist_ok=True)
        for data in site.glob("*.data"):
            shutil.rmtree(data)
    return 0


def prune(site: Path, whole: bool) -> None:
    """Removes what differs between machines, and, unless `whole`, what the build never reads."""
    shutil.rmtree(site / "bin", ignore_errors=True)  # scripts hold the interpreter's path
    for name in ("direct_url.json", "RECORD", "INSTALLER", "REQUESTED"):
        for path in site.glob(f"*.dist-info/{name}"):
            path.unlink()
    if whole:
        return
    for folder in UNUSED_FOLDERS:
        shutil.rmtree(site / folder, ignore_errors=True)
    for tests in [p for p in site.rglob("tests") if p.is_dir()]:
        shutil.rmtree(tests, ignore_errors=True)
    for path in site.rglob("*"):
        if path.suffix in UNUSED_SUFFIXES and path.is_file():
            path.unlink()


def main(arguments: list[str]) -> int:
    """Installs, prunes; the exit code is pip's."""
    lock, site = Path(arguments[0]), Path(arguments[1])
    options = arguments[2:]
    if "--wheels" in options:
        code = unpack(lock, site, Path(options[options.index("--wheels") + 1]))
    else:
        code = install(lock, site)
    if code == 0:
        prune(site, whole="--whole" in options)
    if code == 0 and "--whole" in options:
        # Nothing edits a wheel's files; a file that is Python of another version stays a text.
        unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
        compileall.compile_dir(site, quiet=2, stripdir=site, invalidation_mode=unchecked)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
