"""Every form of every executor gives the bits of the plainest one, from one archive in which all of
them share a system library; built by a client that has nothing but the archive."""

from __future__ import annotations

from pathlib import Path

import pytest
from forms import FORMS, MODELS, SANITIZE, run

I386 = ("-m32", "-msse2", "-mfpmath=sse")


@pytest.fixture(scope="module")
def on_host(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Under sanitizers, which see most without an optimiser and compile in a fifth of the time."""
    return run(list(MODELS), tmp_path_factory.mktemp("host"), ("-O0", *SANITIZE))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("model", MODELS)
def test_every_form_gives_the_same_bits(model: str, on_host: dict[str, bytes]) -> None:
    first, *others = FORMS
    assert len(set(on_host[f"{model}_{first}"])) > 1  # something was computed
    for form in others:
        assert on_host[f"{model}_{form}"] == on_host[f"{model}_{first}"], form


def test_an_optimiser_changes_no_bit(on_host: dict[str, bytes], tmp_path: Path) -> None:
    assert run(list(MODELS), tmp_path, ("-O1",)) == on_host


def test_the_same_on_32_bits(on_host: dict[str, bytes], tmp_path: Path) -> None:
    models = ["scratch", "views", "elementwise_s8"]
    for name, data in run(models, tmp_path, ("-O2", *I386)).items():
        assert data == on_host[name], name
