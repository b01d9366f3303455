"""The shards of a section after a commit, built from the plan and the staged shards. File names are allocated here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec.structs import replace

from airflow_sitemaps.errors import IncompleteError, StoreContentError
from airflow_sitemaps.shards.file_succession import restore, succeed
from airflow_sitemaps.shards.manifest import PublicFile, Shard
from airflow_sitemaps.shards.plan import Action
from airflow_sitemaps.shards.shard_names import fits, shard_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_sitemaps.shards.commit_facts import CommitFacts
    from airflow_sitemaps.shards.manifest import SectionManifest
    from airflow_sitemaps.shards.plan import RangeAction, SectionPlan
    from airflow_sitemaps.shards.receipt import StagedShard


@dataclass(slots=True)
class ShardBuilder:
    """Builder of a section's shards from actions. It allocates serials.

    Attributes:
        old: The section in the last manifest, or None.
        plan: The section's plan.
        facts: Configuration, time and identifiers of the commit.
        generation: Number of the new generation.
        serial: Next serial of a file name.
        _leaving: Files that no action carries, by SHA-256 of their content. A new range with the same entries takes
            over such a file, unless another program changed or deleted it.
    """

    old: SectionManifest | None
    plan: SectionPlan
    facts: CommitFacts
    generation: int
    serial: int
    _leaving: dict[str, PublicFile] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.old is None:
            return
        carried = {action.carries for action in self.plan.actions}
        configured = self.facts.sections[self.plan.name]
        for position, shard in enumerate(self.old.shards):
            file = shard.file
            if (
                position in carried
                or position in self.plan.drifted
                or file is None
                or not fits(file.name, configured.path, self.plan.name, configured.format)
            ):
                continue
            self._leaving[file.xml_sha256] = file

    def shards(self, action: RangeAction, pieces: tuple[StagedShard, ...] | None) -> Iterator[Shard]:
        """Yield the shards of one action."""
        carried = self._carried(action)
        if action.kind is Action.EMPTY:
            yield Shard(range=action.range)
        elif action.kind in (Action.KEEP, Action.REPAIR):
            assert carried is not None
            file = carried.file
            if action.kind is Action.REPAIR and file is not None:
                file = restore(file, action.found_etag, self.facts.now)
            yield replace(carried, range=action.range, file=file)
        else:
            if not pieces:
                raise IncompleteError(
                    f"section {self.plan.name!r}, {action.range}: the receipt is missing; clear the task of its batch to write it again"
                )
            alone = len(pieces) == 1
            for number, piece in enumerate(pieces):
                keeps_name = number == 0 and (alone or piece.same)
                yield self._written(
                    piece, action, carried.file if carried is not None and keeps_name else None, carried
                )

    def _carried(self, action: RangeAction) -> Shard | None:
        if action.carries is None or self.old is None:
            return None
        if action.carries >= len(self.old.shards):
            raise StoreContentError(
                f"section {self.plan.name!r}: the plan keeps shard {action.carries}, but the manifest has only "
                f"{len(self.old.shards)} shards; plan again"
            )
        return self.old.shards[action.carries]

    def _written(
        self, piece: StagedShard, action: RangeAction, file: PublicFile | None, carried: Shard | None
    ) -> Shard:
        new_file = self._file(piece, action, file)
        unchanged = carried is not None and new_file == carried.file
        return Shard(
            range=piece.range,
            file=new_file,
            written_in=carried.written_in if carried is not None and unchanged else self.generation,
            **piece.facts(),
        )

    def _file(self, piece: StagedShard, action: RangeAction, file: PublicFile | None) -> PublicFile | None:
        if piece.same and file is not None:
            return restore(file, action.found_etag, self.facts.now) if action.drifted else file
        if piece.body is None:
            return None
        if file is None and piece.xml_sha256 in self._leaving:
            return self._leaving.pop(piece.xml_sha256)
        fresh = PublicFile(
            name=file.name if file is not None else self._allocate(),
            body=piece.body,
            xml_sha256=piece.xml_sha256,
            xml_byte_size=piece.xml_byte_size,
            byte_size=piece.byte_size,
            modified_at=self.facts.now,
        )
        if file is None:
            return fresh
        replaces = action.found_etag if action.drifted else file.etag
        return succeed(file, replace(fresh, replaces=replaces))

    def _allocate(self) -> str:
        configured = self.facts.sections[self.plan.name]
        while True:
            name = shard_name(configured.path, self.plan.name, self.serial, configured.format)
            self.serial += 1
            if name not in self.plan.taken:
                return name
