"""Frozen classes are what `dataclass(frozen=True)` gives, without a method compiled for each."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, asdict, dataclass, fields, is_dataclass
from typing import Any

import pytest

from mlftool.frozen import field, frozen, replace

DEFAULTS = {"b": "x", "d": False}


def both(**members: Any) -> tuple[type[Any], type[Any]]:
    """The same class, frozen by each of the two."""
    annotations = {"a": "int", "b": "str", "c": "dict[str, int]", "d": "bool"}
    more = {
        "__annotations__": annotations,
        "__module__": __name__,
        "__doc__": "A class.",
        **members,
    }
    body = {"c": field(default_factory=dict, compare=False), **DEFAULTS, **more}
    return frozen(type("Made", (), dict(body))), dataclass(frozen=True)(
        type("Made", (), dict(body))
    )


@frozen
class Base:
    first: int
    second: int = 2

    @property
    def sum(self) -> int:
        return self.first + self.second


@frozen
class Derived(Base):
    third: tuple[int, ...] = ()


@frozen(kw_only=True, repr=False)
class ByName:
    given: int
    other: int = 1


@frozen
class Empty:
    pass


CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((1,), {}),
    ((1, "y", {"k": 1}, True), {}),
    ((), {"d": True, "a": 3}),
    ((1,), {"c": {"other": 2}}),
]


@pytest.mark.parametrize(("args", "named"), CALLS)
def test_instances_are_those_of_dataclasses(args: Any, named: Any) -> None:
    ours, theirs = both()
    one, other = ours(*args, **named), theirs(*args, **named)
    assert vars(one) == vars(other)
    assert asdict(one) == asdict(other)
    assert repr(one) == repr(other)
    assert vars(replace(one, a=7)) == vars(replace(other, a=7))
    assert [f.name for f in fields(one)] == [f.name for f in fields(other)]
    assert is_dataclass(one)
    assert ours.__match_args__ == theirs.__match_args__


@pytest.mark.parametrize("args", [(), (1, 2, 3, 4, 5)])
def test_wrong_calls_are_type_errors(args: Any) -> None:
    for made in both():
        with pytest.raises(TypeError):
            made(*args)
        with pytest.raises(TypeError):
            made(1, unknown=2)


def test_equality_and_hash_are_of_the_compared_fields_of_one_class() -> None:
    for made in both():
        assert made(1, c={"k": 1}) == made(1) != made(2)
        assert hash(made(1, c={"k": 1})) == hash(made(1))
    assert Base(1) == Base(1, 2)
    assert Base(1) != Derived(1)
    assert Derived(1) != Base(1)
    assert Empty() == Empty()
    assert len({Empty(), Empty(), Base(1), Derived(1)}) == 3


def test_nothing_can_be_changed() -> None:
    for instance in (Base(1), Derived(1), Empty()):
        with pytest.raises(FrozenInstanceError):
            instance.first = 3  # type: ignore[misc, union-attr]
        with pytest.raises(FrozenInstanceError):
            del instance.first  # type: ignore[misc, union-attr]


def test_bases_and_keywords() -> None:
    assert vars(Derived(1, third=(3,))) == {"first": 1, "second": 2, "third": (3,)}
    assert Derived(4).sum == 6
    assert ByName(given=2).other == 1
    assert repr(ByName(given=2)).startswith("<")
    with pytest.raises(TypeError):
        ByName(2)  # type: ignore[misc]


def test_methods_of_the_class_come_first() -> None:
    own = {"__eq__": lambda a, b: True, "__repr__": lambda a: "own"}
    ours, theirs = both(**own)
    assert ours(1) == ours(2)
    assert repr(ours(1)) == repr(theirs(1)) == "own"
    assert hash(ours(1)) == hash(ours(1))
    counted: list[int] = []
    ours, theirs = both(__post_init__=lambda self: counted.append(self.a))
    ours(3), theirs(3)
    assert counted == [3, 3]


def test_instances_are_pickled_and_may_contain_themselves() -> None:
    assert pickle.loads(pickle.dumps(Derived(1, 2, (3,)))) == Derived(1, 2, (3,))
    held: dict[str, Any] = {}
    ours, _theirs = both()
    held["own"] = ours(1, c=held)
    assert repr(held["own"]) == "Made(a=1, b='x', c={'own': ...}, d=False)"


def test_a_derived_class_has_attributes_of_its_own() -> None:
    class Plain(Base):
        def __init__(self) -> None:
            super().__init__(1)
            self.more = 3

    plain = Plain()
    plain.more = 4
    assert (plain.sum, plain.more) == (3, 4)
    del plain.more
    for change in (lambda: setattr(plain, "first", 2), lambda: delattr(plain, "first")):
        with pytest.raises(FrozenInstanceError, match="first"):
            change()
    with pytest.raises(FrozenInstanceError, match="third"):
        Derived(1).third = (1,)  # type: ignore[misc]
