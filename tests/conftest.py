"""--update-golden writes the golden C files anew; read the difference before you commit it."""

from collections.abc import Callable

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/codegen/golden")


@pytest.fixture(scope="module")
def selected(request: pytest.FixtureRequest) -> Callable[[str], bool]:
    """Whether a case of this file, by its name, is needed by the tests that were chosen.

    Files compile all their cases as one program; with `-k` only those that somebody looks at.
    """
    names: set[str] = set()
    for item in request.session.items:
        if item.path != request.path or "selected" not in getattr(item, "fixturenames", ()):
            continue
        call = getattr(item, "callspec", None)
        if call is None:  # a test of no case in particular may look at any
            return lambda _: True
        names.update(getattr(v, "name", v) for v in call.params.values() if _is_name(v))
    return names.__contains__


def _is_name(value: object) -> bool:
    return isinstance(getattr(value, "name", value), str)
