"""Operators that move elements."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from tfl_cases import Case, Rng, family, ints, like, noise, q
from tfl_writer import T


@family
def moves(rng: Rng) -> Iterator[Case]:
    rows = ("float32", "int8", "int16", "int32", "int64", "bool", "uint8")
    for row in rows:
        x = q(rng, (2, 3, 4), row)
        yield Case("RESHAPE", [x, ints([4, -1])], [like(x, (4, 6))], "ReshapeOptions")
        yield Case("RESHAPE", [x], [like(x, (24,))])
        yield Case("SQUEEZE", [like(x, (1, 3, 1, 2))], [like(x, (3, 2))], "SqueezeOptions")
        yield Case("EXPAND_DIMS", [x, ints([1])], [like(x, (2, 1, 3, 4))], "ExpandDimsOptions")
        yield Case("EXPAND_DIMS", [x, ints(-1)], [like(x, (2, 3, 4, 1))], "ExpandDimsOptions")
        yield Case("SHAPE", [x], [T("", (3,), "int32")], "ShapeOptions", {"OutType": 2})
        yield Case("ZEROS_LIKE", [x], [x], "ZerosLikeOptions")
        for perm in ((2, 0, 1), (0, 2, 1), (1, 0, 2)):
            out = [x.shape[p] for p in perm]
            yield Case("TRANSPOSE", [x, ints(perm)], [like(x, out)], "TransposeOptions")
        five = like(x, (2, 1, 3, 2, 2))
        yield Case(
            "TRANSPOSE",
            [five, ints([4, 2, 0, 1, 3])],
            [like(x, (2, 3, 2, 1, 2))],
            "TransposeOptions",
        )
        for axis in (0, 1, 2, -1, -3):
            parts = [
                like(x, [n if k != axis % 3 else m for k, n in enumerate((2, 3, 4))])
                for m in (1, 2, 3)
            ]
            out = [n if k != axis % 3 else 6 for k, n in enumerate((2, 3, 4))]
            yield Case(
                "CONCATENATION", parts, [like(x, out)], "ConcatenationOptions", {"Axis": axis}
            )
        for axis in (0, 1, 3, -1):
            out = list(x.shape)
            out.insert(axis % 4, 3)
            yield Case(
                "PACK",
                [like(x, x.shape) for _ in range(3)],
                [like(x, out)],
                "PackOptions",
                {"Axis": axis, "ValuesCount": 3},
            )
        for axis in (0, 2, -2):
            out = [n for k, n in enumerate(x.shape) if k != axis % 3]
            count = x.shape[axis]
            yield Case(
                "UNPACK",
                [x],
                [like(x, out) for _ in range(count)],
                "UnpackOptions",
                {"Axis": axis, "Num": count},
            )
        for axis in (0, 2, -1):
            out = [n // 2 if k == axis % 3 else n for k, n in enumerate((2, 3, 4))]
            yield Case(
                "SPLIT",
                [ints(axis), x],
                [like(x, out), like(x, out)],
                "SplitOptions",
                {"NumSplits": 2},
            )
        yield Case(
            "SPLIT_V",
            [x, ints([1, 3]), ints(2)],
            [like(x, (2, 3, 1)), like(x, (2, 3, 3))],
            "SplitVOptions",
            {"NumSplits": 2},
        )
        yield Case(
            "SPLIT_V",
            [x, ints([1, -1]), ints(-2)],
            [like(x, (2, 1, 4)), like(x, (2, 2, 4))],
            "SplitVOptions",
            {"NumSplits": 2},
        )
        yield Case(
            "SLICE", [x, ints([0, 1, 2]), ints([2, -1, 1])], [like(x, (2, 2, 1))], "SliceOptions"
        )
        yield Case(
            "SLICE",
            [x, ints([1, 0, 0], "int64"), ints([1, 3, -1], "int64")],
            [like(x, (1, 3, 4))],
            "SliceOptions",
        )
        for begin, end, strides, masks, out in (
            ([0, 0, 1], [2, 3, 4], [1, 2, 2], {}, (2, 2, 2)),
            ([-1, 2, -1], [-3, -9, 0], [-1, -1, -2], {}, (2, 3, 2)),
            ([1, 1, 0], [2, 3, 1], [1, 1, 1], {"BeginMask": 4, "EndMask": 4}, (1, 2, 4)),
            ([1, 0, 3], [2, 3, 4], [1, 1, 1], {"ShrinkAxisMask": 5}, (3,)),
            ([0, 1], [2, 2], [1, 1], {}, (2, 1, 4)),
            (
                [1, 0, 0],
                [0, 0, 0],
                [-1, -1, -1],
                {"BeginMask": 2, "EndMask": 6, "ShrinkAxisMask": 0},
                (1, 3, 1),
            ),
        ):
            yield Case(
                "STRIDED_SLICE",
                [x, ints(begin), ints(end), ints(strides)],
                [like(x, out)],
                "StridedSliceOptions",
                masks,
            )
        for pads in ([[0, 0], [1, 2], [0, 1]], [[1, 0], [0, 0], [2, 0]]):
            out = [n + sum(p) for n, p in zip(x.shape, pads, strict=True)]
            yield Case("PAD", [x, ints(pads)], [like(x, out)], "PadOptions")
            yield Case("PAD", [x, ints(pads, "int64")], [like(x, out)], "PadOptions")
            yield Case(
                "PADV2",
                [x, ints(pads), like(x, (1,), data=noise(rng, like(x, (1,))))],
                [like(x, out)],
                "PadV2Options",
            )
            yield Case("PADV2", [x, ints(pads), like(x, ())], [like(x, out)], "PadV2Options")
        for mode in (0, 1):
            yield Case(
                "MIRROR_PAD",
                [x, ints([[1, 0], [2 - mode, 2], [0, 3]])],
                [like(x, (3, 7 - mode, 7))],
                "MirrorPadOptions",
                {"Mode": mode},
            )
            yield Case(
                "MIRROR_PAD",
                [x, ints([[0, 1], [1, 1], [2, 2]], "int64")],
                [like(x, (3, 5, 8))],
                "MirrorPadOptions",
                {"Mode": mode},
            )
        for axes in ([0], [1, 2], [-1], [0, 1, 2]):
            yield Case("REVERSE_V2", [x, ints(axes)], [x], "ReverseV2Options")
        yield Case("BROADCAST_TO", [like(x, (3, 1)), ints([2, 3, 4])], [x], "BroadcastToOptions")
        yield Case("FILL", [ints([2, 3, 4]), like(x, ())], [x], "FillOptions")
        yield Case("FILL", [ints([5], "int64"), like(x, ())], [like(x, (5,))], "FillOptions")
        for axis, batch, index, out in (
            (0, 0, (2,), (2, 3, 4)),
            (1, 0, (2, 2), (2, 2, 2, 4)),
            (-1, 0, (), (2, 3)),
            (1, 1, (2, 2), (2, 2, 4)),
            (2, 1, (2, 3), (2, 3, 3)),
            (2, 2, (2, 3, 2), (2, 3, 2)),
        ):
            n = x.shape[axis]
            where = rng.integers(0, n, index)
            yield Case(
                "GATHER",
                [x, T("", index, "int32")],
                [like(x, out)],
                "GatherOptions",
                {"Axis": axis, "BatchDims": batch},
                feed={1: where},
            )
        for depth in (1, 2, 3):
            where = np.stack([rng.integers(0, n, (3,)) for n in x.shape[:depth]], -1)
            out = (3, *x.shape[depth:])
            yield Case(
                "GATHER_ND",
                [x, T("", (3, depth), "int32")],
                [like(x, out)],
                "GatherNdOptions",
                feed={1: where},
            )
        yield Case(
            "EMBEDDING_LOOKUP",
            [T("", (4,), "int32"), like(x, (5, 3), data=noise(rng, like(x, (5, 3))))],
            [like(x, (4, 3))],
            feed={0: [4, 0, 2, 2]},
        )
        for index, row2 in (((0, 1, 2), "int32"), ((5, -4, 1), "int64")):
            part = like(x, (1, 2, 2))
            yield Case(
                "DYNAMIC_UPDATE_SLICE",
                [x, part, T("", (3,), row2)],
                [x],
                "DynamicUpdateSliceOptions",
                feed={2: index},
            )
    for row in ("int32", "int64"):
        yield Case(
            "BROADCAST_ARGS",
            [T("", (3,), row), T("", (2,), row)],
            [T("", (3,), row)],
            feed={0: [2, 1, 3], 1: [4, 1]},
        )
        yield Case(
            "BROADCAST_ARGS",
            [T("", (2,), row), T("", (2,), row)],
            [T("", (2,), row)],
            feed={0: [1, 3], 1: [4, 3]},
        )


@family
def images(rng: Rng) -> Iterator[Case]:
    for row in ("float32", "int8", "int16", "int32", "uint8"):
        x = q(rng, (2, 4, 6, 3), row)
        yield Case(
            "SPACE_TO_DEPTH", [x], [like(x, (2, 2, 3, 12))], "SpaceToDepthOptions", {"BlockSize": 2}
        )
        yield Case(
            "DEPTH_TO_SPACE",
            [like(x, (1, 2, 3, 8))],
            [like(x, (1, 4, 6, 2))],
            "DepthToSpaceOptions",
            {"BlockSize": 2},
        )
        yield Case(
            "SPACE_TO_BATCH_ND",
            [x, ints([2, 3]), ints([[0, 0], [0, 0]])],
            [like(x, (12, 2, 2, 3))],
            "SpaceToBatchNDOptions",
        )
        yield Case(
            "SPACE_TO_BATCH_ND",
            [like(x, (2, 6, 3)), ints([3]), ints([[0, 0]])],
            [like(x, (6, 2, 3))],
            "SpaceToBatchNDOptions",
        )
        if row == "float32":
            yield Case(
                "SPACE_TO_BATCH_ND",
                [x, ints([2, 2]), ints([[1, 1], [0, 2]])],
                [like(x, (8, 3, 4, 3))],
                "SpaceToBatchNDOptions",
            )
        yield Case(
            "BATCH_TO_SPACE_ND",
            [like(x, (6, 2, 3, 2)), ints([3, 2]), ints([[0, 0], [0, 0]])],
            [like(x, (1, 6, 6, 2))],
            "BatchToSpaceNDOptions",
        )
        yield Case(
            "BATCH_TO_SPACE_ND",
            [like(x, (8, 2, 3, 2)), ints([2, 2]), ints([[1, 0], [1, 2]])],
            [like(x, (2, 3, 3, 2))],
            "BatchToSpaceNDOptions",
        )
        yield Case(
            "BATCH_TO_SPACE_ND",
            [like(x, (6, 4, 2)), ints([3]), ints([[1, 2]])],
            [like(x, (2, 9, 2))],
            "BatchToSpaceNDOptions",
        )
        for kind, table in (
            ("RESIZE_BILINEAR", "ResizeBilinearOptions"),
            ("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions"),
        ):
            for size in ((8, 3), (4, 6), (1, 1), (11, 13), (2, 9)):
                for options in ({}, {"AlignCorners": True}, {"HalfPixelCenters": True}):
                    yield Case(kind, [x, ints(size)], [like(x, (2, *size, 3))], table, options)
