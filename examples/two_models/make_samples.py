"""Writes samples.h: a few of the held-back samples as C arrays, for firmware without files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).parent
COUNTER = (0, 2, 7, 4, 1, 9)  # what the counter of the pump shows
SOUND, WORN = 3, 3  # windows of each kind


def vectors(name: str) -> dict[str, NDArray[Any]]:
    with np.load(HERE.parent / "models" / f"{name}.npz") as file:
        return dict(file)


def array(name: str, rows: NDArray[Any]) -> str:
    """The definition of a two-dimensional constant array, a line of C per sixteen values."""
    flat = rows.reshape(len(rows), -1)
    text = f"static const int8_t {name}[{flat.shape[0]}][{flat.shape[1]}] = {{\n"
    for row in flat:
        lines = [", ".join(map(str, row[i : i + 16])) for i in range(0, len(row), 16)]
        text += "    {" + ",\n     ".join(lines) + "},\n"
    return text + "};\n"


def samples_h() -> str:
    """The text of samples.h."""
    digits, vibration = vectors("digits_int8"), vectors("vibration_int8")
    images = [np.flatnonzero(digits["labels"] == digit)[0] for digit in COUNTER]
    faulty = vibration["faulty"]
    windows = np.sort(np.r_[np.flatnonzero(~faulty)[:SOUND], np.flatnonzero(faulty)[:WORN]])
    worn = ", ".join(str(int(value)) for value in faulty[windows])
    return "\n".join(
        (
            "/* Written by make_samples.py from the held-back samples in examples/models. */",
            "#ifndef TWO_MODELS_SAMPLES_H_\n#define TWO_MODELS_SAMPLES_H_\n\n#include <stdint.h>\n",
            "/* clang-format off */\n",
            f"enum {{ kImages = {len(images)}, kWindows = {len(windows)} }};\n",
            "/* Pixels of 8x8 images, 0 (paper) to 16 (ink). */",
            array("images", digits["image"][images]),
            f'static const char shown[] = "{"".join(map(str, COUNTER))}";\n',
            "/* log2 of the acceleration in mg per frequency band, in sixteenths around 2. */",
            array("windows", vibration["levels"][windows]),
            f"static const uint8_t worn[kWindows] = {{{worn}}};\n",
            "/* clang-format on */\n",
            "#endif /* TWO_MODELS_SAMPLES_H_ */\n",
        )
    )


if __name__ == "__main__":
    partial = HERE / "samples.h.partial"
    partial.write_text(samples_h())
    os.replace(partial, HERE / "samples.h")
