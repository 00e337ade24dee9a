# SPDX-License-Identifier: Apache-2.0
"""`kernel.verify(*args)`: the kernel against the meaning of its program.

In: a kernel and inputs. Out: nothing, or an error that names the tensor and the worst element. The
interpreter gets copies; the caller's tensors are changed by the kernel only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilelang.errors import ArgumentValueError
from tilelang.ir import Buffer, PrimFunc, Var
from tilelang.runtime.dlpack import is_torch

if TYPE_CHECKING:
    from .kernel import JITKernel

__all__ = ["verify"]

_TOLERANCE = 1e-2  # of floats, relative and absolute


def verify(kernel: JITKernel, args: Sequence[Any], rtol: float | None, atol: float | None) -> None:
    from tilelang.interp import tile

    func = kernel.function()
    given = {o % len(func.params) for o in func.outputs}
    inputs = [p for i, p in enumerate(func.params) if i not in given]
    copies = [_as_numpy(x, copy=True) for x in args]
    result = kernel(*args)
    copies = [_elements(x, p) for x, p in zip(copies, inputs, strict=True)]
    expected = tile.run(func, *copies)
    results = [] if result is None else result if isinstance(result, list) else [result]
    outputs = [func.params[o % len(func.params)] for o in func.outputs]
    pairs = list(zip(outputs, results, expected, strict=False))
    for param, x, copy in zip(inputs, args, copies, strict=True):
        if isinstance(param, Buffer):
            pairs.append((param, x, copy))
    for param, got, want in pairs:
        _compare(func, param.name, _elements(_as_numpy(got), param), want, rtol, atol)


def _elements(x: Any, param: Buffer | Var) -> Any:
    """An array with an entry for each element, where several are packed into a byte."""
    import numpy

    bits = param.dtype.bits
    if not isinstance(param, Buffer) or bits >= 8 or not x.ndim:
        return x
    parts = [x.view(numpy.uint8) >> at & (1 << bits) - 1 for at in range(0, 8, bits)]
    return numpy.stack(parts, -1).reshape(*x.shape[:-1], -1).view(param.dtype.as_numpy())


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


def _compare(
    func: PrimFunc, name: str, got: Any, want: Any, rtol: float | None, atol: float | None
) -> None:
    import numpy

    got, want = numpy.asarray(got), numpy.asarray(want)
    whole = want.dtype.kind in "biu"  # not rounded: an index that is one off is wrong
    if rtol is None:
        rtol = 0.0 if whole else _TOLERANCE
    if atol is None:
        atol = 0.0 if whole else _TOLERANCE
    wide = numpy.longdouble if whole else numpy.float64  # the first holds every 64-bit integer
    a, b = got.astype(wide), want.astype(wide)
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
            f"kernel {func.name}: {name}[{place}] is {got[worst]}, the program means {want[worst]}"
            f" ({int((error > atol).sum())} of {error.size} elements differ)",
            code="TL0970",
            help="pass rtol and atol if that is rounding; kernel.show() shows the source",
        )
