"""Assembly in headers compiles whatever registers the compiler has left.

Loads of Helium that widen take a base among the lower eight registers, which constraint "l" says:
with "r" a kernel compiles until the compiler happens to choose another. What reads or writes memory
is volatile: compilers take other assembly out of a loop that does not change its operands.

What several instructions change, beside operands that they read, has a register of its own, which
constraint "&" says: without it a compiler may hold two operands of the same value in one register.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from shared import REPO

from mlftool.runtime.toolchain import ARM_GCC, find
from mlftool.targets import TARGETS

MLF = REPO / "crt" / "include" / "mlf"
UNPAIRED = str.maketrans("()", "  ")
HEADERS = [h for h in sorted(MLF.glob("mve*.h")) if h.name != "mve_plain.h"]  # of other processors
WIDENS = re.compile(r"v(?:ldrb|strb)\.[su]?(?:16|32) [^\[]*\[%\[(\w+)\]")
WIDENING = re.compile(r'"v(?:ldrb|strb)\.[su]?(?:16|32)"')
MACRO = re.compile(r"#define (MLF_\w+)\(([^)]*)\)((?:.*\\\n)*.*)")
ARGUMENT = re.compile(r'"(?:[^"\\]|\\.)*"|[^",\s][^",]*')
SIGNATURE = re.compile(r"static inline (\w+) (mlf_\w+_dot\w*)\(([^)]*)\)")


def constraints(text: str) -> dict[str, list[str]]:
    """Base register of each load that widens -> the constraints of operands of that name."""
    found: dict[str, list[str]] = {}
    for block in re.findall(r"__asm__.*?\);", text, re.DOTALL):
        names = set(WIDENS.findall(block))
        for name in names:
            found[name] = re.findall(rf'\[{name}\] "([^"]*)"', block)
    return found


def constraints_in_macros(text: str, calls: str) -> dict[str, list[str]]:
    """The same for macros that take the instruction as an argument."""
    found: dict[str, list[str]] = {}
    for macro, taken, body in MACRO.findall(text):
        parameters = taken.split(", ")
        for call in re.findall(rf"^{macro}\((.*?)\)$", calls, re.MULTILINE | re.DOTALL):
            arguments = ARGUMENT.findall(call)
            if len(arguments) != len(parameters):  # of another definition
                continue
            given = dict(zip(parameters, arguments, strict=True))
            for parameter in (p for p, a in given.items() if WIDENING.fullmatch(a)):
                for name in re.findall(rf'\b{parameter} " q\d, \[%\[(\w+)\]', body):
                    said = re.findall(rf'\[{name}\] ("[^"]*"|\w+)\(', body)
                    found[f"{macro} {name}"] = [given.get(one, one) for one in said]
    return found


@pytest.mark.parametrize("header", HEADERS, ids=lambda h: h.name)
def test_loads_that_widen_have_a_low_base(header: Path) -> None:
    text, calls = header.read_text(), "".join(h.read_text() for h in HEADERS)
    for name, given in (constraints(text) | constraints_in_macros(text, calls)).items():
        assert given, name
        assert all("l" in one for one in given), (name, given)


def test_instructions_of_macros_are_found() -> None:
    text = """#define MLF_MOVE_(name, load, reach) \\
  void name(void) { \\
    __asm__(load " q0, [%[from]], #8" : [from] reach(from)); \\
  }
MLF_MOVE_(narrow, "vldrb.8", "+&r")
MLF_MOVE_(wide, "vldrb.u16", "+&r")
"""
    assert constraints_in_macros(text, text) == {"MLF_MOVE_ from": ['"+&r"']}


def statements(text: str) -> list[str]:
    """Each assembly statement up to the parenthesis that ends it."""
    found = []
    for start in re.finditer(r"__asm__\s*(?:volatile)?\s*\(", text):
        rest = re.sub(r'"(?:[^"\\]|\\.)*"', lambda s: s[0].translate(UNPAIRED), text[start.end() :])
        depth, end = 1, 0
        while depth:
            depth += (rest[end] == "(") - (rest[end] == ")")
            end += 1
        found.append(start[0] + rest[:end])
    return found


@pytest.mark.parametrize("header", sorted(MLF.glob("*.h")), ids=lambda h: h.name)
def test_assembly_with_memory_is_volatile(header: Path) -> None:
    reading = [s for s in statements(header.read_text()) if '"memory"' in s]
    assert [s for s in reading if not s.startswith("__asm__ volatile(")] == []


@pytest.mark.parametrize("level", ["-O0", "-O2", "-O3", "-Os"])
def test_products_compile_out_of_line(level: str, tmp_path: Path) -> None:
    """Each alone: the compiler chooses registers as it likes."""
    text = "".join(f'#include "mlf/{h.name}"\n' for h in HEADERS)
    (tmp_path / "a.c").write_text(text)
    flags = ["-std=c99", *TARGETS["cortex-m55"].cflags, level, f"-I{REPO}/crt/include"]
    gcc = [*find(ARM_GCC), *flags, "a.c"]
    # What else the headers have is for other processors.
    seen = subprocess.run([*gcc, "-E", "-P"], cwd=tmp_path, capture_output=True, text=True)
    found = {s[1]: s for s in SIGNATURE.findall(seen.stdout)}
    assert len(found) >= 4, len(found)
    for result, name, taken in found.values():
        words = [word.strip().rpartition(" ")[2].lstrip("*") for word in taken.split(",")]
        text += f"{result} out_of_line_{name}({taken}) {{ return {name}({', '.join(words)}); }}\n"
    (tmp_path / "a.c").write_text(text)
    done = subprocess.run([*gcc, "-c"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# Read to the end, and never equal to what an operand begins with: where a loop of at least one turn
# stops, and a mask. A register more for each operand is more than a Cortex-M4 has.
APART = re.compile(r'\[(?:end|mask)\] "[^"]*"\([^)]*\),?')
REGISTERS = re.compile(r'"(?:r|l|w|t|x|Te)"')
MARK = re.compile(r"__asm__\s*(?:volatile)?")
CHANGED = re.compile(r'"(\+[a-zA-Z]+)"')
SOURCES = [
    *sorted((REPO / "crt").rglob("*.[ch]")),
    *sorted((REPO / "mlftool").rglob("*.j2")),
]


def sections(statement: str) -> list[str]:
    """Text, outputs, inputs and clobbers, as far as they are there."""
    plain = re.sub(
        r'"(?:[^"\\]|\\.)*"', lambda s: s[0].translate(str.maketrans("()[]:", "     ")), statement
    )
    found, depth, start = [], 0, 0
    for at, character in enumerate(plain):
        depth += (character in "([") - (character in ")]")
        if character == ":" and depth == 1:
            found.append(statement[start:at])
            start = at + 1
    return [*found, statement[start:]]


def read_later(code: str, outputs: str, inputs: str) -> bool:
    """Whether a register that is only read is so after the first instruction, as far as macros
    let one see it."""
    has_macros = bool(re.search(r"[A-Z_a-z]", re.sub(r'"(?:[^"\\]|\\.)*"', "", MARK.sub("", code))))
    if has_macros or inputs.strip() == "read":
        return inputs.strip() == "read" or bool(REGISTERS.search(inputs))
    rest = code.partition(r"\n")[2]
    count = len(re.findall(r'"[=+][^"]*"', outputs))
    named = re.findall(r'(?:\[(\w+)\] )?"[^"]*"', inputs)
    given = re.findall(r'(?:\[\w+\] )?("[^"]*")', inputs)
    texts = [f"[{name}]" if name else f"%{count + k}" for k, name in enumerate(named)]
    return any(t in rest for t, g in zip(texts, given, strict=True) if REGISTERS.match(g))


def shared(text: str) -> list[str]:
    """Changed operands of a file's assembly that may share a register with one that is read
    later; those of macros that such statements have, too."""
    found = [c for line in re.findall(r"#define \w+\s*, \[.*", text) for c in CHANGED.findall(line)]
    for statement in statements(text):
        code, outputs, inputs = [*sections(statement), "", ""][:3]
        inputs = APART.sub("", inputs)
        if read_later(code, outputs, inputs):
            found += CHANGED.findall(outputs)
    return found


def test_changed_operands_are_told_apart() -> None:
    both = '__asm__("add %0, %1\\n\\tadd %0, %1" : "+r"(a) : "r"(b));'
    assert shared(both) == ["+r"]
    assert shared(both.replace("\\n\\tadd %0, %1", "\\n\\tadd %0, %0")) == []
    assert shared(both.replace("+r", "+&r")) == []
    assert shared(both.replace('"r"(b)', '[end] "r"(b)')) == []
    assert {path.name: found for path in SOURCES if (found := shared(path.read_text()))} == {}
