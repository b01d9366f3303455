"""The shell, run as a person runs it: what it prints, where, and with which status."""

from __future__ import annotations

import errno
import json
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_sitemaps import LocalStore
from airflow_sitemaps.cli import main
from airflow_sitemaps.cli.commands import _replace_file
from airflow_sitemaps.ports import Create, Overwrite
from airflow_sitemaps.search_engines.fetches import SUMMARY
from tests.support.website import Page, serving
from tests.verification.test_formats import check_junit

FILE = """
from airflow_sitemaps import LocalStore, Section, ShardPolicy, Sitemap, SqlSource

print("a line that the file itself prints")
sitemap = Sitemap(
    LocalStore({site!r}, base_url="https://shop.example/"),
    [Section("products", SqlSource("shop", table="products", key="id", loc="https://shop.example/p/{{slug}}")),
     Section("pages", SqlSource("shop", table="pages", key="id", loc="https://shop.example/{{slug}}"))],
    shards=ShardPolicy(max_urls=10),
)
number = 7
"""


class Shop:
    """A warehouse in SQLite, a DAG file beside it, and the shell."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.capture = capture
        self.database, self.site = folder / "shop.db", folder / "site"
        self.file = folder / "shop.py"
        self.file.write_text(FILE.format(site=str(self.site)))
        self.execute("CREATE TABLE products (id INTEGER PRIMARY KEY, slug TEXT)")
        self.insert(range(25))
        self.execute("CREATE TABLE pages (id INTEGER PRIMARY KEY, slug TEXT)")
        self.execute("INSERT INTO pages VALUES (1, 'about')")

    def execute(self, statement: str, *values: Any) -> None:
        with sqlite3.connect(self.database) as connection:
            connection.execute(statement, values)
        connection.close()

    def insert(self, numbers: range) -> None:
        with sqlite3.connect(self.database) as connection:
            connection.executemany("INSERT INTO products VALUES (?, ?)", [(n, f"thing {n}") for n in numbers])
        connection.close()

    def shell(self, *arguments: str) -> tuple[int, str, str]:
        """Status, standard output and standard error of a command run in this process."""
        status = main(arguments)
        return (status, *self.capture.readouterr())

    def json(self, *arguments: str, status: int = 0) -> Any:
        got, out, err = self.shell(*arguments, "--json")
        assert got == status, err
        return json.loads(out)

    @property
    def connection(self) -> str:
        extra = {"sqlalchemy_url": f"sqlite:///{self.database}", "short": "path"}
        return json.dumps({"conn_type": "generic", "extra": extra, "password": "pw"})

    @property
    def target(self) -> str:
        return f"{self.file}:sitemap"


@pytest.fixture
def shop(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shop:
    made = Shop(tmp_path, capfd)
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", made.connection)
    return made


def test_plan_build_status_build_tell_one_story(shop: Shop) -> None:
    planned = shop.json("plan", shop.target)
    assert planned["changes"] is True
    assert planned["sections"]["products"]["actions"] == {"create": 3}
    assert len(planned["sections"]["products"]["dirty"]) == 3
    assert not shop.site.exists() or not list(shop.site.rglob("*.xml*")), "a plan writes nothing"

    built = shop.json("build", shop.target)
    assert (built["result"], built["generation"], built["urls"]) == ("published", 1, 26)
    assert built["shards"]["total"] == built["shards"]["created"] == 4
    assert built["rows_dropped"] == {}
    assert built["index_urls"] == ["https://shop.example/sitemap.xml"]
    assert built["sections"]["products"]["urls"] == 25

    shop.execute("UPDATE products SET slug = 'renamed' WHERE id = 3")
    again = shop.json("build", shop.target)
    assert {name: again["shards"][name] for name in ("kept", "rewritten", "created", "removed")} == {
        "kept": 3,
        "rewritten": 1,
        "created": 0,
        "removed": 0,
    }
    status = shop.json("status", shop.target)
    assert (status["generation"], status["urls"], status["shards"]) == (2, 26, 4)
    assert [note["generation"] for note in status["history"]] == [1, 2]


def test_a_process_prints_its_answer_on_standard_output_and_nothing_else(shop: Shop) -> None:
    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "airflow_sitemaps.cli", *arguments]
        done = subprocess.run(command, env=dict(os.environ), capture_output=True, text=True, check=True)
        assert "a line that the file itself prints" in done.stderr
        return done.stdout

    lines = run("build", shop.target).splitlines()
    assert lines[0].startswith("published: generation 1 (before: 0), 26 URLs in 4 shards")
    assert lines[-1] == "index: https://shop.example/sitemap.xml"
    # The short password makes Airflow print to standard output that it is not masked.
    assert json.loads(run("status", shop.target, "--json"))["urls"] == 26


def test_status_before_and_after(shop: Shop) -> None:
    code, out, _ = shop.shell("status", shop.target)
    assert code == 0
    assert re.fullmatch(r"nothing was published here yet: /.+ for https://shop.example/\n", out)
    shop.json("build", shop.target)

    _, out, _ = shop.shell("status", shop.target)
    assert "generation 1 of " in out
    assert "section products: 25 URLs of 25 rows in 3 shards" in out


def test_status_says_which_files_were_not_fetched(shop: Shop) -> None:
    shop.json("build", shop.target)
    late = {"files": 3, "current": 1, "late": 2, "samples": ["https://a.example/1.xml"]}
    summary = {
        "at": "2026-01-15",
        "crawlers": {"google": {"max_delay_s": 604_800, "false": 4, "sections": {"products": late}}},
    }
    body = json.dumps(summary).encode()
    objects = LocalStore(shop.site, base_url="https://shop.example/").open().state
    objects.put(SUMMARY, body, mode=Overwrite(), metadata={}, content_type="application/json")

    _, out, _ = shop.shell("status", shop.target)

    assert (
        "google: 1 of 3 files fetched since their last change; 0 fetches, 0 without success, 4 by false crawlers" in out
    )
    assert (
        "NOT fetched: google has not fetched 2 files that changed more than 7 days ago: https://a.example/1.xml. Check"
        in out
    )
    assert shop.json("status", shop.target)["crawlers"]["google"]["sections"]["products"]["late"] == 2


def test_a_refusal_is_status_1_and_says_what_lets_it_pass(shop: Shop) -> None:
    shop.json("build", shop.target)
    shop.execute("DELETE FROM products")

    assert "refused: " in shop.shell("plan", shop.target)[1]
    assert shop.json("plan", shop.target, status=1)["refusals"][0]["permit"] == "empty:products"
    refused = shop.json("build", shop.target, status=1)
    assert refused["error"]["type"] == "GuardError"
    (refusal,) = refused["error"]["refusals"]
    assert (refusal["guard"], refusal["section"], refusal["permit"]) == ("empty", "products", "empty:products")

    assert shop.json("build", shop.target, "--allow", "empty:products")["urls"] == 1
    allowed, before = shop.json("status", shop.target)["guard_results"]
    assert allowed["lines"][0].startswith("allowed: Section 'products' has no rows")
    assert before["lines"][0].startswith("refused: Section 'products' has no rows")
    lines = [line for line in shop.shell("status", shop.target)[1].splitlines() if line.startswith("guards: ")]
    assert [" allowed: " in line for line in lines] == [True, False]


@pytest.mark.parametrize("body", ["[]", '"x"', "{}", '{"run": "x", "finished_at": 3}', "[" * 100_000])
def test_status_ignores_a_report_of_another_shape(body: str, shop: Shop) -> None:
    shop.json("build", shop.target)
    expected = shop.json("status", shop.target)
    objects = LocalStore(shop.site, base_url="https://shop.example/").open().state
    key = "reports/20990101T000000Z-0.json"
    objects.put(key, body.encode(), mode=Create(), metadata={}, content_type="application/json")

    status, out, err = shop.shell("status", shop.target, "--json")

    assert (status, json.loads(out)) == (0, expected)
    assert f"{key} is damaged" in err


def test_status_says_which_sections_a_generation_was_published_without(shop: Shop) -> None:
    shop.json("build", shop.target)
    shop.execute("DELETE FROM products")
    shop.execute("INSERT INTO pages VALUES (2, 'imprint')")

    status, out, err = shop.shell("build", shop.target)

    assert status == 1
    assert "partly_published: generation 2" in out + err
    newest, first = [line for line in shop.shell("status", shop.target)[1].splitlines() if line.startswith("history")]
    assert newest.endswith("; partly published, without the changes of products")
    assert "partly" not in first
    assert shop.json("status", shop.target)["history"][-1]["failed"] == ["products"]


def test_rollback_wants_a_yes(shop: Shop) -> None:
    shop.json("build", shop.target)
    shop.insert(range(100, 105))
    shop.json("build", shop.target)

    assert shop.shell("rollback", shop.target, "1")[0] == 2
    assert shop.json("rollback", shop.target, "1", "--yes")["urls"] == 26


def test_adopt_explains_and_then_takes_over(shop: Shop) -> None:
    shop.site.mkdir()
    index = shop.site / "sitemap.xml"
    index.write_text('<?xml version="1.0"?><sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"/>')
    assert shop.json("build", shop.target, status=1)["error"]["type"] == "OwnershipError"

    explained = shop.json("adopt", shop.target)
    assert (explained["theirs"], explained["ours"], explained["only_ours"]) == (0, 26, 26)
    assert "nothing public was changed" in shop.shell("adopt", shop.target)[1]
    assert "sitemapindex xmlns" in index.read_text()
    shop.execute("ALTER TABLE pages RENAME TO elsewhere")
    for arguments in (["--yes"], []):
        assert shop.json("adopt", shop.target, *arguments, status=1)["error"]["type"] == "SourceConfigurationError"
    shop.execute("ALTER TABLE elsewhere RENAME TO pages")
    assert shop.json("adopt", shop.target, "--yes")["urls"] == 26


def test_a_plan_names_the_sections_that_fail(shop: Shop) -> None:
    shop.execute("ALTER TABLE pages RENAME TO elsewhere")
    (failure,) = shop.json("plan", shop.target, status=1)["failures"]
    assert (failure["section"], failure["error"]) == ("pages", "SourceConfigurationError")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("nowhere.py:sitemap", "no file"),
        ("{file}", "path/to/file.py:sitemap"),
        ("{file}:nothing", "no such name"),
        ("{file}:number", "holds an object of type int"),
    ],
)
def test_a_wrong_target_is_status_2(shop: Shop, target: str, words: str) -> None:
    status, out, err = shop.shell("status", target.format(file=shop.file), "--json")

    assert status == 2
    assert words in json.loads(out)["error"]["message"]
    assert words in err


def test_a_file_that_breaks_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "broken.py").write_text("import nothing_of_that_name\n")

    assert main(["plan", f"{tmp_path / 'broken.py'}:sitemap"]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert "ModuleNotFoundError" in err


@pytest.mark.parametrize("status", ["0", "1", "'no such region'"])
def test_a_file_that_exits_is_wrong_use(status: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "exits.py").write_text(f"import sys\nsys.exit({status})\n")

    assert main(["plan", f"{tmp_path / 'exits.py'}:sitemap"]) == 2
    assert f"SystemExit: {status.strip(chr(39))}" in capfd.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["paint"], ["build"], ["rollback", "a.py:b", "three"]])
def test_wrong_use_is_status_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(arguments)

    assert raised.value.code == 2
    assert "usage: airflow-sitemaps" in capsys.readouterr().err


@pytest.mark.parametrize(
    "public", ["", "www.example.com/sitemap.xml", "https//www.example.com/", "https://", "https://[x", "/a"]
)
def test_a_public_address_without_a_scheme_or_a_host_is_refused(shop: Shop, public: str) -> None:
    shop.json("build", shop.target)
    status, _, err = shop.shell("verify", str(shop.site), "--public", public)
    assert (status, "give the whole address" in err) == (2, True)


def test_a_file_address_that_does_not_exist_is_status_2(shop: Shop) -> None:
    assert shop.shell("verify", "file:///no/such/folder", "--format", "junit")[:2] == (2, "")


def test_status_names_the_address_that_is_published(shop: Shop) -> None:
    shop.json("build", shop.target)
    before = shop.json("status", shop.target)["index_urls"]
    shop.file.write_text(shop.file.read_text().replace("shop.example", "new.example"))
    assert shop.json("status", shop.target)["index_urls"] == before
    assert "belongs to another sitemap" in shop.shell("adopt", shop.target)[2]


def test_a_missing_connection_is_named(shop: Shop) -> None:
    shop.file.write_text(shop.file.read_text().replace('"shop", table', '"shpo", table'))

    failed = shop.json("plan", shop.target, status=1)
    assert "shpo" in failed["error"]["message"]


def test_help_starts_at_once() -> None:
    code = (
        "import sys; from airflow_sitemaps.cli.main import main\n"
        "try: main(['--version'])\nexcept SystemExit: pass\n"
        "print([m for m in ('airflow', 'pyarrow', 'sqlalchemy', 'boto3', 'rich') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.splitlines()[-1] == "[]"


def test_duplicates_are_asked_of_the_database(shop: Shop) -> None:
    status, out, _ = shop.shell("duplicates", shop.target)
    assert (status, out.strip()) == (0, "no URL is shared by several rows")
    shop.execute("INSERT INTO products VALUES (900, 'thing 3')")
    shop.execute("INSERT INTO products VALUES (901, 'Thing 3')")
    found = shop.json("duplicates", shop.target, status=1)
    assert found == {"products": [{"loc": "https://shop.example/p/thing%203", "rows": 2}], "pages": []}


def test_a_full_disk_leaves_robots_txt_whole(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    robots = tmp_path / "robots.txt"
    robots.write_text("User-agent: *\nDisallow: /private\n")
    robots.chmod(0o640)
    shop.json("build", shop.target)
    write = Path.write_bytes

    def fill_the_disk(path: Path, body: bytes) -> int:
        write(path, body[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(Path, "write_bytes", fill_the_disk)
        status, _, said = shop.shell("robots", shop.target, "--file", str(robots))
    assert (status, "No space left on device" in said) == (2, True)
    assert robots.read_text() == "User-agent: *\nDisallow: /private\n"
    assert [path.name for path in tmp_path.iterdir() if "robots" in path.name] == ["robots.txt"]
    shop.json("robots", shop.target, "--file", str(robots))
    assert "Sitemap: " in robots.read_text()
    assert robots.stat().st_mode & 0o777 == 0o640


def test_a_pipe_gets_the_lines_and_stays_one(tmp_path: Path) -> None:
    """So does that of /dev/stdout, which has no name."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    _replace_file(pipe, b"Sitemap: ...")
    assert pipe.is_fifo()
    assert os.read(reader, 99) == b"Sitemap: ..."
    os.close(reader)
    reader, writer = os.pipe()
    _replace_file(Path(f"/dev/fd/{writer}"), b"Sitemap: ...")
    assert os.read(reader, 99) == b"Sitemap: ..."
    os.close(reader)
    os.close(writer)


def test_a_name_that_no_file_can_have_is_no_file(shop: Shop) -> None:
    for target, said in (("", "no such folder or file in"), (".py:sitemap", "there is no file")):
        status, _, err = shop.shell("verify", f"maps/{'x' * 300}{target}")
        assert status == 2
        assert said in err


def test_robots_lines_are_printed_or_put_between_markers(shop: Shop, tmp_path: Path) -> None:
    assert shop.shell("robots", shop.target)[0] == 2
    shop.json("build", shop.target)
    assert shop.shell("robots", shop.target)[1] == "Sitemap: https://shop.example/sitemap.xml\n"
    robots = tmp_path / "robots.txt"
    robots.write_text("User-agent: *\nDisallow: /private\n")
    shop.json("robots", shop.target, "--file", str(robots))
    once = robots.read_text()
    assert once.startswith("User-agent: *\nDisallow: /private\n")
    assert "Sitemap: https://shop.example/sitemap.xml\n" in once
    shop.json("robots", shop.target, "--file", str(robots))
    assert robots.read_text() == once
    latin = b"User-agent: *\r\nDisallow: /caf\xe9\r\n# BEGIN airflow-sitemaps https://shop.example/de/sitemap.xml\r\n"
    latin += b"Sitemap: https://shop.example/de/sitemap.xml\r\n# END airflow-sitemaps https://shop.example/de/sitemap.xml\r\n"
    robots.write_bytes(latin)
    shop.json("robots", shop.target, "--file", str(robots))
    merged = robots.read_bytes()
    assert merged.startswith(latin)
    assert merged.endswith(
        b"\r\nSitemap: https://shop.example/sitemap.xml\r\n# END airflow-sitemaps https://shop.example/sitemap.xml\r\n"
    )


def test_adopt_tells_the_difference_before_it_does_anything(shop: Shop) -> None:
    shop.site.mkdir()
    ns = "http://www.sitemaps.org/schemas/sitemap/0.9"
    urls = "<url><loc>https://shop.example/about</loc></url><url><loc>https://shop.example/old</loc></url>"
    (shop.site / "sitemap.xml").write_text(f'<urlset xmlns="{ns}">{urls}</urlset>')
    assert shop.shell("build", shop.target)[0] == 1
    found = shop.json("adopt", shop.target)
    assert (found["only_theirs"], found["only_theirs_samples"]) == (1, ["https://shop.example/old"])
    assert not {"generation", "left", "new"} & set(found)
    difference = shop.file.parent / "difference.txt"
    assert (
        "'-' before a URL that would be removed" in shop.shell("adopt", shop.target, "--difference", str(difference))[1]
    )
    lines = difference.read_text().splitlines()
    assert lines[:2] == ["-https://shop.example/old", "+https://shop.example/p/thing%200"]
    assert len(lines) == 1 + found["only_ours"] == 26
    nowhere = str(shop.file.parent / "nowhere" / "difference.txt")
    status, _, said = shop.shell("adopt", shop.target, "--yes", "--difference", nowhere)
    assert status == 2
    assert f"--difference {nowhere}: No such file or directory" in said
    status, _, said = shop.shell("adopt", shop.target, "--yes", "--difference", str(shop.file.parent))
    assert (status, "Is a directory" in said) == (2, True)
    status, out, said = shop.shell("adopt", shop.target, "--difference", "/dev/full")
    assert (status, "1 would be removed" in out) == (1, True)
    assert "--difference /dev/full: No space left on device; the list of URLs is not complete" in said
    assert sorted(path.name for path in shop.site.iterdir()) == ["sitemap.xml"]
    published = shop.json("adopt", shop.target, "--yes", "--difference", "/dev/full", status=1)
    assert (published["result"], published["urls"]) == ("published", 26)
    assert len(list(shop.site.iterdir())) == 5


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("estimate", "--rows", "0"), "rows is 0; it must be between"),
        (("estimate", "--rows", "10", "--workers", "0"), "workers is 0; it must be at least 1"),
        (("verify", "site", "--sample", "-1"), "--sample -1: give the number of pages to fetch, 0 or more"),
    ],
)
def test_a_number_out_of_range_is_wrong_use(shop: Shop, arguments: tuple[str, ...], said: str) -> None:
    status, _, err = shop.shell(*arguments)

    assert (status, said in err) == (2, True)


PARAMS = """
from airflow.sdk import DAG, Param
from airflow_sitemaps import LocalStore, Section, Sitemap, SitemapTaskGroup, SqlSource

sitemap = Sitemap(
    LocalStore({site!r}, base_url="https://shop.example/"),
    [Section("pages", SqlSource("shop", query="SELECT id, :v AS url FROM pages", key="id",
                                loc="https://shop.example/{{url}}", parameters={{"v": "{{{{ params.version }}}}"}}))],
)
with DAG("versions", schedule=None, max_active_runs=1, params={{"version": Param({default!r})}}):
    SitemapTaskGroup("sitemap", sitemap)
"""


@pytest.mark.parametrize(
    ("default", "given", "listed"),
    [
        ("1.1", "1.10", "1.10"), ("1.1", '"1.10"', "1.10"), ("x", "true", "true"), (2, "1.10", "1.1"), (2, "a", "a"),
        ("None, type=['null', 'string']", "1.10", "1.10"), ("type='string'", "1.10", "1.10"),
        ("None, enum=[None, '1'], title='type='", "1", "1"),
    ],
)  # fmt: skip
def test_a_param_that_is_a_text_keeps_its_form(shop: Shop, default: Any, given: str, listed: str) -> None:
    text = PARAMS.format(site=str(shop.site), default=default)
    shop.file.write_text(text.replace(f"Param({default!r})", f"Param({default})") if "type=" in str(default) else text)
    shop.json("build", shop.target, "--param", f"version={given}")

    assert shop.json("find", shop.target, f"/{listed}")["listed"] is True
    assert shop.json("find", shop.target, f"/{listed}", "--source", "--param", f"version={given}")["listed"] is True


@pytest.mark.parametrize(
    ("param", "given", "said"),
    [
        ("Param(type='integer')", (), "--param version: No value passed"),
        ("Param(5, type='integer')", ("--param", "version=abc"), "--param version: 'abc' is not of type 'integer'"),
        (
            "True",
            ("--param", "version=False"),
            "--param version=False: give true or false, like the DAG's default true",
        ),
        ("5", ("--param", "versoin=6"), "--param versoin: the DAG has no such param; it has version"),
    ],
)
def test_a_param_that_does_not_fit_is_wrong_use(shop: Shop, param: str, given: tuple[str, ...], said: str) -> None:
    text = PARAMS.format(site=str(shop.site), default=0)
    shop.file.write_text(text.replace("Param(0)", param))
    status, _, err = shop.shell("build", shop.target, *given)
    assert (status, said in err) == (2, True), err


def test_verify_reads_what_was_published_and_names_what_is_wrong(shop: Shop) -> None:
    assert "nothing has been published yet" in shop.json("verify", shop.target, status=1)["error"]["message"]
    shop.json("build", shop.target)

    ours = shop.json("verify", shop.target)
    assert (ours["valid"], ours["urls"], ours["files"]) == (True, 26, 5)
    assert shop.json("verify", str(shop.site))["urls"] == 26
    assert shop.json("verify", str(next(shop.site.glob("pages-*"))))["urls"] == 1
    assert shop.shell("verify", shop.target)[1].startswith("valid: 5 files, 26 URLs")

    next(shop.site.glob("products-*")).unlink()
    broken = shop.json("verify", shop.target, status=1)
    assert broken["valid"] is False
    assert "unreachable" in {failure["rule"] for failure in broken["failures"]}


def test_verify_prints_what_continuous_integration_reads(shop: Shop) -> None:
    shop.json("build", shop.target)
    next(shop.site.glob("products-*")).unlink()

    status, out, _ = shop.shell("verify", shop.target, "--format", "junit")
    assert status == 1
    assert [case.get("name") for case in check_junit(out)] == ["read", "unreachable"]
    assert "errors by rule: unreachable 1" in shop.shell("verify", shop.target)[1]
    status, out, err = shop.shell("verify", str(shop.site.parent), "--format", "junit")
    assert status == 1, err
    assert check_junit(out)[0].find("error") is not None


def test_a_staging_site_is_verified_over_http_by_flags(shop: Shop) -> None:
    with serving() as site:
        url = f"{site.base}/sitemap.xml"
        entry = f"<url><loc>{site.base}/a</loc></url>"
        site.pages["/sitemap.xml"] = Page(
            f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entry}</urlset>'.encode()
        )
        site.pages["/robots.txt"] = Page(f"Sitemap: {url}".encode())
        site.pages["/a"] = Page(b"<title>A</title>", headers={"Content-Type": "text/html"})

        status, _, err = shop.shell("verify", url)
        assert (status, site.asked) == (2, [])
        assert "pass --allow-http, and --allow-private as well" in err
        status, out, _ = shop.shell("verify", url, "--allow-http")
        assert (status, site.asked) == (1, [])
        assert "pass --allow-private" in out
        answer = shop.json("verify", url, "--allow-http", "--allow-private", "--sample", "1")

    assert (answer["valid"], answer["failures"], answer["sampled"]) == (True, [], 1)


@pytest.mark.parametrize("target", ["nowhere.xml", "no/such/folder", "s3://bucket"])
def test_verify_of_nothing(target: str, shop: Shop) -> None:
    assert shop.shell("verify", target)[0] == (1 if "://" in target else 2)


@pytest.mark.parametrize(
    "command",
    [
        ("verify", "TARGET"), ("verify", "SITE"), ("verify", "https://www.example.com/sitemap.xml"), ("store-check", "SITE"),
        ("inventory", "TARGET"), ("inventory", "TARGET", "--to", "SITE"),
    ],
)  # fmt: skip
def test_a_connection_is_only_that_of_a_store(command: tuple[str, ...], shop: Shop) -> None:
    shop.json("build", shop.target)
    places = {"TARGET": shop.target, "SITE": str(shop.site)}
    status, _, err = shop.shell(*(places.get(part, part) for part in command), "--conn", "mine")
    assert (status, "--conn mine: only an address such as s3://" in err) == (2, True), err


def test_a_folder_without_an_index_is_said_to_be_one(shop: Shop, tmp_path: Path) -> None:
    assert "no index in this folder" in shop.json("verify", str(tmp_path), status=1)["error"]["message"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--sections", "nope"), "--sections: there is no section nope"),
        (("--allow", "foo"), "--allow: allow='foo': there is no guard 'foo'; they are shrink"),
    ],
)
def test_names_that_do_not_exist_are_wrong_use(arguments: tuple[str, ...], said: str, shop: Shop) -> None:
    status, _, err = shop.shell("build", shop.target, *arguments)

    assert status == 2
    assert said in err


def test_a_sitemap_that_cannot_have_its_sections_is_no_wrong_name(shop: Shop) -> None:
    code = shop.file.read_text().replace('Section("products", ', 'Section.each("slug", name="p", least=1, source=')
    shop.file.write_text(code)
    assert shop.shell("build", shop.target)[0] == 0
    shop.file.write_text(code.replace('Section("pages"', 'Section("p-thing-1"'))

    assert shop.shell("plan", shop.target)[2].strip().endswith("in an earlier run. Give the other one another name")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("build", "--sections", ""), "argument --sections: '': write one name"),
        (("build", "--sections", "products", "--rebuild", "pages-00001"), "is not a shard of this run's sections"),
        (("build", "--sections", "products", "--keep-lastmods", "pages"), "no section of this run with observed dates"),
        (("build", "--allow", "shrink:prodcuts"), "prodcuts"),
        (("build", "--sections", "prodcuts"), "there is no section prodcuts"),
        (("duplicates", "--most", "0"), "from 1 to 999,999,999,999"),
        (("plan", "--check", "9" * 30), "from 1 to 999,999,999,999"),
        (("status", "--max-age", "9" * 12 + "d"), "write a number of minutes, hours or days"),
        (("inventory", "--to", ""), "give a folder or the address"),
        (("robots", "--file", "/"), "--file /: Is a directory"),
        (("robots", "--file", ""), "--file .: Is a directory"),
        (("adopt", "--difference", ""), "--difference .: Is a directory"),
        (("robots", "--file", "/no/such/folder/robots.txt"), "No such file or directory"),
    ],
)
def test_wrong_arguments_are_wrong_use(arguments: tuple[str, ...], said: str, shop: Shop) -> None:
    shop.json("build", shop.target)
    try:
        status, _, err = shop.shell(arguments[0], shop.target, *arguments[1:])
    except SystemExit as ended:  # of argparse
        err = shop.capture.readouterr().err
        status = ended.code
    assert status == 2
    assert said in err


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("s3:/bucket/dataset", "'s3:/bucket/dataset': give a folder, or the address of a store's folder, like 's3://"),
        ("file:dataset", "'file:dataset': give a folder"),
        ("data\0set", "'data\\x00set': give a folder"),
        ("~no-such-user/dataset", "inspect ~no-such-user/dataset: "),
    ],
)
def test_an_inventory_needs_a_folder_that_can_be(place: str, said: str, shop: Shop) -> None:
    shop.json("build", shop.target)
    status, _, err = shop.shell("inventory", shop.target, "--to", place)
    assert status == 1
    assert f"ConfigurationError: {said}" in err
    assert not Path("s3:").exists()


def test_status_says_whether_a_run_succeeded_lately(shop: Shop) -> None:
    assert shop.json("status", shop.target, "--max-age", "26h", status=1)["fresh"] is False
    shop.json("build", shop.target)
    shop.json("build", shop.target)

    fresh = shop.json("status", shop.target, "--max-age", "26h")

    assert fresh["fresh"] is True
    assert 0 <= fresh["age_s"] < 3_600
    assert shop.json("status", shop.target, "--max-age", "0.0001m", status=1)["fresh"] is False
