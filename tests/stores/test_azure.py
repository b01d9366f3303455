"""What only Azure shows: its headers, names of metadata, errors and lost answers. Needs Azurite."""

from __future__ import annotations

import gzip
import importlib.util
import json
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from airflow_sitemaps.errors import ConfigurationError, CredentialsError, StoreError
from airflow_sitemaps.operators.lineage import DatasetName, file_of
from airflow_sitemaps.ports import Create, ObjectStore, Overwrite, PutOutcomeError, Update
from airflow_sitemaps.stores import open_area
from airflow_sitemaps.stores.azure import AzureBlobStore
from tests.stores.conftest import BASE
from tests.support.proxy import Spoil, proxy_to

if TYPE_CHECKING:
    from tests.support.azurite import AzureServer

needs_azurite = pytest.mark.heavy
needs_client = pytest.mark.skipif(
    importlib.util.find_spec("azure") is None, reason="the provider for Azure is not installed (extra: azure)"
)
GZIP = "application/gzip"


def put(area: ObjectStore, key: str = "k", body: bytes = b"1", mode: Any = None, **metadata: str) -> str:
    return area.put(
        key, body, mode=mode or Create(), metadata=metadata, content_type=GZIP, cache_control="public, no-cache"
    )


def blob_of(server: AzureServer, store: AzureBlobStore, key: str) -> Any:
    return server.client().get_blob_client(store.public.bucket, store.public.prefix + key)


@pytest.mark.parametrize(
    ("url", "uri", "state"),
    [
        ("az://maps/shop", "az://maps/shop", "az://maps/shop-state/"),
        (
            "https://acme.blob.core.windows.net/maps/shop/",
            "az://acme.blob.core.windows.net/maps/shop",
            "az://acme.blob.core.windows.net/maps/shop-state/",
        ),
        ("az://a-b/shop", "az://a-b/shop", "az://a-b/shop-state/"),
        ("az://acme.blob.core.chinacloudapi.cn/$web/a", "az://acme.blob.core.chinacloudapi.cn/$web/a", None),
    ],
)
def test_addresses(url: str, uri: str, state: str | None) -> None:
    store = AzureBlobStore(url, base_url=BASE)
    assert store.uri == uri
    assert state is None or store.state_uri == state
    assert AzureBlobStore(uri, base_url=BASE).uri == uri


@pytest.mark.parametrize(
    ("url", "state_url"),
    [
        ("az://web/maps", "https://acme.blob.core.windows.net/web/maps/state"),
        ("https://acme.blob.core.windows.net/web/maps", "az://web/maps/state"),
    ],
)
def test_a_state_area_inside_the_public_one_is_refused_however_it_is_written(url: str, state_url: str) -> None:
    with pytest.raises(ConfigurationError, match="inside the public prefix"):
        AzureBlobStore(url, base_url=BASE, state_url=state_url)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("s3://maps/shop", "must look like 'az://container/prefix'"),
        ("http://acme.blob.core.windows.net/maps/shop", "must look like"),
        ("az://maps/shop?sig=secret", "with nothing after it"),
        ("az://Maps/shop", "not a valid name of a container"),
        ("az://ma--ps/shop", "not a valid name of a container"),
        ("az://ab/shop", "not a valid name of a container"),
        (f"az://{'a-' * 31}aa/shop", "not a valid name of a container"),
        ("az://maps", "the whole bucket is public"),
        ("az://maps/a/../b", r"contains '\.\.'"),
    ],
)
def test_addresses_that_cannot_work(url: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        AzureBlobStore(url, base_url=BASE)


def test_the_portals_page_of_an_account() -> None:
    named = AzureBlobStore("https://acme.blob.core.windows.net/maps/shop", base_url=BASE)
    assert named.console_url().startswith("https://portal.azure.com/#")
    assert named.console_url().endswith("/storageAccount/acme/path/maps")
    assert AzureBlobStore("az://maps/shop", base_url=BASE).console_url() == ""


@needs_azurite
@pytest.mark.parametrize("encoded", [False, True])
def test_headers_of_public_files(
    azurite: AzureServer, azure_container: str, azure_connection: str, encoded: bool
) -> None:
    url = f"az://{azure_container}/{uuid4().hex}"
    store = AzureBlobStore(url, base_url=BASE, wasb_conn_id=azure_connection, content_encoding=encoded)
    opened, body = store.open(), gzip.compress(b"<urlset/>")
    put(opened.public, "a.xml.gz", body)
    put(opened.state, "a.xml.gz", body)
    info = opened.state.head("a.xml.gz")
    assert info is not None
    opened.public.copy(
        opened.state, info, "b.xml.gz", mode=Create(), metadata={}, content_type=GZIP, cache_control="max-age=9"
    )
    for key, cache_control in (("a.xml.gz", "public, no-cache"), ("b.xml.gz", "max-age=9")):
        headers = blob_of(azurite, store, key).get_blob_properties().content_settings
        kind = "application/xml; charset=utf-8" if encoded else GZIP
        assert (headers.content_type, headers.content_encoding) == (kind, "gzip" if encoded else None)
        assert headers.cache_control == cache_control
        stored = opened.public.get(key)
        assert stored is not None
        assert stored.body == body, "the bytes as they are stored"


@needs_azurite
def test_metadata_has_names_that_azure_takes(azurite: AzureServer, azure_store: AzureBlobStore) -> None:
    given = {"write-id": "a", "xml-sha256": "b", "0-first": "c"}
    put(azure_store.open().public, **given)
    assert blob_of(azurite, azure_store, "k").get_blob_properties().metadata == {
        "write_id": "a", "xml_sha256": "b", "_0_first": "c",
    }  # fmt: skip
    info = azure_store.open().public.head("k")
    assert info is not None
    assert info.metadata == given


@needs_azurite
def test_a_body_larger_than_one_request(azure_store: AzureBlobStore) -> None:
    """The condition holds for the whole, not for the first of its blocks."""
    area, body = azure_store.open().state, bytes(range(256)) * (70 * 4096)
    etag = put(area, "big", body)
    with pytest.raises(PutOutcomeError) as refused:
        put(area, "big", body)
    assert refused.value.definite
    put(area, "big", b"small", Update(etag))
    with pytest.raises(PutOutcomeError) as refused:
        put(area, "big", body, Update(etag))
    assert refused.value.definite
    stored = area.get("big")
    assert stored is not None
    assert stored.body == b"small"


@needs_azurite
def test_errors_name_the_next_step(azurite: AzureServer, azure_connection: str, azure_store: AzureBlobStore) -> None:
    lost = AzureBlobStore("az://nowhere/maps", base_url=BASE, wasb_conn_id=azure_connection).open().state
    for action in (lambda: lost.get("k"), lambda: lost.head("k"), lambda: put(lost), lambda: [*lost.list()]):
        with pytest.raises(
            ConfigurationError, match=r"az://nowhere/maps-state/.*ContainerNotFound.*Create the container"
        ):
            action()
    area = azure_store.open().public
    put(area)
    lease = blob_of(azurite, azure_store, "k").acquire_lease()
    with pytest.raises(ConfigurationError, match="holds a lease"):
        put(area, mode=Overwrite())
    lease.release()


@needs_azurite
def test_wrong_credentials(azurite: AzureServer, azure_container: str, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"az://{azure_container}/maps"
    with pytest.raises(CredentialsError, match=r"no client of Azure Blob Storage .* 'azure_none'"):
        AzureBlobStore(url, base_url=BASE, wasb_conn_id="azure_none").open()
    wrong = {"conn_type": "wasb", "host": azurite.endpoint, "login": "devstoreaccount1", "password": "d3Jvbmc="}
    monkeypatch.setenv("AIRFLOW_CONN_AZURE_WRONG", json.dumps(wrong))
    area = AzureBlobStore(url, base_url=BASE, wasb_conn_id="azure_wrong").open().state
    with pytest.raises(ConfigurationError, match=r"status 403.*(role|credentials|firewall)") as caught:
        put(area)
    assert "d3Jvbmc" not in str(caught.value)


@needs_azurite
def test_an_account_in_the_address_must_be_the_connections(azure_container: str, azure_connection: str) -> None:
    url = f"https://acme.blob.core.windows.net/{azure_container}/maps"
    with pytest.raises(ConfigurationError, match=r"the connection 'azure_for_all_tests' is to 127\.0\.0\.1, another"):
        AzureBlobStore(url, base_url=BASE, wasb_conn_id=azure_connection).open()


@needs_azurite
def test_an_area_is_opened_by_its_address(azure_store: AzureBlobStore) -> None:
    put(azure_store.open().state, "manifest")
    assert [info.key for info in open_area(azure_store.state_uri, azure_store.conn_id).list()] == ["manifest"]


@needs_azurite
def test_lineage_names_the_account_of_the_connection(azure_store: AzureBlobStore) -> None:
    """openlineage.io/docs/spec/naming: WASBS, with the account and the container before the key."""
    place = azure_store.open().dataset_url
    authority = f"wasbs://{azure_store.public.bucket}@devstoreaccount1.dfs.core.windows.net"
    assert file_of(place, "sitemap.xml") == DatasetName(
        namespace=authority, name=f"{azure_store.public.prefix}sitemap.xml"
    )


@needs_client
def test_without_a_connection_the_address_names_the_account() -> None:
    with pytest.raises(ConfigurationError, match="without a connection the address must name the account"):
        AzureBlobStore("az://maps/shop", base_url=BASE, wasb_conn_id=None).open()
    AzureBlobStore("https://acme.blob.core.windows.net/maps/shop", base_url=BASE, wasb_conn_id=None).open()


@needs_azurite
@pytest.mark.parametrize(
    ("spoil", "lands"),
    [
        (Spoil.RESET_BEFORE, False),
        (Spoil.RESET_AFTER, True),
        (Spoil.HALF_REQUEST, False),
        (Spoil.ANSWER_503, False),
        (Spoil.ANSWER_500_AFTER, True),
        (Spoil.SILENCE, True),
    ],
)
def test_a_put_without_a_clear_answer_is_in_doubt(
    spoil: Spoil, lands: bool, azurite: AzureServer, azure_store: AzureBlobStore
) -> None:
    with (
        proxy_to(azurite.endpoint) as proxy,
        azurite.connection(
            "azure_by_proxy",
            endpoint=azurite.endpoint.replace(azurite.endpoint.rsplit("/", 1)[0], proxy.endpoint),
            retry_total=0,
            read_timeout=2,
        ) as conn_id,
    ):
        area = AzureBlobStore(azure_store.uri, base_url=BASE, wasb_conn_id=conn_id).open().state
        proxy.spoil("PUT", spoil)
        with pytest.raises(PutOutcomeError, match=r"PutBlob az://") as caught:
            put(area)
        assert caught.value.definite is False
        assert (azure_store.open().state.get("k") is not None) is lands
        put(azure_store.open().state, "there")
        for broken in (Spoil.HALF_ANSWER, Spoil.ANSWER_503, Spoil.RESET_AFTER):
            proxy.choose = lambda exchange, broken=broken: broken if exchange.method == "GET" else None  # type: ignore[misc]
            with pytest.raises(StoreError, match="GetBlob az://"):
                area.get("there")
            with pytest.raises(StoreError, match="ListBlobs az://"):
                list(area.list())
