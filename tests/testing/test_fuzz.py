# SPDX-License-Identifier: Apache-2.0
"""The fuzzer: its programs are valid, agree everywhere, come again from their seed, and become
small when something is wrong."""

from __future__ import annotations

import runpy
from collections.abc import Iterator, Sequence
from itertools import count, islice
from pathlib import Path

import pytest

from tilelang.testing.fuzz import KINDS, Choices, failure_of, generate, minimise
from tilelang.testing.fuzz.judge import Failure
from tilelang.testing.fuzz.run import Found
from tilelang.testing.fuzz.worker import Worker
from tilelang.tools.command import main
from tilelang.transform import guard_bounds

SM_80, SM_90A = "cuda-sim -arch=sm_80", "cuda-sim -arch=sm_90a"


def program_of(seed: int) -> tuple[str, dict[str, int]]:
    made = generate(Choices(seed=seed))
    return made.text, made.sizes


def seeds_of(kind: str) -> Iterator[int]:
    return (seed for seed in count() if Choices(seed=seed).pick(KINDS) == kind)


def test_a_seed_makes_one_program() -> None:
    assert program_of(7) == program_of(7)
    assert len({program_of(seed)[0] for seed in range(50)}) == 50


def test_choices_make_their_program_again() -> None:
    for seed in range(50):
        first = Choices(seed=seed)
        program = generate(first)
        second = Choices(first.made)
        assert generate(second) == program
        assert (second.made, second.spans) == (first.made, first.spans)


def test_any_numbers_make_a_valid_program() -> None:
    """Valid: the front end and the oracle take it, which refuse what is undefined."""
    for seed in range(60):
        made = Choices(seed=seed)
        generate(made)
        numbers = made.made[seed % 3 :] + [seed] * (seed % 5)
        program = generate(Choices(numbers))
        assert failure_of(program.text, program.sizes, ()) is None, program.text


@pytest.mark.parametrize("kind", dict.fromkeys(KINDS))
def test_programs_on_a_cpu(kind: str) -> None:
    for seed in islice(seeds_of(kind), 5):
        assert failure_of(*program_of(seed), ("llvm",)) is None, seed


@pytest.mark.parametrize("kind", dict.fromkeys(KINDS))
def test_programs_of_each_kind_everywhere(kind: str) -> None:
    assert failure_of(*program_of(next(seeds_of(kind)))) is None


def minimised_with(targets: Sequence[str], seeds: range) -> tuple[str, Failure]:
    """The first of the seeds' programs that fails, made small in this process."""
    for seed in seeds:
        choices = Choices(seed=seed)
        program = generate(choices)
        failure = failure_of(program.text, program.sizes, targets)
        if failure is None:
            continue
        want = failure

        def run(candidate: Sequence[int], want: Failure = want) -> Choices | None:
            made = Choices(candidate)
            smaller = generate(made)
            found = failure_of(smaller.text, smaller.sizes, targets)
            return made if found is not None and found.kind == want.kind else None

        small = generate(minimise(choices, run))
        found = failure_of(small.text, small.sizes, targets)
        assert found is not None
        return small.text, found
    raise AssertionError("the fault was not found")


def test_a_planted_fault_is_found_and_its_program_is_small(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    decide = guard_bounds._Guard.in_bounds

    def one_less(self: object, b: object, indices: Sequence[object], facts: object) -> object:
        """The last element of a dimension is taken for one that is outside."""
        return decide(self, b, [i + 1 for i in indices], facts)  # type: ignore[arg-type, operator]

    monkeypatch.setattr(guard_bounds._Guard, "in_bounds", one_less)
    text, failure = minimised_with(("llvm",), range(20))
    assert failure.kind == "result"
    assert len(text.splitlines()) <= 14, text


def test_minimise_removes_what_makes_no_difference() -> None:
    def made_of(numbers: Sequence[int] | None) -> tuple[Choices, list[int]]:
        choices = Choices(numbers, seed=5)
        items: list[int] = []
        choices.repeat(12, lambda: items.append(choices.number(99)))
        return choices, items

    def run(candidate: Sequence[int]) -> Choices | None:
        choices, items = made_of(candidate)
        return choices if max(items, default=0) >= 40 else None

    first, items = made_of(None)
    assert len(items) > 2
    assert max(items) > 40
    _, small = made_of(minimise(first, run).made)
    assert small == [40]


def test_a_reproducer_is_a_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = Found(3, Failure("llvm", "result", ""), generate(Choices(seed=3)))
    file = tmp_path / "found.py"
    file.write_text(found.file())
    runpy.run_path(str(file), run_name="__main__")
    assert capsys.readouterr().out == "all agree\n"


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fuzz", "--programs", "2", "--targets", "llvm", "--seconds", "100"]) == 0
    assert capsys.readouterr().out.startswith("no failure: 2 programs")


def test_a_program_that_ends_its_process_is_a_failure() -> None:
    with Worker() as worker:
        text = "import os\nos._exit(7)"
        assert worker.judge(text, {}, ("llvm",)) == Failure(
            "llvm", "crash", "the process ended with exit code 7"
        )
        assert worker.judge(*program_of(3), ("llvm",)) is None
