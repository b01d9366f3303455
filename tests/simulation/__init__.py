"""A simulator of publishing: it interleaves and crashes the real pipeline, and checks every step.

``simulate(seed)`` plays one history of runs, concurrent runs, faults and changing rows. The seed alone decides it. If
a crawler could have seen a broken state, the function raises ``BrokenInvariantError``. The same seed gives the same
history::

    python -m tests.simulation --seed 123 --trace
"""

from tests.simulation.history import Outcome, simulate
from tests.simulation.invariants import BrokenInvariantError

__all__ = ["BrokenInvariantError", "Outcome", "simulate"]
