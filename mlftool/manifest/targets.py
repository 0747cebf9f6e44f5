"""What a manifest says of a model's Bazel targets; `mlftool build` does not read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlftool.frozen import frozen
from mlftool.manifest.kinds import BAD, OneOf, Reading, Text
from mlftool.manifest.nodes import Node
from mlftool.manifest.records import ListOf, MapOf, key

_TAG = Text("a tag without spaces, such as nightly or cpu:2", r"[\w@.][\w@.:=/+-]{0,99}")
_PROPERTY = Text("the name of a property, such as OSFamily", r"[\w.][\w.:/-]{0,99}")
_VALUE = Text("text", r"[^\x00-\x1f]*")
_LIBRARY = Text(
    "the label of a cc_library, such as //npu:driver or @cmsis_nn//:library",
    r"(@[\w.+~-]*)?//[\w./+=,@~-]*(:[\w./+=,@~-]+)?",
)
_LABEL = Text(
    "a package or package group, such as //app:__pkg__, //visibility:public or @other//:friends",
    r"(@[\w.+~-]*)?//[\w./+=,@~-]*:[\w./+=,@~-]+",
)


@frozen
class _Visibility(ListOf):
    """A list of labels; Bazel takes `//visibility:public` and `//visibility:private` alone."""

    def read(self, node: Node, path: str, reading: Reading) -> Any:
        values = super().read(node, path, reading)
        if values is BAD or len(values) == 1:
            return values
        for i, label in enumerate(values):
            if label.startswith("//visibility:"):
                place = f"{path}[{i}]"
                message = f"not alone; got '{label}', expected it alone"
                reading.report("MLF0109", reading.places[place], message, path=place)
        return values


# As Bazel has them.
SIZES = ("small", "medium", "large", "enormous")
TIMEOUTS = ("short", "moderate", "long", "eternal")


@frozen(kw_only=True)
class ForBazel:
    """Keys that do not change an archive: where and for whom a model is built and tested."""

    tags: tuple[str, ...] = key(
        ListOf(_TAG, "a list of tags", 1, unique=True),
        "For Bazel: tags of all targets of the model, such as `manual`, `no-remote` or your own.",
        example="[nightly]",
        default=(),
        default_text="none",
        compiled=False,
    )
    size: str = key(
        OneOf("a size of tests", lambda: SIZES, "MLF0109"),
        "For Bazel: the size of the model's tests.",
        example="large",
        default="",
        default_text="`small` on the host, `medium` on a board",
        compiled=False,
    )
    timeout: str = key(
        OneOf("a timeout of tests", lambda: TIMEOUTS, "MLF0109"),
        "For Bazel: how long the model's tests may take.",
        example="long",
        default="",
        default_text="the timeout of the size",
        compiled=False,
    )
    exec_properties: Mapping[str, str] = key(
        MapOf(_PROPERTY, _VALUE, "a mapping from properties to text"),
        "For Bazel: properties of the remote machine that builds or tests the model.",
        example="{Pool: large}",
        default={},
        default_text="none",
        compiled=False,
    )
    backend_deps: tuple[str, ...] = key(
        ListOf(_LIBRARY, "a list of labels", 1, unique=True),
        "For Bazel: libraries for the code of `backends`.",
        example="[//npu:driver]",
        default=(),
        default_text="none",
        compiled=False,
    )
    visibility: tuple[str, ...] = key(
        _Visibility(_LABEL, "a list of packages and package groups", 1, unique=True),
        "For Bazel: who may use the model's targets.",
        example="[//app:__subpackages__]",
        default=(),
        default_text="`//visibility:public`",
        compiled=False,
    )
