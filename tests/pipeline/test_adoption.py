"""An adoption loses no URL unnoticed: what cannot be counted refuses it, and a section's own address is searched."""

from __future__ import annotations

import gzip
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from airflow_sitemaps import Guards, MemoryStore, Section, ShardPolicy, Sitemap
from airflow_sitemaps.errors import ConfigurationError, GuardError, OwnershipError, SourceError
from airflow_sitemaps.pipeline import build, stages
from airflow_sitemaps.pipeline.adoption import adopt
from airflow_sitemaps.pipeline.request import RunRequest
from airflow_sitemaps.pipeline.state.identity import STATE_ID
from airflow_sitemaps.ports import Overwrite
from airflow_sitemaps.testing import MemorySourceConfig, crawl
from tests.support.environment import BASE, World, row
from tests.support.simulated_source import SimulatedSourceConfig

if TYPE_CHECKING:
    from airflow_sitemaps.ports import Store

NS = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
SHOP = "https://shop.example.com/"
OLD = [f"{BASE}old/{number}" for number in range(5_000)]


def put(store: Store, name: str, body: str | bytes) -> None:
    content = body if isinstance(body, bytes) else body.encode()
    store.public.put(name, content, mode=Overwrite(), metadata={}, content_type="text/xml")


def index_of(*locs: str) -> str:
    return f"<sitemapindex {NS}>{''.join(f'<sitemap><loc>{loc}</loc></sitemap>' for loc in locs)}</sitemapindex>"


def urlset_of(locs: list[str]) -> str:
    return f"<urlset {NS}>{''.join(f'<url><loc>{loc}</loc></url>' for loc in locs)}</urlset>"


def child(loc: str, name: str | None = None, body: str | bytes | None = None) -> dict[str, str | bytes]:
    """A foreign index of one child with 5,000 URLs, and the child's file."""
    files: dict[str, str | bytes] = {"sitemap.xml": index_of(loc)}
    if name is not None:
        files[name] = urlset_of(OLD) if body is None else body
    return files


UNCOUNTABLE = {
    "an index of indexes": {
        "sitemap.xml": index_of(BASE + "all.xml"),
        "all.xml": index_of(BASE + "old.xml"),
        "old.xml": urlset_of(OLD),
    },
    "an http child": child(BASE.replace("https", "http") + "old.xml", "old.xml"),
    "a query string": child(BASE + "old.xml?from=1&amp;to=2", "old.xml"),
    "no suffix": child(BASE + "old", "old"),
    "a child of another address": child("https://cdn.example.com/old.xml", "old.xml"),
    "a child that is not in the public area": child(BASE + "old.xml"),
    "a child cut short": child(BASE + "old.xml", "old.xml", urlset_of(OLD)[:-9]),
    "a gzip child cut short": child(BASE + "old.xml.gz", "old.xml.gz", gzip.compress(urlset_of(OLD).encode())[:-9]),
    "no sitemap": child(BASE + "old.xml", "old.xml", "<html>Please log in</html>"),
    "a DOCTYPE": child(BASE + "old.xml", "old.xml", "<!DOCTYPE urlset>" + urlset_of(OLD)),
    "another namespace": child(BASE + "old.xml", "old.xml", urlset_of(OLD).replace("http:", "https:", 1)),
    "entries in groups": child(
        BASE + "old.xml", "old.xml", f"<urlset {NS}><group><url><loc>{OLD[0]}</loc></url></group></urlset>"
    ),
    "entries without a namespace": child(
        BASE + "old.xml", "old.xml", f'<urlset {NS}><url xmlns=""><loc>{OLD[0]}</loc></url></urlset>'
    ),
    "an index cut short": {"sitemap.xml": index_of(BASE + "old.xml")[:-9], "old.xml": urlset_of(OLD)},
    "an unknown index": {"sitemap.xml": "<maps/>"},
    "not UTF-8": child(BASE + "old.xml", "old.xml", b"\xff\xfe" + urlset_of(OLD).encode()),
}


@pytest.mark.parametrize("case", UNCOUNTABLE)
def test_an_adoption_is_refused_while_urls_cannot_be_counted(case: str) -> None:
    world = World([row(key) for key in range(20)], max_urls=1_000, guards=Guards())
    for name, body in UNCOUNTABLE[case].items():
        put(world.store, name, body)
    before = world.public()
    for permit in ((), ("adopt",), ("adopt=0.99",)):
        with pytest.raises(
            GuardError, match=r"of 1 file of the sitemap to adopt cannot be counted: .*--allow adopt=1\."
        ):
            world.build(adopt=True, allow=permit)
    assert world.public() == before
    assert adopt(world.sitemap(), clock=world.clock).unread
    assert world.build(adopt=True, allow=["adopt=1"]).urls == 20


def test_an_adoption_whose_files_are_all_read_passes() -> None:
    world = World([row(key) for key in range(20)], max_urls=1_000, guards=Guards())
    locs = [entry["loc"] for entry in world.rows]
    put(world.store, "sitemap.xml", index_of(BASE + "a.xml", BASE + "b.txt.gz"))
    put(world.store, "a.xml", urlset_of(locs[:10]))
    put(world.store, "b.txt.gz", gzip.compress("\n".join(locs[10:]).encode()))
    assert adopt(world.sitemap(), clock=world.clock).unread == ()
    assert world.build(adopt=True).urls == 20


def test_files_whose_names_are_percent_encoded_in_the_index_are_read_and_swept() -> None:
    world = World([row(key) for key in range(20)], max_urls=1_000, guards=Guards())
    locs = [entry["loc"] for entry in world.rows]
    names = {"a b.xml": locs[:10], "caf\u00e9/c.xml": locs[10:15], "d%20e.xml": locs[15:]}
    put(world.store, "sitemap.xml", index_of(*(BASE + quote(name, safe="/%") for name in (*names, "robots%2etxt"))))
    for name, urls in names.items():
        put(world.store, name, urlset_of(urls))
    content = adopt(world.sitemap(), clock=world.clock)
    assert (content.theirs, content.only_theirs, len(content.unread)) == (20, 0, 1)
    world.build(adopt=True, allow=["adopt=1"])
    world.clock.advance(timedelta(days=60))
    world.build()
    assert not set(names) & set(world.public())


NO_SITEMAPS = {
    "ads.txt": "google.com, pub-0000000000000000, DIRECT, f08c47fec0942fa0\n",
    "security.txt": f"Contact: mailto:security@example.com\nCanonical: {BASE}security.txt\n",
    "llms.txt": f"# Shop\n\n> What it sells\n\n{BASE}products\n- [About]({BASE}about): who we are\n",
    "hosts.txt": "https://one.example.org/\nhttps://two.example.org/\n",
    "robots-old.txt": f"Sitemap: {BASE}sitemap.xml\n",
    "empty.txt": "",
    "BingSiteAuth.xml": '<?xml version="1.0"?><users><user>0000</user></users>',
    "crossdomain.xml": '<?xml version="1.0"?><!DOCTYPE cross-domain-policy SYSTEM "x.dtd"><cross-domain-policy/>',
    "browserconfig.xml": "<browserconfig><msapplication/></browserconfig>",
}


def test_only_files_of_a_sitemap_are_taken_over_and_swept() -> None:
    world = World([row(key) for key in range(20)], max_urls=1_000, guards=Guards())
    sitemaps: dict[str, str | bytes] = {
        "a.xml": urlset_of([entry["loc"] for entry in world.rows]),
        "b.txt": "\n".join(entry["loc"] for entry in world.rows),
        "c.rss": f"<rss><channel><item><link>{world.rows[0]['loc']}</link></item></channel></rss>",
    }
    put(world.store, "sitemap.xml", index_of(*(BASE + name for name in (*NO_SITEMAPS, *sitemaps))))
    for name, body in {**NO_SITEMAPS, **sitemaps}.items():
        put(world.store, name, body)
    with pytest.raises(GuardError, match=rf"of {len(NO_SITEMAPS)} files of the sitemap to adopt cannot be counted"):
        world.build(adopt=True)
    world.build(adopt=True, allow=["adopt=1"])
    world.clock.advance(timedelta(days=60))
    world.build()
    public = world.public()
    assert set(NO_SITEMAPS) <= set(public)
    assert not set(sitemaps) & set(public)


def test_after_the_loss_of_the_state_the_urls_of_a_section_with_an_address_of_its_own_are_counted() -> None:
    """Its table is being loaded again, and holds 30 % of its rows."""
    pages = [row(key) for key in range(5)]
    products = [row(key, loc=f"{SHOP}p/{key}") for key in range(5_000)]
    store = MemoryStore(base_url=BASE)
    sitemap = Sitemap(
        store,
        [
            Section("pages", MemorySourceConfig(pages)),
            Section("products", MemorySourceConfig(products), path="shop/", base_url=SHOP),
        ],
        shards=ShardPolicy(max_urls=1_000),
    )
    assert build(sitemap).urls == 5_005
    store.state.objects.clear()
    kept = list(products)
    del products[1_500:]
    with pytest.raises(GuardError, match=r"lists 5,005 URLs, and 3,500 of them .*--allow adopt=0\.7"):
        build(sitemap, adopt=True)
    products[:] = kept
    assert build(sitemap, adopt=True).urls == 5_005
    assert build(sitemap).result == "unchanged"


def test_a_sitemap_with_an_index_of_each_section_is_adopted_after_its_state_is_lost() -> None:
    store = MemoryStore(base_url=BASE)
    rows = [row(number) for number in range(20)]
    sitemap = Sitemap(store, [Section("pages", MemorySourceConfig(rows))], index="per_section")
    build(sitemap)
    store.state.objects.clear()
    assert adopt(sitemap).only_theirs == 0
    adopted = adopt(sitemap, yes=True)
    assert adopted.report is not None
    assert adopted.report.result == "published"
    assert crawl(store, "sitemap-pages.xml").locs() == {entry["loc"] for entry in rows}


def test_an_adoption_by_a_pipeline_that_has_published_counts_the_other_pipelines_urls() -> None:
    """Both wrote to one address after a wrong change of a path, and one takes it over."""

    def published(name: str, number: int) -> tuple[Sitemap, MemoryStore]:
        store = MemoryStore(base_url=BASE)
        rows = [row(f"{name}-{key}") for key in range(number)]
        sitemap = Sitemap(store, [Section(name, MemorySourceConfig(rows))], shards=ShardPolicy(max_urls=30))
        build(sitemap)
        return sitemap, store

    first, store = published("pages", 100)
    second, other = published("posts", 20)
    other.public = store.public
    before = dict(store.public.objects)
    with pytest.raises(GuardError, match=r"lists 100 URLs, and 100 of them .*--allow adopt=1\."):
        build(second, adopt=True)
    assert store.public.objects == before
    with pytest.raises(ConfigurationError, match=r"build\(sitemap, adopt=True\) if another pipeline replaced"):
        adopt(second)
    assert build(second, adopt=True, allow=["adopt=1"]).urls == 20
    assert build(first, adopt=True, allow=["adopt=1"]).urls == 100


def test_an_adoption_after_a_lost_state_publishes_all_sections_or_none() -> None:
    """Else the index would no longer list the section that failed, and its observed dates would be lost."""
    store, down = MemoryStore(base_url=BASE), [False]

    def before(_operation: str) -> None:
        if down[0]:
            raise SourceError("down")

    sections = [
        Section("pages", MemorySourceConfig([row(key) for key in range(5)])),
        Section("posts", SimulatedSourceConfig([row(key) for key in range(5, 10)], before=before)),
    ]
    sitemap = Sitemap(store, sections)
    build(sitemap)
    store.state.objects.clear()
    down[0] = True
    for call in (build, stages.plan):
        arguments = {"adopt": True, "allow": ["adopt"]} if call is build else {"request": RunRequest(adopt=True)}
        with pytest.raises(SourceError, match="down"):
            call(sitemap, **arguments)
    assert crawl(store.open()).locs() == {row(key)["loc"] for key in range(10)}
    dry = stages.plan(sitemap, RunRequest(adopt=True, dry_run=True))
    assert ([each.section for each in dry.failures], [*dry.sections]) == (["posts"], ["pages"])
    down[0] = False
    assert build(sitemap, adopt=True).urls == 10
    assert {"pages-00002.xml.gz", "posts-00002.xml.gz"} <= store.public.objects.keys()
    assert crawl(store.open()).locs() == {row(key)["loc"] for key in range(10)}


def test_no_run_is_unchanged_while_another_pipeline_has_the_name_of_a_new_file() -> None:
    """Another pipeline puts an object under the name between the plan and the commit; an adoption replaces it."""
    world = World([row(key) for key in range(5)], max_urls=5)
    world.build()
    world.rows += [row(key) for key in range(5, 10)]
    planned = stages.plan(world.sitemap(), clock=world.clock)
    receipts = [
        stages.write(world.sitemap(), planned.key or "", batch.number, clock=world.clock).receipt_key
        for batch in planned.batches
    ]
    theirs = {STATE_ID: "another"}
    world.store.public.put("pages-00002.xml.gz", b"theirs", mode=Overwrite(), metadata=theirs, content_type="text/xml")
    with pytest.raises(OwnershipError, match="pages-00002"):
        stages.publish(world.sitemap(), planned.key or "", receipts, clock=world.clock)
    for request in ({}, {"full": True}):
        with pytest.raises(OwnershipError, match=r"pages-00002.*adopt=True"):
            world.build(**request)
    assert world.build(adopt=True, allow=["adopt"]).result == "published"
    assert crawl(world.store).locs() == {row(key)["loc"] for key in range(10)}
