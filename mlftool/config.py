"""PassContext, Executor and Runtime: TVM's options for scripts, and their meaning here.

Options that TVM lacks are refused. Options that only control how TVM generates code are accepted
and have no effect (docs/migration.md lists them).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

from mlftool.errors import MlfError, Problem, did_you_mean
from mlftool.frozen import frozen
from mlftool.options import EXECUTORS, OPTIONS, Choice


def _is_flag(value: Any) -> bool:
    return isinstance(value, (bool, int)) and value in (0, 1)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and value >= 0


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_any(value: Any) -> bool:
    return True


@frozen
class Option:
    """A key: how its value must be, in words and as a test."""

    expected: str
    fits: Callable[[Any], bool]
    shown: str = ""  # its form in the help of a command


def _word(name: str) -> Option:
    """One of the words of a compiler's option."""
    kind = OPTIONS[name].kind
    assert isinstance(kind, Choice)
    words = kind.values
    shown = f"{{{','.join(words)}}}"
    return Option(" or ".join(words), lambda v: v in words, shown)


FLAG = Option("True or False", _is_flag, shown="{0,1}")
COUNT = Option("a number", _is_count)
ANY = Option("anything", _is_any)
ALGORITHMS = ("greedy_by_size", "greedy_by_conflicts", "hill_climb")

# Keys of TVM's PassContext that only say how TVM generates code.
_FLAGS = """
    tir.disable_vectorize tir.disable_storage_rewrite tir.disable_assert tir.disable_cse_tir
    tir.enable_equiv_terms_in_cse_tir tir.debug_keep_trivial_loop tir.detect_global_barrier
    tir.enable_buffer_level_predication tir.enable_debug tir.instrument_bound_checkers
    tir.instrument_lwp tir.is_entry_func tir.merge_static_smem tir.noalias tir.ptx_ldg32
    tir.use_async_copy relay.backend.disable_memory_plan relay.backend.use_auto_scheduler
    relay.backend.use_meta_schedule relay.backend.use_meta_schedule_dispatch
    relay.FuseOps.link_params relay.ToMixedPrecision.keep_orig_output_dtype
    relay.frontend.fill_span relay.remove_standalone_reshapes.enable
    relay.reconstruct_virtual_device te.keep_schedule_record testing.immutable_module
    tir.vtcm_capacity_checks
"""
_COUNTS = """
    relay.FuseOps.max_depth relay.fallback_device_type tir.vtcm_capacity
"""
_ANYTHING = """
    tir.add_lower_pass tir.HoistIfThenElse tir.HoistExpression tir.InjectDoubleBuffer
    tir.LoopPartition tir.ReduceBranchingThroughOvercompute tir.RemoveNoOp tir.Simplify
    tir.UnrollLoop tir.async_dma relay.backend.tir_converter relay.ext.cmsisnn.options
    relay.ext.ethos-u.options relay.ext.ethos-n.options relay.collage.byoc_fusion_style
    relay.collage.tvm_max_depth
"""
CONFIG: Mapping[str, Option] = {
    "tir.usmp.use_workspace_io": Option("True or False", _is_flag),
    "mlf.optimize": _word("optimize"),
    "tir.usmp.enable": FLAG,
    "tir.usmp.algorithm": Option(f"one of {', '.join(ALGORITHMS)}", lambda v: v in ALGORITHMS),
    "tir.usmp.custom_algorithm": Option("a name", _is_text),
    **dict.fromkeys(_FLAGS.split(), FLAG),
    **dict.fromkeys(_COUNTS.split(), COUNT),
    **dict.fromkeys(_ANYTHING.split(), ANY),
}

# Passes of TVM that have no counterpart here; those that do are in passes.TVM_PASSES.
_IGNORED = """
    AnnotateSpans BackwardFoldScaleAxis CanonicalizeCast CanonicalizeOps
    CombineParallelBatchMatmul CombineParallelConv2D CombineParallelDense CommonSubexprElimTIR
    ConvertToSSA DeadCodeElimination DefuseOps DynamicToStatic EliminateCommonSubexpr EtaExpand
    FastMath FlattenAtrousConv FoldConstant FoldExplicitPadding
    ForwardFoldScaleAxis InferType Inline
    InlinePrimitives LambdaLift LazyGradientInit Legalize ManifestAlloc ManifestLifetimes
    MergeCompilerRegions PartialEval PartitionGraph PlanDevices RemoveStandaloneReshapes
    RemoveUnusedFunctions SimplifyExpr SimplifyExprPostAlterOp SimplifyFCTranspose
    SimplifyInference SplitArgs ToANormalForm ToBasicBlockNormalForm ToGraphNormalForm
    ToMixedPrecision qnn.Legalize tir.BF16Legalize tir.CommonSubexprElimTIR
    tir.ConvertBlocksToOpaque tir.FP8ComputeLegalize tir.InjectDoubleBuffer
    tir.InstrumentBoundCheckers tir.LoopPartition tir.NarrowDataType tir.RemoveNoOp
    tir.RewriteUnsafeSelect tir.Simplify tir.StorageFlatten tir.StorageRewrite tir.UnrollLoop
    tir.UnifyThreadBinding tir.VectorizeLoop
"""
IGNORED_PASSES = frozenset(_IGNORED.split())


def _error(text: str, help: str = "", code: str = "MLF0405") -> MlfError:
    return MlfError(Problem(code, text, help=help))


def check_options(what: str, given: Mapping[str, Any], known: Mapping[str, Option]) -> None:
    """Raises MlfError for a key that is not in `known`, or a value that the key does not take."""
    problems = []
    for key, value in given.items():
        if key not in known:
            text = f"{what} has no option '{key}'"
            problems.append(Problem("MLF0405", text, help=did_you_mean(key, known)))
        elif value is not None and not known[key].fits(value):
            text = f"{what}: '{key}' is {value!r}; expected {known[key].expected}"
            problems.append(Problem("MLF0405", text))
    if problems:
        raise MlfError(problems)


class _Stack(threading.local):
    def __init__(self) -> None:
        self.contexts: list[PassContext] = []


_STACK = _Stack()


class PassContext:
    """Options for compiling models in a `with` block; contexts nest, and the innermost applies."""

    def __init__(
        self,
        opt_level: int = 3,
        required_pass: Sequence[str] | None = None,
        disabled_pass: Sequence[str] | None = None,
        instruments: Sequence[Any] | None = None,
        config: Mapping[str, Any] | None = None,
        trace: Any = None,
    ) -> None:
        if not isinstance(opt_level, int) or opt_level < 0:
            raise _error(f"opt_level is {opt_level!r}; expected 0 to 3", code="MLF0400")
        if instruments or trace is not None:
            raise _error("instruments and traces of passes", "set MLF_DEBUG=1 to see the stages")
        check_options("PassContext", config or {}, CONFIG)
        self.opt_level = min(opt_level, 3)  # TVM's 4 is 3 and unsafe mathematics
        self.required_pass = tuple(required_pass or ())
        self.disabled_pass = tuple(disabled_pass or ())
        self.config = dict(config or {})

    def __repr__(self) -> str:
        more = "".join(f", {key}={value!r}" for key, value in self._given().items())
        return f"PassContext(opt_level={self.opt_level}{more})"

    def _given(self) -> dict[str, Any]:
        """What is not the default."""
        keys = ("required_pass", "disabled_pass", "config")
        return {key: vars(self)[key] for key in keys if vars(self)[key]}

    @staticmethod
    def current() -> PassContext:
        return _STACK.contexts[-1] if _STACK.contexts else PassContext()

    @property
    def disabled(self) -> tuple[str, ...]:
        """The disabled passes that exist here, under TVM's names or ours."""
        return tuple(p for p in self.disabled_pass if p not in IGNORED_PASSES)

    def __enter__(self) -> PassContext:
        _STACK.contexts.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _STACK.contexts.remove(self)


# Buffers and constants are aligned to 16 bytes: less is granted, more is not.
_ALIGNMENT = Option("a power of two up to 16", lambda v: v in (1, 2, 4, 8, 16), shown="N")
_OF_EXECUTOR: Mapping[str, Mapping[str, Option]] = {
    "aot": {
        "interface-api": _word("interface_api"),
        "unpacked-api": FLAG,
        "link-params": FLAG,
        "workspace-byte-alignment": _ALIGNMENT,
        "constant-byte-alignment": _ALIGNMENT,
    },
    "graph": {"link-params": FLAG},
}
DEBUG = "debug"  # runs in Python and makes no archive
EXECUTOR_OPTIONS = {name: _OF_EXECUTOR.get(name, {}) for name in (*EXECUTORS, DEBUG)}
RUNTIME_OPTIONS: Mapping[str, Mapping[str, Option]] = {"crt": {"system-lib": FLAG}}


class _Choice:
    """A name with options, such as Executor("aot", {"unpacked-api": True})."""

    kind = ""
    table: Mapping[str, Mapping[str, Option]] = {}

    def __init__(self, name: str, options: Mapping[str, Any] | None = None) -> None:
        if not isinstance(name, str) or name not in self.table:
            help = did_you_mean(name, self.table)
            if name == "cpp":
                help = "use Runtime('crt'): the code is C, and needs no runtime with interface c"
            raise _error(f"no such {self.kind}; got '{name}'", help)
        self.name, self.options = name, dict(options or {})
        check_options(f"{self.kind} {name}", self.options, self.table[name])

    def __getitem__(self, key: str) -> Any:
        if key not in self.table[self.name]:
            raise KeyError(key)
        return self.options.get(key)

    def __contains__(self, key: str) -> bool:
        return self.options.get(key) is not None

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((self.name, *sorted(self.options.items())))

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.options!r})"

    def flag(self, key: str) -> bool | None:
        value = self.options.get(key)
        return None if value is None else bool(value)


class Executor(_Choice):
    """How a model is run: aot, graph, vm or another of EXECUTORS, or debug."""

    kind, table = "executor", EXECUTOR_OPTIONS


class Runtime(_Choice):
    """The runtime that a model is for: crt."""

    kind, table = "runtime", RUNTIME_OPTIONS


def settings(executor: Executor, runtime: Runtime, context: PassContext) -> dict[str, Any]:
    """What the three say, as fields of ModuleSpec."""
    return {
        "executor": executor.name,
        "interface_api": executor.options.get("interface-api"),
        "unpacked_api": executor.flag("unpacked-api"),
        "link_params": executor.flag("link-params"),
        "system_lib": bool(runtime.flag("system-lib")),
        "workspace_io": bool(context.config.get("tir.usmp.use_workspace_io", False)),
        "optimize": context.config.get("mlf.optimize") or OPTIONS["optimize"].default,
        "opt_level": context.opt_level,
        "disabled_pass": context.disabled,
    }
