# SPDX-License-Identifier: Apache-2.0
"""`make bench`: every bar that this machine can measure, each beside its baseline.

Out: lines, and benchmarks/results/cpu.json and gpu.json with the machine, versions and commit. The
exit code does not depend on the figures: a shared machine is no judge.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import cpu
import measure

HERE = Path(__file__).parent


def main() -> int:
    folder = Path(os.environ.get("OUT", HERE / "results"))
    folder.mkdir(parents=True, exist_ok=True)
    machine = measure.machine()
    print(json.dumps(machine, indent=1))
    found = cpu.bars()
    data = {"machine": machine, "bars": [b.as_json() for b in found]}
    (folder / "cpu.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    missed = [b for b in found if not b.ok]
    print(f"{len(found) - len(missed)} of {len(found)} bars kept")
    if "gpu" in machine:
        subprocess.run([sys.executable, str(HERE / "gpu.py"), *sys.argv[1:]], check=False)
    else:
        print("no CUDA device: the GPU benchmarks (benchmarks/gpu.py) did not run")
    return 0


if __name__ == "__main__":
    sys.exit(main())
