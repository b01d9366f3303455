"""Objects under a prefix of a bucket, with conditional writes."""

from __future__ import annotations

import logging
import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    FlexibleChecksumError,
    HTTPClientError,
    IncompleteReadError,
)
from urllib3.exceptions import HTTPError

from airflow_sitemaps.errors import SitemapError, StoreError
from airflow_sitemaps.ports import Create, ObjectInfo, Overwrite, PutMode, PutOutcomeError, StoredObject, Update
from airflow_sitemaps.stores.address import checked_key, checked_metadata, checked_prefix
from airflow_sitemaps.stores.copies import copied
from airflow_sitemaps.stores.s3_errors import UNCLEAR, answer_of, explained, told

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow_sitemaps.ports import ObjectStore
    from airflow_sitemaps.stores.s3 import S3Address
    from airflow_sitemaps.stores.s3_client import S3Connection

log = logging.getLogger(__name__)

READS: Final = 4
"""How often a body that broke off is read anew; botocore does not repeat what fails after the first byte."""
READ_PAUSE_S: Final = 0.2
"""Doubled after each attempt."""
BROKEN_OFF: Final = (HTTPClientError, IncompleteReadError, FlexibleChecksumError, HTTPError)
"""What reading a body can raise; urllib3's own errors are not all translated there."""
PLAIN_TYPES: Final = {
    ".xml.gz": "application/xml; charset=utf-8",
    ".txt.gz": "text/plain; charset=utf-8",
    ".rss.gz": "application/rss+xml; charset=utf-8",
    ".atom.gz": "application/atom+xml; charset=utf-8",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Settings:
    """How objects are stored. ``look_first`` asks what is there before a conditional put, for a store that may ignore
    the condition itself; it protects a single writer from itself, not two from each other."""

    expected_bucket_owner: str | None = None
    sse_kms_key_id: str | None = None
    content_encoding: bool = False
    look_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Objects:
    """One area of an S3 store; implements ``ports.ObjectStore``. Thread-safe."""

    connection: S3Connection
    address: S3Address
    settings: S3Settings

    @property
    def place(self) -> str:
        """What decides whether conditions are enforced: the endpoint and the bucket."""
        return f"{self.connection.endpoint}/{self.address.bucket}"

    def url(self, key: str) -> str:
        return self.address.url + key

    def get(self, key: str) -> StoredObject | None:
        for attempt in range(1, READS):
            try:
                return self._get(key)
            except BROKEN_OFF as e:
                log.info("%s; reading it anew", told("GetObject", self.url(key), e))
                time.sleep(READ_PAUSE_S * 2**attempt)
        try:
            return self._get(key)
        except BROKEN_OFF as e:
            raise explained("GetObject", self.url(key), e) from e

    def _get(self, key: str) -> StoredObject | None:
        """One attempt; a body that broke off is raised as the library raises it."""
        try:
            answer = self.connection.client.get_object(**self._request(key))
        except ClientError as e:
            self._raise_unless_missing("GetObject", key, e)
            return None
        except BotoCoreError as e:
            raise explained("GetObject", self.url(key), e) from e
        with closing(answer["Body"]) as stream:
            body = stream.read()
        return StoredObject(info=_info(key, answer, len(body)), body=body)

    def head(self, key: str) -> ObjectInfo | None:
        try:
            answer = self.connection.client.head_object(**self._request(key))
        except ClientError as e:
            self._raise_unless_missing("HeadObject", key, e)
            return None
        except BotoCoreError as e:
            raise explained("HeadObject", self.url(key), e) from e
        return _info(key, answer, int(answer["ContentLength"]))

    def put(
        self,
        key: str,
        body: bytes,
        *,
        mode: PutMode,
        metadata: Mapping[str, str],
        content_type: str,
        cache_control: str | None = None,
    ) -> str:
        request = self._request(key) | self._headers(key, content_type, cache_control)
        request |= {"Body": bytes(body), "Metadata": checked_metadata(metadata)}
        if self.settings.look_first and not isinstance(mode, Overwrite):
            self._look_first(key, mode)
        try:
            return self._put(request, mode, quotes=self.connection.etag_quotes)
        except ClientError as e:
            if isinstance(mode, Update) and answer_of(e)[1] == 412 and self._unchanged(key, mode):
                return self._put_in_other_quotes(key, request, mode)
            self._raise_put(key, mode, e)
        except BotoCoreError as e:
            self._raise_put(key, mode, e)

    def copy(
        self,
        source: ObjectStore,
        found: ObjectInfo,
        key: str,
        *,
        mode: PutMode,
        metadata: Mapping[str, str],
        content_type: str,
        cache_control: str | None = None,
    ) -> str:
        """As the port says. AWS compares the destination's etag as well as the source's; not every server does."""
        if not isinstance(source, S3Objects) or source.connection is not self.connection or self.settings.look_first:
            body = copied(source, found)
            return self.put(
                key, body, mode=mode, metadata=metadata, content_type=content_type, cache_control=cache_control
            )
        request = self._request(key) | self._headers(key, content_type, cache_control) | source.as_source(found)
        request |= {"Metadata": checked_metadata(metadata), "MetadataDirective": "REPLACE"}
        condition = self._condition(mode, quotes=self.connection.etag_quotes)
        try:
            answer = self.connection.client.copy_object(**request, **condition)
        except (ClientError, BotoCoreError) as e:
            self._raise_put(key, mode, e, operation="CopyObject")
        etag = answer.get("CopyObjectResult", {}).get("ETag")
        if not etag:
            text = f"CopyObject {self.url(key)}: the answer names no etag, so it may or may not have been copied"
            raise PutOutcomeError(text, definite=False)
        return _bare(etag)

    def as_source(self, found: ObjectInfo) -> dict[str, Any]:
        """What a CopyObject request says of the object to copy."""
        owner = self.settings.expected_bucket_owner
        where = {"Bucket": self.address.bucket, "Key": self._request(found.key)["Key"]}
        return {"CopySource": where, "CopySourceIfMatch": f'"{found.etag}"'} | (
            {"ExpectedSourceBucketOwner": owner} if owner else {}
        )

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """As the port says; folder markers, whose names end in ``/``, are left out."""
        request = self._bucket() | {"Prefix": self.address.prefix + checked_prefix(prefix)}
        pages = self.connection.client.get_paginator("list_objects_v2").paginate(**request)
        try:
            for page in pages:
                for found in page.get("Contents", ()):
                    key = found["Key"].removeprefix(self.address.prefix)
                    if key and not key.endswith("/"):
                        yield ObjectInfo(
                            key=key,
                            etag=_bare(found["ETag"]),
                            byte_size=found["Size"],
                            modified_at=found["LastModified"],
                        )
        except (ClientError, BotoCoreError) as e:
            raise explained("ListObjectsV2", self.url(prefix), e) from e

    def delete(self, key: str, *, etag: str | None = None) -> None:
        """As the port says. AWS compares the etag; servers that do not know this condition pass over it."""
        condition = {}
        if etag is not None and self.connection.conditions:
            condition = {"IfMatch": f'"{etag}"' if self.connection.etag_quotes else etag}
        try:
            self.connection.client.delete_object(**self._request(key), **condition)
        except ClientError as e:
            status = answer_of(e)[1]
            if condition and status == 412:
                return
            if condition and status == 501:
                self.delete(key)
                return
            self._raise_unless_missing("DeleteObject", key, e)
        except BotoCoreError as e:
            raise explained("DeleteObject", self.url(key), e) from e

    def _bucket(self) -> dict[str, Any]:
        owner = self.settings.expected_bucket_owner
        return {"Bucket": self.address.bucket} | ({"ExpectedBucketOwner": owner} if owner else {})

    def _request(self, key: str) -> dict[str, Any]:
        return self._bucket() | {"Key": self.address.prefix + checked_key(key, prefix=self.address.prefix)}

    def _headers(self, key: str, content_type: str, cache_control: str | None) -> dict[str, Any]:
        headers = {"ContentType": content_type}
        plain = next((t for end, t in PLAIN_TYPES.items() if key.endswith(end)), None)
        if self.settings.content_encoding and plain:
            headers |= {"ContentType": plain, "ContentEncoding": "gzip"}
        if cache_control:
            headers["CacheControl"] = cache_control
        if self.settings.sse_kms_key_id:
            headers |= {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": self.settings.sse_kms_key_id}
        return headers

    def _put(self, request: dict[str, Any], mode: PutMode, *, quotes: bool) -> str:
        condition = self._condition(mode, quotes=quotes)
        try:
            return _bare(self.connection.client.put_object(**request, **condition)["ETag"])
        except ClientError as e:
            # A single writer looked already; to a store that will not even hear a condition it is said without one.
            if answer_of(e)[1] != 501 or not condition or not self.settings.look_first:
                raise
            self.connection.conditions = False
            return self._put(request, mode, quotes=quotes)

    def _condition(self, mode: PutMode, *, quotes: bool) -> dict[str, str]:
        if self.connection.conditions and isinstance(mode, Create):
            return {"IfNoneMatch": "*"}
        if self.connection.conditions and isinstance(mode, Update):
            return {"IfMatch": f'"{mode.etag}"' if quotes else mode.etag}
        return {}

    def _put_in_other_quotes(self, key: str, request: dict[str, Any], mode: PutMode) -> str:
        """The condition was refused although it holds: AWS writes etags in quotes, Ceph compares them without."""
        quotes = not self.connection.etag_quotes
        try:
            etag = self._put(request, mode, quotes=quotes)
        except (ClientError, BotoCoreError) as e:
            self._raise_put(key, mode, e)
        self.connection.etag_quotes = quotes
        return etag

    def _unchanged(self, key: str, mode: Update) -> bool:
        """Whether the object still has the etag of a condition that was refused."""
        try:
            there = self.head(key)
        except SitemapError:
            return False
        return there is not None and there.etag == mode.etag

    def _look_first(self, key: str, mode: PutMode) -> None:
        there = self.head(key)
        if isinstance(mode, Create) and there is not None:
            raise PutOutcomeError(f"PutObject {self.url(key)}: an object is there (etag {there.etag})", definite=True)
        if isinstance(mode, Update) and (there is None or there.etag != mode.etag):
            found = "nothing is there" if there is None else f"the object has etag {there.etag}"
            raise PutOutcomeError(f"PutObject {self.url(key)}: {found}, not {mode.etag}", definite=True)

    def _raise_unless_missing(self, operation: str, key: str, e: ClientError) -> None:
        """Return for an object that is not there; raise everything else."""
        code, status, _ = answer_of(e)
        if status != 404 or code == "NoSuchBucket":
            raise explained(operation, self.url(key), e, reading=operation != "DeleteObject") from e

    def _raise_put(
        self, key: str, mode: PutMode, e: ClientError | BotoCoreError, *, operation: str = "PutObject"
    ) -> NoReturn:
        """Say what a put that failed means: a clear no, a lost answer, or something to mend."""
        code, status, _ = answer_of(e)
        text = told(operation, self.url(key), e)
        gone = status == 404 and code != "NoSuchBucket" and (isinstance(mode, Update) or operation == "CopyObject")
        if gone or status in (304, 412):
            raise PutOutcomeError(f"{text}: the condition {mode} does not hold", definite=True) from e
        error = explained(operation, self.url(key), e)
        if code in UNCLEAR or (isinstance(error, StoreError) and _may_have_landed(status)):
            raise PutOutcomeError(f"{text}: it may or may not have been written", definite=False) from e
        raise error from e


def _may_have_landed(status: int) -> bool:
    """Whether the other side might have stored what it did not acknowledge: no answer at all, or a server's fault."""
    return status == 0 or status >= 500 or status in (408, 409, 429)


def _info(key: str, answer: Mapping[str, Any], byte_size: int) -> ObjectInfo:
    metadata = {name.lower(): value for name, value in answer.get("Metadata", {}).items()}
    return ObjectInfo(
        key=key,
        etag=_bare(answer["ETag"]),
        byte_size=byte_size,
        metadata=metadata,
        modified_at=answer.get("LastModified"),
    )


def _bare(etag: str) -> str:
    """An etag without quotes and without the mark of a weak one."""
    return etag.removeprefix("W/").strip('"')
