"""Request for one run: its sections, how much it reads, and its permits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_sitemaps.errors import RequestError

if TYPE_CHECKING:
    from airflow_sitemaps.sitemap import Section, Sitemap


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """Options of one run.

    Attributes:
        sections: Names of the sections to build. Default: all.
        full: Whether to read and render every row. Default: False.
        rebuild: Names of shards to write again, with or without ``.xml.gz``. Default: none.
        dry_run: Whether to plan and explain without writing anything. Default: False.
        check_rows: Rows of each section that a dry run checks, changed or not; the plan's ``checks`` then say what each
            rule does. Default: None, up to 10,000 rows of those that a build would read.
        allow: Permits for guards, such as ``shrink:products``. Default: none.
        batch_rows: Number of rows to which a batch is filled. Default: None, the default of ``shards.batches``.
        adopt: Whether to take over an index that another program wrote. Default: False.
        origin: Deployment that starts the run, such as the address of its Airflow. Default: "", not known.
        asked_by: Identifier of the request, such as of a DAG run, which stays the same if its tasks are cleared. Default:
            "", each request is a new one.
    """

    sections: tuple[str, ...] = ()
    full: bool = False
    rebuild: tuple[str, ...] = ()
    dry_run: bool = False
    check_rows: int | None = None
    allow: tuple[str, ...] = ()
    batch_rows: int | None = None
    adopt: bool = False
    origin: str = ""
    asked_by: str = ""


def chosen(sitemap: Sitemap, request: RunRequest) -> tuple[Section, ...]:
    """Return the sections that a run builds.

    Raises:
        RequestError: The request names a section that does not exist.
    """
    unknown = sorted(set(request.sections) - {section.name for section in sitemap.sections})
    if unknown:
        names = ", ".join(section.name for section in sitemap.sections)
        raise RequestError(f"there is no section {', '.join(unknown)}; the sections are {names}")
    return tuple(s for s in sitemap.sections if not request.sections or s.name in request.sections)
