"""What S3 answers, in words that say where and what next, and in errors that say whether a retry helps."""

from __future__ import annotations

import re
from typing import Any, Final

from airflow_sitemaps.errors import ConfigurationError, SitemapError, StoreError

_CREDENTIALS: Final = "Look at the credentials of the Airflow connection"
_REGION: Final = "The bucket '{bucket}' is in another region: set region_name in the connection's extra"
_NOT_IMPLEMENTED: Final = (
    "The store does not implement what was asked. If that is conditional writes, and no other process publishes here, "
    "set single_writer=True"
)
NEXT_STEPS: Final = {
    "NoSuchBucket": "Make the bucket '{bucket}', or correct the URL or the region",
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
    "400": "The store does not understand the request: look at region_name and endpoint_url",
}
"""By code, then by HTTP status: what the user can mend, where a retry would fail alike."""
DENIED: Final = frozenset({"AccessDenied", "AllAccessDisabled", "403", "Forbidden"})
EXPIRED: Final = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"})
UNCLEAR: Final = frozenset({"RequestTimeout", "ConditionalRequestConflict", "OperationAborted", "SlowDown"})
"""Codes that ask for another try, whatever their status; a put may have landed or not."""
NOT_OURS_TO_RETRY: Final = frozenset(
    {"NoCredentialsError", "PartialCredentialsError", "ParamValidationError", "ProfileNotFound", "InvalidRegionError"}
)
"""Names of botocore's errors that come from configuration and not from the other side."""


def redacted(text: str) -> str:
    """A text without user names, passwords, and queries of URLs (presigned ones hold signatures)."""
    text = re.sub(r"//[^/@\s\"']+@", "//…@", text)
    return re.sub(r"(https?://[^\s?\"']*)\?[^\s\"']*", r"\1?…", text)


def answer_of(error: Any) -> tuple[str, int, str]:
    """Code, HTTP status and request id of a ``ClientError``."""
    response = getattr(error, "response", None) or {}
    about = response.get("ResponseMetadata") or {}
    code = str((response.get("Error") or {}).get("Code") or "")
    return code, int(about.get("HTTPStatusCode") or 0), str(about.get("RequestId") or about.get("HostId") or "none")


def told(operation: str, url: str, error: Any) -> str:
    """Operation, address, code, status and request id of a failure, without secrets."""
    code, status, request_id = answer_of(error)
    if not code and not status:
        return f"{operation} {url}: {type(error).__name__}: {redacted(str(error))[:300]}"
    message = redacted(str((error.response.get("Error") or {}).get("Message") or ""))[:200]
    said = f"{code}: {message}" if message else code
    return f"{operation} {url}: {said} (status {status}, request id {request_id})"


def explained(operation: str, url: str, error: Any, *, reading: bool = False) -> SitemapError:
    """The error to raise for a failed call. ``reading`` says that a missing key could be behind a 403."""
    code, status, _ = answer_of(error)
    text = told(operation, url, error)
    bucket = url.removeprefix("s3://").partition("/")[0]
    if code in EXPIRED:
        return StoreError(f"{text}. The credentials ran out in the middle; run again")
    if code in UNCLEAR:
        return StoreError(f"{text}. Run again")
    if type(error).__name__ in NOT_OURS_TO_RETRY:
        return ConfigurationError(f"{text}. Look at the Airflow connection and its credentials")
    if code in DENIED or status in (401, 403):
        advice = NEXT_STEPS.get(code) or _permission(operation, bucket, reading)
    else:
        advice = NEXT_STEPS.get(code) or NEXT_STEPS.get(str(status), "")
    if advice:
        return ConfigurationError(f"{text}. {advice.format(bucket=bucket)}")
    return StoreError(f"{text}. Look at the network and the store's health, then run again")


def _permission(operation: str, bucket: str, reading: bool) -> str:
    allow = {"GetObject": "s3:GetObject", "HeadObject": "s3:GetObject", "ListObjectsV2": "s3:ListBucket"}
    text = f"Allow {allow.get(operation, 's3:' + operation)} (and kms:GenerateDataKey, kms:Decrypt where KMS is used)"
    if reading:
        text += (
            f"; if the object is not there, S3 says 403 instead of 404 to whoever lacks s3:ListBucket on {bucket!r}: "
            "allow that too, for the public and the state prefix"
        )
    return text + ". Also look at bucket policies and at expected_bucket_owner"
