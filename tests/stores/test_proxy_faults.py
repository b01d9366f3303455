"""The S3 store behind a network that fails: every spoilt exchange ends in a clear answer or a clear doubt."""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sitemaps.errors import StoreError
from airflow_sitemaps.pipeline.state.capability_probe import forget, probe
from airflow_sitemaps.ports import Create, ObjectStore, PutMode, PutOutcomeError, Store, StoredObject, Update
from airflow_sitemaps.stores.s3 import S3Store
from airflow_sitemaps.stores.s3 import objects as s3_objects
from tests.stores.conftest import BASE
from tests.support.proxy import Proxy, Spoil, land, proxy_to

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.support.s3 import S3Server

BODY = b"0123456789" * 10_000


@pytest.fixture(scope="module")
def running(moto: S3Server) -> Iterator[Proxy]:
    with proxy_to(moto.endpoint) as proxy:
        yield proxy


@pytest.fixture
def proxy(running: Proxy) -> Proxy:
    """The proxy, spoiling nothing yet and remembering nothing."""
    running.choose = lambda _: None
    running.seen.clear()
    running.late.clear()
    return running


@pytest.fixture(scope="module")
def connections(running: Proxy, moto: S3Server) -> Iterator[Mapping[int, str]]:
    """Airflow connections through the proxy that give up quickly, by the attempts of the client itself."""
    with ExitStack() as stack:
        made = {}
        for attempts in (1, 3):
            config: dict[str, Any] = {
                "retries": {"mode": "standard", "total_max_attempts": attempts},
                "read_timeout": 1,
            }
            connection = moto.connection(f"s3_by_proxy_{attempts}", endpoint=running.endpoint, **config)
            made[attempts] = stack.enter_context(connection)
        yield made


@pytest.fixture
def direct(s3_store: S3Store) -> ObjectStore:
    """The same objects, seen without the proxy."""
    return s3_store.open().state


@pytest.fixture
def attempts(request: pytest.FixtureRequest) -> int:
    """Attempts of the client itself: 1 unless a test says otherwise."""
    return int(getattr(request, "param", 1))


@pytest.fixture
def store(proxy: Proxy, connections: Mapping[int, str], s3_store: S3Store, attempts: int) -> Store:
    """The store, seen through the proxy."""
    return S3Store(s3_store.public.url, base_url=BASE, conn_id=connections[attempts]).open()


@pytest.fixture
def area(store: Store) -> ObjectStore:
    return store.state


def put(area: ObjectStore, body: bytes = BODY, mode: PutMode | None = None, write_id: str = "mine") -> str:
    metadata = {"write-id": write_id}
    return area.put("k", body, mode=mode or Create(), metadata=metadata, content_type="application/gzip")


def there(area: ObjectStore) -> StoredObject | None:
    found = area.get("k")
    if found is not None:
        assert found.info.metadata["write-id"] in ("mine", "theirs")
    return found


@pytest.mark.parametrize(
    ("spoil", "lands"),
    [
        (Spoil.RESET_BEFORE, False),
        (Spoil.RESET_AFTER, True),
        (Spoil.HALF_REQUEST, False),
        (Spoil.ANSWER_503, False),
        (Spoil.ANSWER_409, False),
        (Spoil.ANSWER_500_AFTER, True),
        (Spoil.SILENCE, True),
        (Spoil.LATE, False),
    ],
)
def test_a_put_without_a_clear_answer_is_in_doubt_and_reading_back_decides(
    spoil: Spoil, lands: bool, proxy: Proxy, area: ObjectStore, direct: ObjectStore
) -> None:
    proxy.spoil("PUT", spoil)
    with pytest.raises(PutOutcomeError) as caught:
        put(area)
    assert caught.value.definite is False
    assert "PutObject s3://" in str(caught.value)
    found = there(direct)
    assert (found is not None) is lands
    assert found is None or found.body == BODY


def test_a_put_that_lands_later_meets_its_condition_then(
    proxy: Proxy, area: ObjectStore, direct: ObjectStore, moto: S3Server
) -> None:
    proxy.spoil("PUT", Spoil.LATE)
    with pytest.raises(PutOutcomeError):
        put(area)
    put(direct, b"theirs", write_id="theirs")
    assert [line.split()[1] for line in asyncio.run(land(proxy, moto.endpoint))] == [b"412"]
    found = there(direct)
    assert found is not None
    assert found.body == b"theirs"


@pytest.mark.parametrize("attempts", [3], indirect=True)
def test_the_clients_own_retry_after_a_lost_answer_reads_as_a_refusal(
    proxy: Proxy, area: ObjectStore, direct: ObjectStore
) -> None:
    """Why a refusal, too, must be read back: the object there may be our own."""
    proxy.spoil("PUT", Spoil.RESET_AFTER)
    with pytest.raises(PutOutcomeError) as caught:
        put(area)
    assert caught.value.definite is True
    assert proxy.count("PUT") in (2, 3), (
        "a refusal before the body is read may reset the connection, and is retried as well"
    )
    found = there(direct)
    assert found is not None
    assert (found.body, found.info.metadata["write-id"]) == (BODY, "mine")


@pytest.mark.parametrize("attempts", [3], indirect=True)
@pytest.mark.parametrize(
    "spoil", [Spoil.RESET_BEFORE, Spoil.ANSWER_503, Spoil.ANSWER_409, Spoil.ANSWER_429, Spoil.HALF_REQUEST]
)
def test_the_client_retries_by_itself_what_did_not_land(
    spoil: Spoil, proxy: Proxy, area: ObjectStore, direct: ObjectStore
) -> None:
    proxy.spoil("PUT", spoil, spoil)
    started = time.monotonic()
    put(area)
    assert proxy.count("PUT") == 3
    assert spoil is not Spoil.ANSWER_409 or time.monotonic() - started >= 1.5  # the race is over then
    found = there(direct)
    assert found is not None
    assert found.body == BODY


@pytest.mark.parametrize("attempts", [3], indirect=True)
def test_an_update_whose_answer_was_lost_is_refused_on_the_retry_and_lies_there_once(
    proxy: Proxy, area: ObjectStore, direct: ObjectStore
) -> None:
    etag = put(direct, b"first", write_id="theirs")
    proxy.spoil("PUT", Spoil.RESET_AFTER)
    with pytest.raises(PutOutcomeError):
        put(area, BODY, Update(etag))
    found = there(direct)
    assert found is not None
    assert found.info.metadata["write-id"] == "mine"


@pytest.mark.parametrize(
    ("spoil", "attempts"),
    [(Spoil.HALF_ANSWER, 1), (Spoil.RESET_BEFORE, 3), (Spoil.RESET_AFTER, 3)],
    indirect=["attempts"],
)
def test_a_body_that_breaks_off_is_read_again(
    spoil: Spoil, proxy: Proxy, area: ObjectStore, direct: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_objects, "READ_PAUSE_S", 0.001)
    put(direct)
    proxy.spoil("GET", spoil, spoil)
    found = there(area)
    assert found is not None
    assert found.body == BODY
    assert proxy.count("GET") == 3


@pytest.mark.parametrize("spoil", [Spoil.HALF_ANSWER, Spoil.RESET_AFTER, Spoil.ANSWER_503])
def test_half_an_object_is_never_returned(
    spoil: Spoil, proxy: Proxy, area: ObjectStore, direct: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_objects, "READ_PAUSE_S", 0.001)
    put(direct)
    proxy.choose = lambda exchange: spoil if exchange.method == "GET" else None
    with pytest.raises(StoreError, match="GetObject s3://"):
        area.get("k")
    assert proxy.count("GET") == (s3_objects.READS if spoil is Spoil.HALF_ANSWER else 1)


@pytest.mark.parametrize("spoil", [Spoil.HALF_ANSWER, Spoil.ANSWER_503, Spoil.RESET_AFTER])
def test_a_listing_that_breaks_off_is_an_error_and_not_a_short_list(
    spoil: Spoil, proxy: Proxy, area: ObjectStore, direct: ObjectStore
) -> None:
    put(direct)
    proxy.choose = lambda exchange: spoil if exchange.method == "GET" else None
    with pytest.raises(StoreError, match="ListObjectsV2 s3://"):
        list(area.list())


def test_no_answer_at_all_is_a_store_error(proxy: Proxy, area: ObjectStore) -> None:
    proxy.choose = lambda _: Spoil.RESET_BEFORE
    for action in (lambda: area.head("k"), lambda: area.delete("k"), lambda: list(area.list())):
        with pytest.raises(StoreError, match="run again"):
            action()


@pytest.mark.parametrize("spoil", [Spoil.RESET_AFTER, Spoil.ANSWER_409, Spoil.ANSWER_500_AFTER])
@pytest.mark.parametrize("at", range(5))
def test_the_probe_begins_again_when_an_answer_is_lost(at: int, spoil: Spoil, proxy: Proxy, store: Store) -> None:
    forget()
    proxy.spoil("PUT", *[None] * at, spoil)
    assert probe(store) is True
    assert list(store.state.list()) == []


def test_a_probe_that_never_gets_an_answer_says_so(proxy: Proxy, store: Store) -> None:
    forget()
    proxy.choose = lambda exchange: Spoil.ANSWER_503 if exchange.method == "PUT" else None
    with pytest.raises(StoreError, match=r"cannot determine whether .* enforces conditional writes") as refused:
        probe(store)
    assert re.match(r"PutObject s3://\S+: .*(503|SlowDown|Service Unavailable)", str(refused.value)), (
        "the cause comes first"
    )
    assert store.enforces_conditions is None
