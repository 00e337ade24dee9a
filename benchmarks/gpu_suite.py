# SPDX-License-Identifier: Apache-2.0
"""Runs the tests marked `gpu` and keeps what came of each.

    python benchmarks/gpu_suite.py [pytest arguments]

Out: benchmarks/results/gpu_suite.json: every test with its outcome and seconds, and the machine,
versions and commit. Exit code: pytest's.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import measure
import pytest

HERE = Path(__file__).parent


class Record:
    """Outcomes as pytest reports them."""

    def __init__(self) -> None:
        self.tests: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            row: dict[str, Any] = {"outcome": report.outcome, "seconds": round(report.duration, 3)}
            if report.outcome != "passed":
                row["why"] = str(report.longrepr)[-300:]
            self.tests[report.nodeid] = row


def main() -> int:
    record = Record()
    args = ["-q", "-m", "gpu", *(sys.argv[1:] or [str(HERE.parent / "tests")])]
    code = int(pytest.main(args, plugins=[record]))
    counts = dict(Counter(t["outcome"] for t in record.tests.values()))
    folder = Path(os.environ.get("OUT", HERE / "results"))
    folder.mkdir(parents=True, exist_ok=True)
    data = {"machine": measure.machine(), "counts": counts, "tests": record.tests}
    (folder / "gpu_suite.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    print(counts)
    return code


if __name__ == "__main__":
    sys.exit(main())
