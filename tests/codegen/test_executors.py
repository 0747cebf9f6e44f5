"""Every form of every executor gives the bits of the plainest one, from one archive in which all of
them share a system library; built by a client that has nothing but the archive."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from forms import FORMS, MODELS, SANITIZE, run

I386 = ("-m32", "-msse2", "-mfpmath=sse")
ON_32_BITS = ("scratch", "views", "elementwise_s8")
Selected = Callable[[str], bool]


@pytest.fixture(scope="module")
def on_host(selected: Selected, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Under sanitizers, which see most without an optimiser and compile in a fifth of the time."""
    models = [m for m in MODELS if selected(m)]
    return run(models, tmp_path_factory.mktemp("host"), ("-O0", *SANITIZE))


@pytest.fixture(scope="module")
def optimised(selected: Selected, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    models = [m for m in MODELS if selected(m)]
    return run(models, tmp_path_factory.mktemp("optimised"), ("-O1",))


@pytest.fixture(scope="module")
def on_32_bits(selected: Selected, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    models = [m for m in ON_32_BITS if selected(m)]
    return run(models, tmp_path_factory.mktemp("i386"), ("-O2", *I386))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("model", MODELS)
def test_every_form_gives_the_same_bits(model: str, on_host: dict[str, bytes]) -> None:
    first, *others = FORMS
    assert len(set(on_host[f"{model}_{first}"])) > 1  # something was computed
    for form in others:
        assert on_host[f"{model}_{form}"] == on_host[f"{model}_{first}"], form


@pytest.mark.parametrize("model", MODELS)
def test_an_optimiser_changes_no_bit(
    model: str, on_host: dict[str, bytes], optimised: dict[str, bytes]
) -> None:
    for form in FORMS:
        assert optimised[f"{model}_{form}"] == on_host[f"{model}_{form}"], form


@pytest.mark.parametrize("model", ON_32_BITS)
def test_the_same_on_32_bits(
    model: str, on_host: dict[str, bytes], on_32_bits: dict[str, bytes]
) -> None:
    for form in FORMS:
        assert on_32_bits[f"{model}_{form}"] == on_host[f"{model}_{form}"], form
