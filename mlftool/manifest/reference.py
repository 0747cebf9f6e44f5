"""The key reference of `docs/manifest.md`, from the table of keys."""

from __future__ import annotations

from mlftool.manifest.keys import MANIFEST
from mlftool.manifest.kinds import Kind
from mlftool.manifest.records import Key, MapOf, Record, keys_of


def key_reference() -> str:
    """One heading and one table of keys for each kind of record, in Markdown."""
    return "\n".join(_sections(MANIFEST, ""))


def _sections(record: Record, path: str) -> list[str]:
    table = keys_of(record.cls)
    lines = [f"### {f'`{path}`' if path else 'Top level'}", ""]
    lines += ["| key | value | default | meaning |", "|---|---|---|---|"]
    lines += [_row(name, about) for name, (_, about) in table.items()] + [""]
    for name, (_, about) in table.items():
        inner, suffix = _record_in(about.kind)
        if inner:
            lines += _sections(inner, f"{path}.{name}{suffix}".lstrip("."))
    return lines


def _record_in(kind: Kind) -> tuple[Record | None, str]:
    if isinstance(kind, MapOf) and isinstance(kind.value, Record):
        return kind.value, ".<name>"
    return (kind if isinstance(kind, Record) else None), ""


def _row(name: str, about: Key) -> str:
    default = "**required**" if about.required else about.default_text or f"`{about.default}`"
    example = f" Example: `{about.example}`." if about.example else ""
    inner, _ = _record_in(about.kind)
    value = f"{inner.noun}, see below" if inner is about.kind else about.kind.expected
    return f"| `{name}` | {value} | {default} | {about.doc}{example} |"
