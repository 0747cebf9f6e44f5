"""The networks of benchmarks/zoo.py: how each is made with random weights and exported.

`write` takes the name of a network, without its source, and writes an ONNX file. Weights come from
a fixed seed. A package is imported when a network of it is made.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import itertools
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SIDE = 64  # of images, where an architecture takes them so small
TOKENS = 8
MOST_WEIGHTS = 12_000_000  # of a network that stands for its family


@dataclass(frozen=True)
class Source:
    """`names` lists the networks; `write` exports one of them to a path."""

    names: Callable[[], Iterator[str]]
    write: Callable[[str, Path], None]


def exported(model: Any, args: tuple[Any, ...], exporter: str, path: Path) -> None:
    """By torch's exporter of scripts or of `torch.export`'s graphs."""
    import torch

    torch.onnx.export(model.eval(), args, path, dynamo=exporter == "dynamo", verbose=False)


def seeded() -> None:
    import torch

    torch.manual_seed(0)
    np.random.seed(0)


def with_exporters(names: Iterable[str]) -> Iterator[str]:
    """Each name with one of torch's exporters, in turn; the newer takes four times as long.
    NAME/script and NAME/dynamo may be asked for by name."""
    exporters = itertools.cycle(("script", "dynamo", "script"))
    yield from map("/".join, zip(names, exporters, strict=False))


def settled(model: Any) -> Any:
    """With statistics of normalisations that have an effect, as a trained network has."""
    import torch

    for module in model.modules():
        if isinstance(getattr(module, "running_mean", None), torch.Tensor):
            module.running_mean.uniform_(-0.2, 0.2)
            module.running_var.uniform_(0.5, 1.5)
    return model


def exported_for_images(
    model: Any, outer: tuple[int, ...], sides: tuple[int, ...], exporter: str, path: Path
) -> None:
    """With an image or a clip [*outer, side, side] of the first side that the model and the
    exporter take, which has no pool to a size that does not divide the image's."""
    import torch

    for side in sorted(set(sides)):
        x = torch.rand(*outer, side, side)
        try:
            with torch.no_grad():
                model.eval()(x)
            exported(model, (x,), exporter, path)
            return
        except Exception:  # whatever a package or an exporter says
            if side == max(sides):
                raise


# timm: the smallest network of each module of the package, of few layers.

SIZES = (
    *("test", "atto", "femto", "pico", "zepto", "nano", "micro", "xxt", "xxs", "tiny", "xs"),
    *("mini", "t0", "b0", "small", "050", "lite", "s0", "m0", "s"),
)
DEPTHS = ("depths", "layers", "depth", "num_blocks", "stage_depths", "stages_repeats")


def timm_names() -> Iterator[str]:
    import timm

    for module in sorted(timm.list_modules()):
        found = [n for n in timm.list_models(module=module) if "_clip" not in n]
        if found:
            yield min(found, key=_size)


def _size(name: str) -> tuple[int, int, str]:
    """How large a network is, as far as its name says so."""
    words = name.split("_")
    rank = next((k for k, size in enumerate(SIZES) if size in words or name.endswith(size)), 99)
    numbers = [int(n) for n in re.findall(r"\d+", name)]
    return rank, max(numbers, default=0), name


def _fewer(value: Any) -> Any:
    """At most two layers, in each stage."""
    if isinstance(value, int) and not isinstance(value, bool):
        return min(value, 2)
    return type(value)(map(_fewer, value)) if isinstance(value, (list, tuple)) else value


@contextlib.contextmanager
def _few_layers(timm: Any) -> Iterator[None]:
    """Within, timm builds networks with `_fewer` layers."""
    built = timm.models.build_model_with_cfg

    def build(kind: Any, variant: str, pretrained: bool, **more: Any) -> Any:
        small = {k: _fewer(v) if k in DEPTHS else v for k, v in more.items()}
        try:
            return built(kind, variant, pretrained, **copy.deepcopy(small))
        except Exception:  # whatever a network says whose parts no longer fit
            return built(kind, variant, pretrained, **more)

    modules = [m for m in vars(timm.models).values() if hasattr(m, "build_model_with_cfg")]
    for module in modules:
        module.build_model_with_cfg = build
    try:
        yield
    finally:
        for module in modules:
            module.build_model_with_cfg = built


def timm_write(name: str, path: Path) -> None:
    name, exporter = name.rsplit("/", 1)
    try:
        _timm_write(name, path, exporter, {"img_size": SIDE})
    except Exception:  # a network without that option, or with windows that do not fit
        _timm_write(name, path, exporter, {})


def _timm_write(name: str, path: Path, exporter: str, more: Mapping[str, Any]) -> None:
    import timm

    timm.layers.set_exportable(True)
    seeded()
    with _few_layers(timm):
        model = settled(timm.create_model(name, pretrained=False, num_classes=10, **more))
    weights = sum(p.numel() for p in model.parameters())
    if weights > 3 * MOST_WEIGHTS:
        raise RuntimeError(f"{weights} weights are too many")
    shape = tuple(model.default_cfg.get("input_size", (3, 224, 224)))
    is_fixed = not more and model.default_cfg.get("fixed_input_size")
    sides = (SIDE,) if more else (shape[-1],) if is_fixed else (SIDE, shape[-1])
    exported_for_images(model, (1, shape[0]), sides, exporter, path)


# torchvision: everything that it lists, but for networks of more than 40 million weights.

LARGE = re.compile(
    r"_l$|_h_|large$|xlarge|b[2-7]$|_[blm]$|_v?2?_?s$|_base|_small$|101|152|161|169|201|vit_|resnext|wide|vgg1[369]|"
    r"_bn$|resnet34|regnet_._(1_6|3|8|16|32|128)|mnasnet[01]_[37]|_x1_5|_x2_0|_v1_b|fpn_v2"
)
KEPT = re.compile(r"mobilenet|shufflenet_v2_x0_5|s3d|mvit_v2_s|efficientnet_v2_s")


def torchvision_names() -> Iterator[str]:
    import torchvision

    for name in torchvision.models.list_models():
        is_small = KEPT.search(name) or not LARGE.search(name)
        if is_small and not name.startswith(("quantized", "raft", "swin3d")):
            yield name


def torchvision_write(name: str, path: Path) -> None:
    import torchvision

    seeded()
    name, exporter = name.rsplit("/", 1)
    builder = torchvision.models.get_model_builder(name)
    more = (
        {"weights_backbone": None}
        if "weights_backbone" in inspect.signature(builder).parameters
        else {}
    )
    if "num_classes" not in more and "quantization" not in builder.__module__:
        more["num_classes"] = 10
    model = settled(torchvision.models.get_model(name, weights=None, **more))
    if hasattr(model, "score_thresh"):  # by its own a network with random weights keeps no box
        model.score_thresh = 0.01
    kind = builder.__module__.split(".")[2]
    shape = {"detection": (1, 3, 96, 96), "video": (1, 3, 8, SIDE, SIDE)}.get(
        kind, (1, 3, SIDE, SIDE)
    )
    if kind == "video" and name.startswith(("mvit", "swin")):
        shape = (1, 3, 16, 224, 224)
    sides = (shape[-1],) if kind == "detection" else (shape[-1], 224, 299)
    exported_for_images(model, shape[:-2], sides, exporter, path)


# transformers: every model type whose configuration can be made small.

SMALL: Mapping[str, Any] = {
    **dict.fromkeys(
        ("hidden_size", "d_model", "dim", "n_embd", "embed_dim", "word_embed_proj_dim"), 32
    ),
    **dict.fromkeys(
        ("num_hidden_layers", "n_layers", "n_layer", "num_layers", "encoder_layers"), 2
    ),
    **dict.fromkeys(("decoder_layers", "num_decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_heads", "n_head", "num_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("num_key_value_heads",), 2),
    **dict.fromkeys(("intermediate_size", "hidden_dim", "ffn_dim", "n_inner", "d_ff"), 64),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 64),
    **dict.fromkeys(("embedding_size", "projection_dim", "projection_size"), 32),
    **dict.fromkeys(("max_source_positions", "max_target_positions"), 64),
    **dict.fromkeys(("d_kv", "head_dim"), 8),
    "vocab_size": 99,
    "max_position_embeddings": 64,
    "n_positions": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "image_size": 32,
    "patch_size": 8,
    "num_experts": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "top_k": 2,
    "moe_intermediate_size": 32,
}


def transformers_names() -> Iterator[str]:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    names = [name for name in sorted(CONFIG_MAPPING_NAMES) if name in MODEL_MAPPING_NAMES]
    yield from (str(name) for name in np.random.default_rng(0).permutation(names))


def made_small(config: Any) -> None:
    """With the values of SMALL that the configuration has, in its parts, too."""
    for key in getattr(config, "sub_configs", ()):
        if getattr(config, key, None) is not None:
            made_small(getattr(config, key))
    for key, value in SMALL.items():
        with contextlib.suppress(Exception):
            if isinstance(getattr(config, key, None), int):
                setattr(config, key, value)
    layers = getattr(config, "layer_types", None)
    if isinstance(layers, list):
        config.layer_types = layers[:2]


def _frames(config: Any) -> int:
    """Of a spectrogram: Whisper and its like take one length, twice that of their positions."""
    return 2 * int(getattr(config, "max_source_positions", 8))


def _feeds(model: Any, config: Any) -> dict[str, Any]:
    """What the model's forward demands, and what a decoder starts with."""
    import torch

    takes = inspect.signature(model.forward).parameters
    vision = getattr(config, "vision_config", config)
    side = getattr(vision, "image_size", 32)
    side = side if isinstance(side, int) and side else 32
    text = config.get_text_config()
    tokens = torch.randint(3, min(90, getattr(text, "vocab_size", None) or 90), (1, TOKENS))
    kinds = {
        "input_ids": tokens,
        "pixel_values": torch.rand(1, getattr(vision, "num_channels", 3), side, side),
        "input_values": torch.rand(1, 400),
        "input_features": torch.rand(1, getattr(config, "num_mel_bins", 80), _frames(config)),
        "decoder_input_ids": tokens,
    }
    is_wanted = {model.main_input_name, "decoder_input_ids"}
    if hasattr(config, "vision_config") and hasattr(config, "text_config"):
        is_wanted |= {"input_ids", "pixel_values"}
    return {name: value for name, value in kinds.items() if name in takes and name in is_wanted}


def transformers_write(name: str, path: Path) -> None:
    import torch
    import transformers

    seeded()
    name, exporter = name.rsplit("/", 1)
    config = transformers.AutoConfig.for_model(name)
    made_small(config)
    config = type(config)(**config.to_dict())  # what follows from others follows again
    config._attn_implementation = "eager"
    config.use_cache = False
    model = transformers.AutoModel.from_config(config).eval()
    if sum(p.numel() for p in model.parameters()) > 3 * MOST_WEIGHTS:
        raise RuntimeError("the configuration does not become small")
    feeds = _feeds(model, config)

    class Plain(torch.nn.Module):
        """Positional tensors in, tensors out."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *args: Any) -> Any:
            made = self.model(**dict(zip(feeds, args, strict=True)))
            return tuple(t for t in made.to_tuple() if isinstance(t, torch.Tensor))

    exported(Plain(), tuple(feeds.values()), exporter, path)


# scikit-learn: every classifier, regressor and transformer that skl2onnx converts.


def sklearn_names() -> Iterator[str]:
    from skl2onnx import supported_converters
    from sklearn.utils import all_estimators

    known = {name.removeprefix("Sklearn") for name in supported_converters(from_sklearn=True)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, _ in all_estimators():
            if name in known:
                yield name


def sklearn_write(name: str, path: Path) -> None:
    import skl2onnx
    from sklearn.linear_model import LinearRegression, LogisticRegression
    from sklearn.utils import all_estimators

    warnings.simplefilter("ignore")
    kind = dict(all_estimators())[name]
    takes = inspect.signature(kind).parameters
    more: dict[str, Any] = {}
    inner = LogisticRegression() if hasattr(kind, "predict_proba") else LinearRegression()
    more |= {k: inner for k in ("estimator", "base_estimator") if k in takes}
    more |= {"estimators": [("a", inner), ("b", inner)]} if "estimators" in takes else {}
    more |= {"random_state": 0} if "random_state" in takes else {}
    more |= {"n_estimators": 5} if "n_estimators" in takes else {}
    random = np.random.default_rng(0)
    x = np.abs(random.normal(size=(80, 6))).astype(np.float32)
    y = (x[:, 0] + x[:, 1] > 1.4).astype(np.int64) + (x[:, 2] > 1.2)
    model = kind(**more).fit(x, y)
    made = skl2onnx.to_onnx(
        model,
        x[:1],
        target_opset=18,
        options={"zipmap": False} if (hasattr(model, "predict_proba")) else None,
    )
    path.write_bytes(made.SerializeToString())


# onnxruntime's quantisation of torchvision's and timm's small networks, in all its formats.

QUANTISED = (
    "mobilenet_v2",
    "mobilenet_v3_small",
    "shufflenet_v2_x0_5",
    "squeezenet1_1",
    "mnasnet0_5",
    "timm.test_resnet",
    "timm.test_vit",
    "timm.mobilenetv4_conv_small",
    "timm.efficientvit_m0",
)
FORMS = ("qdq", "qdq_channels", "qdq_u8", "qdq_16", "qoperator", "qoperator_channels", "dynamic")


def quantised_names() -> Iterator[str]:
    for name in QUANTISED:
        for form in FORMS:
            yield f"{name}/{form}"


def quantised_write(name: str, path: Path) -> None:
    from onnxruntime import quantization as q
    from onnxruntime.quantization.shape_inference import quant_pre_process

    name, form = name.rsplit("/", 1)
    plain, ready = path.with_suffix(".float.onnx"), path.with_suffix(".ready.onnx")
    package, _, inner = name.rpartition(".")
    write = timm_write if package == "timm" else torchvision_write
    write(f"{inner}/script", plain)
    quant_pre_process(str(plain), str(ready))
    if form == "dynamic":
        q.quantize_dynamic(str(ready), str(path))
        return
    random = np.random.default_rng(0)

    class Data(q.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            import onnxruntime

            (given,) = onnxruntime.InferenceSession(str(ready)).get_inputs()
            rows = [{given.name: random.random(given.shape, np.float32)} for _ in range(4)]
            self.rows = iter(rows)

        def get_next(self) -> Any:
            return next(self.rows, None)

    kinds = {
        "qdq_u8": (q.QuantType.QUInt8, q.QuantType.QUInt8),
        "qdq_16": (q.QuantType.QInt16, q.QuantType.QInt8),
    }
    activations, weights = kinds.get(form, (q.QuantType.QInt8, q.QuantType.QInt8))
    q.quantize_static(
        str(ready),
        str(path),
        Data(),
        quant_format=q.QuantFormat.QOperator if form.startswith("qoperator") else q.QuantFormat.QDQ,
        per_channel="channels" in form,
        activation_type=activations,
        weight_type=weights,
    )


SOURCES: Mapping[str, Source] = {
    "quantised": Source(quantised_names, quantised_write),
    "timm": Source(lambda: with_exporters(timm_names()), timm_write),
    "torchvision": Source(lambda: with_exporters(torchvision_names()), torchvision_write),
    "transformers": Source(lambda: with_exporters(transformers_names()), transformers_write),
    "sklearn": Source(sklearn_names, sklearn_write),
}
