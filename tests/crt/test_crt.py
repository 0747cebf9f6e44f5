"""The runtime has TVM's layouts on 64-bit x86 and on Arm, and its memory functions hold."""

from __future__ import annotations

import re
import struct
import subprocess
from pathlib import Path

import pytest
from crt_build import CRT, ROOT, SANITIZE, SOURCES, WARNINGS
from elftools.elf.elffile import ELFFile
from machines import BY_NAME, MACHINES, Machine

INCLUDE = f"-I{CRT / 'include'}"
CPP_WARNINGS = tuple(w for w in WARNINGS if w not in ("-std=c99", "-Wstrict-prototypes"))

# What abi.c lists, with the offsets of mlf.md 5.1: (64-bit x86, 32-bit Arm).
LAYOUT = {
    "sizeof DLDevice": (8, 8),
    "DLDevice.device_id": (4, 4),
    "sizeof DLDataType": (4, 4),
    "DLDataType.bits": (1, 1),
    "DLDataType.lanes": (2, 2),
    "sizeof TVMValue": (8, 8),
    "alignof TVMValue": (8, 8),
    "DLTensor.data": (0, 0),
    "DLTensor.device": (8, 4),
    "DLTensor.ndim": (16, 12),
    "DLTensor.dtype": (20, 16),
    "DLTensor.shape": (24, 20),
    "DLTensor.strides": (32, 24),
    "DLTensor.byte_offset": (40, 32),
    "sizeof DLTensor": (48, 40),
    "alignof DLTensor": (8, 8),
    "sizeof tvm_index_t": (8, 8),
    "TVMByteArray.size": (8, 4),
    "sizeof TVMTensorInfo": (32, 24),
    "TVMTensorInfo.num_shape": (16, 8),
    "TVMTensorInfo.dtype": (24, 16),
    "sizeof TVMConstantInfo": (32, 32),
    "sizeof TVMMetadata": (80, 80),
    "TVMMetadata.inputs": (8, 8),
    "TVMMetadata.num_inputs": (16, 16),
    "TVMMetadata.mod_name": (72, 72),
    "sizeof TVMFuncRegistry": (16, 8),
    "sizeof TVMModule": (8, 4),
    "TVMAotExecutor.args": (24, 16),
    "TVMAotExecutor.num_args": (32, 24),
    "TVMPackedFunc.fexec": (200, 200),
    "TVMPackedFunc.args": (208, 208),
    "TVMArgs.values_count": (120, 120),
    "MemoryManagerInterface.vleak_size": (16, 8),
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A directory with the template's crt_config.h, as an application would make it."""
    template = ROOT / "crt/templates/crt_config.h.template"
    (tmp_path / "crt_config.h").write_text(template.read_text())
    return tmp_path


def words_of(object_file: Path, symbol: str) -> list[int]:
    with object_file.open("rb") as stream:
        elf = ELFFile(stream)
        (found,) = elf.get_section_by_name(".symtab").get_symbol_by_name(symbol)
        data = elf.get_section(found["st_shndx"]).data()[found["st_value"] :][: found["st_size"]]
    return list(struct.unpack(f"<{len(data) // 4}I", data))


@pytest.mark.parametrize(("machine", "column"), [("x86-64", 0), ("rv64gc", 0), ("cortex-m4", 1)])
def test_layouts_are_tvms(machine: str, column: int, config: Path) -> None:
    BY_NAME[machine].need()
    out = config / "abi.o"
    flags = [*WARNINGS, INCLUDE, f"-I{config}", "-c", ROOT / "tests/crt/abi.c", "-o", out]
    subprocess.run([*BY_NAME[machine].command, *flags], check=True)
    measured = dict(zip(LAYOUT, words_of(out, "abi"), strict=True))
    assert measured == {name: sizes[column] for name, sizes in LAYOUT.items()}


def test_i386_aligns_values_to_4_bytes(config: Path) -> None:
    """As TVM's do there; everywhere else 8."""
    BY_NAME["i386"].need()
    out = config / "abi.o"
    flags = [*WARNINGS, INCLUDE, f"-I{config}", "-c", ROOT / "tests/crt/abi.c", "-o", out]
    subprocess.run([*BY_NAME["i386"].command, *flags], check=True)
    measured = dict(zip(LAYOUT, words_of(out, "abi"), strict=True))
    values = ("sizeof TVMValue", "alignof TVMValue", "DLTensor.byte_offset", "sizeof DLTensor")
    assert [measured[name] for name in values] == [8, 4, 28, 36]


@pytest.mark.parametrize("check", [[], ["-DTVM_CRT_STACK_ALLOCATOR_ENABLE_LIFO_CHECK"]])
def test_stack_allocator(check: list[str], config: Path) -> None:
    platform = config / "platform.c"
    platform.write_text((ROOT / "crt/templates/platform.c.template").read_text())
    crt = ROOT / "crt/src/runtime/crt"
    sources = [ROOT / "tests/crt/stack_allocator.c", platform]
    sources += [crt / "common/crt_backend_api.c", crt / "memory/stack_allocator.c"]
    program = config / "stack_allocator"
    flags = [*WARNINGS, *SANITIZE, INCLUDE, f"-I{config}", *check]
    subprocess.run(["gcc", *flags, *sources, "-o", program], check=True)
    run = subprocess.run([program], capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


# Each compiler where it sees most; other machines of its as firmware is compiled.
MOST = ("x86-64", "x86-64-clang", "i386", "powerpc", "cortex-m4", "rv64gc")
LEVELS = [(machine, "-O3" if machine.name in MOST else "-Os") for machine in MACHINES]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("machine", "level"), LEVELS, ids=lambda value: getattr(value, "name", value)
)
def test_sources_compile_without_a_warning(machine: Machine, level: str, config: Path) -> None:
    machine.need()
    command = [*machine.command, level, *WARNINGS, INCLUDE, f"-I{config}", "-c"]
    command += sorted(SOURCES.rglob("*.c"))
    run = subprocess.run(command, cwd=config, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.parametrize("dialect", ["-std=c++11", "-std=c++20"])
def test_headers_serve_cplusplus(dialect: str, config: Path) -> None:
    headers = sorted((ROOT / "crt/include").rglob("*.h"))
    text = "".join(f'#include "{h.relative_to(ROOT / "crt/include")}"\n' for h in headers)
    source = config / "all.cc"
    source.write_text(text)
    flags = [dialect, *CPP_WARNINGS, INCLUDE, f"-I{config}"]
    command = ["g++", *flags, "-c", source, "-o", config / "all.o"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")


# What each part may leave undefined: other parts, the platform's hooks, and functions of the C
# library that need neither memory nor files.
C_LIBRARY = {"memcpy", "memmove", "memset", "memcmp", "strcmp", "strlen", "strncmp", "strchr"}
HOOKS = {
    *("TVMPlatformMemoryAllocate", "TVMPlatformMemoryFree", "TVMPlatformFormatMessage"),
    *("TVMPlatformTimerStart", "TVMPlatformTimerStop"),
}
NEEDS: dict[str, tuple[str, ...]] = {
    "aot_executor": ("common",),
    "aot_executor_module": ("aot_executor", "common"),
    "common": (),
    "graph_executor": ("common",),
    "graph_executor_module": ("graph_executor", "common"),
    "memory": (),
    "microtvm_rpc_common": (),
    "microtvm_rpc_server": ("aot_executor_module", "common", "microtvm_rpc_common"),
}


def symbols(folder: Path, kinds: str) -> set[str]:
    """Names in the objects of a folder whose kind, as nm says, is one of `kinds`."""
    command = ["nm", "-P", "-g", *sorted(folder.glob("*.o"))]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.split()[0] for line in lines if len(line.split()) > 1 and line.split()[1] in kinds}


def test_parts_need_no_heap_and_only_each_other(config: Path) -> None:
    assert set(NEEDS) == {folder.name for folder in SOURCES.iterdir()}
    for name in NEEDS:
        (config / name).mkdir()
        command = ["gcc", "-O2", "-ffreestanding", "-fno-pie", *WARNINGS, INCLUDE]
        command += [f"-I{config}", "-c", *map(str, sorted((SOURCES / name).glob("*.c")))]
        subprocess.run(command, cwd=config / name, check=True)
    defined = {name: symbols(config / name, "TDRBCWV") for name in NEEDS}
    for name, others in NEEDS.items():
        known = C_LIBRARY | HOOKS | defined[name] | {s for other in others for s in defined[other]}
        assert symbols(config / name, "U") <= known, name
    assert symbols(config / "common", "w") == {"TVMSystemLibEntryPoint"}


def test_kernels_of_a_c_interface_need_two_files_at_most(config: Path) -> None:
    """Workspace functions and the stack allocator: no registry, no handles, no error texts."""
    files = [SOURCES / "common/crt_backend_api.c", SOURCES / "memory/stack_allocator.c"]
    command = ["gcc", "-O2", "-ffreestanding", "-fno-pie", *WARNINGS, INCLUDE, f"-I{config}"]
    command += ["-c", *map(str, files)]
    subprocess.run(command, cwd=config, check=True)
    assert symbols(config, "U") <= C_LIBRARY | {
        "TVMPlatformMemoryAllocate",
        "TVMPlatformMemoryFree",
    }


def test_the_rpc_server_is_small(config: Path) -> None:
    """Less than 12 KB of code; its memory is the packet, its arguments and two small buffers."""
    BY_NAME["cortex-m4"].need()
    parts = ("microtvm_rpc_common", "microtvm_rpc_server")
    command = [*BY_NAME["cortex-m4"].command, "-Os", *WARNINGS, INCLUDE, f"-I{config}", "-c"]
    command += [str(path) for part in parts for path in sorted((SOURCES / part).glob("*.c"))]
    subprocess.run(command, cwd=config, check=True)
    sizes = ["arm-none-eabi-size", *map(str, sorted(config.glob("*.o")))]
    done = subprocess.run(sizes, capture_output=True, text=True, check=True)
    rows = [[int(n) for n in line.split()[:3]] for line in done.stdout.splitlines()[1:]]
    text, data, bss = (sum(column) for column in zip(*rows, strict=True))
    packet = int(
        re.findall(r"MAX_PACKET_SIZE_BYTES (\d+)", (config / "crt_config.h").read_text())[0]
    )
    assert 4000 < text < 12 * 1024
    assert data + bss < packet * 11 / 4 + 800


def test_the_analyser_finds_nothing(config: Path) -> None:
    command = ["gcc", "-O2", "-fanalyzer", *WARNINGS, INCLUDE, f"-I{config}", "-c"]
    command += map(str, sorted(SOURCES.rglob("*.c")))
    run = subprocess.run(command, cwd=config, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")


def test_stack_frames_are_small_and_nothing_calls_itself(config: Path) -> None:
    BY_NAME["cortex-m4"].need()
    command = [*BY_NAME["cortex-m4"].command, "-Os", *WARNINGS, "-Wstack-usage=600"]
    command += ["-fcallgraph-info", INCLUDE, f"-I{config}", "-c"]
    subprocess.run([*command, *sorted(SOURCES.rglob("*.c"))], cwd=config, check=True)
    calls: dict[str, set[str]] = {}
    for graph in sorted(config.glob("*.ci")):
        edges = re.findall(r'sourcename: "([^"]+)" targetname: "([^"]+)"', graph.read_text())
        for caller, callee in edges:
            calls.setdefault(caller, set()).add(callee)
    assert len(calls) > 100
    # What has only callees that are gone is gone; a cycle stays.
    while leaves := [f for f, callees in calls.items() if not callees & calls.keys()]:
        for function in leaves:
            del calls[function]
    # A function of the application called through its handle may call the runtime again: that is
    # an edge to "__indirect_call", which has none of its own.
    assert calls == {}
