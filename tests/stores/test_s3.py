"""What is S3's own: addresses, headers, settings of the client, errors in words."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError

from airflow_sitemaps.errors import ConfigurationError, CredentialsError, StoreError
from airflow_sitemaps.ports import Create, Overwrite, PutOutcomeError, Update
from airflow_sitemaps.stores.bucket import redacted
from airflow_sitemaps.stores.s3 import S3Store, open_area
from airflow_sitemaps.stores.s3.client import bound_of, connections, failure_of
from tests.stores.conftest import BASE
from tests.support.clients import close_clients
from tests.support.s3 import S3Server, areas

if TYPE_CHECKING:
    from airflow_sitemaps.stores.s3.objects import S3Objects


def config(url: str = "s3://acme-web/sitemaps", **settings: Any) -> S3Store:
    return S3Store(url, **{"base_url": BASE, **settings})


# ---------------------------------------------------------------- what a user writes


@pytest.mark.parametrize(
    ("url", "state_url", "public", "state"),
    [
        ("s3://acme-web/sitemaps", None, "s3://acme-web/sitemaps/", "s3://acme-web/sitemaps-state/"),
        ("s3://acme-web/sitemaps/", None, "s3://acme-web/sitemaps/", "s3://acme-web/sitemaps-state/"),
        ("s3://acme-web/a/b/", None, "s3://acme-web/a/b/", "s3://acme-web/a/b-state/"),
        ("s3://acme-web", "s3://acme-private", "s3://acme-web/", "s3://acme-private/"),
        ("s3://acme-web/a", "s3://acme-web/b/c/", "s3://acme-web/a/", "s3://acme-web/b/c/"),
        ("s3://acme-web/a", "s3://acme-web/a-b", "s3://acme-web/a/", "s3://acme-web/a-b/"),
    ],
)
def test_addresses(url: str, state_url: str | None, public: str, state: str) -> None:
    store = config(url, state_url=state_url)
    assert (store.public.url, store.state.url) == (public, state)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"url": "http://acme-web/x"}, "must look like 's3://bucket/prefix'"),
        ({"url": "acme-web/x"}, "must look like"),
        ({"url": "s3://acme-web/x?versionId=1"}, "must look like"),
        ({"url": "s3:///x"}, "valid bucket name"),
        ({"url": "s3://a b/x"}, "valid bucket name"),
        ({"url": "s3://acme-web/x/../y"}, "'..'"),
        ({"url": "s3://acme-web//x"}, "absolute"),
        ({"url": "s3://acme-web/x//y"}, "empty"),
        ({"url": "s3://acme-web"}, "give state_url="),
        ({"state_url": "s3://acme-web/sitemaps/state"}, "inside the public prefix"),
        ({"state_url": "s3://acme-web/sitemaps/"}, "inside the public prefix"),
        ({"state_url": "s3://acme-web/"}, "inside state_url="),
        ({"base_url": "/sitemaps/"}, "must be absolute"),
        ({"base_url": "ftp://www.example.com/"}, "must be absolute"),
        ({"base_url": "https:///x"}, "must be absolute"),
        ({"base_url": "https://www.example.com/?a=b"}, "no query"),
        ({"base_url": "https://user:pass@www.example.com/"}, "user name or password"),
        ({"base_url": "https://user:pass/word@www.example.com/"}, "remove user name and"),
        ({"base_url": "https://www.example.com/a b/"}, "percent-encode"),
        ({"base_url": "https://www.example.com:port/"}, "is not a URL"),
        ({"index_name": "a/sitemap.xml"}, "plain file name"),
        ({"index_name": "sitemap.html"}, "plain file name"),
        ({"index_name": "..xml"}, "plain file name"),
        ({"expected_bucket_owner": "me"}, "12 digits"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_once(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        config(**settings)
    assert said in str(caught.value)
    assert "pass" not in str(caught.value).replace("password", "")


def test_base_url_ends_in_a_slash_and_compressed_indexes_are_allowed() -> None:
    store = config(base_url="https://www.example.com/maps", index_name="sitemap_index.xml.gz")
    assert (store.base_url, store.index_name) == ("https://www.example.com/maps/", "sitemap_index.xml.gz")
    assert store.describe() == "s3://acme-web/sitemaps/ for https://www.example.com/maps/"
    assert "acme-web" in repr(store)


def test_a_dag_file_pays_nothing_for_naming_a_store() -> None:
    program = (
        "import sys; from airflow_sitemaps import S3Store, LocalStore; "
        "S3Store('s3://acme-web/x', base_url='https://a.example/'); LocalStore('x', base_url='https://a.example/'); "
        "print([m for m in ('boto3', 'botocore', 'airflow', 'sqlalchemy', 'pyarrow', 'lxml') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# ---------------------------------------------------------------- what is sent and stored


def stored_headers(moto: S3Server, area: S3Objects, key: str) -> dict[str, Any]:
    client = moto.client()
    try:
        found: dict[str, Any] = client.head_object(Bucket=area.address.bucket, Key=area.address.prefix + key)
    finally:
        client.close()
    return found


def test_headers_of_a_shard(moto: S3Server, s3_store: S3Store) -> None:
    public, _ = areas(s3_store)
    key = "products-00001.xml.gz"
    put_args: dict[str, Any] = {"mode": Create(), "metadata": {"write-id": "w"}, "content_type": "application/gzip"}
    public.put(key, b"x", cache_control=s3_store.cache_control, **put_args)
    found = stored_headers(moto, public, key)
    assert found["ContentType"] == "application/gzip"
    assert found["CacheControl"] == "public, max-age=300, must-revalidate"
    assert "ContentEncoding" not in found
    assert found["Metadata"] == {"write-id": "w"}


@pytest.mark.parametrize(
    ("key", "content_type", "expected"),
    [
        ("a.xml.gz", "application/gzip", ("application/xml; charset=utf-8", "gzip")),
        ("a.txt.gz", "application/gzip", ("text/plain; charset=utf-8", "gzip")),
        ("sitemap.xml", "application/xml; charset=utf-8", ("application/xml; charset=utf-8", None)),
        ("other.gz", "application/gzip", ("application/gzip", None)),
    ],
)
def test_content_encoding_is_for_public_compressed_text_only(
    key: str, content_type: str, expected: tuple[str, str | None], moto: S3Server, s3_store: S3Store
) -> None:
    public, state = areas(config(s3_store.public.url, conn_id=s3_store.conn_id, content_encoding=True))
    for area in (public, state):
        area.put(key, b"\x1f\x8b", mode=Create(), metadata={}, content_type=content_type)
        found = area.get(key)
        assert found is not None
        assert found.body == b"\x1f\x8b"  # as stored: nothing on the way unpacks it
    seen = stored_headers(moto, public, key)
    assert (seen["ContentType"], seen.get("ContentEncoding")) == expected
    seen = stored_headers(moto, state, key)
    assert (seen["ContentType"], seen.get("ContentEncoding")) == (content_type, None)


def sent(area: S3Objects, operation: str) -> list[Any]:
    """Requests of an operation, as they go out from now on."""
    requests: list[Any] = []
    area.connection.client.meta.events.register(
        f"before-send.s3.{operation}", lambda request, **_: requests.append(request)
    )
    return requests


def test_other_stores_get_no_checksum_trailers_and_are_addressed_by_path(s3_store: S3Store) -> None:
    public, _ = areas(s3_store)
    requests = sent(public, "PutObject")
    public.put("k", b"x", mode=Create(), metadata={}, content_type="text/plain")
    names = {name.lower() for name in requests[0].headers}
    assert not [name for name in names if "checksum" in name or "trailer" in name]
    assert requests[0].headers["If-None-Match"] in ("*", b"*")
    assert f"/{public.address.bucket}/" in requests[0].url


@pytest.mark.filterwarnings("ignore:AWS Connection")
def test_a_connection_to_a_database_gives_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    value = {"conn_type": "postgres", "host": "db", "login": "shop", "password": "hidden"}
    monkeypatch.setenv("AIRFLOW_CONN_MART", json.dumps(value))
    with pytest.raises(ConfigurationError, match="connection 'mart' has the type 'postgres'") as caught:
        connections.of("mart")
    assert "hidden" not in str(caught.value)


def test_aws_keeps_botocores_checksums_and_bounded_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "AIRFLOW_CONN_AWS_PLAIN", json.dumps({"conn_type": "aws", "login": "x" * 8, "password": "y" * 8})
    )
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    try:
        settings = connections.of("aws_plain").client.meta.config
    finally:
        close_clients(connections, "aws_plain")
    assert settings.request_checksum_calculation == "when_supported"
    assert (settings.connect_timeout, settings.read_timeout) == (10, 60)
    assert settings.max_pool_connections >= 32
    assert settings.retries["total_max_attempts"] == 5


def test_the_connections_own_settings_win(moto: S3Server) -> None:
    own = {"read_timeout": 7, "request_checksum_calculation": "when_supported", "s3": {"addressing_style": "virtual"}}
    with moto.connection("s3_own", **own) as conn_id:
        settings = connections.of(conn_id).client.meta.config
    assert settings.read_timeout == 7
    assert settings.request_checksum_calculation == "when_supported"
    assert settings.s3["addressing_style"] == "virtual"


def test_a_connection_without_a_read_timeout_is_used(moto: S3Server) -> None:
    with moto.connection("s3_patient", read_timeout=None) as conn_id:
        assert "ends after unlimited s" in bound_of(connections.of(conn_id).client)


def test_owner_and_key_of_encryption_are_sent(moto: S3Server, s3_store: S3Store) -> None:
    public, state = areas(
        config(
            s3_store.public.url,
            conn_id=s3_store.conn_id,
            expected_bucket_owner="123456789012",
            sse_kms_key_id="alias/sitemaps",
        )
    )
    requests = sent(public, "*")
    public.put("k", b"x", mode=Create(), metadata={}, content_type="text/plain")
    public.head("k")
    list(public.list())
    public.delete("k")
    assert len(requests) == 4
    assert all(r.headers["x-amz-expected-bucket-owner"] in ("123456789012", b"123456789012") for r in requests)
    state.put("k", b"x", mode=Create(), metadata={}, content_type="text/plain")
    assert stored_headers(moto, state, "k")["SSEKMSKeyId"] == "alias/sitemaps"


def test_folder_markers_and_neighbouring_prefixes_are_not_listed(moto: S3Server, s3_store: S3Store) -> None:
    public, _ = areas(s3_store)
    public.put("a", b"x", mode=Create(), metadata={}, content_type="text/plain")
    client = moto.client()
    for key in ("", "folder/"):
        client.put_object(Bucket=public.address.bucket, Key=public.address.prefix + key, Body=b"")
    client.put_object(Bucket=public.address.bucket, Key=public.address.prefix.removesuffix("/") + "-2/b", Body=b"")
    client.close()
    assert [info.key for info in public.list()] == ["a"]


def test_a_deep_listing_sees_a_prefix_only(s3_store: S3Store) -> None:
    public, _ = areas(s3_store)
    for key in ("de/a", "de/b", "fr/a"):
        public.put(key, b"x", mode=Create(), metadata={}, content_type="text/plain")
    assert [info.key for info in public.list("de/")] == ["de/a", "de/b"]


# ---------------------------------------------------------------- one client a process


def test_one_client_for_all_threads_and_a_new_one_after_a_fork(
    moto_connection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: connections.of(moto_connection).client, range(8)))
    assert len({id(client) for client in found}) == 1
    monkeypatch.setattr(os, "getpid", lambda: -1)  # as in a child; sharing sockets with its parent would mix answers
    assert connections.of(moto_connection).client is not found[0]
    close_clients(connections, moto_connection)


# ---------------------------------------------------------------- failures in words


def client_error(code: str, status: int, operation: str = "PutObject", message: str = "said the server") -> ClientError:
    about = {"HTTPStatusCode": status, "RequestId": "REQ123"}
    return ClientError({"Error": {"Code": code, "Message": message}, "ResponseMetadata": about}, operation)  # type: ignore[arg-type]


def test_an_endpoint_that_is_no_store_or_redirects_is_named() -> None:
    """A web server answers 404 without S3's code. botocore follows a redirect that names no region again and again."""
    with pytest.raises(ConfigurationError, match=r"not one of S3.*correct endpoint_url"):
        raise failure_of("ListObjectsV2 s3://b/", client_error("404", 404, "ListObjectsV2")).error()
    with pytest.raises(ConfigurationError, match=r"KeyError: 'ETag'.*not one of S3"):  # it answers all with status 200
        raise failure_of("HeadObject s3://b/k", KeyError("ETag")).error()
    for error in (RecursionError("maximum recursion depth exceeded"), OSError("maximum recursion depth exceeded")):
        with pytest.raises(ConfigurationError, match="The endpoint redirects: correct endpoint_url"):
            raise failure_of("GetObject s3://b/k", error).error()


@pytest.mark.parametrize(
    ("code", "status", "kind", "advice"),
    [
        ("NoSuchBucket", 404, ConfigurationError, "Create the bucket 'acme-web'"),
        ("AccessDenied", 403, ConfigurationError, "Allow s3:PutObject"),
        ("InvalidAccessKeyId", 403, ConfigurationError, "credentials of the Airflow connection"),
        ("SignatureDoesNotMatch", 403, ConfigurationError, "credentials of the Airflow connection"),
        ("ExpiredToken", 400, StoreError, "expired meanwhile"),
        ("PermanentRedirect", 301, ConfigurationError, "region_name"),
        ("AuthorizationHeaderMalformed", 400, ConfigurationError, "region_name"),
        ("RequestTimeTooSkewed", 403, ConfigurationError, "clock"),
        ("InvalidObjectState", 403, ConfigurationError, "lifecycle rule archived the object: restore it"),
        ("NotImplemented", 501, ConfigurationError, "single_writer=True"),
        ("InvalidRequest", 400, ConfigurationError, '{"request_checksum_calculation": "when_supported"}'),
        ("InvalidArgument", 400, ConfigurationError, "Correct the setting that the store names; if it"),
        ("KMS.DisabledException", 400, ConfigurationError, "enable the key, or correct sse_kms_key_id"),
        ("QuotaExceeded", 403, ConfigurationError, "quota of the bucket or of its owner"),
        ("RequestTimeout", 400, StoreError, "Run again"),
        ("BadDigest", 400, StoreError, "Run again"),
        ("ThrottlingException", 400, StoreError, "Run again"),
        ("400", 400, StoreError, "may have expired: run again"),
        ("InternalError", 500, StoreError, "run again"),
        ("ServiceUnavailable", 503, StoreError, "run again"),
    ],
)
def test_each_answer_says_where_what_and_what_next(code: str, status: int, kind: type[Exception], advice: str) -> None:
    error = failure_of("PutObject s3://acme-web/sitemaps/k", client_error(code, status)).error()
    assert type(error) is kind
    for part in ("PutObject", "s3://acme-web/sitemaps/k", code, str(status), "REQ123", "said the server", advice):
        assert part in str(error)


def test_a_403_on_reading_explains_the_missing_permission_to_list() -> None:
    error = failure_of("HeadObject s3://acme-web/sitemaps/k", client_error("403", 403, "HeadObject")).error()
    assert "Allow s3:GetObject" in str(error)
    assert "403 instead of 404 without s3:ListBucket on 'acme-web'" in str(error)


def test_no_secret_gets_into_a_message() -> None:
    presigned = "https://acme-web.s3.amazonaws.com/k?X-Amz-Credential=AKIASECRET&X-Amz-Signature=deadbeef"
    for text in (presigned, f"see {presigned} now", "http://user:hunter2@minio:9000/bucket"):
        assert not any(secret in redacted(text) for secret in ("AKIASECRET", "deadbeef", "hunter2"))
    assert redacted("https://minio:9000/bucket/key") == "https://minio:9000/bucket/key"
    lost = EndpointConnectionError(endpoint_url="http://user:hunter2@minio/b/k")
    error = failure_of("GetObject s3://b/k", lost).error()
    assert "hunter2" not in str(error)
    assert isinstance(error, StoreError)
    message = client_error("AccessDenied", 403, message=presigned)
    assert "deadbeef" not in str(failure_of("GetObject s3://b/k", message).error())


def test_missing_credentials_are_for_the_user_to_change() -> None:
    error = failure_of("GetObject s3://b/k", NoCredentialsError()).error()
    assert isinstance(error, ConfigurationError)
    assert "Airflow connection" in str(error)


def answering(area: S3Objects, operation: str, error: ClientError) -> Any:
    """Let every call of an operation fail in this way from now on; called with nothing, it ends."""

    def fail(**_: object) -> None:
        raise error

    events = area.connection.client.meta.events
    events.register(f"before-call.s3.{operation}", fail)
    return lambda: events.unregister(f"before-call.s3.{operation}", fail)


@pytest.mark.parametrize(
    ("code", "status", "definite"),
    [
        ("PreconditionFailed", 412, True),
        ("NoSuchKey", 404, True),
        ("ConditionalRequestConflict", 409, False),
        ("OperationAborted", 409, False),
        ("SlowDown", 503, False),
        ("InternalError", 500, False),
        ("RequestTimeout", 400, False),
        ("IncompleteBody", 400, False),
        ("TooManyRequests", 429, False),
    ],
)
def test_what_a_failed_put_means(code: str, status: int, definite: bool, s3_store: S3Store) -> None:
    public, _ = areas(s3_store)
    end = answering(public, "PutObject", client_error(code, status))
    try:
        with pytest.raises(PutOutcomeError) as caught:
            public.put("k", b"", mode=Update("0" * 32), metadata={}, content_type="text/plain")
    finally:
        end()
    assert caught.value.definite is definite
    assert code in str(caught.value)


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("AccessDenied", 403, ConfigurationError),
        ("NoSuchBucket", 404, ConfigurationError),
        ("NotImplemented", 501, ConfigurationError),
        ("ExpiredToken", 400, StoreError),
    ],
)
def test_a_put_that_surely_was_not_done_is_no_matter_of_doubt(
    code: str, status: int, kind: type[Exception], s3_store: S3Store
) -> None:
    public, _ = areas(s3_store)
    end = answering(public, "PutObject", client_error(code, status))
    try:
        with pytest.raises(kind, match=code):
            public.put("k", b"", mode=Overwrite(), metadata={}, content_type="text/plain")
    finally:
        end()


def test_a_store_that_does_not_know_conditions_serves_a_single_writer(s3_store: S3Store) -> None:
    public, _ = areas(config(s3_store.public.url, conn_id=s3_store.conn_id, single_writer=True))

    def refuse(params: dict[str, Any], **_: object) -> None:
        if {"If-None-Match", "If-Match"} & set(params["headers"]):
            raise client_error("NotImplemented", 501)

    events = public.connection.client.meta.events
    events.register("before-call.s3.PutObject", refuse)
    try:
        etag = public.put("k", b"1", mode=Create(), metadata={}, content_type="text/plain")
        public.put("k", b"2", mode=Update(etag), metadata={}, content_type="text/plain")
        with pytest.raises(PutOutcomeError):
            public.put("k", b"3", mode=Update(etag), metadata={}, content_type="text/plain")
    finally:
        events.unregister("before-call.s3.PutObject", refuse)
        public.connection.conditions = True


def test_a_missing_bucket_is_named(moto_connection: str) -> None:
    public, _ = areas(config("s3://no-such-bucket-here/x", conn_id=moto_connection))
    for action in (
        lambda: public.get("k"),
        lambda: list(public.list()),
        lambda: public.put("k", b"", mode=Create(), metadata={}, content_type="text/plain"),
    ):
        with pytest.raises(ConfigurationError, match="Create the bucket 'no-such-bucket-here'"):
            action()


def test_a_connection_is_read_again_after_an_error(moto: S3Server) -> None:
    """The API server runs for weeks, and a person corrects the connection meanwhile."""

    def keys_of_reads() -> tuple[str, ...]:
        return tuple(
            open_area(f"s3://{bucket}/x", conn_id).connection.client._request_signer._credentials.access_key
            for _ in range(2)
        )

    bucket, conn_id = moto.new_bucket(), "corrected"
    with moto.connection(conn_id):
        assert keys_of_reads() == ("test-access-key",) * 2
        os.environ["AIRFLOW_CONN_CORRECTED"] = os.environ["AIRFLOW_CONN_CORRECTED"].replace("test-access", "rotated")
        assert open_area(f"s3://{bucket}/x", conn_id).head("k") is None
        assert keys_of_reads() == ("test-access-key",) * 2, "a missing object is no error"
        with pytest.raises(ConfigurationError):
            list(open_area("s3://no-such-bucket-here/x", conn_id).list())
        assert keys_of_reads() == ("rotated-key",) * 2


def test_a_connection_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"endpoint_url": "no address", "region_name": "us-east-1"}
    secret = "a-secret-of-tests"
    value = {"conn_type": "aws", "login": "some-login", "password": secret, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_S3_BROKEN", json.dumps(value))
    with pytest.raises(
        ConfigurationError, match="no client of S3 can be created from connection 's3_broken'"
    ) as caught:
        config(conn_id="s3_broken").open()
    assert secret not in str(caught.value)


def test_a_misspelled_connection_is_not_replaced_by_the_identity_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key-of-the-machine")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another-secret")
    with pytest.raises(CredentialsError, match="connection 'minoi' is not defined in Airflow"):
        config(conn_id="minoi").open()


def test_nothing_secret_is_logged(moto: S3Server, s3_store: S3Store, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="airflow_sitemaps"):
        public, _ = areas(s3_store)
        public.put("k", b"x", mode=Create(), metadata={}, content_type="text/plain")
        public.get("k")
    assert moto.secret_key not in caplog.text
