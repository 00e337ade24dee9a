# SPDX-License-Identifier: Apache-2.0
"""`Target`: what a kernel is compiled for.

In: "auto", "cuda -arch=sm_90a", {"kind": "cuda", "arch": "sm_90a"}, "llvm -mcpu=x86-64-v3", "c",
"cuda-sim -arch=sm_80", or a `Target`. Out: an immutable, hashable `Target` whose `str()` names it
completely (and is part of the cache key), with features as named booleans. `with target:` makes it
the current one of this thread of control.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from tilelang.config import env
from tilelang.errors import TargetError, did_you_mean

from . import cpu as _cpu
from .cuda import ARCHES, CudaArch, find_arch
from .detect import cuda_devices, has_cuda_compiler

__all__ = [
    "ARCHES", "KINDS", "CudaArch", "Target", "canon_target_host", "determine_target",
    "simulate_cuda",
]  # fmt: skip

KINDS = ("cuda", "cuda-sim", "llvm", "c")
_OPTIONS = {
    "cuda": ("arch",), "cuda-sim": ("arch",), "llvm": ("mcpu", "mattr"), "c": ("mcpu", "mattr"),
}  # fmt: skip
# What a simulated device, or compiling for CUDA where there is no device, means without an arch.
_DEFAULT_ARCH = "sm_80"
_stack: ContextVar[tuple[Target, ...]] = ContextVar("tilelang_targets", default=())


class simulate_cuda:
    """`with simulate_cuda():` — target cuda means the simulator in the whole process."""

    on = False

    def __enter__(self) -> None:
        simulate_cuda.on = True

    def __exit__(self, *exc: object) -> None:
        simulate_cuda.on = False


class Target:
    """kind: cuda, cuda-sim (the same code run by the simulator), llvm or c."""

    __slots__ = ("_attributes", "_cuda", "_mcpu", "_text", "kind")
    kind: str
    _attributes: tuple[str, ...]
    _cuda: CudaArch | None
    _mcpu: str
    _text: str

    def __new__(cls, spec: Any = "auto", arch: str | int | None = None) -> Target:
        if isinstance(spec, Target):
            return spec if arch is None else cls(spec.kind, arch)
        kind, options = _parse(spec)
        if kind == "auto":
            return _automatic()
        if kind == "cuda" and simulate_cuda.on:
            kind = "cuda-sim"
        if arch is not None:
            options["arch"] = str(arch)
        _check_options(kind, options)
        self = object.__new__(cls)
        put = object.__setattr__
        put(self, "kind", kind)
        put(self, "_cuda", _arch_of(kind, options) if kind.startswith("cuda") else None)
        put(self, "_mcpu", options.get("mcpu", ""))
        put(self, "_attributes", tuple(a for a in options.get("mattr", "").split(",") if a))
        put(self, "_text", _canonical(self))
        return self

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Target is immutable: cannot set {name}")

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Target({self._text!r})"

    def __eq__(self, other: object) -> bool:
        return self._text == other._text if isinstance(other, Target) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[type[Target], tuple[str]]:
        return Target, (self._text,)

    # ----------------------------------------------------------------------------- current target

    @staticmethod
    def current() -> Target | None:
        """The target of the innermost `with`, or None."""
        stack = _stack.get()
        return stack[-1] if stack else None

    def __enter__(self) -> Target:
        _stack.set((*_stack.get(), self))
        return self

    def __exit__(self, *exc: object) -> None:
        _stack.set(_stack.get()[:-1])

    # ----------------------------------------------------------------------------- kinds

    @property
    def is_cuda(self) -> bool:
        """CUDA code is generated, for a device or for the simulator."""
        return self._cuda is not None

    @property
    def is_sim(self) -> bool:
        return self.kind == "cuda-sim"

    @property
    def is_cpu(self) -> bool:
        return self._cuda is None

    # ----------------------------------------------------------------------------- CUDA

    @property
    def cuda(self) -> CudaArch:
        """The row of the architecture table."""
        if self._cuda is None:
            raise TargetError(
                f"target {self} has no CUDA architecture",
                code="TL0602",
                help="ask target.is_cuda first",
            )
        return self._cuda

    @property
    def arch(self) -> int:
        """Compute capability as a number (90); 0 on a CPU."""
        return 0 if self._cuda is None else self._cuda.number

    @property
    def arch_name(self) -> str:
        """As compilers spell it (sm_90a); empty on a CPU."""
        return "" if self._cuda is None else self._cuda.name

    @property
    def max_smem(self) -> int:
        """Bytes of shared memory that one block may have."""
        return self.cuda.max_smem

    @property
    def max_threads(self) -> int:
        """Threads that one block may have."""
        return self.cuda.max_threads

    @property
    def num_sms(self) -> int:
        """Multiprocessors: of the device at hand if it is of this architecture, else as usual."""
        if self.kind == "cuda":
            for device in cuda_devices():
                if device.arch == self.arch:
                    return device.num_sms
        return self.cuda.num_sms

    @property
    def has_cp_async(self) -> bool:
        return self.arch >= 80

    @property
    def has_mma(self) -> bool:
        """mma.sync with the shapes of `ir.intrinsics.MMA_SHAPES`."""
        return self.arch >= 80

    @property
    def has_tma(self) -> bool:
        return self.arch >= 90

    @property
    def has_mbarrier(self) -> bool:
        """mbarriers with transaction counts (sm_80 has them without)."""
        return self.arch >= 90

    @property
    def has_wgmma(self) -> bool:
        return self.arch_name == "sm_90a"

    @property
    def has_setmaxnreg(self) -> bool:
        return self.arch_name in ("sm_90a", "sm_100a", "sm_103a", "sm_120a")

    # ----------------------------------------------------------------------------- CPU

    @property
    def cpu(self) -> str:
        """The CPU as LLVM names it; loads LLVM when it is this machine's."""
        return self._mcpu if self._mcpu not in ("", "native") else _cpu.host_name()

    @property
    def is_native(self) -> bool:
        """Is the code for this very machine?"""
        return self.is_cpu and self._mcpu in ("", "native")

    @property
    def cpu_attributes(self) -> tuple[str, ...]:
        """What the user added or removed (`+avx2`, `-avx512f`)."""
        return self._attributes

    @property
    def cpu_features(self) -> frozenset[str]:
        """Names of the CPU's features as LLVM spells them."""
        return _cpu.features_of(self._mcpu, self._attributes)

    @property
    def vector_bits(self) -> int:
        """Width of a CPU vector register."""
        return _cpu.vector_bits(self.cpu_features)

    @property
    def vector_registers(self) -> int:
        """Number of CPU vector registers."""
        return _cpu.vector_registers(self.cpu_features)

    def key_text(self) -> str:
        """All that generated code may depend on, the CPU's features included: for the cache key."""
        if self.is_cpu:
            return f"{self._text}\n{' '.join(sorted(self.cpu_features))}"
        # the grid of a persistent kernel, which only warp specialization makes
        return f"{self._text}\n{self.num_sms if self.has_wgmma else ''}"


def _parse(spec: object) -> tuple[str, dict[str, str]]:
    if isinstance(spec, Mapping):
        options = {str(k).lstrip("-"): _option_text(v) for k, v in spec.items() if k != "kind"}
        return _check_kind(str(spec.get("kind", ""))), options
    if not isinstance(spec, str):
        raise TargetError(
            f"a target is a string, a dict or a Target, not {type(spec).__name__}",
            code="TL0603",
            help="e.g. target='cuda', or {'kind': 'cuda', 'arch': 'sm_90'}",
        )
    words = spec.split()
    options = {}
    for word in words[1:]:
        name, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("-") or not equals:
            raise TargetError(
                f"cannot read {word!r} in target {spec!r}",
                code="TL0604",
                help="options are written -name=value, e.g. cuda -arch=sm_90",
            )
        options[name] = value
    return _check_kind(words[0] if words else ""), options


def _option_text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _check_kind(kind: str) -> str:
    if kind in KINDS or kind == "auto":
        return kind
    suggestion = did_you_mean(kind, KINDS) or f"known are auto, {', '.join(KINDS)}"
    if any(map(str.isdigit, kind)):  # cuda-sm90, sm_90a, cuda:80
        suggestion = "the architecture is an option, e.g. cuda -arch=sm_90a"
    raise TargetError(
        f"target {kind!r} is not supported",
        code="TL0605",
        help=suggestion,
    )


def _check_options(kind: str, options: Mapping[str, str]) -> None:
    for name in options:
        if name not in _OPTIONS[kind]:
            raise TargetError(
                f"target {kind} has no option -{name}",
                code="TL0606",
                help=did_you_mean(name, _OPTIONS[kind])
                or f"it has {', '.join('-' + o for o in _OPTIONS[kind])}",
            )


def _arch_of(kind: str, options: Mapping[str, str]) -> CudaArch:
    if "arch" in options:
        return find_arch(options["arch"])
    devices = cuda_devices() if kind == "cuda" else ()
    return find_arch(devices[0].arch if devices else _DEFAULT_ARCH)


def _canonical(target: Target) -> str:
    if target.is_cuda:
        return f"{target.kind} -arch={target.arch_name}"
    text = target.kind
    if not target.is_native:
        text += f" -mcpu={target._mcpu}"
    if target._attributes:
        text += f" -mattr={','.join(target._attributes)}"
    return text


def _automatic() -> Target:
    """The current target, the environment's default, CUDA if it can be used here, else the CPU."""
    current = Target.current()
    if current is not None:
        return current
    default = env.TILELANG_DEFAULT_TARGET
    if default and default != "auto":
        return Target(default)
    return Target("cuda" if cuda_devices() and has_cuda_compiler() else "llvm")


def determine_target(target: Any = "auto", return_object: bool = False) -> Any:
    """What `target` (None and "auto" mean: choose) stands for, as text or as a `Target`."""
    found = Target("auto" if target is None else target)
    return found if return_object else str(found)


def canon_target_host(target: Any, target_host: Any = None) -> Target:
    """The target of host code: as given, else C beside C kernels and LLVM beside all others (C too
    beside CUDA where llvmlite is missing)."""
    if target_host is not None and target_host != "auto":
        host = Target(target_host)
        if host.is_cuda:
            raise TargetError(
                f"target host {host} is not a CPU",
                code="TL0607",
                help="use llvm or c",
            )
        return host
    kind = Target(target).kind
    if kind == "c" or (kind != "llvm" and importlib.util.find_spec("llvmlite") is None):
        return Target("c")
    return Target("llvm")
