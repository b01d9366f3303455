"""One S3 client per process and Airflow connection, with limited waiting, and the translation of its errors."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from airflow_sitemaps import waits
from airflow_sitemaps.errors import ConfigurationError, CredentialsError, SitemapError, StoreError
from airflow_sitemaps.stores.bucket import redacted

POOL: Final = 64
"""Number of connections that stay open: more than the threads that promote at the same time."""
CONNECT_TIMEOUT_S: Final = 10
READ_TIMEOUT_S: Final = 60
WAIT: Final = "airflow_sitemaps.wait"
"""Key of a request's wait in botocore's context of the request."""
R2_HOST: Final = ".r2.cloudflarestorage.com"
R2_COPY_HEADERS: Final = {
    "If-Match": "cf-copy-destination-if-match",
    "If-None-Match": "cf-copy-destination-if-none-match",
}
"""Conditions on the destination of a copy, and the names under which Cloudflare R2 takes them."""
MAX_ATTEMPTS: Final = 5
"""Number of attempts of one call, the first included, with botocore's exponential pauses."""

_CREDENTIALS: Final = "Check the credentials of the Airflow connection"
_REGION: Final = "The bucket '{bucket}' is in another region: set region_name in the connection's extra"
_NOT_IMPLEMENTED: Final = (
    "The store does not implement this request. If it is a conditional write, and no other process publishes here, "
    "set single_writer=True"
)
NEXT_STEPS: Final = {
    "NoSuchBucket": "Create the bucket '{bucket}', or correct the URL or the region",
    "InvalidAccessKeyId": _CREDENTIALS,
    "SignatureDoesNotMatch": _CREDENTIALS,
    "InvalidToken": _CREDENTIALS,
    "InvalidSecurity": _CREDENTIALS,
    "NotSignedUp": _CREDENTIALS,
    "AccountProblem": _CREDENTIALS,
    "RequestTimeTooSkewed": "This machine's clock is wrong; set it",
    "AuthorizationHeaderMalformed": _REGION,
    "IllegalLocationConstraintException": _REGION,
    "301": _REGION,
    "307": _REGION,
    "NotImplemented": _NOT_IMPLEMENTED,
    "501": _NOT_IMPLEMENTED,
    "400": "The store does not understand the request: check region_name and endpoint_url",
}
"""Next step by error code, or else by HTTP status, for errors that a retry cannot fix."""
DENIED: Final = frozenset({"AccessDenied", "AllAccessDisabled", "403", "Forbidden"})
EXPIRED: Final = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"})
UNCLEAR: Final = frozenset({"RequestTimeout", "ConditionalRequestConflict", "OperationAborted", "SlowDown"})
"""Error codes that request another attempt, with any status. A put may or may not have taken effect."""
NO_CREDENTIALS: Final = frozenset(
    {"NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "AirflowNotFoundException"}
)
"""Errors that a metadata service or secrets backend without an answer can cause, so a retry may help."""
NOT_OURS_TO_RETRY: Final = frozenset({"ParamValidationError", "ProfileNotFound", "InvalidRegionError"})
"""Names of botocore errors that the configuration causes, not the store."""

_connections: dict[tuple[int, str | None], S3Connection] = {}
_lock = threading.Lock()


@dataclass(slots=True)
class S3Connection:
    """A boto3 client, and its store's habits: quotes in ``If-Match`` (AWS) or none (Ceph), conditions or none."""

    client: Any
    endpoint: str
    etag_quotes: bool = field(default=True, compare=False)
    conditions: bool = field(default=True, compare=False)


def connection_of(conn_id: str | None) -> S3Connection:
    """Return this process's client of an Airflow connection. It is created on first use, and again after a fork."""
    with _lock:
        name = (os.getpid(), conn_id)
        if name not in _connections:
            _connections[name] = _connected(conn_id)
        return _connections[name]


def close_connections(*conn_ids: str | None) -> None:
    """Close the clients of some or all connections, so that a changed connection is read again."""
    with _lock:
        for name in [name for name in _connections if not conn_ids or name[1] in conn_ids]:
            _connections.pop(name).client.close()


def _connected(conn_id: str | None) -> S3Connection:
    from airflow.providers.amazon.aws.hooks.s3 import S3Hook  # noqa: PLC0415
    from botocore.config import Config  # noqa: PLC0415

    try:
        hook = S3Hook(aws_conn_id=conn_id)
        endpoint = hook.conn_config.get_service_endpoint_url(service_name="s3") or ""
        ours = Config(
            connect_timeout=CONNECT_TIMEOUT_S,
            read_timeout=READ_TIMEOUT_S,
            max_pool_connections=POOL,
            tcp_keepalive=True,
            retries={"mode": "standard", "total_max_attempts": MAX_ATTEMPTS},
            **({} if is_aws(endpoint) else _for_other_stores()),
        )
        client = _watched(hook.get_client_type(config=ours.merge(hook.config)))
    except ConfigurationError:
        raise
    except Exception as e:
        # Airflow and botocore raise a dozen unrelated types here, all for a connection that cannot be used.
        kind = CredentialsError if type(e).__name__ in NO_CREDENTIALS else ConfigurationError
        raise kind(
            f"no S3 client can be created from connection {conn_id!r} ({type(e).__name__}: {redacted(str(e))}). Check its "
            "credentials, and endpoint_url, region_name and config_kwargs in its extra"
        ) from e
    endpoint = str(client.meta.endpoint_url)
    if (urlsplit(endpoint).hostname or "").endswith(R2_HOST):
        copy_as_on_r2(client)
    return S3Connection(client=client, endpoint=endpoint)


def bound_of(client: Any) -> str:
    """Return when a request of a client ends at the latest, and what follows."""
    config = client.meta.config
    attempts = (config.retries or {}).get("total_max_attempts", MAX_ATTEMPTS)
    return (
        f"Each of up to {attempts} attempts ends after {config.read_timeout:g} s without an answer; then the task fails, and its "
        "retry continues"
    )


def _watched(client: Any) -> Any:
    """Let the log name requests that take long, with all their attempts. These two events surround each of them."""
    bound = bound_of(client)

    def begin(model: Any, params: Any, context: Any, **_: Any) -> None:
        context[WAIT] = waits.begin(f"{model.name} {str(params['url']).partition('?')[0]}", bound)

    def end(context: Any, **_: Any) -> None:
        waits.end(context.pop(WAIT, None))

    client.meta.events.register("before-call.s3", begin)
    for event in ("after-call.s3", "after-call-error.s3"):
        client.meta.events.register(event, end)
    return client


def is_aws(endpoint: str) -> bool:
    """Return whether an endpoint is one of AWS. An empty endpoint is."""
    host = urlsplit(endpoint).hostname or "amazonaws.com"
    return host.endswith((".amazonaws.com", ".amazonaws.com.cn")) or host == "amazonaws.com"


def copy_as_on_r2(client: Any) -> None:
    """Let a client send the conditions of CopyObject under R2's own names. The probe finds out whether they are enforced."""

    def rename(params: Any, **_: Any) -> None:
        headers = params["headers"]
        for name, renamed in R2_COPY_HEADERS.items():
            if name in headers:
                headers[renamed] = headers.pop(name)

    client.meta.events.register("before-call.s3.CopyObject", rename)


def _for_other_stores() -> dict[str, Any]:
    """Return settings for other stores: few know checksum trailers or ``bucket.host``. The connection's count more."""
    return {
        "request_checksum_calculation": "when_required",
        "response_checksum_validation": "when_required",
        "s3": {"addressing_style": "path"},
    }


def answer_of(error: Any) -> tuple[str, int, str]:
    """Return code, HTTP status and request ID of a ``ClientError``."""
    response = getattr(error, "response", None) or {}
    about = response.get("ResponseMetadata") or {}
    code = str((response.get("Error") or {}).get("Code") or "")
    return code, int(about.get("HTTPStatusCode") or 0), str(about.get("RequestId") or about.get("HostId") or "none")


def described(operation: str, url: str, error: Any) -> str:
    """Describe a failure by operation, address, code, status and request ID, without secrets."""
    code, status, request_id = answer_of(error)
    if not code and not status:
        return f"{operation} {url}: {type(error).__name__}: {redacted(str(error))[:300]}"
    message = redacted(str((error.response.get("Error") or {}).get("Message") or ""))[:200]
    said = f"{code}: {message}" if message else code
    return f"{operation} {url}: {said} (status {status}, request id {request_id})"


def explained(operation: str, url: str, error: Any, *, reading: bool = False) -> SitemapError:
    """Return the error to raise for a failed call. If ``reading``, a missing object could be the reason for a 403."""
    code, status, _ = answer_of(error)
    text = described(operation, url, error)
    bucket = url.removeprefix("s3://").partition("/")[0]
    if code in EXPIRED:
        return StoreError(f"{text}. The credentials expired meanwhile; run again")
    if code in UNCLEAR:
        return StoreError(f"{text}. Run again")
    if type(error).__name__ in NO_CREDENTIALS:
        return CredentialsError(
            f"{text}. Check the Airflow connection and its credentials, or the role of this machine"
        )
    if type(error).__name__ in NOT_OURS_TO_RETRY:
        return ConfigurationError(f"{text}. Check the Airflow connection and its credentials")
    if code in DENIED or status in (401, 403):
        advice = NEXT_STEPS.get(code) or _permission(operation, bucket, reading)
    else:
        advice = NEXT_STEPS.get(code) or NEXT_STEPS.get(str(status), "")
    if advice:
        return ConfigurationError(f"{text}. {advice.format(bucket=bucket)}")
    return StoreError(f"{text}. Check the network and the store's health, then run again")


def _permission(operation: str, bucket: str, reading: bool) -> str:
    allow = {"GetObject": "s3:GetObject", "HeadObject": "s3:GetObject", "ListObjectsV2": "s3:ListBucket"}
    text = f"Allow {allow.get(operation, 's3:' + operation)} (and kms:GenerateDataKey, kms:Decrypt where KMS is used)"
    if reading:
        text += (
            f"; for a missing object S3 answers 403 instead of 404 without s3:ListBucket on {bucket!r}: allow that too, "
            "for the public and the state prefix"
        )
    return text + ". Also check bucket policies and expected_bucket_owner"
