"""The calls of bytecode, for programs without control flow, and of the C around the kernels.

The words are read from the archive's own file, and those in the C are compared with them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mlftool.mlf import bytecode
from mlftool.mlf.bytecode import CONSTANT, INPUT, OUTPUT, WORKSPACE
from mlftool.proof import layout
from mlftool.proof.csource import Argument, Call, Function, definitions, tokens
from mlftool.proof.layout import Access, Place, Step

_NUMBER = re.compile(r"(0x[0-9a-f]+|\d+)U?")


def function(words: Sequence[int], text: str, name: str, outside: Sequence[str]) -> Function:
    """The program as a function of `outside`, the inputs and outputs, and the workspace.

    Raises ValueError for control flow, and where C and bytecode differ.
    """
    called = [called for _, called in _functions(words, text)]
    inputs = len(_numbers(text, "static const uint32_t input_bytes[] = {"))
    calls: list[Call] = []
    at, counts = 1, [len(c.arguments) for c in called]
    if not words or words[0] != bytecode.MAGIC:
        raise ValueError("no bytecode of this version")
    while (step := bytecode.decode(words, at, counts)).name == "call":
        kernel, *given = step.operands
        places = [_place(word, outside, inputs) for word in given]
        calls.append(Call(called[kernel].symbol, tuple(places)))
        at = step.end
    if step.name != "halt" or step.end != len(words):
        raise ValueError(f"'{step.name}' at word {step.at}: only calls are read")
    return Function(name, (*outside, "workspace"), tuple(calls))


def steps(words: Sequence[int], text: str) -> Iterator[tuple[Step, Sequence[str]]]:
    """Each call of a program with or without control flow, its operands as long as the C says, and
    their names where they are constants. `mlf_vm_check` compares the lengths with the memory.

    Raises ValueError where C and bytecode differ.
    """
    functions = _functions(words, text)
    sizes = [_numbers(text, f"static const uint32_t {name}_bytes[] = {{") for name, _ in functions]
    table = re.findall(r"\w+", _between(text, "static const void *const constant_table[] = {"))
    counts, at = [len(c.arguments) for _, c in functions], 1
    while at < len(words):
        step = bytecode.decode(words, at, counts)
        at = step.end
        if step.name == "call":
            kernel, *given = step.operands
            places = [bytecode.split(word) for word in given]
            each = zip(places, sizes[kernel], strict=True)
            accesses = tuple(_access(space, number, size) for (space, number), size in each)
            names = [table[n] if space == CONSTANT else "" for space, n in places]
            yield Step(functions[kernel][1].symbol, accesses), names


def _access(space: int, number: int, size: int) -> Access:
    if space == CONSTANT:
        return Access(layout.CONSTANT, "", Place("", 0, size))
    memory, offset = ("workspace", number) if space == WORKSPACE else (f"{space} {number}", 0)
    return Access(layout.READ, "", Place(memory, offset, size))


def _functions(words: Sequence[int], text: str) -> Sequence[tuple[str, Call]]:
    """What the bytecode may call: the name of each function and its kernel. Raises ValueError."""
    if _numbers(text, "static const uint32_t code[] = {") != list(words):
        raise ValueError("the C has other bytecode than its file")
    wrappers = _wrappers(text)
    names = _names(text, "static const struct mlf_vm_function functions[]")
    return [(name, wrappers[name]) for name in names]


def _place(word: int, outside: Sequence[str], inputs: int) -> Argument:
    space, number = bytecode.split(word)
    if space == WORKSPACE:
        return Argument("workspace", number)
    if space == INPUT and number < inputs:
        return Argument(outside[number], None)
    if space == OUTPUT and inputs + number < len(outside):
        return Argument(outside[inputs + number], None)
    if space != CONSTANT:
        raise ValueError(f"word {word:#x} is not an address")
    return Argument(f"constant {number}", None)


def _wrappers(text: str) -> dict[str, Call]:
    """Each function that the interpreter calls: the kernel that it passes its list to, in order."""
    found = {}
    for head, body in definitions(text):
        if "void *const *a)" not in head:
            continue
        symbol, _, rest = body.strip().removeprefix("(void)a;").strip().partition("(")
        places = [int(n) for n in re.findall(r"\)a\[(\d+)\]", rest.partition(";")[0])]
        if places != list(range(len(places))):
            raise ValueError(f"{symbol} is given {places}")
        arguments = tuple(Argument("a", k) for k in places)
        found[list(tokens(head.partition("(")[0]))[-1]] = Call(symbol, arguments)
    return found


def _between(text: str, head: str) -> str:
    """What is in the braces of an array, without comments; "" if there is none."""
    _, found, rest = text.partition(head)
    return re.sub(r"/\*.*?\*/", "", rest.partition("};")[0]) if found else ""


def _numbers(text: str, head: str) -> list[int]:
    return [int(n, 0) for n in _NUMBER.findall(_between(text, head))]


def _names(text: str, head: str) -> list[str]:
    return re.findall(r"\{(call_\d+),", _between(text, head))
