"""SVG files, written so that the same picture is the same bytes: no clock, no identifiers, numbers
with one digit. They need no script, no font and no network, and follow a dark mode."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from mlftool.errors import one_line

# Colours that differ for people with any colour vision, after Okabe and Ito.
COLOURS = ("#56b4e9", "#e69f00", "#009e73", "#f0e442", "#cc79a7", "#0072b2", "#d55e00", "#999999")

_STYLE = """
text { font: 12px sans-serif; fill: #222 } .small { font-size: 10px } .title { font-size: 15px }
.paper { fill: #fff } .line { stroke: #999; stroke-width: 1 } .edge { stroke: #222 }
.mark { fill: #d00; fill-opacity: .12 } .in { fill: #000 } .block { fill-opacity: .8 }
@media screen and (prefers-color-scheme: dark) {
  text { fill: #ddd } .paper { fill: #181818 } .edge { stroke: #ddd } .in { fill: #000 }
  .mark { fill: #fff; fill-opacity: .25 } .block { fill-opacity: 1 }
}
"""


def number(value: float) -> str:
    """With at most one digit after the point."""
    return f"{value:.1f}".removesuffix(".0")


def element(tag: str, text: str = "", inside: Sequence[str] = (), **attributes: object) -> str:
    """One element; an attribute `kind` is its class, and `_` in names stands for `-`."""
    words = []
    for name, value in attributes.items():
        shown = number(value) if isinstance(value, (int, float)) else one_line(str(value))
        key = "class" if name == "kind" else name.replace("_", "-")
        words.append(f" {key}={quoteattr(shown)}")
    content = escape(one_line(text)) + "".join(inside)
    return f"<{tag}{''.join(words)}>{content}</{tag}>" if content else f"<{tag}{''.join(words)}/>"


def picture(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    """A whole file; `title` is what screen readers say."""
    w, h = number(width), number(height)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" height="{h}"'
    head += ' role="img">'
    paper = element("rect", kind="paper", width=width, height=height)
    body = "\n".join([element("title", title), f"<style>{_STYLE}</style>", paper, *parts])
    return f"{head}\n{body}\n</svg>\n"


def shortened(text: str, width: float, size: float = 12) -> str:
    """As much of a text as fits into so many pixels; "" if that is next to nothing."""
    most = int(width / (0.6 * size))
    if len(text) <= most:
        return text
    return text[: most - 1] + "…" if most > 3 else ""


def ending(path: str, width: float, size: float = 12) -> str:
    """The same of a name whose end tells most: exporters put the module's path in front."""
    most = int(width / (0.6 * size))
    if len(path) <= most:
        return path
    return "…" + path[len(path) - most + 1 :] if most > 3 else ""
