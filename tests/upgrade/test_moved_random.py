"""Random code that upstream moves between functions: what is put back computes what upstream's text does, and merges
with what a replacement changed of it."""

from __future__ import annotations

import random

import pytest

from tests.conftest import Workspace
from tests.upgrade.moved_code import Move, make_extraction, make_inlining, put_back_in

MAKERS = {"extracted": make_extraction, "inlined": make_inlining}
SEEDS = range(60)


def moves(kind: str, seeds: range = SEEDS, **how: bool) -> list[Move]:
    return [MAKERS[kind](random.Random(f"{kind} {seed}"), **how) for seed in seeds]


def check_same(work: Workspace, made: list[Move]) -> int:
    """How many moves are put back; what is must compute the same."""
    done = 0
    for move in made:
        put = put_back_in(work, move.modules, move.base.text(), move.theirs.text())
        expected = move.run(move.theirs.text())
        if expected is not None and put.notes:
            assert move.run(put.text) == expected, (move, put.text)
            done += 1
    return done


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.mostly_slow(1)
def test_what_is_put_back_computes_the_same_wherever_upstream_put_it(work: Workspace, kind: str) -> None:
    assert check_same(work, moves(kind)) > len(SEEDS) / 20


@pytest.mark.slow
@pytest.mark.parametrize("kind", MAKERS)
def test_the_same_with_many_seeds(work: Workspace, kind: str) -> None:
    assert check_same(work, moves(kind, range(100, 1000))) > 100


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.mostly_slow(1)
def test_code_that_does_something_else_is_not_put_back(work: Workspace, kind: str) -> None:
    for move in moves(kind, is_wrong=True):
        put = put_back_in(work, move.modules, move.base.text(), move.theirs.text())
        assert put.text == move.theirs.text()


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.slow
def test_what_ours_makes_of_moved_code_merges_with_another_change_of_upstreams(work: Workspace, kind: str) -> None:
    """Ours hands the moved code's result on to a function of its own, upstream changes the first line as well."""
    done = 0
    for move in moves(kind, is_elsewhere=False):
        more = ("a", f"more({move.base.lines[0][1]})")
        theirs = move.theirs.with_line(0, more)
        last = move.moved[-1]
        target, value = move.base.lines[last]
        ours = move.base.with_line(last, (target, value), (target, f"own({target})"))
        expected = ours.with_line(0, more)
        put = put_back_in(work, move.modules, move.base.text(), theirs.text())
        merged = move.merge(ours, put)
        if put.notes and merged.is_clean:
            assert move.run(merged.text) == move.run(expected.text()), (move, merged.text)
            done += 1
    assert done > len(SEEDS) / 3
