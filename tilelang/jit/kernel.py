# SPDX-License-Identifier: Apache-2.0
"""`JITKernel`: a compiled kernel. Calling it runs it; the rest shows what it is made of.

In: a PrimFunc, or an artifact from the cache. Out: a callable. Each kernel has a class of its own
whose `__call__` is the adapter's function, so that a call has no layer of ours in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilelang.config import Options
from tilelang.engine import CompiledArtifact, KernelParam, lower
from tilelang.errors import ArgumentValueError, InternalError
from tilelang.runtime.tvm_ffi import soon
from tilelang.transform import PassContext

from .adapter import adapter_class

if TYPE_CHECKING:
    from tilelang.ir import PrimFunc
    from tilelang.profiler import Profiler
    from tilelang.target import Target

__all__ = ["JITKernel", "lowered_elsewhere"]

# What lowers for this thread's kernels, with the arguments of `LoweringPool.lower`, which gives
# None for those that it does not take: inside `par_compile` a pool of processes.
lowered_elsewhere: ContextVar[Callable[..., CompiledArtifact | None] | None] = ContextVar(
    "tilelang_lowered_elsewhere", default=None
)


class JITKernel:
    """A kernel, compiled for one target and bound to one execution backend."""

    def __new__(cls, *args: Any, **kwargs: Any) -> JITKernel:
        return object.__new__(type(cls.__name__, (cls,), {"__module__": cls.__module__}))

    def __init__(
        self,
        func: PrimFunc | None,
        out_idx: Sequence[int] = (),
        execution_backend: str = "tvm_ffi",
        target: Any = "auto",
        target_host: Any = None,
        verbose: bool = False,
        pass_configs: Mapping[str, Any] | None = None,
        compile_flags: Sequence[str] | None = None,
        *,
        options: Options | None = None,
        artifact: CompiledArtifact | None = None,
    ) -> None:
        self.prim_func = func
        self.out_idx = list(out_idx)
        self.execution_backend = execution_backend
        self.target: Target = target
        self.target_host = target_host
        self.verbose = verbose
        self.pass_configs = dict(pass_configs or {})
        self.compile_flags = list(compile_flags or ())
        self.options = Options.from_pass_configs(self.pass_configs) if options is None else options
        self.latency: float | None = None
        self.config: dict[str, Any] | None = None
        self.ref_latency: float | None = None
        self.artifact = self._compile_and_create_adapter(artifact)

    def _compile_and_create_adapter(self, artifact: CompiledArtifact | None) -> CompiledArtifact:
        """Lowers unless the cache did. Host code and a device binary are made exactly for the
        backend that calls the packed entry; the others compile the source themselves."""
        adapter = adapter_class(self.execution_backend)
        if artifact is None:
            if self.prim_func is None:
                raise InternalError("a kernel needs a function or an artifact")
            packed = adapter.needs_host_code
            elsewhere = lowered_elsewhere.get()
            if elsewhere is not None:
                artifact = elsewhere(
                    self.prim_func, self.target, self.target_host, self.options, packed
                )
            if artifact is None:
                artifact = self._lower(self.prim_func, packed)
        self.params: list[KernelParam] = list(artifact.params or ())
        self.adapter = adapter(
            self.params, self.out_idx, self.target, self.prim_func, artifact.host_mod,
            artifact.codegen_mod, artifact.rt_mod, artifact.kernel_source, self.verbose,
            self.pass_configs, self.compile_flags, options=self.options,
        )  # fmt: skip
        artifact.rt_mod = self.adapter.rt_mod  # an adapter may have made its host code itself
        if not adapter.traceable:
            type(self).__call__ = staticmethod(self.adapter.func)  # type: ignore[method-assign]
        return artifact

    def _lower(self, func: PrimFunc, packed: bool) -> CompiledArtifact:
        context = PassContext(self.target, self.options, opt_level=3, config=self.pass_configs)
        with context, self.target, soon() if packed else nullcontext():
            return lower(
                func, self.target, self.target_host,
                enable_host_codegen=packed, enable_device_compile=packed,
            )  # fmt: skip

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Runs the kernel: inputs in, the output (or the list of outputs) out."""
        return self.adapter.func(*args, **named)

    def __repr__(self) -> str:
        name = self.artifact.call.name if self.artifact.call else "?"
        return f"<JITKernel {name} for {self.target} by {self.execution_backend}>"

    @classmethod
    def from_database(cls, artifact: CompiledArtifact, **kwargs: Any) -> JITKernel:
        """A kernel from an artifact that the cache stored."""
        return cls(kwargs.pop("func", None), artifact=artifact, **kwargs)

    @classmethod
    def from_tilelang_function(cls, func: PrimFunc, **kwargs: Any) -> JITKernel:
        """Compiles a PrimFunc."""
        return cls(func, **kwargs)

    # ------------------------------------------------------------------------------ sources

    @property
    def func(self) -> Callable[..., Any]:
        return self.adapter.func

    torch_function = func

    @property
    def kernel_source(self) -> str:
        return self.artifact.kernel_source

    kernel_global_source = kernel_source

    @property
    def host_source(self) -> str:
        return self.get_host_source()

    def get_kernel_source(self, kernel_only: bool = True) -> str:
        """Text of the kernels (and of the host code, if not `kernel_only`)."""
        if kernel_only:
            return self.kernel_source
        return f"{self.kernel_source}\n{self.get_host_source()}"

    def get_host_source(self) -> str:
        """Text of the packed entry; empty for a backend that has none."""
        return self.adapter.get_host_source()

    def show_source(self, which: str = "kernel") -> None:
        """Prints sources: "kernel", "host" or "both"."""
        print(self._sources(which))

    def print_source_code(self, which: str = "kernel", file: str | None = None) -> None:
        """The same, to a file if one is given."""
        if file is None:
            self.show_source(which)
        else:
            Path(file).write_text(self._sources(which), encoding="utf-8")

    def _sources(self, which: str) -> str:
        if which not in ("kernel", "host", "both"):
            raise ArgumentValueError(
                f"show_source takes kernel, host or both, not {which!r}",
                code="TL0950",
                help="'both' gives all of it",
            )
        parts = {"kernel": self.kernel_source, "host": self.get_host_source()}
        return "\n".join(parts.values()) if which == "both" else parts[which]

    def export_sources(self, kernel_path: str | None = None, host_path: str | None = None) -> None:
        """Writes sources to files."""
        if kernel_path is not None:
            Path(kernel_path).write_text(self.kernel_source, encoding="utf-8")
        if host_path is not None:
            Path(host_path).write_text(self.get_host_source(), encoding="utf-8")

    def export_library(self, path: str | Path) -> None:
        """Writes a shared library that needs tvm-ffi only: `tvm_ffi.load_module(path)`."""
        from .export import export_library

        export_library(self.function(), self.target, self.options, path)

    # ------------------------------------------------------------------------------ looking in

    def show(self, what: str = "source") -> str:
        """Text about the kernel: "source", "host", "ir", "why" (choices and reasons), "time"."""
        shown = {
            "source": lambda: self.kernel_source,
            "host": self.get_host_source,
            "ir": lambda: self.function().script(),
            "why": lambda: "\n".join(self.artifact.notes),
            "time": self._times,
            "ptx": self._get_ptx,
            "sass": self._get_sass,
        }
        if what not in shown:
            raise ArgumentValueError(
                f"show takes one of {', '.join(shown)}, not {what!r}",
                code="TL0951",
                help="leave it out for the source",
            )
        text = shown[what]() or self._why_nothing(what)
        print(text)
        return text

    def _why_nothing(self, what: str) -> str:
        """One line in place of an empty text."""
        if what == "time":
            return "# no times: the kernel comes from the cache (TILELANG_TIME=1 compiles anew)"
        if what == "why":
            return f"# no choices were recorded for this kernel (target {self.target})"
        return f"# no {what}: execution backend {self.execution_backend} has none"

    def _times(self) -> str:
        rows = [f"{name:24} {1e3 * t:8.2f} ms" for name, t in self.artifact.timings.items()]
        return "\n".join(rows)

    def function(self) -> PrimFunc:
        """The function that was compiled."""
        if self.prim_func is None:
            raise ArgumentValueError(
                "a kernel from the cache keeps no function",
                code="TL0952",
                help="compile the function itself: tilelang.compile(func)",
            )
        return self.prim_func

    def _cuda_only(self, what: str) -> str:
        if not self.target.is_cuda or self.target.is_sim:
            raise ArgumentValueError(
                f"a kernel for {self.target} has no {what}",
                code="TL0953",
                help="compile for target='cuda' to see it",
            )
        return self.kernel_source

    def _get_ptx(self) -> str:
        from tilelang.codegen.headers import device_headers
        from tilelang.runtime.nvrtc import compile_ptx

        source = self._cuda_only("PTX")
        return compile_ptx(source, self.target.arch_name, self.options, device_headers(source))

    def _get_sass(self) -> str:
        from tilelang.runtime.sass import disassemble

        self._cuda_only("SASS")
        module = self.artifact.codegen_mod
        return disassemble((module.binary if module else None) or b"")

    def show_ptx(self) -> None:
        print(self._get_ptx())

    def export_ptx(self, path: str) -> None:
        Path(path).write_text(self._get_ptx(), encoding="utf-8")

    def show_sass(self) -> None:
        print(self._get_sass())

    def export_sass(self, path: str) -> None:
        Path(path).write_text(self._get_sass(), encoding="utf-8")

    # ------------------------------------------------------------------------------ resources

    @property
    def resource_usage(self) -> dict[str, Any]:
        """Registers, spills and memory per kernel, as ptxas reported them; empty on a CPU."""
        from tilelang.runtime.device_compiler import parse_usage

        module = self.artifact.codegen_mod
        return {} if module is None else parse_usage(module.log)

    def _worst(self, read: Callable[[Any], int]) -> int:
        return max((read(u) for u in self.resource_usage.values()), default=0)

    @property
    def n_regs(self) -> int:
        return self._worst(lambda u: int(u.registers))

    @property
    def n_spills(self) -> int:
        return self._worst(lambda u: int(u.spills))

    @property
    def n_max_threads(self) -> int:
        """Threads that one block may have."""
        return self.target.max_threads if self.target.is_cuda else 1

    # ------------------------------------------------------------------------------ running

    def run_once(self, func: Callable[..., Any] | None = None) -> Any:
        """Runs on generated inputs."""
        return self.get_profiler().run_once(func)

    def get_profiler(self, tensor_supply_type: Any = None) -> Profiler:
        """Timing and comparison on generated inputs."""
        from tilelang.profiler import Profiler, TensorSupplyType

        supply = TensorSupplyType.Auto if tensor_supply_type is None else tensor_supply_type
        return Profiler(self, supply)

    def verify(self, *args: Any, rtol: float | None = None, atol: float | None = None) -> None:
        """Runs on `args` and compares every tensor with what the interpreter of the program's
        meaning gives for the same inputs: floats up to 0.01, relative and absolute, integers
        exactly, unless it is told otherwise."""
        from .verify import verify

        verify(self, args, rtol, atol)

    def update_tuner_result(
        self, latency: float, config: dict[str, Any], ref_latency: float | None = None
    ) -> JITKernel:
        """Remembers what a tuner found."""
        self.latency, self.config, self.ref_latency = latency, config, ref_latency
        return self

    def get_tuner_result(self) -> dict[str, Any]:
        if self.latency is None:
            raise ArgumentValueError(
                "the kernel was not tuned",
                code="TL0954",
                help="tune it with tilelang.autotune",
            )
        return {"latency": self.latency, "config": self.config, "ref_latency": self.ref_latency}
