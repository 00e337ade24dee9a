# SPDX-License-Identifier: Apache-2.0
"""Every knob there is, typed, with a sentence each.

`Options` is what one compilation depends on, and is part of the cache key.  `PASS_CONFIGS` maps
each `pass_configs` key of the original TileLang to a field of it, or says why the key has nothing
to do here.  `env` is what the whole process depends on: the environment variables, read when they
are asked for and nowhere else in the package.

An option is honoured or refused: a key, type or value that means nothing raises `OptionError`, and
an old key without a counterpart here is accepted with one `CompatWarning`.
"""

from __future__ import annotations

import functools
import os
import re
import shlex
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Generic, NamedTuple, Self, TypeVar, cast, overload

from .errors import CompatWarning, OptionError, did_you_mean

__all__ = [
    "PASS_CONFIGS",
    "Env",
    "KnobRow",
    "NoEffect",
    "Options",
    "PassConfigKey",
    "Sets",
    "env",
    "env_rows",
    "option_rows",
    "pass_config_rows",
]

T = TypeVar("T")


class KnobRow(NamedTuple):
    """A row of the generated documentation tables."""

    name: str
    default: str
    doc: str


# --- values of options ------------------------------------------------------------------------
# A parser returns the normal form of a value, or raises ValueError with what it expected.


def _switch(value: object) -> bool:
    """The original takes 0 and 1 for booleans, and programs rely on it."""
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    raise ValueError("True or False")


def _index_bits(value: object) -> int:
    if isinstance(value, int) and value in (32, 64):
        return value
    raise ValueError("32 or 64")


def _register_level(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 10:
        return value
    raise ValueError("an integer from 0 to 10, or None")


def _flags(value: object) -> tuple[str, ...]:
    """One string as on a command line, or a list of flags, which may hold spaces."""
    if value is None:
        return ()
    if isinstance(value, str):
        return tuple(shlex.split(value))
    if isinstance(value, list | tuple) and all(isinstance(flag, str) for flag in value):
        return tuple(value)
    raise ValueError("a string or a list of strings")


def _option(default: Any, doc: str, parse: Callable[[object], object] = _switch) -> Any:
    return field(default=default, metadata={"doc": doc, "parse": parse})


def _parsed(label: str, parse: Callable[[object], object], value: object) -> Any:
    try:
        return parse(value)
    except ValueError as error:
        raise OptionError(
            f"{label} expects {error}, got {value!r} of type {type(value).__name__}",
            code="TL0501", help="docs/generated/pass-configs.md lists the keys and their values",
        ) from None  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a compilation depends on besides the kernel and the target."""

    # schedule
    warp_specialize: bool = _option(
        True, "Split warps into producers and consumers on sm_90 and later where it pays."
    )
    tma: bool = _option(True, "Let copies use the tensor memory accelerator.")
    wgmma: bool = _option(True, "Let T.gemm use warpgroup instructions on sm_90.")
    async_copy: bool = _option(True, "Let copies in pipelined loops use cp.async.")
    auto_sync: bool = _option(
        True, "Insert barriers between threads that share memory; without it you place them all."
    )
    shared_memory_reuse: bool = _option(
        True, "Let shared buffers that are never alive at the same time share an address."
    )
    vectorize: bool = _option(True, "Widen loads, stores and arithmetic to vectors.")
    vectorize_256: bool = _option(
        True, "Allow 256-bit accesses where the target has them; otherwise 128 bits is the widest."
    )
    # numbers
    fast_math: bool = _option(
        False,
        "CUDA: approximate division and transcendental functions, denormals flushed; C: contraction"
        " and reciprocals.",
    )
    allow_tf32: bool = _option(
        False, "Let T.gemm on float32 round its operands to tf32; without it float32 stays float32."
    )
    # memory
    bounds_guard: bool = _option(
        True, "Guard accesses to global tensors that cannot be proved to be in bounds."
    )
    noalias: bool = _option(True, "Assume that tensor arguments do not overlap (`__restrict__`).")
    index_bits: int = _option(32, "Narrowest integer type that indices may use.", _index_bits)
    # checks
    semantic_check: bool = _option(True, "Check what a kernel means before lowering it.")
    init_check: bool = _option(True, "Warn about reading a buffer that nothing has written.")
    bounds_warning: bool = _option(False, "Warn about accesses that may be out of bounds.")
    race_check: bool = _option(
        False, "Refuse a T.Parallel loop whose iterations write the same element."
    )
    # generated code
    line_directives: bool = _option(False, "Emit #line, so that tools show the kernel's own lines.")
    ptxas_register_usage_level: int | None = _option(
        None, "ptxas --register-usage-level, from 0 (least effort) to 10.", _register_level
    )
    compile_flags: tuple[str, ...] = _option((), "More flags for the device compiler.", _flags)
    fast_compile: bool = _option(
        False, "Compile about three times faster to slower code (NVRTC --Ofast-compile=mid)."
    )

    def __post_init__(self) -> None:
        for row in fields(self):
            value = _parsed(f"option {row.name}", row.metadata["parse"], getattr(self, row.name))
            object.__setattr__(self, row.name, value)

    @classmethod
    def from_pass_configs(cls, pass_configs: Mapping[str, object] | None = None) -> Self:
        """Read a `pass_configs` dictionary, as users of the original write it.

        Keys are `PassConfigKey` members or their strings; ``tir.`` and ``tirx.`` are one prefix.
        An option that no key sets takes its default, for `race_check` from the environment.
        """
        values: dict[str, Any] = {}
        set_by: dict[str, str] = {}
        for name, value in (pass_configs or {}).items():
            key = _find_key(name)
            row = PASS_CONFIGS[key]
            if isinstance(row, NoEffect):
                _warn_once(f"pass config {key.value!r}", row.why)
                continue
            parsed = row.parse(key, value)
            if values.setdefault(row.option, parsed) != parsed:
                raise OptionError(
                    f"pass configs {set_by[row.option]!r} and {key.value!r} contradict each other: "
                    f"both set {row.option}",
                    code="TL0502", help="leave one of them out",
                )  # fmt: skip
            set_by[row.option] = key.value
            if row.option in _NOT_YET and parsed != cls.__dataclass_fields__[row.option].default:
                _warn_once(f"pass config {key.value!r}", _NOT_YET[row.option])
        values.setdefault("race_check", env.TILELANG_ENABLE_DATA_RACE_CHECK)
        return cls(**values)

    def key_text(self) -> str:
        """All values in a fixed order, for the cache key: the same text in every process."""
        return "\n".join(f"{row.name}={getattr(self, row.name)!r}" for row in fields(self))


def option_rows() -> list[KnobRow]:
    """The table of options, for the documentation."""
    return [KnobRow(row.name, repr(row.default), _doc(row)) for row in fields(Options)]


def _doc(row: Field[Any]) -> str:
    why = _NOT_YET.get(row.name)
    return str(row.metadata["doc"]) + (f" No effect yet: {why}." if why else "")


# Knobs that are parsed and have no effect yet, and why: whoever sets one is told.
_USE_DUMP = "use TILELANG_DUMP=all, and TILELANG_DUMP_DIR for files"
_NO_FILES = "compilers use the system's temporary directory and leave nothing there"
_NOT_YET: Mapping[str, str] = {
    "vectorize_256": "128 bits is the widest access",
    "init_check": "only the simulator and kernel.verify find reads of what nothing wrote",
    "bounds_warning": "accesses that may be out of bounds are guarded, without a warning",
    "race_check": "races are found by the target cuda-sim",
    "TILELANG_ENABLE_DATA_RACE_CHECK": "races are found by the target cuda-sim",
    "TILELANG_PASS_DIFF": _USE_DUMP,
    "TILELANG_PASS_DIFF_OUTPUT": _USE_DUMP,
    "TL_LOWER_TRACE": _USE_DUMP,
    "TL_LOWER_TRACE_DIR": _USE_DUMP,
    "TILELANG_TMP_DIR": _NO_FILES,
    "TILELANG_CLEANUP_TEMP_FILES": _NO_FILES,
}


# --- pass_configs of the original -------------------------------------------------------------


class PassConfigKey(StrEnum):
    """The `pass_configs` keys that programs may name, by the names of the original."""

    TL_DISABLE_WARP_SPECIALIZED = "tl.disable_warp_specialized"
    TL_ENABLE_FAST_MATH = "tl.enable_fast_math"
    TL_DISABLE_FAST_MATH = "tl.disable_fast_math"
    TL_ALLOW_TF32 = "tl.allow_tf32"
    TL_FAST_COMPILE = "tl.fast_compile"
    TL_DISABLE_TMA_LOWER = "tl.disable_tma_lower"
    TL_DISABLE_WGMMA = "tl.disable_wgmma"
    TL_ENABLE_ASYNC_COPY = "tl.enable_async_copy"
    TL_DISABLE_THREAD_STORAGE_SYNC = "tl.disable_thread_storage_sync"
    TL_DISABLE_SHARED_MEMORY_REUSE = "tl.disable_shared_memory_reuse"
    TL_DISABLE_VECTORIZE_256 = "tl.disable_vectorize_256"
    TL_DISABLE_SAFE_MEMORY_ACCESS = "tl.disable_safe_memory_legalize"
    TL_CONFIG_INDEX_BITWIDTH = "tl.config_index_bitwidth"
    TL_DISABLE_PRELOWER_SEMANTIC_CHECK = "tl.disable_prelower_semantic_check"
    TL_DISABLE_BUFFER_INIT_CHECK = "tl.disable_buffer_init_check"
    TL_DISABLE_OUT_OF_BOUND_WARNING = "tl.disable_out_of_bound_warning"
    TL_DISABLE_DATA_RACE_CHECK = "tl.disable_data_race_check"
    TL_EMIT_LINE_DIRECTIVES = "tl.emit_line_directives"
    TL_PTXAS_REGISTER_USAGE_LEVEL = "tl.ptxas_register_usage_level"
    TL_DEVICE_COMPILE_FLAGS = "tl.device_compile_flags"
    TIR_USE_ASYNC_COPY = "tirx.use_async_copy"
    TIR_DISABLE_VECTORIZE = "tirx.disable_vectorize"
    TIR_NOALIAS = "tirx.noalias"

    TL_ENABLE_AUTO_SCHEDULE = "tl.enable_auto_schedule"
    TL_ENABLE_AUTO_WARP_SPECIALIZATION = "tl.enable_auto_warp_specialization"
    TL_ENABLE_FP32X2_REDUCTION = "tl.enable_fp32x2_reduction"
    TL_ENABLE_LOWER_LDGSTG = "tl.enable_lower_ldgstg"
    TL_ENABLE_LOWER_LDGSTG_PREDICATED = "tl.enable_lower_ldgstg_predicated"
    TL_ENABLE_AGGRESSIVE_SHARED_MEMORY_MERGE = "tl.enable_aggressive_shared_memory_merge"
    TL_DEBUG_MERGE_SHARED_MEMORY_ALLOCATIONS = "tl.debug_merge_shared_memory_allocations"
    TL_STORAGE_REWRITE_DETECT_INPLACE = "tl.storage_rewrite_detect_inplace"
    TL_LAYOUT_COST_MODEL = "tl.layout_cost_model"
    TL_LAYOUT_VISUALIZATION_ENABLE = "tl.layout_visualization_enable"
    TL_LAYOUT_VISUALIZATION_FORMATS = "tl.layout_visualization_formats"
    TL_DISABLE_SHUFFLE_ELECT = "tl.disable_shuffle_elect"
    TL_DISABLE_DYNAMIC_TAIL_SPLIT = "tl.disable_dynamic_tail_split"
    TL_DYNAMIC_ALIGNMENT = "tl.dynamic_alignment"
    TL_SIMPLIFY = "tl.Simplify"
    TL_FORCE_LET_INLINE = "tl.force_let_inline"
    TL_DISABLE_LOOP_UNSWITCHING = "tl.disable_loop_unswitching"
    TL_LOOP_UNSWITCHING_ALLOW_NON_TRIVIAL_ELSE = "tl.loop_unswitching_allow_non_trivial_else"
    TL_IF_STMT_BINDING_INLINE_REPLAYABLE_BINDS = "tl.if_stmt_binding_inline_replayable_binds"
    TL_REDUCER_FORCE_BASELINE = "tl.reducer_force_baseline"
    TL_ENABLE_REDUCER_PLAN_VERBOSE = "tl.enable_reducer_plan_verbose"
    TL_ENABLE_VECTORIZE_PLANNER_VERBOSE = "tl.enable_vectorize_planner_verbose"
    TL_ENABLE_PTXAS_VERBOSE_OUTPUT = "tl.enable_ptxas_verbose_output"
    TL_AST_PRINT_ENABLE = "tl.ast_print_enable"
    TL_ENABLE_DUMP_IR = "tl.enable_dump_ir"
    TL_DUMP_IR_DIR = "tl.dump_ir_path"
    TL_PASS_PROFILE = "tl.pass_profile"
    TL_PASS_PROFILE_THRESHOLD_MS = "tl.pass_profile_threshold_ms"
    CUDA_KERNELS_OUTPUT_DIR = "cuda.kernels_output_dir"
    TIR_ENABLE_EQUIV_TERMS_IN_CSE = "tirx.enable_equiv_terms_in_cse_tir"
    TIR_DISABLE_CSE = "tirx.disable_cse_tir"
    TIR_SIMPLIFY = "tirx.Simplify"
    TIR_DISABLE_STORAGE_REWRITE = "tirx.disable_storage_rewrite"
    TIR_ENABLE_DEBUG = "tirx.enable_debug"
    TIR_MERGE_STATIC_SMEM = "tirx.merge_static_smem"
    TIR_ADD_LOWER_PASS = "tirx.add_lower_pass"


@dataclass(frozen=True, slots=True)
class Sets:
    """The key sets this field of `Options`; `negated` when the key says what to disable."""

    option: str
    negated: bool = False

    def parse(self, key: PassConfigKey, value: object) -> Any:
        """The field's value for the key's value."""
        parser = Options.__dataclass_fields__[self.option].metadata["parse"]
        parsed = _parsed(f"pass config {key.value!r}", parser, value)
        return not parsed if self.negated else parsed


@dataclass(frozen=True, slots=True)
class NoEffect:
    """The key is accepted and does nothing, because of `why`."""

    why: str


_SIMPLIFIES = "expressions are simplified as they are built"
_CHOOSES = "the cheapest legal instruction is always chosen"
_MERGES = "shared memory is always laid out by the lifetimes of its buffers"
_NO_SUCH_PASS = "there is no such pass here"
_DUMP = "set TILELANG_DUMP to see the IR after any pass"
_TIME = "set TILELANG_TIME=1 to see the time of each pass"
_LAYOUTS = "call tilelang.tools.plot_layout to draw a layout"
_REPORTS = "kernel.show('why') reports every choice"

_Key = PassConfigKey
PASS_CONFIGS: Mapping[PassConfigKey, Sets | NoEffect] = {
    _Key.TL_DISABLE_WARP_SPECIALIZED: Sets("warp_specialize", negated=True),
    _Key.TL_ENABLE_FAST_MATH: Sets("fast_math"),
    _Key.TL_DISABLE_FAST_MATH: Sets("fast_math", negated=True),
    _Key.TL_ALLOW_TF32: Sets("allow_tf32"),
    _Key.TL_FAST_COMPILE: Sets("fast_compile"),
    _Key.TL_DISABLE_TMA_LOWER: Sets("tma", negated=True),
    _Key.TL_DISABLE_WGMMA: Sets("wgmma", negated=True),
    _Key.TL_ENABLE_ASYNC_COPY: Sets("async_copy"),
    _Key.TL_DISABLE_THREAD_STORAGE_SYNC: Sets("auto_sync", negated=True),
    _Key.TL_DISABLE_SHARED_MEMORY_REUSE: Sets("shared_memory_reuse", negated=True),
    _Key.TL_DISABLE_VECTORIZE_256: Sets("vectorize_256", negated=True),
    _Key.TL_DISABLE_SAFE_MEMORY_ACCESS: Sets("bounds_guard", negated=True),
    _Key.TL_CONFIG_INDEX_BITWIDTH: Sets("index_bits"),
    _Key.TL_DISABLE_PRELOWER_SEMANTIC_CHECK: Sets("semantic_check", negated=True),
    _Key.TL_DISABLE_BUFFER_INIT_CHECK: Sets("init_check", negated=True),
    _Key.TL_DISABLE_OUT_OF_BOUND_WARNING: Sets("bounds_warning", negated=True),
    _Key.TL_DISABLE_DATA_RACE_CHECK: Sets("race_check", negated=True),
    _Key.TL_EMIT_LINE_DIRECTIVES: Sets("line_directives"),
    _Key.TL_PTXAS_REGISTER_USAGE_LEVEL: Sets("ptxas_register_usage_level"),
    _Key.TL_DEVICE_COMPILE_FLAGS: Sets("compile_flags"),
    _Key.TIR_USE_ASYNC_COPY: Sets("async_copy"),
    _Key.TIR_DISABLE_VECTORIZE: Sets("vectorize", negated=True),
    _Key.TIR_NOALIAS: Sets("noalias"),
    _Key.TL_ENABLE_AUTO_SCHEDULE: NoEffect("loops are always scheduled by cost"),
    _Key.TL_ENABLE_AUTO_WARP_SPECIALIZATION: NoEffect(
        "warps are specialised where it pays, unless tl.disable_warp_specialized is set"
    ),
    _Key.TL_ENABLE_FP32X2_REDUCTION: NoEffect(_CHOOSES),
    _Key.TL_ENABLE_LOWER_LDGSTG: NoEffect(_CHOOSES),
    _Key.TL_ENABLE_LOWER_LDGSTG_PREDICATED: NoEffect(_CHOOSES),
    _Key.TL_ENABLE_AGGRESSIVE_SHARED_MEMORY_MERGE: NoEffect(_MERGES),
    _Key.TL_DEBUG_MERGE_SHARED_MEMORY_ALLOCATIONS: NoEffect(_REPORTS),
    _Key.TL_STORAGE_REWRITE_DETECT_INPLACE: NoEffect(_NO_SUCH_PASS),
    _Key.TL_LAYOUT_COST_MODEL: NoEffect("there is one cost model"),
    _Key.TL_LAYOUT_VISUALIZATION_ENABLE: NoEffect(_LAYOUTS),
    _Key.TL_LAYOUT_VISUALIZATION_FORMATS: NoEffect(_LAYOUTS),
    _Key.TL_DISABLE_SHUFFLE_ELECT: NoEffect(_CHOOSES),
    _Key.TL_DISABLE_DYNAMIC_TAIL_SPLIT: NoEffect("tails are predicated, never split by this rule"),
    _Key.TL_DYNAMIC_ALIGNMENT: NoEffect("alignment is tested at run time, not assumed"),
    _Key.TL_SIMPLIFY: NoEffect(_SIMPLIFIES),
    _Key.TL_FORCE_LET_INLINE: NoEffect(_SIMPLIFIES),
    _Key.TL_DISABLE_LOOP_UNSWITCHING: NoEffect(_NO_SUCH_PASS),
    _Key.TL_LOOP_UNSWITCHING_ALLOW_NON_TRIVIAL_ELSE: NoEffect(_NO_SUCH_PASS),
    _Key.TL_IF_STMT_BINDING_INLINE_REPLAYABLE_BINDS: NoEffect(_NO_SUCH_PASS),
    _Key.TL_REDUCER_FORCE_BASELINE: NoEffect(_CHOOSES),
    _Key.TL_ENABLE_REDUCER_PLAN_VERBOSE: NoEffect(_REPORTS),
    _Key.TL_ENABLE_VECTORIZE_PLANNER_VERBOSE: NoEffect(_REPORTS),
    _Key.TL_ENABLE_PTXAS_VERBOSE_OUTPUT: NoEffect("see kernel.n_regs and kernel.n_spills"),
    _Key.TL_AST_PRINT_ENABLE: NoEffect(_DUMP),
    _Key.TL_ENABLE_DUMP_IR: NoEffect(_DUMP),
    _Key.TL_DUMP_IR_DIR: NoEffect(_DUMP),
    _Key.TL_PASS_PROFILE: NoEffect(_TIME),
    _Key.TL_PASS_PROFILE_THRESHOLD_MS: NoEffect(_TIME),
    _Key.CUDA_KERNELS_OUTPUT_DIR: NoEffect("use debug_root_path of tilelang.jit"),
    _Key.TIR_ENABLE_EQUIV_TERMS_IN_CSE: NoEffect("equal expressions are one node"),
    _Key.TIR_DISABLE_CSE: NoEffect("equal expressions are one node"),
    _Key.TIR_SIMPLIFY: NoEffect(_SIMPLIFIES),
    _Key.TIR_DISABLE_STORAGE_REWRITE: NoEffect(_NO_SUCH_PASS),
    _Key.TIR_ENABLE_DEBUG: NoEffect(_DUMP),
    _Key.TIR_MERGE_STATIC_SMEM: NoEffect(_MERGES),
    _Key.TIR_ADD_LOWER_PASS: NoEffect("passes of TVM cannot run on this IR"),
}


def _find_key(name: object) -> PassConfigKey:
    """The key that a user's spelling means."""
    text = str(name)
    if text.startswith("tir."):
        text = f"tirx.{text.removeprefix('tir.')}"
    if text.lower().startswith("tl.simplify"):  # the sub keys of the original's simplifier
        return PassConfigKey.TL_SIMPLIFY
    try:
        return PassConfigKey(text)
    except ValueError:
        known = [key.value for key in PassConfigKey]
        raise OptionError(
            f"unknown pass config {str(name)!r}",
            code="TL0503",
            help=did_you_mean(text, known) or "tilelang.PassConfigKey lists the known ones",
        ) from None


@functools.cache
def _warn_once(what: str, why: str) -> None:
    """Say once per process that an old knob does nothing; the cache is the memory of it."""
    warnings.warn(f"{what} is accepted but has no effect: {why}", CompatWarning, stacklevel=3)


def pass_config_rows() -> list[KnobRow]:
    """The table of `pass_configs` keys, for the documentation; the default is the key's own."""
    return [_pass_config_row(key, row) for key, row in PASS_CONFIGS.items()]


def _pass_config_row(key: PassConfigKey, row: Sets | NoEffect) -> KnobRow:
    if isinstance(row, NoEffect):
        return KnobRow(key.value, "-", f"No effect: {row.why}.")
    default = Options.__dataclass_fields__[row.option].default
    if row.negated:
        return KnobRow(key.value, repr(not default), f"Sets `{row.option}` to the opposite.")
    return KnobRow(key.value, repr(default), f"Sets `{row.option}`.")


# --- environment variables --------------------------------------------------------------------
# A parser turns the text of a variable into a value, or raises ValueError with what it expected.

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


def _env_switch(text: str) -> bool:
    if text.lower() in _TRUE | _FALSE:
        return text.lower() in _TRUE
    raise ValueError("1 or 0")


def _env_int(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("an integer") from None


def _env_count(text: str) -> int:
    if text.isascii() and text.isdigit() and int(text) > 0:
        return int(text)
    raise ValueError("a positive integer")


def _env_float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("a number") from None


def _env_words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _env_pass_diff(text: str) -> str:
    if text in ("terminal", "html", "both"):
        return text
    raise ValueError("terminal, html or both")


def _env_size(text: str) -> int | None:
    """Bytes, perhaps with a unit; None for no limit."""
    found = re.fullmatch(r"([0-9]+)([KMGT]?)(i?B)?", text, re.IGNORECASE)
    if found is None:
        raise ValueError("a size such as 500M or 4G (0: no limit)")
    return int(found[1]) << 10 * " KMGT".index(found[2].upper() or " ") or None


class _Variable(Generic[T]):
    """An environment variable as an attribute of `Env`, named as it is in the environment.

    It is read at each access, so that a change is seen at once.  Assigning overrides it for this
    process without touching the environment that child processes see; `del` ends the override.
    A default that is a function is computed from the other variables, and its docstring is what
    the documentation shows.
    """

    def __init__(
        self, parse: Callable[[str], T], default: T | Callable[[Env], T], doc: str
    ) -> None:
        self.parse = parse
        self.default = default
        self.doc = doc
        self.name = ""

    def __set_name__(self, owner: type[Env], name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type[Env]) -> Self: ...
    @overload
    def __get__(self, instance: Env, owner: type[Env]) -> T: ...
    def __get__(self, instance: Env | None, owner: type[Env]) -> Self | T:
        if instance is None:
            return self
        if self.name in instance.overrides:
            return cast(T, instance.overrides[self.name])
        text = os.environ.get(self.name, "").strip()
        if not text:
            return self.default(instance) if callable(self.default) else self.default
        try:
            return self.parse(text)
        except ValueError as error:
            raise OptionError(
                f"environment variable {self.name} expects {error}, got {text!r}",
                code="TL0504", help=f"unset {self.name} for the default",
            ) from None  # fmt: skip

    def __set__(self, instance: Env, value: T) -> None:
        instance.overrides[self.name] = value

    def __delete__(self, instance: Env) -> None:
        instance.overrides.pop(self.name, None)

    def row(self) -> KnobRow:
        """The row of this variable in the documentation."""
        shown = self.default.__doc__ or "" if callable(self.default) else repr(self.default)
        why = _NOT_YET.get(self.name)
        return KnobRow(self.name, shown, self.doc + (f" No effect yet: {why}." if why else ""))


class _Ignored(_Variable[str]):
    """A variable of the original that has no counterpart here, because of `why`."""

    def __init__(self, why: str) -> None:
        super().__init__(str, "", f"No effect: {why}.")
        self.why = why


def _default_cache_dir(env: Env) -> Path:
    """~/.tilelang/cache"""
    return Path.home() / ".tilelang" / "cache"


def _default_tmp_dir(env: Env) -> Path:
    """tmp in TILELANG_CACHE_DIR"""
    return env.TILELANG_CACHE_DIR / "tmp"


def _default_target(env: Env) -> str:
    """TILELANG_TARGET"""
    return env.TILELANG_TARGET


def _default_cuda_home(env: Env) -> Path | None:
    """CUDA_PATH"""
    return env.CUDA_PATH


def _default_time(env: Env) -> bool:
    """TILELANG_PASS_PROFILE"""
    return env.TILELANG_PASS_PROFILE


def _path(text: str) -> Path:
    return Path(text).expanduser()


def _maybe_path(text: str) -> Path | None:
    return _path(text)


def _maybe_count(text: str) -> int | None:
    return _env_count(text)


def _maybe_float(text: str) -> float | None:
    return _env_float(text)


_NATIVE = "there is no native library to find"
_NO_TEMPLATES = "device headers are our own and are part of the package"


class Env:
    """The environment variables, typed.  One instance, `env`, serves the process."""

    def __init__(self) -> None:
        self.overrides: dict[str, object] = {}
        self.env = self  # programs write both `tilelang.env.X` and `tilelang.env.env.X`

    # what to compile for
    TILELANG_DEFAULT_TARGET = _Variable(str, _default_target, "Target when none is given.")
    TILELANG_TARGET = _Variable(str, "auto", "Older name of TILELANG_DEFAULT_TARGET.")
    TILELANG_EXECUTION_BACKEND = _Variable(
        str, "auto", "How kernels are called: tvm_ffi, nvrtc, ctypes, cython, torch, sim or auto."
    )
    CUDA_HOME = _Variable(_maybe_path, _default_cuda_home, "CUDA toolkit, for nvcc if asked for.")
    CUDA_PATH = _Variable(_maybe_path, None, "The same, as other systems spell it.")
    CC = _Variable(str, "", "Host C compiler of target c; empty to search for one.")
    TILELANG_COMPILE_TIMEOUT_SECONDS = _Variable(
        _maybe_float, None, "Give up on an external compiler after this time."
    )
    # caches and files
    TILELANG_CACHE_DIR = _Variable(_path, _default_cache_dir, "Where compiled kernels are kept.")
    TILELANG_CACHE_SIZE = _Variable(
        _env_size,
        4 << 30,
        "How much kernels may take: 500M, 4G, 0 for no limit. What was not used for longest goes.",
    )
    TILELANG_TMP_DIR = _Variable(_path, _default_tmp_dir, "Where compilers put their files.")
    TILELANG_DISABLE_CACHE = _Variable(_env_switch, False, "Compile everything anew.")
    TILELANG_CLEANUP_TEMP_FILES = _Variable(
        _env_switch, True, "Remove the compilers' files after use."
    )
    TILELANG_SIM_DIR = _Variable(
        _maybe_path, None, "Where the simulator's library is kept; in the cache directory if unset."
    )
    # running
    TILELANG_CPU_THREADS = _Variable(
        _maybe_count, None, "Threads that run the blocks of a CPU kernel; all cores if unset."
    )
    TILELANG_AUTO_TUNING_DISABLE_CACHE = _Variable(
        _env_switch, False, "Tune anew even if a result is stored."
    )
    TILELANG_AUTO_TUNING_CPU_UTILITIES = _Variable(
        _env_float, 0.9, "Share of the cores that compile while tuning."
    )
    TILELANG_AUTO_TUNING_CPU_COUNTS = _Variable(
        _env_int, -1, "Number of compile workers while tuning; -1 for the share above."
    )
    TILELANG_AUTO_TUNING_MAX_CPU_COUNT = _Variable(
        _env_int, -1, "Upper limit of that number; -1 for none."
    )
    # what to print
    TILELANG_VERBOSE = _Variable(_env_switch, False, "Default of `verbose` of tilelang.jit.")
    TILELANG_PRINT_ON_COMPILATION = _Variable(
        _env_switch, True, "Log a line when a kernel is compiled."
    )
    TILELANG_JIT_DIAGNOSTICS = _Variable(
        _env_switch, False, "Log why a call compiled anew or was served from a cache."
    )
    # looking inside
    TILELANG_DUMP = _Variable(
        _env_words, (), "What to dump, separated by commas: after:PASS, all, source, ptx."
    )
    TILELANG_DUMP_DIR = _Variable(
        _maybe_path, None, "Where TILELANG_DUMP writes; standard error if unset."
    )
    TILELANG_VERIFY = _Variable(_env_switch, False, "Check the IR after every pass.")
    TILELANG_STOP_AFTER = _Variable(str, "", "Stop lowering after the pass of this name.")
    TILELANG_TIME = _Variable(_env_switch, _default_time, "Print the time of each pass.")
    TILELANG_PASS_PROFILE = _Variable(_env_switch, False, "Older name of TILELANG_TIME.")
    TILELANG_PASS_PROFILE_THRESHOLD_MS = _Variable(
        _env_float, 0.0, "Leave passes that take less out of the table."
    )
    TILELANG_PASS_DIFF = _Variable(
        _env_pass_diff, "", "Show what each pass changed: terminal, html or both."
    )
    TILELANG_PASS_DIFF_OUTPUT = _Variable(_maybe_path, None, "Where the html goes.")
    TL_LOWER_TRACE = _Variable(_env_switch, False, "Write the IR after every pass to files.")
    TL_LOWER_TRACE_DIR = _Variable(_maybe_path, None, "Where they go.")
    TILELANG_ENABLE_DATA_RACE_CHECK = _Variable(
        _env_switch, False, "Default of the option race_check."
    )
    # of the original, without a counterpart
    TILELANG_ENABLE_IR_SPAN = _Ignored("errors always name the line")
    TILELANG_KERNEL_CACHE_USE_LIB_STAMP = _Ignored("the cache key always covers our own sources")
    TILELANG_LAYOUT_COST_MODEL = _Ignored("there is one cost model")
    TILELANG_HIP_SAVE_TEMP_FILES = _Ignored("there is no HIP backend")
    ROCM_PATH = _Ignored("there is no HIP backend")
    TL_CUTLASS_PATH = _Ignored(_NO_TEMPLATES)
    TL_COMPOSABLE_KERNEL_PATH = _Ignored(_NO_TEMPLATES)
    TL_TEMPLATE_PATH = _Ignored(_NO_TEMPLATES)
    TVM_IMPORT_PYTHON_PATH = _Ignored(_NATIVE)
    TVM_LIBRARY_PATH = _Ignored(_NATIVE)
    SKIP_LOADING_TILELANG_SO = _Ignored(_NATIVE)

    def warn_ignored(self) -> None:
        """Warn once about each variable that is set for us and does nothing.

        Variables that other software reads too are set for its sake, so they are left alone.
        """
        for variable in _variables():
            ours = variable.name.startswith(("TILELANG_", "TL_"))
            why = variable.why if isinstance(variable, _Ignored) else _NOT_YET.get(variable.name)
            if why and ours and os.environ.get(variable.name):
                _warn_once(f"environment variable {variable.name}", why)


def _variables() -> Iterator[_Variable[Any]]:
    return (value for value in vars(Env).values() if isinstance(value, _Variable))


def env_rows() -> list[KnobRow]:
    """The table of environment variables, for the documentation."""
    return [variable.row() for variable in _variables()]


env = Env()
