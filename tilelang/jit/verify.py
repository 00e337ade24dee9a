# SPDX-License-Identifier: Apache-2.0
"""`kernel.verify(*args)`: the kernel against the meaning of its program.

In: a kernel and inputs. Out: nothing, or an error that names the tensor and the worst element. The
interpreter gets copies; the caller's tensors are changed by the kernel only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilelang.errors import ArgumentValueError
from tilelang.ir import Buffer, PrimFunc
from tilelang.runtime.dlpack import is_torch

if TYPE_CHECKING:
    from .kernel import JITKernel

__all__ = ["verify"]


def verify(kernel: JITKernel, args: Sequence[Any], rtol: float, atol: float) -> None:
    from tilelang.interp import tile

    func = kernel.function()
    copies = [_as_numpy(x, copy=True) for x in args]
    result = kernel(*args)
    expected = tile.run(func, *copies)
    results = [] if result is None else result if isinstance(result, list) else [result]
    outputs = [func.params[o % len(func.params)].name for o in func.outputs]
    pairs = list(zip(outputs, results, expected, strict=False))
    inputs = [
        p
        for i, p in enumerate(func.params)
        if i not in {o % len(func.params) for o in func.outputs}
    ]
    for param, x, copy in zip(inputs, args, copies, strict=True):
        if isinstance(param, Buffer):
            pairs.append((param.name, x, copy))
    for name, got, want in pairs:
        _compare(func, name, _as_numpy(got), want, rtol, atol)


def _as_numpy(x: Any, copy: bool = False) -> Any:
    """A numpy array of the same values; scalars stay themselves."""
    import numpy

    if is_torch(x):
        x = x.detach().cpu()
        name = str(x.dtype).removeprefix("torch.")
        if name == "bfloat16" or name.startswith("float8"):
            import torch

            from tilelang.ir import DType

            bits = torch.int16 if x.element_size() == 2 else torch.int8
            x = x.contiguous().view(bits).numpy().view(DType(name).as_numpy())
        else:
            x = x.numpy()
    if isinstance(x, numpy.ndarray):
        return x.copy() if copy else x
    return x


def _compare(func: PrimFunc, name: str, got: Any, want: Any, rtol: float, atol: float) -> None:
    import numpy

    a, b = numpy.asarray(got).astype(numpy.float64), numpy.asarray(want).astype(numpy.float64)
    if a.size == 0:
        return
    same = (a == b) | (numpy.isnan(a) & numpy.isnan(b))
    with numpy.errstate(invalid="ignore"):
        error = numpy.where(same, 0.0, numpy.abs(a - b) - rtol * numpy.abs(b))
    error = numpy.where(numpy.isnan(error), numpy.inf, error)
    worst = numpy.unravel_index(int(numpy.argmax(error)), error.shape)
    if error[worst] > atol:
        place = ", ".join(str(int(i)) for i in worst)
        raise ArgumentValueError(
            f"kernel {func.name}: {name}[{place}] is {a[worst]!r}, the program means {b[worst]!r}"
            f" ({int((error > atol).sum())} of {error.size} elements differ)",
            code="TL0970",
            help="pass rtol and atol if that is rounding; kernel.show() shows the source",
        )
