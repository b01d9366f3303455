"""The state area and its keys: manifest, generations, plans, receipts, reports and bodies; and puts with a definite outcome."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from airflow_sitemaps.errors import (
    ConfigurationError,
    IncompleteError,
    InvalidSitemapError,
    StoreContentError,
    StoreError,
)
from airflow_sitemaps.pipeline.report import Report
from airflow_sitemaps.ports import Create, Overwrite, PutOutcomeError, Update
from airflow_sitemaps.protocol import gzip
from airflow_sitemaps.quantities import counted
from airflow_sitemaps.shards import Decoder, codec
from airflow_sitemaps.waits import repeated

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from airflow_sitemaps.ports import Clock, Headers, ObjectInfo, ObjectStore, PutMode
    from airflow_sitemaps.shards.codec import Receipt
    from airflow_sitemaps.shards.manifest import Manifest, PublicFile
    from airflow_sitemaps.shards.plan import Plan

T = TypeVar("T")
E = TypeVar("E")


# ------------------------------------------------------------ conditional puts
# After a put that did not report success, the object is read back and its write id compared. Without this check, a run would
# conflict with its own write after a lost answer, or after a refusal that the client's own retry caused.


log = logging.getLogger(__name__)

WRITE_ID: Final = "write-id"
"""Metadata key that identifies one write."""

JSON: Final = "application/json"
NO_METADATA: Final[Mapping[str, str]] = MappingProxyType({})

ATTEMPTS: Final = 4
"""Maximum number of puts of one object, the first included."""

# No pause: the client of the store has paused between its own attempts.
_put_repeatedly: Final = repeated(PutOutcomeError, attempts=ATTEMPTS, pause_s=0, longest_pause_s=0, log=log)


class RefusedPutError(StoreError):
    """The store refused the condition, and the present object is from another write.

    It is a ``StoreError``, because a store may refuse a condition that holds. A caller that expects no concurrent
    writer does not catch it, and the task is retried.
    """


def put_verified(
    objects: ObjectStore,
    key: str,
    body: bytes,
    *,
    mode: PutMode,
    write_id: str,
    content_type: str = JSON,
    cache_control: str | None = None,
    metadata: Mapping[str, str] = NO_METADATA,
) -> str:
    """Put an object, verify the outcome, and return the etag. The write id is added to the metadata.

    Trying again is safe: every try has the same condition, bytes and write id. Raises ``RefusedPutError`` if another
    write's object has the key, or the object to replace is missing.
    """
    metadata = {**metadata, WRITE_ID: write_id}
    put = partial(
        objects.put, key, body, mode=mode, metadata=metadata, content_type=content_type, cache_control=cache_control
    )
    return _resolve_outcome(objects, key, write_id, put)


def copy_verified(
    objects: ObjectStore,
    key: str,
    source: ObjectStore,
    info: ObjectInfo,
    *,
    mode: PutMode,
    write_id: str,
    **headers: Unpack[Headers],
) -> str:
    """Copy an object within the store like ``put_verified``. It is also refused if the source object changed."""
    headers["metadata"] = {**headers["metadata"], WRITE_ID: write_id}
    return _resolve_outcome(objects, key, write_id, lambda: objects.copy(source, info, key, mode=mode, **headers))


def _resolve_outcome(objects: ObjectStore, key: str, write_id: str, put: Callable[[], str]) -> str:
    """Put and return the etag; if the answer is unclear, read the object back to determine the outcome."""

    def put_once() -> str:
        try:
            return put()
        except PutOutcomeError as problem:
            present = objects.head(key)
            if present is not None and present.metadata.get(WRITE_ID) == write_id:
                log.info(
                    "%s: the response to a put was lost or unclear, but the object was written (%s)",
                    objects.url(key),
                    problem,
                )
                return present.etag
            if problem.definite:
                raise RefusedPutError(f"{objects.url(key)}: {problem}") from problem
            raise

    try:
        return _put_repeatedly(put_once)
    except PutOutcomeError as problem:
        raise StoreError(
            f"{objects.url(key)}: outcome unknown after {ATTEMPTS} puts, and the object read back is not from this "
            f"write ({problem}). Run this task again when the store responds."
        ) from problem


# ------------------------------------------------------------ the area


MANIFEST: Final = "manifest.json.gz"
GZIP: Final = "application/gzip"
RUNS: Final = "runs/"
KNOWN: Final = "known/"
REPORTS: Final = "reports/"
_REPORT: Final = Decoder(Report)
_ANNOUNCED: Final = Decoder(dict[str, Any])
GENERATIONS: Final = "generations/"

RACES: Final = 8
"""Number of times that a run begins again because other runs replaced the manifest first."""

CLOCK_TOLERANCE: Final = timedelta(minutes=5)
"""Difference between clocks that is accepted; far less than any grace."""

TIME_MARK: Final = "time.json"
"""Key of the private object that is put to read the store's time."""

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9.-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestVersion:
    """The manifest as it was read."""

    manifest: Manifest
    etag: str
    body: bytes


def new_run(clock: Clock) -> str:
    """Return an identifier for a run: its time, so that identifiers sort, and a token."""
    return f"{clock.now():%Y%m%dT%H%M%SZ}-{clock.token()}"


def run_directory(run: str) -> str:
    """Return the folder of a run's bodies and receipts."""
    return f"{RUNS}{run}/"


def receipts_directory(run: str) -> str:
    """Return the folder of a run's receipts."""
    return f"{run_directory(run)}receipts/"


def receipts_of(run: str, keys: Sequence[str]) -> list[str]:
    """Return the keys of a run's own receipts.

    If a user clears an Airflow run from its plan task on, and the new plan has fewer batches, the mapped tasks that no
    longer exist leave the receipts of their last try.
    """
    own = [key for key in keys if key.startswith(receipts_directory(run))]
    if len(own) < len(keys):
        log.info("%s left out: an earlier plan of this run left them behind", counted(len(keys) - len(own), "receipt"))
    return own


def batch_of(receipt_key: str) -> int:
    """Return the batch number in a receipt's key."""
    return int(receipt_key.rpartition("/")[2].partition("-")[0])


def generation_key(generation: int) -> str:
    """Return the key of an earlier generation's manifest."""
    return f"{GENERATIONS}{generation:08d}.json.gz"


def report_key(run: str) -> str:
    """Return the key of a run's report."""
    return f"{REPORTS}{run}.json"


def known_key(section: str) -> str:
    """Return the key of what the last run knew of a section's table."""
    return f"{KNOWN}{section}.json"


@dataclass(frozen=True, slots=True)
class StateRepository:
    """Repository of the state area."""

    objects: ObjectStore

    def current(self) -> ManifestVersion | None:
        """Read the current manifest; return None before the first commit."""
        stored = self.objects.get(MANIFEST)
        if stored is None:
            return None
        manifest = codec.decode_manifest(stored.body, self.objects.url(MANIFEST))
        return ManifestVersion(manifest=manifest, etag=stored.info.etag, body=stored.body)

    def manifest(self) -> Manifest | None:
        """Read the current manifest as ``current`` does, without its etag and bytes."""
        current = self.current()
        return None if current is None else current.manifest

    def published(self) -> Manifest:
        """Read the current manifest, or raise ``ConfigurationError`` before the first commit."""
        manifest = self.manifest()
        if manifest is None:
            raise ConfigurationError(f"{self.objects.url('')}: nothing has been published yet; build the sitemap first")
        return manifest

    def content(self, file: PublicFile) -> bytes:
        """Read the uncompressed content of a shard's file from its private body."""
        body, what = self.objects.get(file.body), "missing"
        if body is not None:
            try:
                return gzip.decompress(body.body, max_byte_size=file.xml_byte_size)
            except InvalidSitemapError:
                what = "damaged"
        raise StoreContentError(
            f"{self.objects.url(file.body)}, the body of {file.name}, is {what}: run again with rebuild=[{file.name!r}]"
        )

    def replace_manifest(self, manifest: Manifest, over: ManifestVersion | None) -> ManifestVersion:
        """Replace the manifest, or put the first if ``over`` is None. ``RefusedPutError``: another is current."""
        body = codec.encode(manifest)
        mode = Create() if over is None else Update(over.etag)
        etag = put_verified(self.objects, MANIFEST, body, mode=mode, write_id=manifest.write_id, content_type=GZIP)
        return ManifestVersion(manifest=manifest, etag=etag, body=body)

    def still(self, current: ManifestVersion) -> bool:
        """Return whether a manifest is still the current one."""
        stored = self.objects.head(MANIFEST)
        return stored is not None and stored.etag == current.etag

    def keep_generation(self, current: ManifestVersion) -> None:
        """Store a manifest that is about to be replaced, for rollback."""
        key = generation_key(current.manifest.generation)
        write_id = f"{key}#{current.manifest.write_id}"
        put_verified(self.objects, key, current.body, mode=Overwrite(), write_id=write_id, content_type=GZIP)

    def generation(self, number: int) -> Manifest | None:
        """Read an earlier generation; return None if it is not kept."""
        stored = self.objects.get(generation_key(number))
        return None if stored is None else codec.decode_manifest(stored.body, self.objects.url(stored.info.key))

    def write_plan(self, plan: Plan) -> None:
        """Store a plan."""
        put_verified(self.objects, plan.key, codec.encode(plan), mode=Create(), write_id=plan.run, content_type=GZIP)

    def read_plan(self, key: str) -> Plan:
        """Read a stored plan."""
        return self.stored_plan(key)[0]

    def stored_plan(self, key: str) -> tuple[Plan, datetime | None]:
        """Read a stored plan, and the store's time at which it was stored, if the store says it."""
        stored = self.objects.get(key)
        if stored is None:
            raise StoreContentError(
                f"the plan {self.objects.url(key)} is missing: it was swept, or the state area was changed. Plan again."
            )
        return codec.decode_plan(stored.body, self.objects.url(key)), stored.info.modified_at

    def write_receipt(self, receipt: Receipt, token: str) -> str:
        """Store a receipt under a key that is unique to the try, and return the key."""
        key = f"{receipts_directory(receipt.run)}{receipt.batch:04d}-{token}.json.gz"
        put_verified(self.objects, key, codec.encode(receipt), mode=Create(), write_id=token, content_type=GZIP)
        return key

    def read_receipt(self, key: str) -> Receipt:
        """Read a stored receipt."""
        stored = self.objects.get(key)
        if stored is None:
            raise IncompleteError(
                f"the receipt {self.objects.url(key)} is missing; clear the batch's task to write it again"
            )
        return codec.decode_receipt(stored.body, self.objects.url(key))

    def write_report(self, report: Report) -> str:
        """Store a report and return its key."""
        key = report_key(report.run)
        body = json.dumps(report.to_dict(), ensure_ascii=False, indent=1).encode()
        try:
            put_verified(self.objects, key, body, mode=Overwrite(), write_id=f"{key}#{report.finished_at}")
        except (ConfigurationError, StoreError) as error:
            done = f"generation {report.generation} is published, only the report of this run is missing: "
            raise type(error)(f"{done if report.result == 'published' else ''}{error}") from error
        return key

    def read_report(self, run: str) -> Report | None:
        """Read a run's report; return None if none is stored, or if it is damaged."""
        return read_record(self.objects, report_key(run), _REPORT, None)

    def reported_runs(self) -> list[str]:
        """Return the runs that have a report, the newest first."""
        names = (info.key.removeprefix(REPORTS).removesuffix(".json") for info in self.objects.list(REPORTS))
        return sorted(names, reverse=True)


def bounded_time(objects: ObjectStore, clock: Clock, recent: datetime | None = None) -> datetime:
    """Return the worker's time, or the store's time if the worker's clock is ahead of it, with a warning.

    No request is sent if the worker's time is close to ``recent``, a time of the store a short while ago.
    """
    now = clock.now()
    if recent is not None and now <= recent + CLOCK_TOLERANCE:
        return now
    put_verified(objects, TIME_MARK, b"{}", mode=Overwrite(), write_id=clock.token())
    mark = objects.head(TIME_MARK)
    if mark is None or mark.modified_at is None or now <= mark.modified_at + CLOCK_TOLERANCE:
        return now
    log.warning("this worker's clock is %s ahead of the store's clock; using the store's clock", now - mark.modified_at)
    return mark.modified_at


def put_record(objects: ObjectStore, key: str, record: object) -> None:
    """Put a record in JSON in the place of an earlier one."""
    body = msgspec.json.encode(record)
    put_verified(objects, key, body, mode=Overwrite(), write_id=f"{key}#{sha256(body).hexdigest()}")


def read_record(objects: ObjectStore, key: str, decoder: Decoder[T], empty: E) -> T | E:
    """Read a record; return ``empty`` if there is none or, with a warning, if it is damaged."""
    if (stored := objects.get(key)) is None:
        return empty
    try:
        return decoder.decode(stored.body)
    except (ValueError, RecursionError) as error:
        log.warning("%s is damaged (%s) and is ignored", objects.url(key), error)
        return empty


def put_newest(objects: ObjectStore, folder: str, name: str, record: object, *, most: int) -> None:
    """Put a record into a folder of observations, and remove all but the ``most`` newest. Names are in order of time."""
    put_record(objects, f"{folder}{name}.json", record)
    try:
        for old in sorted(info.key for info in objects.list(folder))[:-most]:
            objects.delete(old)
    except (ConfigurationError, StoreError) as error:  # the new object is stored
        log.warning("old observations stay in %s: %s", objects.url(folder), error)


def newest(objects: ObjectStore, folder: str, decoder: Decoder[T], most: int) -> list[T]:
    """Read the newest observations of a folder, oldest first, without damaged ones."""
    keys = sorted(info.key for info in objects.list(folder))[-most:]
    return [record for key in keys if (record := read_record(objects, key, decoder, None)) is not None]


def announcement(objects: ObjectStore, who: str) -> dict[str, Any]:
    """Read the record of the last announcement to a service; return an empty one if there is none."""
    return read_record(objects, _key(who), _ANNOUNCED, {})  # after a damaged one, the last changes are announced again


def last_announced(objects: ObjectStore, who: str) -> int | None:
    """Read the last generation whose changes were announced to a service; return None if none was."""
    generation = announcement(objects, who).get("generation")
    return generation if isinstance(generation, int) else None


def record_announced(objects: ObjectStore, who: str, generation: int, **details: Any) -> None:
    """Record that a generation was announced to a service."""
    put_record(objects, _key(who), {"generation": generation, **details})


def _key(who: str) -> str:
    if not _NAME.fullmatch(who):
        raise ValueError(f"{who!r} cannot be part of a key")
    return f"announced/{who}.json"
