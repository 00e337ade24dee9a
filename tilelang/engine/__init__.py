# SPDX-License-Identifier: Apache-2.0
"""From a PrimFunc to something that runs: `lower`, the artifact, the table of backends."""

from .artifact import CompiledArtifact, DeviceModule, HostModule, KernelParam
from .backends import BACKENDS, resolve_execution_backend
from .callback import register_c_postproc, register_cuda_postproc
from .lower import lower
from .observe import is_observed

__all__ = [
    "BACKENDS", "CompiledArtifact", "DeviceModule", "HostModule", "KernelParam", "is_observed",
    "lower", "register_c_postproc", "register_cuda_postproc", "resolve_execution_backend",
]  # fmt: skip
