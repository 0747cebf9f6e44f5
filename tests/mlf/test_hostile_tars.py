"""Archives that attack their reader, made from raw header bytes: each refused in one clean line."""

from __future__ import annotations

import gzip
import io
import resource
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from mlftool.cli import main
from mlftool.errors import MlfError
from mlftool.mlf import read_tar

ROOT = Path(__file__).parents[2]
END = bytes(1024)


def member(
    name: bytes = b"./metadata.json",
    data: bytes = b"{}",
    kind: bytes = b"0",
    *,
    size: bytes | None = None,
    link: bytes = b"",
    magic: bytes = b"ustar\x0000",
    prefix: bytes = b"",
    checksum: bytes | None = None,
) -> bytes:
    """One member, header and padded content, with every field as given."""
    stated = size if size is not None else b"%011o\0" % len(data)
    header = bytearray(512)
    for at, field in (
        (0, name[:100]),
        (100, b"0000644\0"),
        (108, b"0000000\0"),
        (116, b"0000000\0"),
        (124, stated),
        (136, b"00000000000\0"),
        (148, b" " * 8),
        (156, kind),
        (157, link),
        (257, magic),
        (345, prefix),
    ):
        header[at : at + len(field)] = field
    header[148:156] = checksum if checksum is not None else b"%06o\0 " % sum(header)
    return bytes(header) + data + bytes(-len(data) % 512)


def pax(**records: str) -> bytes:
    """A PAX header with these records, well formed."""
    text = b""
    for key, value in records.items():
        body = f" {key}={value}\n".encode()
        length = len(body) + 1
        while len(str(length)) + len(body) != length:
            length += 1
        text += str(length).encode() + body
    return member(b"./PaxHeaders/x", text, b"x")


GOOD = member()
CUT = "is cut short: its end is missing"
NAME = "has a name that leaves the archive or is not plain"
TWICE = "occurs twice in the archive, or differs from another only in case"
NO_TAR = "is not an uncompressed tar archive"
HIDDEN = "has bytes after a NUL in its name"
CHECKSUM = "has a header whose checksum is wrong"
OCTAL = "has a number in its header that is not octal"
RECORDS = "has malformed PAX records"


def kind(what: str) -> str:
    return f"is a {what}; expected a plain file or folder"


def record(key: str) -> str:
    return f"has a PAX record '{key}', which could change its meaning"


def tree_of(count: int) -> bytes:
    return b"".join(member(b"./f%d" % k, b"") for k in range(count))


HOSTILE: dict[str, tuple[bytes, str]] = {
    "no_bytes": (b"", "is not a tar archive"),
    "one_byte": (b"x", "is not a tar archive"),
    "only_the_end": (END, "is empty"),
    "gzip": (gzip.compress(GOOD + END, mtime=0) + bytes(512), NO_TAR),
    "zip": (b"PK\3\4" + bytes(1020), NO_TAR),
    "old_tar_without_magic": (member(magic=bytes(8)) + END, NO_TAR),
    "no_metadata": (
        member(b"./x") + END,
        "has no metadata.json, so it is not a Model Library Format archive",
    ),
    "metadata_in_a_folder": (
        member(b"./a/metadata.json") + END,
        "has no metadata.json, so it is not a Model Library Format archive",
    ),
    "parent": (member(b"../evil") + GOOD + END, NAME),
    "parent_inside": (member(b"./a/../../evil") + GOOD + END, NAME),
    "parent_at_the_end": (member(b"./a/..", kind=b"5", data=b"") + GOOD + END, NAME),
    "dot_inside": (member(b"./a/./b") + GOOD + END, NAME),
    "absolute": (member(b"/etc/evil") + GOOD + END, NAME),
    "double_slash": (member(b".//etc/evil") + GOOD + END, NAME),
    "absolute_by_prefix": (member(b"evil", prefix=b"/etc") + GOOD + END, NAME),
    "parent_by_prefix": (member(b"evil", prefix=b"..") + GOOD + END, NAME),
    "backslash": (member(b"..\\evil") + GOOD + END, NAME),
    "empty_name": (member(b"") + GOOD + END, NAME),
    "file_named_dot": (member(b".") + GOOD + END, NAME),
    "file_with_slash": (member(b"./x/") + GOOD + END, NAME),
    "newline": (member(b"./a\nb") + GOOD + END, NAME),
    "escape_sequence": (member(b"./\x1b[2J") + GOOD + END, NAME),
    "nul_in_name": (member(b"./a\0/../../evil") + GOOD + END, HIDDEN),
    "nul_in_prefix": (member(prefix=b"a\0b") + END, HIDDEN),
    "not_utf8": (member(b"./\xff\xfe") + GOOD + END, "has a name that is not UTF-8"),
    "overlong_utf8": (member(b"./\xc0\xae\xc0\xae/x") + GOOD + END, "has a name that is not UTF-8"),
    "symlink": (member(b"./x", b"", b"2", link=b"/etc") + GOOD + END, kind("symbolic link")),
    "symlink_with_data": (member(b"./x", b"hi", b"2", link=b"y") + END, kind("symbolic link")),
    "hard_link": (member(b"./x", b"", b"1", link=b"/etc/passwd") + END, kind("hard link")),
    "character_device": (member(b"./x", b"", b"3") + END, kind("character device")),
    "block_device": (member(b"./x", b"", b"4") + END, kind("block device")),
    "fifo": (member(b"./x", b"", b"6") + END, kind("pipe")),
    "contiguous": (member(b"./x", kind=b"7") + END, kind("contiguous file")),
    "gnu_sparse": (member(b"./x", kind=b"S") + END, kind("sparse file")),
    "gnu_long_name": (member(b"././@LongLink", b"../evil\0", b"L") + END, kind("GNU long name")),
    "gnu_long_link": (member(b"././@LongLink", b"/\0", b"K") + END, kind("GNU long link name")),
    "gnu_volume": (member(b"x", b"", b"V") + END, kind("member of type b'V'")),
    "folder_with_content": (member(b"./x", b"hi", b"5") + END, kind("member of type b'5'")),
    "twice": (GOOD + GOOD + END, TWICE),
    "twice_with_and_without_dot": (GOOD + member(b"metadata.json") + END, TWICE),
    "differ_in_case": (GOOD + member(b"./Metadata.JSON") + END, TWICE),
    "differ_in_composition": (
        GOOD + member("./é".encode()) + member("./e\u0301".encode()) + END,
        TWICE,
    ),
    "file_as_folder": (member(b"./a") + member(b"./a/b") + GOOD + END, TWICE),
    "folder_as_file": (member(b"./a/b") + member(b"./a") + GOOD + END, TWICE),
    "empty_folder_as_file": (member(b"./a/", b"", b"5") + member(b"./a") + END, TWICE),
    "pax_path": (pax(path="../evil") + GOOD + END, record("path")),
    "pax_size": (pax(size="10000000000") + GOOD + END, record("size")),
    "pax_link": (pax(linkpath="/etc") + GOOD + END, record("linkpath")),
    "pax_sparse": (pax(**{"GNU.sparse.major": "1"}) + GOOD + END, record("GNU.sparse.major")),
    "pax_charset": (pax(hdrcharset="BINARY") + GOOD + END, record("hdrcharset")),
    "pax_global": (member(b"g", b"11 mtime=1\n", b"g") + GOOD + END, kind("global PAX header")),
    "pax_length_too_long": (member(b"p", b"99 mtime=1\n", b"x") + GOOD + END, RECORDS),
    "pax_length_too_short": (member(b"p", b"3 mtime=1\n", b"x") + GOOD + END, RECORDS),
    "pax_without_length": (member(b"p", b"mtime=1\n", b"x") + GOOD + END, RECORDS),
    "pax_length_of_4500_digits": (
        member(b"p", b"9" * 4500 + b" mtime=1\n", b"x") + GOOD + END,
        RECORDS,
    ),
    "pax_last": (
        GOOD + pax(mtime="1") + END,
        "ends after a PAX header that describes nothing",
    ),
    "eight_gigabytes": (
        member(size=b"77777777777") + END,
        "claims 8589934591 bytes; 1536 are left",
    ),
    "ten_gigabytes_in_base_256": (
        member(size=b"\x80\0\0\0\0\0\0\2\x80\0\0\0") + END,
        OCTAL,
    ),
    "negative_size": (member(size=b"-0000000001\0") + END, OCTAL),
    "size_is_empty": (member(size=bytes(12)) + END, OCTAL),
    "size_in_hex": (member(size=b"0x10\0") + END, OCTAL),
    "wrong_checksum": (member(checksum=b"000000\0 ") + END, CHECKSUM),
    "no_checksum": (member(checksum=bytes(8)) + END, OCTAL),
    "cut_in_header": (GOOD[:300], "is not a tar archive"),
    "cut_in_second_header": (GOOD + GOOD[:300], CUT),
    "cut_in_content": (
        member(data=b"x" * 2000)[: 512 + 1000],
        "claims 2000 bytes; 1000 are left",
    ),
    "cut_in_padding": (GOOD[:600], "is not padded with zeros"),
    "no_end": (GOOD, CUT),
    "half_an_end": (GOOD + bytes(512), CUT),
    "junk_in_padding": (GOOD[:-1] + b"x" + END, "is not padded with zeros"),
    "junk_after_end": (GOOD + END + b"junk", "has data after its end"),
    "second_archive_after_end": (GOOD + END + GOOD + END, "has data after its end"),
    "two_megabytes_of_zeros": (GOOD + bytes(2 << 20), "has data after its end"),
    "junk_in_place_of_header": (GOOD + b"x" * 512 + END, "has a damaged header"),
    "too_many": (tree_of(20_001) + END, "has more than 20000 members"),
}


def test_there_are_enough() -> None:
    assert len(HOSTILE) >= 70


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_tar(name: str, tmp_path: Path) -> None:
    data, message = HOSTILE[name]
    path = tmp_path / "in" / "a.tar"
    path.parent.mkdir()
    path.write_bytes(data)
    with pytest.raises(MlfError) as caught:
        read_tar(path)
    (problem,) = caught.value.problems
    assert (problem.code, problem.message, problem.file) == ("MLF0502", message, str(path))
    assert str(problem).count("\n") == bool(problem.help)  # on a line of its own
    assert main(["extract", str(path), "--all", str(tmp_path / "in" / "out")]) == 2
    assert [p.name for p in tmp_path.rglob("*")] == ["in", "a.tar"]


def test_the_control_is_accepted(tmp_path: Path) -> None:
    """What the cases spoil is fine by itself, with what TVM's and GNU's writers add."""
    path = tmp_path / "a.tar"
    tree = member(b".", b"", b"5") + member(b"./a/", b"", b"5") + member(b"./a/b", b"1" * 513)
    gnu = member(b"./gnu", magic=b"ustar  \0")
    old = member(b"./old", kind=b"\0")
    data = tree + pax(mtime="1.5", uid="0") + GOOD + gnu + old + END + bytes(8192)
    path.write_bytes(data)
    names = {"metadata.json", "a/b", "gnu", "old"}
    assert read_tar(path).files.keys() == names
    assert read_tar(path).files["a/b"] == b"1" * 513
    with tarfile.open(path) as tar:  # our hand-made headers are right, says Python
        assert {m.name.removeprefix("./") for m in tar if m.isfile()} == names


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_pythons_own_archives_are_accepted(form: int, tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for name in ("./metadata.json", "./" + "d" * 60 + "/" + "f" * 30):
            info = tarfile.TarInfo(name)
            info.size, info.mtime = 2, 1.5 if form == tarfile.PAX_FORMAT else 1
            tar.addfile(info, io.BytesIO(b"{}"))
    (tmp_path / "a.tar").write_bytes(out.getvalue())
    assert len(read_tar(tmp_path / "a.tar").files) == 2


def _folder(path: Path) -> None:
    path.mkdir()


def _pipe(path: Path) -> None:
    import os

    os.mkfifo(path)


def _hole(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(3 << 30)


@pytest.mark.parametrize(
    ("make", "code"),
    [(_folder, "MLF0502"), (_pipe, "MLF0502"), (_hole, "MLF0502"), (lambda _: None, "MLF0501")],
    ids=["folder", "pipe", "three_gigabytes", "missing"],
)
def test_what_is_no_file(make: Callable[[Path], None], code: str, tmp_path: Path) -> None:
    make(tmp_path / "a.tar")
    with pytest.raises(MlfError) as caught:
        read_tar(tmp_path / "a.tar")
    assert [p.code for p in caught.value.problems] == [code]


def test_memory_stays_small(tmp_path: Path) -> None:
    """All of them, read in one process that may not have 64 MiB more than an empty one."""
    for name, (data, _) in HOSTILE.items():
        (tmp_path / name).write_bytes(data)
    _hole(tmp_path / "hole")
    script = (
        "import sys, resource\n"
        "from pathlib import Path\n"
        "from mlftool.errors import MlfError\n"
        "from mlftool.mlf import read_tar\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "for path in Path(sys.argv[1]).iterdir():\n"
        "    try: read_tar(path)\n"
        "    except MlfError: pass\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    limits = (256 << 20, 256 << 20)
    run = subprocess.run(
        [sys.executable, "-c", script, tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, limits),
    )
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) < 64 << 10
