# SPDX-License-Identifier: Apache-2.0
"""README's benchmark tables, from benchmarks/results: python benchmarks/tables.py

In: results/cpu.json, and results/gpu.json if a GPU run was stored. Out: the parts of README.md
between `<!-- bench:cpu -->` (bench:gpu) and the next `<!-- end -->` are replaced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
README = HERE.parent / "README.md"


def load(name: str) -> dict[str, Any] | None:
    path = HERE / "results" / name
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(r)} |" for r in rows)])


def source(machine: Mapping[str, Any], name: str) -> str:
    where = machine.get("gpu") or f"{machine['cores']} cores, {machine['cpu']}"
    load = f", load {machine['load'][0]}" if "load" in machine and "gpu" not in machine else ""
    commit = machine["commit"][:10]
    return f"({where}{load}; commit {commit}, {machine['date']}; `benchmarks/results/{name}`)"


def cpu(data: Mapping[str, Any]) -> str:
    rows = []
    for bar in data["bars"]:
        if "visits" in bar["unit"]:  # of interest to who works on the compiler
            continue
        sign = "≤" if bar["lower"] else "≥"
        verdict = "" if bar["ok"] else "missed"
        value = f"{bar['value']:.3g} {bar['unit']}"
        goal = f"{sign} {bar['limit']:g}"
        rows.append((bar["name"], value, goal, verdict, bar["note"]))
    head = ("CPU and compiler", "measured", "goal", "", "")
    return f"{table(head, rows)}\n\n{source(data['machine'], 'cpu.json')}"


def gpu(data: Mapping[str, Any]) -> str:
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in data["rows"]:
        groups.setdefault(row["group"], []).append(row)
    rows = []
    for group, members in groups.items():
        base = members[0]
        for m in members:
            ratios = [f"{m[k] / base[k]:.2f}" for k in ("burst", "sustained")]
            rates = [f"{m[k]:.0f}" for k in ("burst", "sustained")]
            rows.append((group, m["name"], m["unit"], *rates, " / ".join(ratios)))
            group = ""
    head = ("GPU", "contestant", "", "burst", "sustained", "ratio to the first")
    out = table(head, rows)
    if "host_us" in data:
        cells = [(name, f"{us:.2f} µs") for name, us in data["host_us"].items()]
        out += "\n\n" + table(("host time of a launch", ""), cells)
    return f"{out}\n\n{source(data['machine'], 'gpu.json')}"


def main() -> None:
    text = README.read_text(encoding="utf-8")
    for name, make in (("cpu", cpu), ("gpu", gpu)):
        data = load(f"{name}.json")
        if data is not None:
            pattern = rf"(<!-- bench:{name} -->\n).*?(<!-- end -->)"
            part = make(data)
            text = re.sub(
                pattern, lambda m, p=part: f"{m[1]}\n{p}\n\n{m[2]}", text, flags=re.DOTALL
            )
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
