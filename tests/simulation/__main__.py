"""Command line of the simulator: play one seed with its trace, or many seeds on all cores."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from tests.simulation import simulate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

TELL_EVERY: Final = 1_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the seeds, and return 0 if all of them kept every invariant, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the (first) seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds, from --seed on")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--trace", action="store_true", help="print every operation of the seed")
    chosen = parser.parse_args(arguments)
    seeds = range(chosen.seed, chosen.seed + chosen.seeds)
    started = time.perf_counter()
    size = max(1, min(50, len(seeds) // max(1, chosen.jobs)))
    parts = [seeds[start : start + size] for start in range(0, len(seeds), size)]
    play = partial(played, trace=chosen.trace)
    with ExitStack() as stack:
        spread = stack.enter_context(ProcessPoolExecutor(chosen.jobs)).map if chosen.jobs > 1 else map
        results = list(chain.from_iterable(_told(spread(play, parts), len(seeds))))
    seconds = time.perf_counter() - started
    failed = [result for result in results if result["broken"]]
    if chosen.trace:
        print("\n".join(chain.from_iterable(result["lines"] for result in results)))
    print(_summary(results, seconds))
    for result in failed[:20]:
        print(f"seed {result['seed']}: {result['broken']}")
    return 1 if failed else 0


def played(seeds: Sequence[int], *, trace: bool = False) -> list[dict[str, Any]]:
    """Play some seeds, and return their results as plain values."""
    return [_played(seed, trace) for seed in seeds]


def _told(parts: Iterable[list[dict[str, Any]]], total: int) -> Iterator[list[dict[str, Any]]]:
    """Print the results as they arrive: the progress about every thousand seeds, and a failure at once."""
    done = 0
    for part in parts:
        yield part
        before, done = done, done + len(part)
        for result in part:
            if result["broken"]:
                print(f"seed {result['seed']}: {result['broken']}", file=sys.stderr, flush=True)
        if done // TELL_EVERY > before // TELL_EVERY:
            print(f"{done:,} of {total:,} seeds", file=sys.stderr, flush=True)


def _played(seed: int, trace: bool) -> dict[str, Any]:
    try:
        outcome = simulate(seed)
    except AssertionError as broken:
        return {"seed": seed, "broken": str(broken), "lines": getattr(broken, "lines", ())}
    numbers = {
        "turns": outcome.turns, "generations": outcome.generations, "crawls": outcome.crawls, "urls": outcome.urls,
        "operations": outcome.operations, "faults": sum(outcome.struck.values()), "runs": sum(outcome.runs.values()),
    }  # fmt: skip
    lines = outcome.lines if trace else ()
    return {"seed": seed, "broken": "", "lines": lines, "struck": outcome.struck, "ended": outcome.runs, **numbers}


def _summary(results: Sequence[dict[str, Any]], seconds: float) -> str:
    sums: Counter[str] = Counter()
    struck: Counter[str] = Counter()
    ended: Counter[str] = Counter()
    for result in results:
        sums.update({name: number for name, number in result.items() if isinstance(number, int) and name != "seed"})
        struck.update(result.get("struck", {}))
        ended.update(result.get("ended", {}))
    broken = sum(bool(result["broken"]) for result in results)
    lines = [f"{len(results):,} seeds in {seconds:.1f} s ({len(results) / seconds:.1f}/s); broken: {broken}"]
    lines.append(", ".join(f"{name} {number:,}" for name, number in sorted(sums.items())))
    lines += [f"  {number:9,}  {what}" for what, number in sorted(struck.items(), key=lambda pair: -pair[1])]
    lines += [f"  {number:9,}  run {how}" for how, number in sorted(ended.items(), key=lambda pair: -pair[1])]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
