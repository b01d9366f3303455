"""The simulator: seeds keep the invariants, replay exactly, and are distinguished from broken ones."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from dataclasses import fields
from functools import cache

import pytest

from tests.simulation import BrokenInvariantError, simulate
from tests.simulation.__main__ import main
from tests.simulation.features import Features
from tests.support.mutants import MUTANTS, STALLING
from tests.support.repetition import scaled

PART = 25
SEEDS = scaled(250, 1_000)
QUICK = 125
"""Seeds that the quick suite plays; ``make test-long`` plays the others."""
played = cache(simulate)
"""The outcome of a seed, which several tests read."""


@pytest.mark.parametrize(
    "first",
    [pytest.param(first, marks=[pytest.mark.long] if first >= QUICK else []) for first in range(0, SEEDS, PART)],
)
def test_no_seed_breaks_an_invariant(first):
    for seed in range(first, first + PART):
        played(seed)


@pytest.mark.parametrize("first", range(0, scaled(25, 500), PART))
def test_no_seed_of_stalling_rivals_breaks_an_invariant(first):
    for seed in range(first, first + PART):
        simulate(seed, STALLING)


def test_histories_are_rich():
    outcomes = [played(seed) for seed in range(120)]
    struck = sum((outcome.struck for outcome in outcomes), Counter())
    assert sum(outcome.generations for outcome in outcomes) > 200
    assert sum(outcome.urls for outcome in outcomes) > 5_000
    assert {"put: late", "put: lost answer", "crash before put", "stall"} <= struck.keys()
    assert any("rolled back" in outcome.runs for outcome in outcomes)
    assert any("failed: ConflictError" in outcome.runs for outcome in outcomes)


@pytest.mark.parametrize("name", [each.name for each in fields(Features)])
def test_every_feature_is_in_the_histories_that_are_played_each_time(name):
    seeds = [seed for seed in range(SEEDS) if getattr(Features.drawn(seed), name)]
    assert seeds, f"no history of the quick suite has {name}"
    outcome = played(seeds[0])
    assert outcome.generations >= 1
    if name == "stale":
        assert any(played(seed).struck["list: stale"] for seed in seeds)


def test_a_second_pipeline_is_refused_and_adoptions_are_needed():
    """What the features are for is seen in their traces."""
    drawn = {seed: Features.drawn(seed) for seed in range(SEEDS)}
    traces = {
        name: "\n".join(
            line for seed in [s for s, f in drawn.items() if getattr(f, name)] for line in played(seed).lines
        )
        for name in ("stranger", "loses_state", "partly")
    }
    assert "refused: OwnershipError" in traces["stranger"]
    assert "the state area is lost" in traces["loses_state"]
    assert "TaskFailedError" in traces["partly"]


@pytest.mark.long
def test_the_differences_of_other_clouds_are_met():
    struck = sum((played(seed).struck for seed in range(240) if Features.drawn(seed).cloud), Counter())
    assert min(struck[f"cloud: {what}"] for what in ("409", "429", "a copy takes another turn")) >= 3


def test_a_seed_replays_exactly_in_another_process():
    told = []
    for hashes in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-m", "tests.simulation", "--seed", "6", "--trace"],
            env={**os.environ, "PYTHONHASHSEED": hashes}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        told.append(done.stdout.split(" seeds in ")[0])
    assert told[0] == told[1]
    assert "put state manifest.json.gz Create()" in told[0]


def test_the_shell_counts(capsys):
    assert main(["--seed", "3", "--seeds", "2"]) == 0
    assert "2 seeds in" in capsys.readouterr().out


def test_a_broken_history_brings_its_trace():
    early = next(mutant for mutant in MUTANTS if mutant.name == "promotion before commit")
    with early.on(), pytest.raises(BrokenInvariantError) as broken:
        simulate(0)
    assert broken.value.invariant == "I6"
    assert "put public" in broken.value.lines[-1]
