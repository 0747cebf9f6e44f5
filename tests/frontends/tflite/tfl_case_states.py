"""Layers with memory, signals and detections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from tfl_case_sums import bias_of, weights
from tfl_cases import Case, Rng, family, flex, ints, like, q
from tfl_writer import T


@family
def memories(rng: Rng) -> Iterator[Case]:
    for state_row in ("float32", "int8", "int16"):
        for batch, inputs, units, rank, memory in (
            (1, 5, 3, 1, 4),
            (2, 7, 2, 2, 3),
            (1, 3, 4, 2, 1),
        ):
            features = units * rank
            row = "float32" if state_row == "float32" else "int8"
            for fused in (0, 1):
                x = q(rng, (batch, inputs), row)
                wf = weights(rng, (features, inputs), row, 0, "tensor")
                if row == "float32":
                    wt = weights(rng, (features, memory), row, 0, "tensor")
                    bias = bias_of(rng, x, wf, units, "float32")
                    state = T("", (batch, features * memory), row, variable=True)
                else:
                    wt = T(
                        "",
                        (features, memory),
                        state_row,
                        0.011,
                        data=rng.integers(-120, 120, (features, memory)),
                    )
                    state = T("", (batch, features * memory), state_row, 0.03, 0, variable=True)
                    bias = T(
                        "", (units,), "int32", 0.03 * 0.011, data=rng.integers(-999, 999, units)
                    )
                yield Case(
                    "SVDF",
                    [x, wf, wt, bias, state],
                    [q(rng, (batch, units), row)],
                    "SVDFOptions",
                    {"Rank": rank, "FusedActivationFunction": fused},
                )
    for row in ("float32", "int8", "int16"):
        for major in (False, True):
            for batch, steps, inputs, hidden, clip in ((1, 3, 4, 5, 0.0), (2, 2, 3, 4, 1.5)):
                yield lstm(rng, row, major, batch, steps, inputs, hidden, clip)


def lstm(
    rng: Rng, row: str, major: bool, batch: int, steps: int, inputs: int, hidden: int, clip: float
) -> Case:
    x = q(rng, (steps, batch, inputs) if major else (batch, steps, inputs), row)
    ws = [weights(rng, (hidden, n), row, 0, "tensor") for n in [inputs] * 4 + [hidden] * 4]
    wide = {"float32": "float32", "int8": "int32", "int16": "int64"}[row]
    bs = [bias_of(rng, x, ws[0], hidden, wide) for _ in range(4)]
    if row == "float32":
        h = T("", (batch, hidden), row, variable=True)
        c = T("", (batch, hidden), row, variable=True)
    else:
        h = T("", (batch, hidden), row, 1 / 128 if row == "int8" else 2.0**-15, 0, variable=True)
        c = T("", (batch, hidden), "int16", 2.0**-11, 0, variable=True)
    y = like(h, (steps, batch, hidden) if major else (batch, steps, hidden))
    nothing = [None] * 3
    ins = [x, *ws, *nothing, *bs, None, None, h, c, *[None] * 4]
    options = {"FusedActivationFunction": 4, "CellClip": clip, "TimeMajor": major}
    return Case(
        "UNIDIRECTIONAL_SEQUENCE_LSTM", ins, [y], "UnidirectionalSequenceLSTMOptions", options
    )


def framer(shape: Sequence[int], size: int, step: int, prefill: bool) -> Case:
    count = shape[-1] // step
    return Case(
        "SignalFramer",
        [T("", shape, "int16")],
        [T("", (*shape[:-1], count, size), "int16"), T("", (), "bool")],
        custom=flex(frame_size=size, frame_step=step, prefill=prefill),
    )


def stacker(channels: int, left: int, right: int, step: int) -> Case:
    options = flex(
        num_channels=channels,
        stacker_left_context=left,
        stacker_right_context=right,
        stacker_step=step,
    )
    return Case(
        "SignalStacker",
        [T("", (channels,), "int16")],
        [T("", (channels * (left + right + 1),), "int16"), T("", (), "bool")],
        custom=options,
    )


@family
def signals(rng: Rng) -> Iterator[Case]:
    for n, shift in ((8, 12), (5, 0), (16, 15)):
        w = T("", (n,), "int16", data=rng.integers(-4096, 4096, n))
        yield Case(
            "SignalWindow",
            [T("", (n,), "int16"), w],
            [T("", (n,), "int16")],
            custom=flex(shift=shift),
        )
        yield Case(
            "SignalWindow",
            [T("", (3, n), "int16"), T("", (n,), "int16")],
            [T("", (3, n), "int16")],
            custom=flex(shift=shift),
        )
    for size, most in ((7, 100), (16, 32767), (9, 0), (5, 1), (6, 3000)):
        x = rng.integers(-most, most + 1, size)
        yield Case(
            "SignalFftAutoScale",
            [T("", (size,), "int16")],
            [T("", (size,), "int16"), T("", (), "int32")],
            feed={0: x},
        )
    yield Case(
        "SignalFftAutoScale",
        [T("", (4,), "int16")],
        [T("", (4,), "int16"), T("", (), "int32")],
        feed={0: [3, -32768, 2, 70]},
    )


@family
def transforms(rng: Rng) -> Iterator[Case]:
    for row, number in (("int16", 7), ("int32", 2), ("float32", 0)):
        for length in (4, 6, 8, 10, 12, 16, 30, 32, 60, 64, 120, 128, 512):
            for rows, given in (((), length), ((2,), max(1, length - 3))):
                x, y = T("", (*rows, given), row), T("", (*rows, length + 2), row)
                yield Case("SignalRfft", [x], [y], custom=flex(T=number, fft_length=length))
            x, y = T("", (length + 2,), row), T("", (length,), row)
            yield Case("SignalIrfft", [x], [y], custom=flex(T=number, fft_length=length))
        yield Case(
            "SignalIrfft",
            [T("", (2, 3, 34), row)],
            [T("", (2, 3, 32), row)],
            custom=flex(T=number, fft_length=32),
        )


@family
def features(rng: Rng) -> Iterator[Case]:
    for count, first, last in ((9, 0, 9), (9, 0, 5), (17, 0, 17)):
        yield Case(
            "SignalEnergy",
            [T("", (2 * count,), "int16")],
            [T("", (last,), "uint32")],
            custom=flex(start_index=first, end_index=last),
        )
    for channels, inputs in ((3, 20), (5, 33)):
        widths = rng.integers(1, 5, channels + 1)
        starts = rng.integers(0, inputs - 5, channels + 1)
        places = np.concatenate(([0], np.cumsum(widths)[:-1]))
        some = [
            ints(rng.integers(-30 if channels == 5 else 0, 4096, widths.sum()), "int16")
            for _ in range(2)
        ]
        tables = [ints(v, "int16") for v in (starts, places, widths)]
        yield Case(
            "SignalFilterBank",
            [T("", (inputs,), "uint32"), *some, *tables],
            [T("", (channels,), "uint64")],
            custom=flex(num_channels=channels),
        )
    edges = [
        0,
        1,
        2,
        3,
        2**32 - 1,
        2**32,
        2**32 + 1,
        65535**2,
        65536**2 - 1,
        2**63,
        2**64 - 1,
        10**17,
        99,
        12345678901,
    ]
    roots = np.array(edges + rng.integers(0, 2**50, 10).tolist(), np.uint64)
    for bits in (0, 3, 9):
        yield Case(
            "SignalFilterBankSquareRoot",
            [T("", roots.shape, "uint64"), T("", (), "int32")],
            [T("", roots.shape, "uint32")],
            feed={0: roots, 1: bits},
        )
    for clamping in (False, True):
        for bits in (10, 14):
            options = flex(
                alternate_one_minus_smoothing=900,
                alternate_smoothing=700,
                clamping=clamping,
                min_signal_remaining=810,
                num_channels=9,
                one_minus_smoothing=9000,
                smoothing=7000,
                smoothing_bits=bits,
                spectral_subtraction_bits=14,
            )
            yield Case(
                "SignalFilterBankSpectralSubtraction",
                [T("", (9,), "uint32")],
                [T("", (9,), "uint32"), T("", (9,), "uint32")],
                custom=options,
            )
    for shift in (0, 6, 20):
        lut = ints(rng.integers(-2000, 32767, 125), "int16")
        x = np.array([0, 1, 2, 3, 4, 5, 1000, 10**6, 2**31, 2**32 - 1], np.uint32)
        yield Case(
            "SignalPCAN",
            [T("", (10,), "uint32"), T("", (10,), "uint32"), lut],
            [T("", (10,), "uint32")],
            custom=flex(snr_shift=shift),
            feed={1: x},
        )
    for bits, scale in ((0, 1600), (3, 65536), (10, 1)):
        x = np.array([0, 1, 2, 3, 4, 255, 256, 65535, 65536, 10**6, 2**31, 2**32 - 1], np.uint32)
        yield Case(
            "SignalFilterBankLog",
            [T("", (12,), "uint32")],
            [T("", (12,), "int16")],
            custom=flex(input_correction_bits=bits, output_scale=scale),
            feed={0: x},
        )


@family
def streams(rng: Rng) -> Iterator[Case]:
    for shape, length in (((6,), 4), ((2, 3), 5), ((2, 2, 4), 1), ((5,), 0)):
        yield Case(
            "SignalDelay",
            [T("", shape, "int16")],
            [T("", shape, "int16")],
            custom=flex(delay_length=length),
        )
    for shape, size, step, prefill in (
        ((4,), 6, 2, True),
        ((2, 6), 5, 3, True),
        ((3,), 3, 3, False),
        ((4,), 4, 2, True),
    ):
        yield framer(shape, size, step, prefill)
    for row, number in (("int16", 7), ("float32", 0)):
        for shape, step in (((1, 6), 2), ((3, 5), 5), ((2, 2, 7), 3)):
            out = (*shape[:-2], shape[-2] * step)
            yield Case(
                "SignalOverlapAdd",
                [T("", shape, row)],
                [T("", out, row)],
                custom=flex(T=number, frame_step=step),
            )
    for sizes in ((3, 1, 0, 1), (4, 2, 0, 2), (1, 0, 0, 1), (3, 3, 0, 4)):
        yield stacker(*sizes)
    yield Case(
        "CIRCULAR_BUFFER",
        [q(rng, (1, 1, 2, 3), "int8")],
        [T("", (1, 5, 2, 3), "int8", 0.03, 3, variable=True)],
        custom=flex(cycles_max=1),
    )


@family
def detections(rng: Rng) -> Iterator[Case]:
    for regular in (False, True):
        for count, classes, background, most in ((6, 3, 1, 3), (20, 2, 0, 10), (30, 5, 1, 8)):
            anchors = np.concatenate(
                (rng.uniform(0.2, 0.8, (count, 2)), rng.uniform(0.2, 0.5, (count, 2))), 1
            )
            options = flex(
                max_detections=most,
                max_classes_per_detection=1,
                detections_per_class=4,
                use_regular_nms=regular,
                nms_score_threshold=0.2,
                nms_iou_threshold=0.4,
                num_classes=classes,
                y_scale=10.0,
                x_scale=10.0,
                h_scale=5.0,
                w_scale=5.0,
            )
            ins = [
                T("", (1, count, 4), "float32"),
                T("", (1, count, classes + background), "float32"),
                T("", (count, 4), "float32", data=anchors),
            ]
            outs = [
                T("", (1, most, 4), "float32"),
                T("", (1, most), "float32"),
                T("", (1, most), "float32"),
                T("", (1,), "float32"),
            ]
            feed = {1: rng.uniform(0, 1, ins[1].shape)}
            yield Case("TFLite_Detection_PostProcess", ins, outs, custom=options, feed=feed)
