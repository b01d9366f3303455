"""One S3 client per process and Airflow connection, with limited waiting, and the translation of its errors."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from airflow_sitemaps.errors import ConfigurationError, CredentialsError
from airflow_sitemaps.stores.bucket import ARCHIVED, NO_CREDENTIALS, CloudFailure, Connections
from airflow_sitemaps.web_services import DATABASES

POOL: Final = 64
"""Number of connections that stay open: more than the threads that promote at the same time."""
CONNECT_TIMEOUT_S: Final = 10
READ_TIMEOUT_S: Final = 60
R2_HOST: Final = ".r2.cloudflarestorage.com"
R2_COPY_HEADERS: Final = {
    "If-Match": "cf-copy-destination-if-match",
    "If-None-Match": "cf-copy-destination-if-none-match",
}
"""Conditions on the destination of a copy, and the names under which Cloudflare R2 takes them."""
MAX_ATTEMPTS: Final = 5
"""Number of attempts of one call, the first included, with botocore's exponential pauses."""

_CREDENTIALS: Final = "Check the credentials of the Airflow connection"
_KMS_KEY: Final = "Encryption by KMS fails: enable the key, or correct sse_kms_key_id or the bucket's default key"
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
    "InvalidObjectState": ARCHIVED,
    "AuthorizationHeaderMalformed": _REGION,
    "IllegalLocationConstraintException": _REGION,
    "301": _REGION,
    "307": _REGION,
    **dict.fromkeys(("KMS.DisabledException", "KMS.KMSInvalidStateException", "KMS.NotFoundException"), _KMS_KEY),
    "QuotaExceeded": "The quota of the bucket or of its owner is used up: raise it, or remove what is not needed",
    "NotImplemented": _NOT_IMPLEMENTED,
    "501": _NOT_IMPLEMENTED,
    "InvalidRequest": (
        "Correct the setting that the store names. If it wants a checksum (Object Lock), add to the connection's extra "
        '"config_kwargs": {{"request_checksum_calculation": "when_supported"}}'
    ),
    "400": "Correct the setting that the store names; if it names none, check region_name and endpoint_url",
}
"""Next step by error code, or else by HTTP status, for errors that a retry cannot fix."""
DENIED: Final = frozenset({"AccessDenied", "AllAccessDisabled", "403", "Forbidden"})
EXPIRED: Final = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"})
_PASSING: Final = {"IncompleteBody", "BadDigest", "Throttling", "ThrottlingException", "RequestThrottled"}
_RACED: Final = {"ConditionalRequestConflict", "OperationAborted"}
UNCLEAR: Final = _PASSING | _RACED | {"RequestTimeout", "SlowDown"}
"""Error codes that request another attempt, with any status. A put may or may not have taken effect."""
NOT_OURS_TO_RETRY: Final = frozenset({"ParamValidationError", "ProfileNotFound", "InvalidRegionError"})
"""Names of botocore errors that the configuration causes, not the store."""


@dataclass(slots=True)
class S3Connection:
    """A boto3 client, and its store's habits: quotes in ``If-Match`` (AWS) or none (Ceph), conditions or none."""

    client: Any
    endpoint: str
    etag_quotes: bool = field(default=True, compare=False)
    conditions: bool = field(default=True, compare=False)


def _connected(conn_id: str | None) -> S3Connection:
    from airflow.providers.amazon.aws.hooks.s3 import S3Hook  # noqa: PLC0415
    from botocore.config import Config  # noqa: PLC0415

    hook = S3Hook(aws_conn_id=conn_id)
    if not hook.conn_config and conn_id not in (None, S3Hook.default_conn_name):
        # Airflow would use the machine's own identity, and AWS in place of the endpoint that the connection names.
        raise CredentialsError(f"connection {conn_id!r} is not defined in Airflow. Define it, or correct conn_id=")
    if hook.conn_config.conn_type in DATABASES.split():
        raise ConfigurationError(
            f"connection {conn_id!r} has the type {hook.conn_config.conn_type!r}, and S3 takes no credentials of a database. "
            "Name a connection of type 'aws' as conn_id="
        )
    endpoint = hook.conn_config.get_service_endpoint_url(service_name="s3") or ""
    ours = Config(
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=READ_TIMEOUT_S,
        max_pool_connections=POOL,
        tcp_keepalive=True,
        retries={"mode": "standard", "total_max_attempts": MAX_ATTEMPTS},
        **({} if is_aws(endpoint) else _for_other_stores()),
    )
    client = hook.get_client_type(config=ours.merge(hook.config))
    endpoint = str(client.meta.endpoint_url)
    if (urlsplit(endpoint).hostname or "").endswith(R2_HOST):
        copy_as_on_r2(client)
    repeat_races(client)
    return S3Connection(client=client, endpoint=endpoint)


connections: Final = Connections("S3", "airflow-sitemaps", _connected)


def bound_of(client: Any) -> str:
    """Return when a request of a client ends at the latest, and what follows."""
    config = client.meta.config
    attempts = (config.retries or {}).get("total_max_attempts", MAX_ATTEMPTS)
    return (
        f"Each of up to {attempts} attempts ends after {config.read_timeout or 'unlimited'} s without an answer; then the task fails, and its "
        "retry continues"
    )


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


def repeat_races(client: Any) -> None:
    """Let a client repeat what not every botocore does: a write that raced, and status 429 (R2: one write of a name a second)."""
    most = (client.meta.config.retries or {}).get("total_max_attempts", MAX_ATTEMPTS)

    def pause(attempts: int, response: Any, **_: Any) -> float | None:
        is_429 = response is not None and response[0].status_code == 429
        is_early = is_429 or (response is not None and response[1].get("Error", {}).get("Code") in _RACED)
        return random.uniform(0.5, 1) * 2 ** (attempts - 1) if is_early and attempts < most else None  # noqa: S311

    client.meta.events.register("needs-retry.s3", pause)


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
    return code, int(about.get("HTTPStatusCode") or 0), str(about.get("RequestId") or about.get("HostId") or "")


def failure_of(call: str, error: Exception) -> CloudFailure:
    """Return what an error of a call, ``operation s3://bucket/key``, means."""
    code, status, request_id = answer_of(error)
    name, advice, again = type(error).__name__, "", ""
    operation, url = call.split(" ", 1)
    bucket = url.removeprefix("s3://").partition("/")[0]
    if "recursion depth" in str(error):
        advice = "The endpoint redirects: correct endpoint_url (https?) or region_name"
    elif (name == "KeyError" and "ETag" in str(error)) or (
        operation == "ListObjectsV2" and status == 404 and code in ("", "404")
    ):
        advice = "The answer is not one of S3, which names etags and missing buckets: correct endpoint_url"
    elif code in EXPIRED:
        again = "The credentials expired meanwhile; run again"
    elif code in UNCLEAR:
        again = "Run again"
    elif code == "400":  # a HEAD has no body that says more
        again = "The credentials may have expired: run again. If it stays, check region_name and endpoint_url"
    elif name in NOT_OURS_TO_RETRY:
        advice = "Check the Airflow connection and its credentials"
    elif code in DENIED or status in (401, 403):
        advice = NEXT_STEPS.get(code) or _permission(operation, bucket)
    else:
        advice = NEXT_STEPS.get(code) or NEXT_STEPS.get(str(status), "")
    answer = (getattr(error, "response", None) or {}).get("Error") or {}
    return CloudFailure(
        call=call,
        text=str(answer.get("Message") or code) if code or status else f"{name}: {error}",
        code=code,
        status=status,
        request_id=request_id,
        advice=advice.format(bucket=bucket),
        again=again,
        lacks_credentials=name in NO_CREDENTIALS,
        is_unclear=code in UNCLEAR,
    )


def _permission(operation: str, bucket: str) -> str:
    allow = {
        "HeadObject": "s3:GetObject",
        "ListObjectsV2": "s3:ListBucket",
        "CopyObject": "s3:GetObject and s3:PutObject",
    }
    text = f"Allow {allow.get(operation, 's3:' + operation)} (and kms:GenerateDataKey, kms:Decrypt where KMS is used)"
    if operation in ("GetObject", "HeadObject"):
        text += (
            f"; for a missing object S3 answers 403 instead of 404 without s3:ListBucket on {bucket!r}: allow that too, "
            "for the public and the state prefix"
        )
    return text + ". Also check bucket policies and expected_bucket_owner"
