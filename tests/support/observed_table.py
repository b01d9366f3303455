"""Rows of twenty shards in memory, and the operations of the runs that read them."""

from __future__ import annotations

from typing import Any

from tests.support.environment import World, row


class ObservedTable:
    """A published table of 100 rows.

    Attributes:
        world: The rows, the store and the clock.
        operations: Methods of the source that the last run called, in order.
        hooks: By operation a function that is called before it, once.
    """

    def __init__(self, source: dict[str, Any], **settings: Any) -> None:
        self.operations: list[str] = []
        self.hooks: dict[str, Any] = {}
        self.world = World([row(10 * n) for n in range(1, 101)], settings=settings)
        self.world.source_settings = {**source, "before": self.before}

    def before(self, operation: str) -> None:
        self.operations.append(operation)
        self.hooks.pop(operation, lambda: None)()

    def build(self, **arguments: Any) -> Any:
        self.operations.clear()
        return self.world.build(**arguments)

    @property
    def is_surveyed(self) -> bool:
        return "survey" in self.operations

    def is_right(self) -> bool:
        """Whether the sitemap lists what a rebuild would list."""
        return self.world.crawl().entries() == self.world.rebuilt().entries()
