"""The laws of gone URLs, checked after every commit against the tables.

The oracle knows in which turns each row was in its table. It takes from the pipeline only what each generation lists, which
sections a run looked through, and the record of gone URLs, which it judges.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_sitemaps import ledger
from airflow_sitemaps.shards.codec import decode_gone, decode_plan
from airflow_sitemaps.shards.gone import GoneUrls
from airflow_sitemaps.shards.plan import plan_key
from tests.simulation.dagfile import GONE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_sitemaps.shards.manifest import Manifest, PublicFile
    from airflow_sitemaps.shards.plan import Plan, SectionPlan
    from tests.simulation.oracle import Oracle


class WrongGoneError(Exception):
    """A living page is named gone, or a gone one is not."""


@dataclass(slots=True)
class GoneOracle:
    """Follows the commits of a store.

    Attributes:
        objects: The objects of the state area.
        oracle: Knows the tables and what each run read.
        lost: Keys of ledger parts that were removed or damaged.
        locs: Returns the URLs of a file.
        entered: Number of URLs that entered the file.
        judged: Number of URLs that left a section and had to be gone.
    """

    objects: Any
    oracle: Oracle
    lost: set[str]
    locs: Callable[[PublicFile], tuple[str, ...]]
    entered: int = 0
    judged: int = 0
    _records: dict[int, GoneUrls] = field(default_factory=dict)
    _twice: set[str] = field(default_factory=set)
    """URLs that some generation listed twice, as after a row moved while a run read: a stated limit."""

    def committed(self, old: Manifest | None, new: Manifest, restored: Manifest | None) -> None:
        """Check a new generation. ``restored`` is the generation that a rollback publishes again.

        Raises:
            WrongGoneError: A law is broken.
        """
        gone = self._record(new)
        self._records[new.generation] = gone
        if restored is not None:
            if new.gone != restored.gone:
                raise WrongGoneError("a rollback does not bring the gone URLs of its generation back")
            return
        before = self._records.get(old.generation, GoneUrls()) if old is not None else GoneUrls()
        listed = set(self._listed(new))
        self._twice |= {loc for loc, times in Counter(loc for loc, _ in self._places(new)).items() if times > 1}
        if living := sorted((gone.urls.keys() & listed) - self._twice):
            raise WrongGoneError(f"{living[:3]} are named gone and listed")
        plan = decode_plan(self.objects.get(plan_key(new.run)).body)
        left = {loc: place for loc, place in self._listed(old).items() if loc not in listed} if old is not None else {}
        for loc, (name, _) in left.items():
            if loc in gone.urls or (loc in gone.words and gone.words[loc].said.get(name) is not None):
                self._may_leave(loc, name, plan, old, new)
        self.entered += len(gone.urls.keys() - before.urls.keys())
        if nowhere := sorted(gone.urls.keys() - before.urls.keys() - before.words.keys() - left.keys() - self._twice):
            raise WrongGoneError(f"{nowhere[:3]} are named gone, and did not leave")
        if new.gone is None or before.unsure or gone.unsure:
            return
        for loc, (name, shard) in left.items():
            word = before.words.get(loc)
            if word is not None and word.said.get(name, new.committed_at) is None:
                continue  # listed only while other sections took no part, one of which may list it: a stated limit
            must = self._must_leave(loc, name, shard, plan.sections.get(name), new)
            if must and loc not in gone.urls and loc not in gone.words:
                raise WrongGoneError(f"{loc} left {name} for good and is not named")
        ended = [loc for loc, at in before.urls.items() if loc not in gone.urls and at + GONE > new.committed_at]
        if wrong := sorted(set(ended) - listed):
            raise WrongGoneError(f"{wrong[:3]} are not listed, and left the file too early")

    def _record(self, manifest: Manifest) -> GoneUrls:
        if manifest.gone is None:
            return GoneUrls()
        return decode_gone(self.objects.get(manifest.gone.body).body)

    def _listed(self, manifest: Manifest) -> dict[str, tuple[str, Any]]:
        """Return every listed URL with its section and its shard."""
        return dict(self._places(manifest))

    def _places(self, manifest: Manifest) -> Iterator[tuple[str, tuple[str, Any]]]:
        for name, section in manifest.sections.items():
            for shard in section.shards:
                if shard.file is not None:
                    yield from ((loc, (name, shard)) for loc in self.locs(shard.file))

    def _started(self, name: str, run: str) -> int:
        intention = self.oracle.whole.get(run, self.oracle.intentions[run])
        return self.oracle.started(name, intention)

    def _may_leave(self, loc: str, name: str, plan: Plan, old: Manifest | None, new: Manifest) -> None:
        section = plan.sections.get(name)
        if old is None or section is None or section.ledger is None or not section.ledger.finds_left:
            raise WrongGoneError(f"{loc} is named gone by a run that did not look through {name}")
        before, after = old.sections[name], new.sections.get(name)
        if after is None or (before.fingerprint, before.digest_kind) != (after.fingerprint, after.digest_kind):
            raise WrongGoneError(f"{loc} is named gone by the first run after a change of {name}")
        # A rule may leave a moved row out of its new range: a stated limit.
        if loc not in self.oracle.tables[name].moved and self.oracle.was_there(loc, self._started(name, new.run)):
            raise WrongGoneError(f"{loc} is named gone, and its row was in the table all the time")

    def _must_leave(self, loc: str, name: str, shard: Any, section: SectionPlan | None, new: Manifest) -> bool:
        if (
            section is None
            or section.ledger is None
            or not section.ledger.finds_left
            or loc in self.oracle.tables[name].moved
        ):
            return False
        is_known = shard.part is not None and shard.part.body not in self.lost
        own = [{old.body for old in action.olds} for action in section.actions]
        split = any(shard.file.body in bodies and not bodies <= section.olds_continued_once for bodies in own)
        if not is_known or (split and any(each.dropped or each.expired for each in new.sections[name].shards)):
            return False
        rows = ledger.decode(self.objects.get(shard.part.body).body, ["loc", "key"]).to_pylist()
        key = next(int(re.findall(r"\d+", row["key"])[-1]) for row in rows if row["loc"] == loc)
        must = self.oracle.was_absent(loc, key, self._started(name, new.run))
        self.judged += must
        return must
