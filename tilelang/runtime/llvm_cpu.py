# SPDX-License-Identifier: Apache-2.0
"""Asks LLVM whether it knows a CPU and its features, in a process of its own.

In: the names of a target. Out: nothing, or a `TargetError` with the nearest name. LLVM only warns
about an unknown name and then ends the process where the CPU that is left cannot run 64-bit code.
"""

from __future__ import annotations

import functools
import re
import subprocess
import sys

from tilelang.errors import TargetError, did_you_mean

__all__ = ["check_cpu"]

_PROBE = """
import sys
from llvmlite import binding as llvm
llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
target = llvm.Target.from_default_triple()
machine = target.create_target_machine(cpu=sys.argv[1], features=sys.argv[2])
if sys.argv[1] != "help":
    machine.emit_object(llvm.parse_assembly("define double @f(double %x) { ret double %x }"))
"""
_CPU_ROW = re.compile(r"^\s+(\S+)\s+- Select the", re.MULTILINE)
_FEATURE_ROW = re.compile(r"^\s+(\S+)\s+- ", re.MULTILINE)
_UNKNOWN = re.compile(r"'([^']*)' is not a recognized (processor|feature)")


@functools.cache
def check_cpu(cpu: str, features: str) -> None:
    """Raises `TargetError` unless LLVM compiles for `cpu` (empty: any) with `features`."""
    done = _probe(cpu, features)
    unknown = _UNKNOWN.search(done.stderr)
    if unknown is None and done.returncode == 0:
        return
    listed = _probe("help", "").stderr
    if unknown and unknown[2] == "feature":
        name = unknown[1].lstrip("+-")
        known = sorted({*_FEATURE_ROW.findall(listed)} - {*_CPU_ROW.findall(listed)})
        what = f"feature {name!r} of this machine's processors"
    else:
        name, known = cpu, _CPU_ROW.findall(listed)
        what = f"CPU {name!r} of this machine's kind"
    if unknown is None:
        raise TargetError(
            f"LLVM cannot compile for -mcpu={cpu} -mattr={features}",
            code="TL0608",
            notes=[done.stderr.strip()[-500:]],
            help="name a 64-bit CPU, such as x86-64-v3, or leave -mcpu out for this machine's",
        )
    raise TargetError(
        f"LLVM knows no {what}",
        code="TL0609",
        help=did_you_mean(name, known) or "leave -mcpu and -mattr out for this machine's",
    )


def _probe(cpu: str, features: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _PROBE, cpu, features]
    return subprocess.run(command, capture_output=True, text=True, check=False)
