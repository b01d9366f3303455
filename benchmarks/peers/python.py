"""Python peers: ``python -m benchmarks.peers.python NAME JSON`` prints one JSON line. Runs in the bench environment.

All read the first ``rows`` rows of the same table in PostgreSQL and write sitemaps of 50,000 URLs; imports are done
before the clock starts.
"""

from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from benchmarks.meter import metered

LIMIT = 50_000
COLUMNS = "id, loc, lastmod, changefreq, priority"
HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
QUERY = f"SELECT {COLUMNS} FROM pages ORDER BY id LIMIT %(rows)s"


def _client(endpoint: str) -> Any:
    import boto3
    from botocore.config import Config

    return boto3.client(
        "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x",
        config=Config(s3={"addressing_style": "path"}, request_checksum_calculation="when_required"),
    )  # fmt: skip


def loop(*, dsn: str, rows: int, endpoint: str, **_: Any) -> dict[str, Any]:
    """A task's function with a plain loop: a server-side cursor, an f-string a row, gzip 6, boto3."""
    import psycopg

    client = _client(endpoint)
    with metered() as found:
        written = 0
        with psycopg.connect(dsn) as connection, connection.cursor(name="pages") as cursor:
            cursor.itersize = 10_000
            cursor.execute(QUERY, {"rows": rows})
            number, body = 0, None
            for _id, loc, lastmod, changefreq, priority in cursor:
                if body is None:
                    raw = io.BytesIO()
                    body = io.TextIOWrapper(gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=6), "utf-8")
                    body.write(HEAD)
                body.write(
                    f"<url><loc>{escape(loc)}</loc><lastmod>{lastmod.strftime('%Y-%m-%dT%H:%M:%SZ')}</lastmod>"
                    f"<changefreq>{changefreq}</changefreq><priority>{priority}</priority></url>\n"
                )
                written += 1
                if written % LIMIT == 0:
                    number += 1
                    _finish(client, body, raw, f"loop/sitemap-{number}.xml.gz")
                    body = None
            if body is not None:
                _finish(client, body, raw, f"loop/sitemap-{number + 1}.xml.gz")
    return {**found, "urls": written}


def _finish(client: Any, body: io.TextIOWrapper, raw: io.BytesIO, key: str) -> None:
    body.write("</urlset>\n")
    body.flush()
    body.detach().close()  # type: ignore[union-attr]
    client.put_object(Bucket="bench", Key=key, Body=raw.getvalue())


def pandas(*, url: str, rows: int, endpoint: str, **_: Any) -> dict[str, Any]:
    """A frame by ``read_sql``, a loop over ``iterrows``, gzip 6, boto3."""
    import pandas as pd
    import sqlalchemy as sa

    client = _client(endpoint)
    with metered() as found:
        engine = sa.create_engine(url)
        frame = pd.read_sql(f"SELECT {COLUMNS} FROM pages ORDER BY id LIMIT {rows:d}", engine)
        frame["lastmod"] = frame["lastmod"].dt.strftime("%Y-%m-%dT%H:%M:%SZ")
        for number, start in enumerate(range(0, len(frame), LIMIT), 1):
            lines = [HEAD]
            for _index, row in frame.iloc[start : start + LIMIT].iterrows():
                lines.append(
                    f"<url><loc>{escape(row['loc'])}</loc><lastmod>{row['lastmod']}</lastmod>"
                    f"<changefreq>{row['changefreq']}</changefreq><priority>{row['priority']}</priority></url>\n"
                )
            lines.append("</urlset>\n")
            body = gzip.compress("".join(lines).encode(), 6)
            client.put_object(Bucket="bench", Key=f"pandas/sitemap-{number}.xml.gz", Body=body)
    return {**found, "urls": len(frame)}


def django(*, dsn: str, rows: int, folder: str, **_: Any) -> dict[str, Any]:
    """``django.contrib.sitemaps``: the index and each page requested from its views and kept as gzip."""
    from urllib.parse import parse_qs, urlsplit

    import django as package
    from django.conf import settings

    place = urlsplit(dsn)
    settings.configure(
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": place.path.lstrip("/"),
                "USER": place.username,
                "PASSWORD": place.password or "",
                "HOST": parse_qs(place.query).get("host", [place.hostname])[0],
            }
        },
        INSTALLED_APPS=["django.contrib.sitemaps"],
        TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}],
        USE_TZ=True,
        ROOT_URLCONF=__name__,
        ALLOWED_HOSTS=["www.example.com"],
    )
    package.setup()
    from django.contrib.sitemaps import Sitemap, views
    from django.db import models
    from django.test import RequestFactory

    class Page(models.Model):
        """The table, as a model that Django does not manage."""

        id = models.BigIntegerField(primary_key=True)
        loc = models.TextField()
        lastmod = models.DateTimeField()
        changefreq = models.TextField()
        priority = models.FloatField()

        class Meta:
            """Not managed."""

            app_label = "bench"
            managed = False
            db_table = "pages"

    prefix = len("https://www.example.com")

    class Pages(Sitemap):
        """The rows as Django's documentation has it."""

        limit = LIMIT
        protocol = "https"

        def items(self) -> Any:
            """The first rows."""
            first = Page.objects.order_by("id").values_list("id", flat=True).first()
            return Page.objects.order_by("id").filter(id__lt=first + rows)

        def location(self, item: Any) -> str:
            """The path."""
            return str(item.loc[prefix:])

        def lastmod(self, item: Any) -> Any:
            """When it changed."""
            return item.lastmod

        def changefreq(self, item: Any) -> Any:
            """How often it changes."""
            return item.changefreq

        def priority(self, item: Any) -> Any:
            """Its weight."""
            return item.priority

    class Site:
        """Where it is."""

        domain = "www.example.com"
        name = domain

    import django.contrib.sitemaps as sitemaps

    sitemaps.Sitemap.get_domain = lambda self, site=None: Site.domain  # type: ignore[method-assign]
    request = RequestFactory().get("/sitemap.xml", headers={"host": Site.domain})
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    with metered() as found:
        pages = Pages().paginator.num_pages
        for page in range(1, pages + 1):
            request.GET = {"p": str(page)}
            answer = views.sitemap(request, sitemaps={"pages": Pages}, section="pages").render()
            (target / f"sitemap-{page}.xml.gz").write_bytes(gzip.compress(answer.content, 6))
    return {**found, "urls": rows}


def main() -> None:
    """Run the peer that the command line names."""
    peers = {"loop": loop, "pandas": pandas, "django": django}
    print(json.dumps(peers[sys.argv[1]](**json.loads(sys.argv[2]))))


if __name__ == "__main__":
    main()
