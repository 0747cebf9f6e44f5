"""Whether every access of a kernel is inside its operand: the kernel's C, run on unknown numbers.

Variables are sums of products of unknowns (affine.py). A loop is run once with the number of its
turn unknown: what changes by the same amount in each turn is a multiple of it. What tensors hold is
not known, so neither is an index that is read from one, except that it has its type and what the
code compares it with. Nothing here is a guess: what is not shown raises UnprovenError.

Helpers of mlf/*.h that take no address are taken at their word; those that do are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlftool.frozen import replace
from mlftool.proof.affine import Sum
from mlftool.proof.ctree import Definition, Expr, Member, Stmt, Type, Variable
from mlftool.proof.cvalues import Find
from mlftool.proof.loops import Loops
from mlftool.proof.unknowns import (
    Memory,
    Pointer,
    Record,
    UnprovenError,
    Value,
    must_part,
    pointed,
)

__all__ = ["Memory", "UnprovenError", "prove"]
_TRUTHS = ("&&", "||", "==", "!=", "<", "<=", ">", ">=")


def prove(kernel: Definition, given: Sequence[Memory], find: Find) -> None:
    """That the kernel leaves none of its parameters' memories, nor its own arrays. `find` has the
    helpers by name. Raises UnprovenError."""
    if len(kernel.parameters) != len(given):
        raise UnprovenError(f"{kernel.name} has {len(kernel.parameters)} parameters")
    run = _Run(find)
    for parameter, memory in zip(kernel.parameters, given, strict=True):
        if parameter.type.stars != 1:
            raise UnprovenError(f"'{parameter.name}' is not an address")
        name = parameter.name if memory.same is None else kernel.parameters[memory.same].name
        run.memories.setdefault(name, memory)
        if run.memories[name].size_bytes != memory.size_bytes:
            raise UnprovenError(f"'{parameter.name}' has another size than '{name}'")
        pointer = Pointer(name, Sum.of(0), pointed(parameter.type))
        run.declare(parameter.name, parameter.type, pointer)
    try:
        run.block(kernel.body)
    except (ValueError, KeyError, RecursionError) as error:
        raise UnprovenError(f"{type(error).__name__} {error}") from error


class _Run(Loops):
    """A function from its start to its end."""

    # Statements. Each returns whether what follows it is never reached.

    def block(self, body: Sequence[Stmt]) -> bool:
        names = [v.name for s in body for v in s.variables]
        outer = {n: (self.values.get(n), self.types.get(n)) for n in names}
        ended = any(self._statement(one) for one in body)
        for name, (value, type_) in outer.items():
            if type_ is None:
                self.values.pop(name, None)
                self.types.pop(name, None)
            else:
                self.values[name], self.types[name] = value, type_
        return ended

    def _statement(self, one: Stmt) -> bool:
        if one.kind == "declare":
            for variable in one.variables:
                self._declared(variable)
        elif one.kind == "do":
            assert one.exprs[0] is not None
            self.value(one.exprs[0])
        elif one.kind == "block":
            return self.block(one.body)
        elif one.kind == "if":
            return self._if(one)
        elif one.kind in ("for", "while"):
            self._loop(one)
        elif one.kind == "again":  # once, and then while
            self.left.append(False)
            self.block(one.body)
            if self.left.pop():
                raise UnprovenError("a loop is left before its condition")
            condition = one.exprs[0]
            if condition is None or condition != Expr("number", "0"):
                self._loop(replace(one, kind="while"))
        elif one.kind == "return":
            self.returned.append(self.value(one.exprs[0]) if one.exprs[0] else None)
            self.left = [True] * len(self.left)
            return True
        elif one.kind == "leave":
            self.left[-1] = True
            return True
        return False

    def _declared(self, variable: Variable) -> None:
        if variable.extent is not None:
            memory = f"{variable.name} of {len(self.memories)}"
            self.memories[memory] = Memory(variable.extent * variable.type.bytes)
            made = Pointer(memory, Sum.of(0), variable.type)
            self.types[variable.name], self.values[variable.name] = variable.type, made
            if variable.value:
                self.value(variable.value)
        else:
            value = self._initial(variable)
            self.declare(variable.name, variable.type, value)
            if variable.value and _is_truth(variable):
                says = [tuple(self.says(variable.value, truth)) for truth in (True, False)]
                self.truths[variable.name] = says[0], says[1]

    def _initial(self, variable: Variable) -> Value:
        value, type_ = variable.value, variable.type
        if value is None:
            return None
        if value.kind == "list" and type_.members and not type_.stars:
            return Record(dict(self._fields(value, type_.members)))
        return self.value(value)

    def _fields(self, given: Expr, members: Sequence[Member]) -> Iterator[tuple[str, Value]]:
        for member, part in zip(members, given.parts, strict=False):
            if part.kind != "list":
                yield member.name, self.value(part)
            elif member.extent is not None:
                for k, one in enumerate(part.parts):
                    yield f"{member.name}.{k}", self.value(one)

    def _if(self, one: Stmt) -> bool:
        condition = one.exprs[0]
        assert condition is not None
        self.value(condition)
        before, known = dict(self.values), self.known
        ends, states = [], []
        for truth, body in ((True, one.body), (False, one.other)):
            says = self.says(condition, truth)
            if any(known.most(s) < 0 for s in says):  # never
                ends.append(True)
                states.append((before, known))
                continue
            self.values = dict(before)
            self.known = known.also(says)
            ends.append(self.block(body))
            states.append((self.values, self.known))
            self.known = known
        if all(ends):
            return True
        if any(ends):  # what is known of the other branch goes on being so
            self.values, self.known = states[ends.index(False)]
            return False
        (one_, k1), (two, k2) = states
        self.known = known
        apart = any(must_part(v, two.get(n)) for n, v in one_.items())
        number = self.split(k1, k2) if apart else None
        self.values = {n: self.joined(one_[n], k1, two.get(n), k2, number) for n in one_}
        return False


def _is_truth(variable: Variable) -> bool:
    """Whether it has what a comparison says."""
    value = variable.value
    if variable.type == Type("bool") or not variable.type.is_integer or value is None:
        return variable.type == Type("bool")
    return value.kind == "binary" and value.text in _TRUTHS
