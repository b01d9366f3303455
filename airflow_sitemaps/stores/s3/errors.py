"""Translation of S3 errors: the operation, the next step, and whether a retry helps."""

from __future__ import annotations

import re
from typing import Any, Final

from airflow_sitemaps.errors import ConfigurationError, CredentialsError, SitemapError, StoreError

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


def redacted(text: str) -> str:
    """Remove user names, passwords and the queries of URLs (presigned URLs contain signatures) from a text."""
    text = re.sub(r"//[^/@\s\"']+@", "//…@", text)
    return re.sub(r"(https?://[^\s?\"']*)\?[^\s\"']*", r"\1?…", text)


def safe_cause(error: Exception) -> Exception | None:
    """Return an error as the cause of another one, or None if its text contains a secret: tracebacks print causes."""
    return error if redacted(str(error)) == str(error) else None


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
    """Return the error to raise for a failed call.

    Args:
        operation: Name of the S3 operation.
        reading: Whether a missing object could be the reason for a 403.

    Returns:
        ConfigurationError if a retry fails in the same way, CredentialsError if there are no credentials, else
        StoreError.
    """
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
