"""The firmware example: its samples are current and its alarm threshold does what it says."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "two_models"


@pytest.fixture(name="make_samples")
def fixture_make_samples() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_samples", FOLDER / "make_samples.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_samples_are_what_their_script_writes(make_samples: ModuleType) -> None:
    assert (FOLDER / "samples.h").read_text() == make_samples.samples_h()


def test_alarm_finds_worn_bearings_and_spares_sound_ones(make_samples: ModuleType) -> None:
    (alarm,) = re.findall(r"kAlarm = (\d+)", (FOLDER / "main.c").read_text())
    vectors = make_samples.vectors("vibration_int8")
    difference = vectors["levels"].astype(np.int32) - vectors["reconstruction"]
    alarming = (difference**2).sum(axis=(1, 2)) > int(alarm)
    # As stated in training/README.md.
    assert alarming[vectors["faulty"]].mean() >= 0.93
    assert alarming[~vectors["faulty"]].mean() <= 0.01
