# SPDX-License-Identifier: Apache-2.0
"""The kernel language: `import tilelang.language as T`.

What is here is described in `docs/`; names of the language that are not supported yet are refused by
name when they are used.
"""

from __future__ import annotations

from typing import Any

from tilelang.errors import did_you_mean
from tilelang.ir import DType

from . import dtypes, fp8
from .alloc import (
    alloc_barrier,
    alloc_buffer,
    alloc_fragment,
    alloc_global,
    alloc_local,
    alloc_shared,
    alloc_var,
)
from .annotate import (
    annotate_compile_flags,
    annotate_consumer_reg_alloc,
    annotate_l2_hit_ratio,
    annotate_layout,
    annotate_min_blocks_per_sm,
    annotate_pass_configs,
    annotate_producer_reg_dealloc,
    annotate_restrict_buffers,
    annotate_safe_value,
    dec_max_nreg,
    disable_warp_group_reg_alloc,
    func_attr,
    import_source,
    inc_max_nreg,
    no_set_max_nreg,
    pdl_sync,
    pdl_trigger,
    set_max_nreg,
    use_swizzle,
)
from .capture import remember_source
from .entry import PrimFuncCreater, prim_func
from .fastmath import (
    FAST as _FAST,
)
from .fastmath import (
    abs2,
    add2,
    dp4a,
    fast_rcp,
    fma2,
    ieee_add,
    ieee_fdiv,
    ieee_fmaf,
    ieee_frcp,
    ieee_fsqrt,
    ieee_mul,
    ieee_sub,
    max2,
    min2,
    mul2,
    sub2,
)
from .kernel import (
    Kernel,
    get_block_binding,
    get_block_bindings,
    get_block_extent,
    get_block_extents,
    get_thread_binding,
    get_thread_bindings,
    get_thread_extent,
    get_thread_extents,
    thread_binding,
)
from .loops import Parallel, Persistent, Pipelined, grid, loop_break, serial, unroll, vectorized
from .macro import Macro, Ref, Var, inline, macro, meta_class
from .math import (
    Broadcast,
    Cast,
    Ramp,
    Select,
    abs,
    acos,
    align_up,
    asin,
    atan,
    atan2,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    cast,
    cdiv,
    ceil,
    ceildiv,
    clamp,
    clz,
    copysign,
    cos,
    cosh,
    erf,
    exp,
    exp2,
    exp10,
    extract_lane,
    floor,
    floordiv,
    floormod,
    fma,
    fmod,
    if_then_else,
    infinity,
    isfinite,
    isinf,
    isnan,
    log,
    log1p,
    log2,
    log10,
    max,
    max_value,
    min,
    min_value,
    nearbyint,
    popcount,
    pow,
    power,
    reinterpret,
    round,
    rsqrt,
    shift_left,
    shift_right,
    sigmoid,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    trunc,
    truncdiv,
    truncmod,
)
from .ops import GemmWarpPolicy, clear, copy, fill, gemm, transpose
from .reduce import (
    reduce,
    reduce_absmax,
    reduce_abssum,
    reduce_bitand,
    reduce_bitor,
    reduce_bitxor,
    reduce_max,
    reduce_min,
    reduce_sum,
)
from .tensor import (
    BufferAnnotation as Buffer,
)
from .tensor import (
    FragmentBuffer,
    LocalBuffer,
    SharedBuffer,
    StridedTensor,
    Tensor,
    const,
    dyn,
    dynamic,
    empty,
    symbolic,
    tensor,
)
from .threads import (
    all_sync,
    any_sync,
    assume,
    atomic_add,
    atomic_addx2,
    atomic_addx4,
    atomic_max,
    atomic_min,
    ballot_sync,
    device_assert,
    get_lane_idx,
    get_warp_group_idx,
    get_warp_idx,
    get_warp_idx_sync,
    named_barrier_arrive,
    print,
    shfl_down,
    shfl_sync,
    shfl_up,
    shfl_xor,
    shuffle_elect,
    sync_threads,
    sync_warp,
    thread_return,
    warp_reduce_bitand,
    warp_reduce_bitor,
    warp_reduce_max,
    warp_reduce_min,
    warp_reduce_sum,
)
from .unsupported import UNSUPPORTED as _UNSUPPORTED
from .unsupported import refusal as _refusal
from .views import access_ptr, address_of, call_extern, evaluate, make_tensor, reshape, view

Serial, Unroll = serial, unroll
dtype = DType
ptr = handle = DType("handle")
ballot = ballot_sync

# dtypes as attributes: T.float16, T.bfloat16x2, T.half, …
globals().update({name: DType(name) for name in dtypes.NAMES})
# approximate functions: T.__exp, …
globals().update({f"__{name}": function for name, function in _FAST.items()})

_LAYOUTS = ("Layout", "Fragment")


def __getattr__(name: str) -> Any:
    if name in _LAYOUTS:
        from . import layouts  # the layout package is needed by few kernels

        return getattr(layouts, name)
    if name in _UNSUPPORTED:
        return _refusal(name)
    try:
        return DType(name)
    except TypeError:
        pass
    near = did_you_mean(name, [n for n in globals() if not n.startswith("_")])
    raise AttributeError(f"tilelang.language has no `{name}`" + (f"; {near}" if near else ""))


__all__ = [
    n
    for n in dir()
    if not n.startswith("_") and n not in ("annotations", "did_you_mean", "DType", "Any")
]
