"""`@frozen`: dataclasses that cannot be changed, defined in a fifth of the time.

`dataclass(frozen=True)` compiles the source of six methods for each class. A compiler imports two
hundred such classes, which was a fifth of its time for a small model. Here a class shares its
methods with all others; only `__init__`, which knows the fields by name, is compiled, and only
when the first instance is made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields, replace
from operator import attrgetter
from reprlib import recursive_repr
from typing import Any, TypeVar, dataclass_transform, overload

__all__ = ["field", "frozen", "replace"]  # two of them as dataclasses has them

T = TypeVar("T")


@overload
def frozen(cls: type[T], /) -> type[T]: ...
@overload
def frozen(*, kw_only: bool = False, repr: bool = True) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(
    cls: type[Any] | None = None, /, *, kw_only: bool = False, repr: bool = True
) -> type[Any] | Callable[[type[Any]], type[Any]]:
    """As `dataclass(frozen=True)`, for `fields`, `replace` and `asdict` too.

    Every field is a parameter of `__init__`; a base that is a dataclass is frozen here, too."""
    if cls is None:
        return lambda cls: _frozen(cls, kw_only, repr)
    return _frozen(cls, kw_only, repr)


def _frozen(cls: type[Any], kw_only: bool, has_repr: bool) -> type[Any]:
    own = dict(vars(cls))
    cls.__doc__ = cls.__doc__ or cls.__name__  # dataclass would make one of a signature
    cls = dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
    values = _values([f.name for f in fields(cls) if f.compare])

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        cls.__init__ = _init(cls)
        cls.__init__(self, *args, **kwargs)

    def equals(self: Any, other: object) -> Any:
        same = other.__class__ is self.__class__
        return values(self) == values(other) if same else NotImplemented

    def hashed(self: Any) -> int:
        return hash(values(self))

    def check(self: Any, name: str) -> None:
        # A class derived from this one, which need not be frozen, has attributes of its own.
        if self.__class__ is cls or name in cls.__dataclass_fields__:
            raise FrozenInstanceError(f"cannot change field {name!r}")

    def assign(self: Any, name: str, value: object) -> None:
        check(self, name)
        super(cls, self).__setattr__(name, value)

    def delete(self: Any, name: str) -> None:
        check(self, name)
        super(cls, self).__delattr__(name)

    methods: dict[str, Callable[..., Any]] = {
        **{"__init__": init, "__eq__": equals, "__hash__": hashed, "__repr__": _repr},
        **{"__setattr__": assign, "__delattr__": delete},
    }
    for name, method in methods.items():
        # Python gives None to a class that has its own __eq__.
        if own.get(name) is None and (has_repr or name != "__repr__"):
            setattr(cls, name, method)
    return cls


def _values(names: list[str]) -> Callable[[Any], Any]:
    """What gives the values of these attributes, to be compared and hashed."""
    return attrgetter(*names) if names else lambda instance: ()


def _init(cls: type[Any]) -> Callable[..., None]:
    """The `__init__` that takes each field, sets it and calls `__post_init__`, if there is one."""
    names: dict[str, Any] = {"_set": object.__setattr__, "_missing": MISSING}
    given, by_name, body = ["self"], list[str](), list[str]()
    for f in fields(cls):
        value, parameter = f.name, f.name
        if f.default is not MISSING:
            names[f"_default_{f.name}"] = f.default
            parameter += f"=_default_{f.name}"
        elif f.default_factory is not MISSING:
            names[f"_make_{f.name}"] = f.default_factory
            parameter += "=_missing"
            value = f"_make_{f.name}() if {f.name} is _missing else {f.name}"
        (by_name if f.kw_only else given).append(parameter)
        body.append(f"_set(self, {f.name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    heading = ", ".join([*given, *(["*", *by_name] if by_name else [])])
    exec(f"def __init__({heading}):\n  " + "\n  ".join(body or ["pass"]), names)
    init: Callable[..., None] = names["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


@recursive_repr()
def _repr(self: Any) -> str:
    shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr)
    return f"{self.__class__.__qualname__}({shown})"
