"""Names in a run's params: sections, shards and guards of one sitemap, or of several in one DAG."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_sitemaps.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_sitemaps.operators.base import SitemapOperator


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one sitemap, and those of the other sitemaps of its DAG.

    Attributes:
        group: ID of the sitemap's task group; empty if it has none.
        own: Names of the sitemap's sections, including retired ones.
        others: Names of the sections of each other sitemap of the DAG, by group ID.
    """

    group: str
    own: frozenset[str]
    others: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, operator: SitemapOperator) -> Names:
        """Return the names for a planning task."""
        kind = type(operator)
        tasks = [task for task in getattr(operator.get_dag(), "tasks", ()) if isinstance(task, kind)]
        others = {_group(task): _sections(task) for task in tasks if task.task_id != operator.task_id}
        return cls(_group(operator), _sections(operator), others)

    def sections(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the names of sections that concern this sitemap, without their group.

        A name that no sitemap of the DAG has is returned too, so that the plan refuses it.

        Raises:
            RequestError: A group or a section of this sitemap's group does not exist.
        """
        mine = []
        for name in names:
            group, section = self._split(name)
            if group is None:
                if section in self.own or not any(section in other for other in self.others.values()):
                    mine.append(section)
            elif group == self.group:
                mine.append(section)
        return tuple(mine)

    def shards(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the names of shards without this sitemap's group; names with another group are left out."""
        mine = []
        for name in names:
            group, _, shard = name.partition("/")
            if group == self.group:
                mine.append(shard)
            elif group not in self.others or not shard:
                mine.append(name)
        return tuple(mine)

    def permits(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the permits that concern this sitemap, without their group: ``shrink:shop/products``.

        Raises:
            RequestError: A group does not exist.
        """
        mine = []
        for name in names:
            guard, colon, rest = name.partition(":")
            group, section = self._split(rest)
            bare = section.partition("=")[0].partition(":")[0]
            if group is None:
                if bare in self.own or not any(bare in other for other in self.others.values()):
                    mine.append(name)
            elif group == self.group:
                mine.append(f"{guard}{colon}{section}")
        return tuple(mine)

    def _split(self, name: str) -> tuple[str | None, str]:
        """Split ``group/name``. Raise RequestError if the DAG has no such group."""
        group, slash, rest = name.rpartition("/")
        if not slash:
            return None, name
        if group != self.group and group not in self.others:
            groups = ", ".join(sorted({self.group, *self.others} - {""})) or "none"
            raise RequestError(f"{name!r}: this DAG has no group {group!r}; its groups are: {groups}")
        return group, rest


def _group(operator: SitemapOperator) -> str:
    group = operator.task_group
    return (group.group_id if group is not None else None) or ""


def _sections(operator: SitemapOperator) -> frozenset[str]:
    return frozenset({*(section.name for section in operator.sitemap.sections), *operator.sitemap.retired})
