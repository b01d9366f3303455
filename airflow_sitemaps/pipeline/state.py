"""The private area: manifest, earlier generations, plans, receipts, reports, bodies; and their names."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.errors import IncompleteError, StoreContentError
from airflow_sitemaps.pipeline.putting import put_surely
from airflow_sitemaps.ports import Create, Overwrite, Update
from airflow_sitemaps.shards import codec

if TYPE_CHECKING:
    from airflow_sitemaps.pipeline.report import Report
    from airflow_sitemaps.ports import Clock, ObjectStore
    from airflow_sitemaps.shards.manifest import Manifest
    from airflow_sitemaps.shards.plan import Plan
    from airflow_sitemaps.shards.receipt import Receipt

MANIFEST: Final = "manifest.json.gz"
GZIP: Final = "application/gzip"
RUNS: Final = "runs/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """The manifest as it was read: its value, its etag to replace it, its bytes."""

    manifest: Manifest
    etag: str
    body: bytes


def new_run(clock: Clock) -> str:
    """The name of a run: its time, so that names sort, and a token."""
    return f"{clock.now():%Y%m%dT%H%M%SZ}-{clock.token()}"


def run_directory(run: str) -> str:
    """Where a run keeps its bodies and receipts."""
    return f"{RUNS}{run}/"


def receipts_directory(run: str) -> str:
    """Where a run keeps its receipts."""
    return f"{run_directory(run)}receipts/"


def plan_key(run: str) -> str:
    """Where a run's plan lies."""
    return f"plans/{run}.json.gz"


def generation_key(generation: int) -> str:
    """Where an earlier generation's manifest lies."""
    return f"generations/{generation:08d}.json.gz"


def report_key(run: str) -> str:
    """Where a run's report lies."""
    return f"reports/{run}.json"


@dataclass(frozen=True, slots=True)
class State:
    """Reads and writes of the private area."""

    objects: ObjectStore

    def root(self) -> Root | None:
        """The current manifest, None before the first commit. Raises ManifestError, StoreError."""
        found = self.objects.get(MANIFEST)
        if found is None:
            return None
        manifest = codec.decode_manifest(found.body, self.objects.url(MANIFEST))
        return Root(manifest=manifest, etag=found.info.etag, body=found.body)

    def replace_root(self, manifest: Manifest, over: Root | None) -> Root:
        """Put a manifest in place of ``over``. Raises RefusedPutError when another one lies there."""
        body = codec.encode_manifest(manifest)
        mode = Create() if over is None else Update(over.etag)
        etag = put_surely(self.objects, MANIFEST, body, mode=mode, write_id=manifest.write_id, content_type=GZIP)
        return Root(manifest=manifest, etag=etag, body=body)

    def still(self, root: Root) -> bool:
        """Whether the manifest is still this one."""
        found = self.objects.head(MANIFEST)
        return found is not None and found.etag == root.etag

    def keep_generation(self, root: Root) -> None:
        """Keep a manifest that is about to be replaced, for rollback."""
        self._overwrite(generation_key(root.manifest.generation), root.body, GZIP)

    def generation(self, number: int) -> Manifest | None:
        """An earlier generation, None where it is no longer kept."""
        found = self.objects.get(generation_key(number))
        return None if found is None else codec.decode_manifest(found.body, self.objects.url(found.info.key))

    def write_plan(self, plan: Plan) -> str:
        """Store a plan; returns its key."""
        key = plan_key(plan.run)
        self._create(key, codec.encode_plan(plan), plan.run)
        return key

    def read_plan(self, key: str) -> Plan:
        """A stored plan. Raises StoreContentError where it is gone."""
        found = self.objects.get(key)
        if found is None:
            raise StoreContentError(
                f"the plan {self.objects.url(key)} is gone: it was swept, or the state area was changed. Plan again."
            )
        return codec.decode_plan(found.body, self.objects.url(key))

    def write_receipt(self, receipt: Receipt, token: str) -> str:
        """Store a receipt under a name of its own for each try; returns its key."""
        key = f"{receipts_directory(receipt.run)}{receipt.batch:04d}-{token}.json.gz"
        self._create(key, codec.encode_receipt(receipt), token)
        return key

    def read_receipt(self, key: str) -> Receipt:
        """A stored receipt. Raises IncompleteError where there is none."""
        found = self.objects.get(key)
        if found is None:
            raise IncompleteError(
                f"the receipt {self.objects.url(key)} is gone; clear the batch's task to write it again"
            )
        return codec.decode_receipt(found.body, self.objects.url(key))

    def write_report(self, report: Report) -> str:
        """Store a report; returns its key."""
        key = report_key(report.run)
        self._overwrite(key, json.dumps(report.to_dict(), ensure_ascii=False, indent=1).encode(), "application/json")
        return key

    def read_report(self, run: str) -> dict[str, Any] | None:
        """A stored report as JSON values, None where it is no longer kept."""
        found = self.objects.get(report_key(run))
        return None if found is None else json.loads(found.body)

    def _create(self, key: str, body: bytes, write_id: str) -> None:
        put_surely(self.objects, key, body, mode=Create(), write_id=write_id, content_type=GZIP)

    def _overwrite(self, key: str, body: bytes, content_type: str) -> None:
        put_surely(self.objects, key, body, mode=Overwrite(), write_id=key, content_type=content_type)
