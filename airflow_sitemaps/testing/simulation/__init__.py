"""A simulator of publishing: the pipeline's own code, interleaved, crashed, and watched at every step.

``simulate(seed)`` plays one history of runs, rivals, faults and a moving source, decided by the seed alone, and raises
``BrokenInvariantError`` where a crawler would have met something that must never be. A seed replays exactly::

    python -m airflow_sitemaps.testing.simulation --seed 123 --trace
"""

from airflow_sitemaps.testing.simulation.history import Outcome, simulate
from airflow_sitemaps.testing.simulation.invariants import BrokenInvariantError

__all__ = ["BrokenInvariantError", "Outcome", "simulate"]
