# SPDX-License-Identifier: Apache-2.0
"""`Profiler`: times a kernel, and compares it with a reference, on generated inputs.

In: a kernel (anything callable with `params`, `out_idx` and `target`). Out: milliseconds, or an
error when results differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilelang.errors import ArgumentValueError
from tilelang.runtime.cuda_driver import driver

from .bench import do_bench
from .supply import TensorSupplyType, make_tensor

__all__ = ["Profiler"]


class Profiler:
    """Inputs are made for every parameter that is no output; a scalar or a dynamic dimension needs
    a value from the caller."""

    def __init__(self, kernel: Any, supply_type: TensorSupplyType = TensorSupplyType.Auto) -> None:
        self.kernel = kernel
        self.supply_type = supply_type

    @property
    def func(self) -> Callable[..., Any]:
        return self.kernel.func

    def __call__(self, *args: Any) -> Any:
        return self.kernel(*args)

    def get_inputs(self, constraints: Mapping[str, int] | None = None) -> list[Any]:
        """Generated inputs; `constraints` gives dynamic dimensions (and scalars) by name."""
        known = dict(constraints or {})
        count = len(self.kernel.params)
        outputs = {o % count for o in self.kernel.out_idx}
        cuda = self.kernel.target.is_cuda and not self.kernel.target.is_sim
        if cuda:
            driver()  # says what is missing, where torch would only say that it has no CUDA
        out = []
        for index, p in enumerate(self.kernel.params):
            if index in outputs:
                continue
            if p.is_scalar:
                out.append(_known(p.name, known, "scalar parameter"))
            else:
                shape = [
                    s if isinstance(s, int) else _known(s, known, "dynamic dimension")
                    for s in p.shape
                ]
                out.append(make_tensor(shape, p.dtype, self.supply_type, cuda))
        return out

    def run_once(self, func: Callable[..., Any] | None = None) -> Any:
        """Runs once on generated inputs."""
        return (func or self.kernel)(*self.get_inputs())

    def do_bench(
        self,
        func: Callable[..., Any] | None = None,
        warmup: float = 25,
        rep: float = 100,
        n_warmup: int = 0,
        n_repeat: int = 0,
        input_tensors: Sequence[Any] | None = None,
        backend: str = "event",
        quantiles: Sequence[float] | None = None,
        return_mode: str = "mean",
        dynamic_symbolic_constraints: Mapping[str, int] | None = None,
        device: Any = None,
        early_stop_baseline: float | None = None,
    ) -> float | list[float]:
        """Milliseconds of one call; of `func` on the same inputs, if it is given."""
        inputs = input_tensors
        if inputs is None:
            inputs = self.get_inputs(dynamic_symbolic_constraints)
        run = self.kernel if func is None else func
        if device is None and self.kernel.target.is_cpu:
            device = "cpu"
        return do_bench(
            lambda: run(*inputs), warmup, rep, n_warmup, n_repeat, quantiles, backend=backend,
            return_mode=return_mode, device=device, early_stop_baseline=early_stop_baseline,
        )  # fmt: skip

    def assert_allclose(
        self,
        reference_program: Callable[..., Any],
        input_tensors: Sequence[Any] | None = None,
        atol: float = 1e-2,
        rtol: float = 1e-2,
        max_mismatched_ratio: float = 0.01,
    ) -> None:
        """Compares all outputs with those of `reference_program` on the same inputs."""
        inputs = list(input_tensors) if input_tensors is not None else self.get_inputs()
        got, want = _listed(self.kernel(*inputs)), _listed(reference_program(*inputs))
        if len(got) != len(want):
            raise ArgumentValueError(
                f"the kernel gives {len(got)} outputs, the reference {len(want)}",
                code="TL0986",
                help="the reference must return what the kernel returns",
            )
        for n, (a, b) in enumerate(zip(got, want, strict=True)):
            _compare(n, a, b, atol, rtol, max_mismatched_ratio)

    def manual_assert_close(
        self,
        reference_program: Callable[..., Any],
        input_tensors: Sequence[Any] | None = None,
        manual_check_prog: Callable[..., Any] | None = None,
    ) -> None:
        """Calls `manual_check_prog(kernel's outputs, reference's outputs)`."""
        if manual_check_prog is None:
            raise ArgumentValueError(
                "manual_assert_close needs manual_check_prog",
                code="TL0981",
                help="pass a function of the two lists of outputs",
            )
        inputs = list(input_tensors) if input_tensors is not None else self.get_inputs()
        manual_check_prog(_listed(self.kernel(*inputs)), _listed(reference_program(*inputs)))

    def assert_consistent(self, repeat: int = 10) -> None:
        """Runs several times on equal inputs: the results must be the same bits."""
        inputs = self.get_inputs()
        first = [_array(x).tobytes() for x in _listed(self.kernel(*inputs))]
        for _ in range(repeat):
            again = [_array(x).tobytes() for x in _listed(self.kernel(*inputs))]
            if again != first:
                raise ArgumentValueError(
                    "two runs on equal inputs differ",
                    code="TL0982",
                    help="threads race: look for stores of several threads to one element",
                )


def _known(name: str, known: Mapping[str, int], what: str) -> int:
    if name not in known:
        raise ArgumentValueError(
            f"the {what} `{name}` has no value",
            code="TL0983",
            help=f"pass dynamic_symbolic_constraints={{{name!r}: 1024}}, or input_tensors",
        )
    return known[name]


def _listed(result: Any) -> list[Any]:
    if result is None:
        return []
    return list(result) if isinstance(result, (list, tuple)) else [result]


def _array(x: Any) -> Any:
    """A float64 numpy array of a tensor's values."""
    import numpy

    if hasattr(x, "detach"):
        x = x.detach().cpu()
        x = (x.double() if x.is_floating_point() else x).numpy()
    return numpy.asarray(x).astype(numpy.float64)


def _compare(
    index: int, got: Any, want: Any, atol: float, rtol: float, max_mismatched_ratio: float
) -> None:
    import numpy

    a, b = _array(got), _array(want)
    if a.shape != b.shape:
        raise ArgumentValueError(
            f"output {index} has shape {a.shape}, the reference {b.shape}",
            code="TL0984",
            help="the reference must return what the kernel returns",
        )
    wrong = ~numpy.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
    if wrong.sum() > max_mismatched_ratio * max(a.size, 1):
        place = tuple(int(i) for i in numpy.argwhere(wrong)[0])
        raise AssertionError(
            f"output {index}: {int(wrong.sum())} of {a.size} elements differ; the first is"
            f" {place}: {a[place]!r}, expected {b[place]!r}"
        )
