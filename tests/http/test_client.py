"""The hardened client: what it asks, what it refuses to ask, and how it ends."""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
import time
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from airflow_sitemaps import http as client_module
from airflow_sitemaps.http import AccessError, AccessRules, FetchError, HttpClient, RedirectError, is_public
from tests.support.website import Page, Site, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOOPBACK = AccessRules(allow_http=True, allow_private=True)


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as site:
        yield site


def client(**settings: Any) -> HttpClient:
    return HttpClient(**{"rules": LOOPBACK, "wait_s": 10.0, **settings})


def test_an_answer_is_given_as_it_came(site: Site) -> None:
    site.pages["/a?b=%C3%A9"] = Page(b"body", headers={"X-One": "1", "x-one": "2", "Content-Encoding": "gzip"})
    fetched = client().get(f"{site.base}/a?b=é")
    assert (fetched.status, fetched.body, fetched.chain) == (200, b"body", (f"{site.base}/a?b=%C3%A9",))
    assert fetched.headers["content-encoding"] == "gzip"
    assert client().get(f"{site.base}/missing").status == 404


def test_repeated_headers_are_told_apart(site: Site) -> None:
    def write(handler: Any) -> None:
        handler.wfile.write(b"HTTP/1.0 200 OK\r\nX-Robots-Tag: otherbot: nofollow\r\nx-robots-tag: noindex\r\n\r\n")

    site.pages["/twice"] = Page(write=write)
    assert client().get(f"{site.base}/twice").headers == {"x-robots-tag": "otherbot: nofollow,\nnoindex"}


def test_nothing_secret_is_sent(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    site.pages["/a"] = Page(b"", 302, {"Location": "/b", "Set-Cookie": "a=b"})
    site.pages["/b"] = Page(b"x")
    assert client().get(f"{site.base}/a").address == f"{site.base}/b"
    for _, _, headers, _ in site.asked:
        assert set(headers) == {"host", "user-agent", "accept", "accept-encoding"}


@pytest.mark.parametrize("value", ["Bearer secret\n", "Bearer secret\r\nX: 1", "Bearer secret\u2028"])
def test_a_header_value_that_cannot_be_sent_is_not_shown(site: Site, value: str) -> None:
    with pytest.raises(AccessError, match="the value of the header 'Authorization' has a line end") as caught:
        client().send("GET", f"{site.base}/a", headers={"Authorization": value})
    assert "secret" not in str(caught.value)
    assert site.asked == []


def test_a_redirect_to_an_address_that_is_not_encoded_is_followed(site: Site) -> None:
    site.pages["/a"] = Page(b"", 302, {"Location": "/m\u00c3\u00bcnchen"})  # the bytes of UTF-8, as Latin-1
    site.pages["/m%C3%BCnchen"] = Page(b"x")
    assert client().get(f"{site.base}/a").status == 200


def test_blanks_after_the_address_of_a_redirect_are_no_part_of_it(site: Site) -> None:
    site.pages["/a"] = Page(b"", 302, {"Location": "/b \t"})
    site.pages["/b"] = Page(b"x")
    assert client().get(f"{site.base}/a").address == f"{site.base}/b"


def test_an_empty_query_is_requested_as_such(site: Site) -> None:
    site.pages["/p?"] = Page(b"x")
    assert client().get(f"{site.base}/p?").body == b"x"
    assert client().get(f"{site.base}/p#?").status == 404
    assert [path for _, path, _, _ in site.asked] == ["/p?", "/p"]


def test_a_body_is_sent_and_its_redirect_not_followed(site: Site) -> None:
    site.pages["/in"] = Page(b"", 307, {"Location": "/out"})
    answer = client().send("POST", f"{site.base}/in", body=b"{}", headers={"Content-Type": "application/json"})
    assert answer.status == 307
    assert [(method, path, body) for method, path, _, body in site.asked] == [("POST", "/in", b"{}")]


# ---------------------------------------------------------------- caps


def test_an_answer_that_is_too_large_is_cut_off(site: Site) -> None:
    site.pages["/declared"] = Page(b"x" * 2_000)

    def endless(handler: Any) -> None:
        handler.send_response(200)
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(b"x" * 65_536)
        except OSError:
            return

    site.pages["/endless"] = Page(write=endless)
    for path in ("/declared", "/endless"):
        with pytest.raises(FetchError, match="limit 1,000 bytes"):
            client(max_byte_size=1_000).get(site.base + path)
    assert len(client(max_byte_size=2_000).get(f"{site.base}/declared").body) == 2_000


@pytest.mark.parametrize("part", ["head", "body"])
def test_an_answer_that_trickles_ends_with_its_time(site: Site, part: str) -> None:
    def trickle(handler: Any) -> None:
        handler.wfile.write(b"HTTP/1.0 200 OK\r\n" if part == "head" else b"HTTP/1.0 200 OK\r\n\r\n")
        try:
            for _ in range(200):
                handler.wfile.write(b"x")
                time.sleep(0.05)
        except OSError:
            return

    site.pages["/slow"] = Page(write=trickle)
    began = time.monotonic()
    with pytest.raises(FetchError, match=r"within 0\.5 s"):
        client(wait_s=0.5).get(f"{site.base}/slow")
    assert time.monotonic() - began < 4


def test_an_answer_that_ends_early_is_no_answer(site: Site) -> None:
    site.pages["/half"] = Page(b"half", headers={"Content-Length": "8"})
    with pytest.raises(FetchError):
        client(wait_s=3.0).get(f"{site.base}/half")


def test_interim_responses_are_not_the_answer(site: Site) -> None:
    """A server may send hints before its answer."""
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n"
    page = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    site.pages["/hints"] = Page(b"", write=lambda handler: handler.wfile.write(2 * hints + page))
    answer = client().get(f"{site.base}/hints")
    assert (answer.status, answer.body, answer.headers) == (200, b"ok", {"content-length": "2"})


def test_rubbish_and_silence_are_named() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        with pytest.raises(FetchError, match="ConnectionRefused"):
            client().get(address)
    with pytest.raises(FetchError, match="cannot be resolved"):
        client().get("http://does-not-exist.invalid/")


def test_redirects_are_bounded(site: Site) -> None:
    for number in range(9):
        site.pages[f"/{number}"] = Page(b"", 301, {"Location": f"/{number + 1}"})
    site.pages["/round"] = Page(b"", 302, {"Location": "/round"})
    with pytest.raises(RedirectError, match="more than 5 redirects"):
        client().get(f"{site.base}/0")
    assert client().get(f"{site.base}/5").status == 404
    with pytest.raises(RedirectError, match="redirect loop"):
        client().get(f"{site.base}/round")


# ---------------------------------------------------------------- destinations

PRIVATE = [
    "127.0.0.1", "127.8.8.8", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",
    "255.255.255.255", "224.0.0.1", "240.0.0.1", "192.0.2.1", "198.18.0.1", "::1", "::", "fe80::1%eth0", "fc00::1",
    "fd00:ec2::254", "ff02::1", "2001:db8::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2002:a9fe:a9fe::", "168.63.129.16", "::ffff:168.63.129.16", "192.0.0.192",
    "192.0.0.8", "100.100.100.200", "192.88.99.1", "fec0::1", "3fff::1", "5f00::1", "not an address",
]  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
def test_addresses_inside_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "93.184.215.14", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_addresses_of_the_internet_are_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/", "http://localhost/", "http://[::1]/", "http://[::ffff:127.0.0.1]/", "http://0/",
        "http://2130706433/", "http://0x7f.1/", "http://127.1/",
    ],
)  # fmt: skip
def test_spellings_of_the_loopback_are_refused(url: str) -> None:
    with pytest.raises(FetchError, match=r"not of the public Internet|cannot be resolved"):
        HttpClient(rules=AccessRules(allow_http=True), wait_s=3.0).get(url)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://example.com/", "only https"),
        ("ftp://example.com/", "only https"),
        ("file:///etc/passwd", "only https"),
        ("gopher://example.com/", "only https"),
        ("https://user:secret@example.com/x", "credentials"),
        ("https:///x", "host is missing"),
        ("https://example.com:99999/", "not a URL"),
        ("https://evil.example/", "not one of"),
        ("https://example.com.evil.example/", "not one of"),
        ("https://example.com%2eevil/", "not one of"),
    ],
)
def test_what_must_not_be_asked_is_refused_before_any_look_up(url: str, reason: str) -> None:
    def no_look_up(*_: object, **__: object) -> list[tuple[object, ...]]:
        raise AssertionError("a name was looked up")

    rules = AccessRules(hosts=frozenset({"example.com"}))
    with pytest.raises(FetchError, match=reason) as caught:
        HttpClient(rules=rules, resolver=no_look_up).get(url)
    assert "secret" not in str(caught.value)


def answers(*addresses: str) -> Any:
    def resolver(*_: object, **__: object) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443)) for address in addresses]

    return resolver


def test_a_name_that_leads_inside_with_one_of_its_addresses_is_refused() -> None:
    for addresses in (("10.0.0.1",), ("8.8.8.8", "192.168.169.254"), ("::ffff:10.0.0.1",)):
        with pytest.raises(FetchError, match="not of the public Internet"):
            HttpClient(resolver=answers(*addresses)).get("https://example.com/")


@pytest.mark.parametrize(
    "target",
    ["http://169.254.169.254/latest/meta-data/", "http://10.0.0.1/", "//192.168.0.1/", "http://[fd00:ec2::254]/", "http://localhost:1/"],
)  # fmt: skip
def test_a_redirect_to_the_inside_is_refused(site: Site, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def only_this_server(address: str) -> bool:
        return address == "127.0.0.1" or is_public(address)

    monkeypatch.setattr(client_module, "is_public", only_this_server)
    site.pages["/out"] = Page(b"", 302, {"Location": target})
    site.pages["/in"] = Page(b"x")
    rules = AccessRules(allow_http=True, hosts=None)
    assert HttpClient(rules=rules).get(f"{site.base}/in").status == 200
    with pytest.raises(FetchError, match=r"not of the public Internet|never requested|Refused|cannot be resolved"):
        HttpClient(rules=rules, wait_s=5.0).get(f"{site.base}/out")
    assert len(site.asked) == 2


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254", "169.254.170.2", "168.63.129.16", "192.0.0.192", "100.100.100.200", "[fd00:ec2::254]",
        "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]",
    ],
)  # fmt: skip
def test_addresses_that_give_out_credentials_are_never_requested(site: Site, host: str) -> None:
    site.pages["/out"] = Page(b"", 302, {"Location": f"http://{host}/latest/meta-data/"})
    for url in (f"{site.base}/out", f"http://{host}/"):
        with pytest.raises(FetchError, match="never requested"):
            client().get(url)
    with pytest.raises(FetchError, match="never requested"):
        client(resolver=answers(host.strip("[]"))).get("http://harmless.example/")


def test_a_look_up_that_does_not_end_is_within_the_time() -> None:
    released = threading.Event()

    def silent(*_: object, **__: object) -> list[tuple[object, ...]]:
        released.wait()
        return []

    try:
        with pytest.raises(FetchError, match=r"not resolved within 0\.2 s"):
            HttpClient(resolver=silent, wait_s=0.2).get("https://example.com/")
    finally:
        released.set()


def test_a_redirect_to_a_host_that_is_not_listed_is_refused(site: Site) -> None:
    site.pages["/out"] = Page(b"", 302, {"Location": "http://evil.example/"})
    rules = AccessRules(allow_http=True, allow_private=True, hosts=frozenset({"127.0.0.1"}))
    with pytest.raises(FetchError, match=r"evil\.example.*not one of"):
        client(rules=rules).get(f"{site.base}/out")


def test_a_redirect_out_of_tls_is_refused(tmp_path: Path) -> None:
    with serving(server_context(tmp_path)) as site:
        site.pages["/out"] = Page(b"", 302, {"Location": "http://example.com/"})
        rules = AccessRules(allow_private=True)
        with pytest.raises(FetchError, match="only https"):
            client(rules=rules, tls=trusting(tmp_path)).get(f"{site.base}/out")


def test_the_address_that_was_checked_is_the_one_connected_to(site: Site) -> None:
    """A name that answers differently the second time leads nowhere else: it is resolved once for each request."""
    asked = []

    def rebinding(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1" if len(asked) == 1 else "10.0.0.1", port))]

    site.pages["/a"] = Page(b"x")
    port = site.base.rpartition(":")[2]
    fetched = client(resolver=rebinding).get(f"http://rebinding.example:{port}/a")
    assert fetched.body == b"x"
    assert asked == ["rebinding.example"]
    assert site.asked[0][2]["host"] == f"rebinding.example:{port}"


def test_an_address_that_does_not_answer_leaves_time_for_the_next(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    connect, silent = socket.create_connection, "198.51.100.1"
    connected: list[socket.socket] = []

    waits: list[float] = []

    def lost(address: tuple[str, int], timeout: float) -> socket.socket:
        if address[0] == silent:
            waits.append(timeout)
            raise TimeoutError
        connected.append(connect(address, timeout))
        return connected[-1]

    monkeypatch.setattr(socket, "create_connection", lost)
    site.pages["/a"] = Page(b"x")
    port = int(site.base.rpartition(":")[2])
    both = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in (silent, "127.0.0.1")]
    for _ in range(2):
        assert client(wait_s=60.0, resolver=lambda *_, **__: both).get(f"http://two.example:{port}/a").body == b"x"
        both.reverse()
    assert waits[0] <= 30.0
    assert connected[1].gettimeout() > 30.0, "only the connection has a share of the time, not the response"  # type: ignore[operator]


# ---------------------------------------------------------------- TLS


def server_context(folder: Path) -> ssl.SSLContext:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.now(timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


def trusting(folder: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(folder / "cert.pem"))


def test_tls_is_checked(tmp_path: Path) -> None:
    with serving(server_context(tmp_path)) as site:
        site.pages["/a"] = Page(b"x")
        rules = AccessRules(allow_private=True)
        assert client(rules=rules, tls=trusting(tmp_path)).get(f"{site.base}/a").body == b"x"
        with pytest.raises(FetchError, match="CERTIFICATE_VERIFY_FAILED"):
            client(rules=rules).get(f"{site.base}/a")
        port = int(site.base.rpartition(":")[2])
        with pytest.raises(FetchError, match="CERTIFICATE_VERIFY_FAILED"):
            client(rules=rules, tls=trusting(tmp_path), resolver=answers("127.0.0.1")).get(
                f"https://other.example:{port}/a"
            )
