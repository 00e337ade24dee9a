# SPDX-License-Identifier: Apache-2.0
"""Names of the language that are not supported yet: using one says so, at the user's line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from tilelang.errors import LanguageError, did_you_mean

from .trace import maybe_current

_BLACKWELL = "it is an instruction of sm_100, which is no target yet; use T.gemm on shared memory"
_MANUAL = "the compiler places these itself; write the kernel with T.copy, T.gemm and T.Pipelined"

UNSUPPORTED: dict[str, str] = {
    **dict.fromkeys(
        [
            "alloc_tmem",
            "deallocate_tmem",
            "tcgen05_gemm",
            "tcgen05_gemm_blockscaled",
            "make_blockscaled_gemm_layout",
            "tcgen05_mma_arrive",
            "tcgen05_cp_warpx4",
            "tcgen05_sf_warp_transpose",
            "tcgen05_before_thread_sync",
            "tcgen05_after_thread_sync",
            "tma_gather4",
            "tma_scatter4",
            "tma_gather4_bytes",
            "alloc_tcgen05_smem_desc",
            "alloc_tcgen05_instr_desc",
            "mma_gemm_blockscaled",
            "gemm_blockscaled",
            "tma_load_2sm",
            "clc_try_cancel",
            "clc_query",
        ],
        _BLACKWELL,
    ),
    **dict.fromkeys(
        [
            "create_tma_descriptor",
            "tma_load",
            "tma_store",
            "ptx_mma",
            "ptx_mma_sp",
            "ptx_ldmatrix",
            "ptx_wgmma_ss",
            "ptx_wgmma_rs",
            "mma_fill",
            "mma_store",
            "warpgroup_arrive",
            "warpgroup_commit_batch",
            "warpgroup_wait",
            "warpgroup_fence_operand",
            "ptx_fence_barrier_init",
            "ptx_init_barrier_thread_count",
            "ptx_arrive_barrier",
            "alloc_descriptor",
            "alloc_wgmma_desc",
            "ws_op",
            "annotate_ws_schedule",
            "annotate_ws_pipeline_depth",
        ],
        _MANUAL,
    ),
    "sync_global": "use T.sync_grid",
    **dict.fromkeys(
        ["gemm_sp", "wgmma_gemm_sp", "tcgen05_gemm_sp"],
        "it is not supported yet",
    ),
    **dict.fromkeys(
        ["reduce_any", "reduce_all"],
        "use T.reduce_max or T.reduce_min on 0 and 1, or T.any_of and T.all_of on a buffer",
    ),
    **dict.fromkeys(
        [
            "launch_thread",
            "sblock",
            "reads",
            "writes",
            "match_buffer",
            "tvm_access_ptr",
            "decl_buffer",
            "If",
            "Then",
            "Else",
            "While",
            "CUDASourceCodeKernel",
            "WSSchedule",
            "WSRole",
            "WSPipeline",
            "WSScope",
            "WSOpRef",
            "WSSync",
            "PartialFragment",
            "get_cluster_id",
        ],
        "it is not supported yet",
    ),
}


class UnknownNameError(LanguageError, AttributeError):
    """`T.<name>` is no name of the language."""


def unknown(name: str, known: Iterable[str]) -> UnknownNameError:
    t = maybe_current()
    return UnknownNameError(
        f"tilelang.language has no `{name}`",
        code="TL0167",
        span=None if t is None else t.span(),
        help=did_you_mean(name, known) or "see the language reference for the names there are",
    )


def refusal(name: str) -> Any:
    """A stand-in for `T.<name>`: any use of it is the error."""
    return _Refused(name)


class _Refused:
    def __init__(self, name: str) -> None:
        self.__name__ = name

    def _refuse(self) -> NoReturn:
        t = maybe_current()
        raise LanguageError(
            f"T.{self.__name__} is not supported",
            code="TL0166",
            span=None if t is None else t.span(),
            help=UNSUPPORTED[self.__name__],
        )

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        self._refuse()

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        self._refuse()

    def __repr__(self) -> str:
        return f"<T.{self.__name__}: not supported>"
