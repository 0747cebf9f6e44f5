"""Synthesised sensor recordings: motor vibration spectra and hand-motion windows.

The recordings that a product team owns cannot be redistributed, so two of the examples learn from
signals computed here. Each generator takes its own seed and returns the same arrays everywhere.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Rng = np.random.Generator

# --- vibration: an accelerometer on the housing of a motor with a rolling-element bearing -------

VIBRATION_RATE_HZ = 4096
VIBRATION_WINDOW = 2048  # half a second
BANDS = 64  # features per window: 32 Hz each, from 0 to 2048 Hz
# Passing frequencies of the balls over the two races, as multiples of the shaft speed, for a
# bearing with 9 balls whose diameter is 0.2 of the pitch diameter: 9 / 2 * (1 -+ 0.2).
OUTER_RACE, INNER_RACE = 3.6, 5.4
RESONANCES_HZ = (620.0, 1330.0, 1710.0)  # of the housing; impacts make these ring


def _healthy(rng: Rng, t: NDArray[np.float64], shaft_hz: float) -> NDArray[np.float64]:
    """Acceleration in g of a sound motor: shaft harmonics, mains hum, noise of the housing."""
    load = rng.uniform(0.7, 1.3)
    signal = np.zeros_like(t)
    for order, amplitude in ((1, 0.10), (2, 0.05), (3, 0.03), (4, 0.015), (8, 0.01)):
        level = amplitude * load * rng.lognormal(0.0, 0.25)
        signal += level * np.sin(2 * np.pi * (order * shaft_hz * t + rng.uniform()))
    for hum_hz, amplitude in ((100.0, 0.03), (200.0, 0.015), (300.0, 0.008)):
        level = amplitude * rng.lognormal(0.0, 0.2)
        signal += level * np.sin(2 * np.pi * (hum_hz * t + rng.uniform()))
    spectrum = np.fft.rfft(rng.normal(0.0, 0.02 * load, t.size))
    hz = np.fft.rfftfreq(t.size, 1 / VIBRATION_RATE_HZ)
    gain = 0.3 + sum(1.2 / (1 + ((hz - centre) / 90.0) ** 2) for centre in RESONANCES_HZ)
    return signal + np.fft.irfft(spectrum * gain, t.size)


def _impacts(rng: Rng, t: NDArray[np.float64], shaft_hz: float) -> NDArray[np.float64]:
    """Acceleration in g that a pitted race adds: one decaying ring per ball that passes the pit."""
    inner = rng.uniform() < 0.5
    rate_hz = shaft_hz * (INNER_RACE if inner else OUTER_RACE)
    ring_hz = rng.choice(RESONANCES_HZ) * rng.uniform(0.97, 1.03)
    severity = rng.uniform(0.01, 0.12)  # g: from a first pit to a loud one
    signal = np.zeros_like(t)
    start = rng.uniform(0, 1 / rate_hz)
    while start < t[-1]:
        age = t - start
        # A pit on the inner race turns with the shaft, so the load on it comes and goes.
        load = 1 + 0.7 * np.cos(2 * np.pi * shaft_hz * start) if inner else 1.0
        ring = np.exp(-np.maximum(age, 0) * 350.0) * np.sin(2 * np.pi * ring_hz * age)
        signal += np.where(age > 0, severity * load * ring, 0.0)
        start += (1 + rng.normal(0, 0.01)) / rate_hz  # balls slip by about one percent
    return signal


def band_levels(window: NDArray[np.float64]) -> Floats:
    """log2 of the RMS acceleration per band in mg, [BANDS]: what the device computes by one FFT."""
    spectrum = np.abs(np.fft.rfft(window * np.hanning(window.size)))[: window.size // 2]
    power = (spectrum**2).reshape(BANDS, -1).sum(axis=1) / (window.size * 0.375) / window.size * 2
    return np.log2(1000.0 * np.sqrt(power) + 1e-3).astype(np.float32)


def vibration(seed: int, healthy: int, faulty: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Band levels [healthy + faulty, BANDS], shuffled, and which come from a bad bearing."""
    rng = np.random.default_rng(seed)
    t = np.arange(VIBRATION_WINDOW) / VIBRATION_RATE_HZ
    broken = rng.permutation(np.arange(healthy + faulty) >= healthy)
    windows = []
    for bad in broken:
        shaft_hz = rng.uniform(23.5, 25.0)
        signal = _healthy(rng, t, shaft_hz)
        windows.append(band_levels(signal + _impacts(rng, t, shaft_hz) if bad else signal))
    return np.stack(windows), broken


# --- gesture: a three-axis accelerometer in a wand or on the wrist ------------------------------

GESTURE_RATE_HZ = 50
GESTURE_WINDOW = 128  # 2.56 seconds
GESTURES = ("rest", "circle", "shake", "flick", "figure-eight")


def _motion(rng: Rng, gesture: str, t: NDArray[np.float64]) -> NDArray[np.float64]:
    """Acceleration [3, time] in g in the hand's own frame, without gravity."""
    x, y, z = np.zeros((3, t.size))
    turn = 2 * np.pi * (rng.uniform(0.8, 1.5) * t + rng.uniform())
    size = rng.uniform(0.5, 1.1)
    if gesture == "circle":
        x, y = size * np.cos(turn), size * rng.uniform(0.7, 1.3) * np.sin(turn)
    elif gesture == "shake":
        x = size * 1.6 * np.sin(turn * rng.uniform(2.6, 3.6))
        y = 0.2 * x + 0.1 * np.sin(turn)
    elif gesture == "flick":  # once: out, back and a short ringing of the wrist
        age = t - rng.uniform(0.4, 1.8)
        stroke = -age * np.exp(-((age / rng.uniform(0.06, 0.1)) ** 2)) * 28 * size
        z, x = stroke, 0.3 * stroke * rng.uniform(-1, 1)
    elif gesture == "figure-eight":  # y runs at twice the rate of x, so acceleration is 4 to 1
        x, y = size * 0.6 * np.cos(turn), size * 1.2 * np.sin(2 * turn)
    return np.stack([x, y, z])


def _rotation(rng: Rng, spread: float) -> NDArray[np.float64]:
    """A rotation by about `spread` radians around a random axis: devices are held differently."""
    axis = rng.normal(size=3)
    x, y, z = axis / np.linalg.norm(axis)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    angle = rng.normal(0, spread)
    return np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross


def gestures(seed: int, count: int) -> tuple[Floats, NDArray[np.int64]]:
    """Windows [count, 3, GESTURE_WINDOW] in g, clipped at 4 g, and the class of each."""
    rng = np.random.default_rng(seed)
    t = np.arange(GESTURE_WINDOW) / GESTURE_RATE_HZ
    labels = rng.integers(0, len(GESTURES), count)
    windows = []
    for label in labels:
        sway = 0.12 * np.sin(2 * np.pi * (rng.uniform(0.2, 0.9) * t + rng.uniform(size=(3, 1))))
        motion = _motion(rng, GESTURES[label], t) + sway + np.array([[0.0], [0.0], [1.0]])
        sensed = _rotation(rng, 0.35) @ motion + rng.normal(0, 0.08, (3, t.size))
        windows.append(np.clip(sensed, -4.0, 3.96875))
    return np.stack(windows).astype(np.float32), labels
