"""The types of a whole function: each call by its operator, the result by what it says."""

from __future__ import annotations

from typing import Any

from relay_parser import Block, Call, Function, If, Item, Lambda, Literal, Tensor, TupleOf, Var
from relay_types import KINDS, OPERATORS, want


class Types:
    """The types of a function's values, in order."""

    def __init__(self, known: dict[str, Any]) -> None:
        self.known = dict(known)

    def block(self, block: Block) -> Any:
        for name, declared, expression in block.bindings:
            want(name not in self.known, f"{name} is bound twice")
            if declared is not None:
                self.dialect(expression)
            self.known[name] = self.of(expression) if declared is None else declared
        return self.of(block.result)

    def dialect(self, call: Any) -> None:
        want(isinstance(call, Call) and call.op.startswith("onnx."), "let binds dialect calls only")
        for argument in call.args:
            if isinstance(argument, Lambda):
                inner = Types(self.known)
                inner.known |= dict(argument.params)
                made = inner.block(argument.body)
                want(made == argument.returns, f"declared {argument.returns}, got {made}")
            else:
                self.of(argument)

    def of(self, e: Any) -> Any:
        if isinstance(e, Var):
            want(e.name in self.known, f"{e.name} is not defined")
            return self.known[e.name]
        if isinstance(e, Literal):
            return e.type
        if isinstance(e, TupleOf):
            return tuple(map(self.of, e.parts))
        if isinstance(e, Item):
            whole = self.of(e.value)
            want(isinstance(whole, tuple) and e.index < len(whole), f"no item {e.index} of {whole}")
            return whole[e.index]
        if isinstance(e, If):
            want(self.of(e.condition) == Tensor("bool", ()), "a condition is a scalar bool")
            then, other = (Types(self.known).block(b) for b in (e.then, e.other))
            want(then == other, f"branches of two types: {then} and {other}")
            return then
        return self.call(e)

    def call(self, e: Call) -> Any:
        want(e.op in OPERATORS, f"Relay has no operator {e.op}")
        count, known, required, infer = OPERATORS[e.op]
        want(len(e.args) == count, f"{e.op} takes {count} arguments, got {len(e.args)}")
        for key, value in e.attrs.items():
            want(key in known, f"{e.op} has no attribute {key}")
            want(KINDS[known[key]](value), f"{e.op}: {key} is {value!r}, expected {known[key]}")
        want(required <= set(e.attrs), f"{e.op} lacks {required - set(e.attrs)}")
        return infer([self.of(a) for a in e.args], e.attrs)


def check(function: Function) -> None:
    """Raises RelayError if a call does not fit its operator or the result its declared type."""
    names = [name for name, _ in function.params]
    want(len(set(names)) == len(names), "two parameters have one name")
    made = Types(dict(function.params)).block(function.body)
    want(made == function.returns, f"declared {function.returns}, got {made}")
