"""Objects under a prefix of a bucket, with conditional writes."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import BotoCoreError, ClientError, FlexibleChecksumError, HTTPClientError, IncompleteReadError
from urllib3.exceptions import HTTPError

from airflow_sitemaps.errors import SitemapError
from airflow_sitemaps.ports import Create, ObjectInfo, Overwrite, PutMode, PutOutcomeError, StoredObject, Update
from airflow_sitemaps.stores import checked_prefix, read_source, refusal
from airflow_sitemaps.stores.bucket import BucketObjects, Missing, bare_etag, calling, redacted
from airflow_sitemaps.stores.s3.client import S3Connection, answer_of, bound_of, connections, failure_of
from airflow_sitemaps.waits import repeated

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from airflow_sitemaps.ports import Headers, ObjectStore

log = logging.getLogger(__name__)

READS: Final = 4
"""Number of attempts to read a body that breaks off. botocore does not retry after the first byte."""
READ_PAUSE_S: Final = 0.4
"""Upper bound of the first pause in seconds; it doubles with each attempt."""
LONGEST_READ_PAUSE_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Objects(BucketObjects):
    """One area of an S3 store, an ``ObjectStore``. Thread-safe. ``sse_kms_key_id`` None: the setting of the bucket.

    With ``look_first``, a conditional put reads the object first, for a store that may ignore the condition. This
    protects a single writer from itself, not two writers from each other.
    """

    connection: S3Connection
    expected_bucket_owner: str | None = None
    sse_kms_key_id: str | None = None
    look_first: bool = False

    @property
    def place(self) -> str:
        """Endpoint and bucket, which determine whether conditional writes are enforced."""
        return f"{self.connection.endpoint}/{self.address.bucket}"

    def get(self, key: str) -> StoredObject | None:
        read = repeated(
            _BrokenOffError, attempts=READS, pause_s=READ_PAUSE_S, longest_pause_s=LONGEST_READ_PAUSE_S, log=log
        )
        with suppress(Missing), self._calling("GetObject", key):
            return read(self._get, key)
        return None

    def _get(self, key: str) -> StoredObject | None:
        """Read an object once."""
        answer = self.connection.client.get_object(**self._request(key))
        try:
            with closing(answer["Body"]) as stream:
                body = stream.read()
        except BROKEN_OFF as e:
            raise _BrokenOffError(f"the body of {self.url(key)}: {type(e).__name__}: {redacted(str(e))}") from e
        return StoredObject(info=_info(key, answer, len(body)), body=body)

    def head(self, key: str) -> ObjectInfo | None:
        with suppress(Missing), self._calling("HeadObject", key):
            answer = self.connection.client.head_object(**self._request(key))
            return _info(key, answer, int(answer["ContentLength"]))
        return None

    def put(self, key: str, body: bytes, *, mode: PutMode, **headers: Unpack[Headers]) -> str:
        request = self._request(key) | self._headers(key, headers) | {"Body": bytes(body)}
        if self.look_first and not isinstance(mode, Overwrite) and (refused := refusal(mode, self.head(key))):
            raise PutOutcomeError(f"PutObject {self.url(key)}: {refused}", definite=True)
        with self._calling("PutObject", key, mode):
            try:
                return self._put(request, mode, quotes=self.connection.etag_quotes)
            except ClientError as e:
                if not isinstance(mode, Update) or answer_of(e)[1] != 412 or not self._unchanged(key, mode):
                    raise
            # It was refused although its condition holds: AWS compares etags with quotes, Ceph without.
            quotes = not self.connection.etag_quotes
            etag = self._put(request, mode, quotes=quotes)
            self.connection.etag_quotes = quotes
            return etag

    def copy(
        self, source: ObjectStore, found: ObjectInfo, key: str, *, mode: PutMode, **headers: Unpack[Headers]
    ) -> str:
        """Copy an object. AWS checks the destination's etag and the source's; not every server does."""
        if not isinstance(source, S3Objects) or source.connection is not self.connection or self.look_first:
            return self.put(key, read_source(source, found), mode=mode, **headers)
        request = self._request(key) | self._headers(key, headers) | source.as_source(found)
        request["MetadataDirective"] = "REPLACE"
        condition = self._condition(mode, quotes=self.connection.etag_quotes)
        with self._calling("CopyObject", key, mode):
            answer = self.connection.client.copy_object(**request, **condition)
        etag = answer.get("CopyObjectResult", {}).get("ETag")
        if not etag:
            text = f"CopyObject {self.url(key)}: the answer names no etag, so it may or may not have been copied"
            raise PutOutcomeError(text, definite=False)
        return bare_etag(etag)

    def as_source(self, found: ObjectInfo) -> dict[str, Any]:
        """Return the arguments of a CopyObject request that name the object to copy."""
        owner = self.expected_bucket_owner
        where = {"Bucket": self.address.bucket, "Key": self._request(found.key)["Key"]}
        return {"CopySource": where, "CopySourceIfMatch": f'"{found.etag}"'} | (
            {"ExpectedSourceBucketOwner": owner} if owner else {}
        )

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """List objects. Folder markers, whose names end in ``/``, are omitted."""
        request = self._bucket() | {"Prefix": self.address.prefix + checked_prefix(prefix)}
        pages = iter(self.connection.client.get_paginator("list_objects_v2").paginate(**request))
        while True:
            with self._calling("ListObjectsV2", prefix, missing=()):
                page = next(pages, None)
            if page is None:
                return
            for entry in page.get("Contents", ()):
                key = entry["Key"].removeprefix(self.address.prefix)
                if key and not key.endswith("/"):
                    yield _info(key, entry, entry["Size"])

    def delete(self, key: str, *, etag: str | None = None) -> None:
        """Delete an object. AWS checks the etag; servers that do not implement the condition ignore it."""
        condition = {} if etag is None else self._condition(Update(etag), quotes=self.connection.etag_quotes)
        delete = self.connection.client.delete_object
        with suppress(Missing), self._calling("DeleteObject", key):
            try:
                delete(**self._request(key), **condition)
            except ClientError as e:
                if not condition or answer_of(e)[1] not in (412, 501):
                    raise
                if answer_of(e)[1] == 501:
                    delete(**self._request(key))

    def _bucket(self) -> dict[str, Any]:
        owner = self.expected_bucket_owner
        return {"Bucket": self.address.bucket} | ({"ExpectedBucketOwner": owner} if owner else {})

    def _request(self, key: str) -> dict[str, Any]:
        return self._bucket() | {"Key": self.address.key(key)}

    def _headers(self, key: str, given: Headers) -> dict[str, Any]:
        named = {name.title().replace("_", ""): value for name, value in self.sent(key, given).items()}
        headers = {name: value for name, value in named.items() if value is not None}
        if self.sse_kms_key_id:
            headers |= {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": self.sse_kms_key_id}
        return headers

    def _put(self, request: dict[str, Any], mode: PutMode, *, quotes: bool) -> str:
        condition = self._condition(mode, quotes=quotes)
        try:
            return bare_etag(self.connection.client.put_object(**request, **condition)["ETag"])
        except ClientError as e:
            # A single writer has looked already. The store rejects conditional headers (501), so send it without.
            if answer_of(e)[1] != 501 or not condition or not self.look_first:
                raise
            self.connection.conditions = False
            return self._put(request, mode, quotes=quotes)

    def _condition(self, mode: PutMode, *, quotes: bool) -> dict[str, str]:
        if self.connection.conditions and isinstance(mode, Create):
            return {"IfNoneMatch": "*"}
        if self.connection.conditions and isinstance(mode, Update):
            return {"IfMatch": f'"{mode.etag}"' if quotes else mode.etag}
        return {}

    def _unchanged(self, key: str, mode: Update) -> bool:
        """Return whether the object still has the etag of a condition that was refused."""
        try:
            there = self.head(key)
        except SitemapError:
            return False
        return there is not None and there.etag == mode.etag

    def _calling(
        self, operation: str, key: str, mode: PutMode | None = None, *, missing: Sequence[int] = (404,)
    ) -> AbstractContextManager[None]:
        """Translate a call's errors; ``mode`` is the condition of a write. Missing: there is no object."""
        call, bound = f"{operation} {self.url(key)}", bound_of(self.connection.client)
        forget, is_copy = partial(connections.forget, self.connection), operation == "CopyObject"
        return calling(call, bound, ERRORS, failure_of, mode=mode, forget=forget, is_copy=is_copy, missing=missing)


class _BrokenOffError(Exception):
    """The body of an object broke off."""


BROKEN_OFF: Final = (HTTPClientError, IncompleteReadError, FlexibleChecksumError, HTTPError)
"""Errors when a body is read. botocore does not translate all errors of urllib3."""
ERRORS: Final = (ClientError, BotoCoreError, _BrokenOffError, RecursionError, KeyError)
"""Errors of a call. botocore follows a redirect that names no region again and again."""


def _info(key: str, answer: Mapping[str, Any], byte_size: int) -> ObjectInfo:
    metadata = {name.lower(): value for name, value in answer.get("Metadata", {}).items()}
    etag, changed = bare_etag(answer["ETag"]), answer.get("LastModified")
    return ObjectInfo(key=key, etag=etag, byte_size=byte_size, metadata=metadata, modified_at=changed)
