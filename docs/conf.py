"""Configuration of the documentation site: ``make docs`` builds it with every warning as an error.

The pages are plain Markdown, so that they also read well in a repository browser. What only the site needs is added
while a page is read: the table of contents to the index, and the API reference from the public names of the code.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# Airflow reads these when it is first imported. The build must not touch the home of the person who runs it.
os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="airflow-sitemaps-docs-")
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"

import airflow_sitemaps
from airflow_sitemaps import errors, pipeline, testing

project = "airflow-sitemaps"
project_copyright = "the authors of airflow-sitemaps, Apache License 2.0"
release = version = airflow_sitemaps.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["**/.*"]

html_theme = "furo"
html_title = f"airflow-sitemaps {release}"
html_copy_source = False

myst_heading_anchors = 3
myst_url_schemes = {"http": None, "https": None, "mailto": None}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
suppress_warnings = ["myst.strikethrough", "autodoc.mocked_object"]

ROOT: Final = Path(__file__).parents[1]
INCLUDED: Final = {
    "readme": "README.md",
    "changelog": "CHANGELOG.md",
    "contributing": "CONTRIBUTING.md",
    "benchmarks": "benchmarks/README.md",
}
"""Pages of the site whose text is that of a file outside this folder."""

INDEX_LINK: Final = re.compile(r"\]\((?:\.\./)?([\w/-]+)\.md\)")
"""A link of the index to a page, as the last column of its tables has them."""


def _contents_by_need() -> dict[str, list[str]]:
    """Return the captions of the side bar and their pages: the headings of the index and what their tables link to."""
    _, *parts = (ROOT / "docs" / "index.md").read_text(encoding="utf-8").split("\n## ")
    pages_of = {part.partition("\n")[0]: INDEX_LINK.findall(part) for part in parts}
    own = {file.removesuffix(".md"): page for page, file in INCLUDED.items()}
    return {heading: [own.get(page, page) for page in pages] for heading, pages in pages_of.items()}


CONTENTS: Final = _contents_by_need()
"""Captions of the side bar and their pages. A page in no list is added to the last one."""

UNPUBLISHED: Final = re.compile(r"\[([^\]]+)\]\((?:dags/[\w.]+|LICENSE)\)")
"""Links of those pages to files that the site does not hold; the text of the link stays."""

ERRORS: Final = [name for name, value in vars(errors).items() if getattr(value, "__module__", "") == errors.__name__]
"""Names of the error tree; those that the package also exports are documented once, with the tree."""

EXPORTED: Final = set(airflow_sitemaps.__all__) - {"__version__", *ERRORS}

NEEDS: Final = {
    "Stores": r"\w+Store",
    "Search engines and crawlers": r"(IndexNow|Search|SitemapPing|SitemapFetches)\w+|AccessLog|Crawler",
    "Task group, operators, sensor and messages": r"SitemapTaskGroup|Sitemap\w*(Operator|Sensor|Notifier)",
    "Sitemaps, sections and their sources": r"\w+",
}
"""Headings of the names that a DAG file uses, and what the names match; the first that matches has the name."""


def _by_need() -> dict[str, list[str]]:
    need_of = {
        name: next(need for need, form in NEEDS.items() if re.fullmatch(form, name)) for name in sorted(EXPORTED)
    }
    return {need: [name for name in need_of if need_of[name] == need] for need in reversed(NEEDS)}


PUBLIC: Final = {
    **{need: ("airflow_sitemaps", names) for need, names in _by_need().items()},
    "Settings of every store": ("airflow_sitemaps.stores", ["StoreSettings"]),
    "Settings of every store in a bucket": ("airflow_sitemaps.stores.bucket", ["BucketStore"]),
    "Use cases without a scheduler": ("airflow_sitemaps.pipeline", sorted(pipeline.__all__)),
    "Errors": ("airflow_sitemaps.errors", ERRORS),
    "Tests of your sitemaps": ("airflow_sitemaps.testing", sorted({*testing.__all__} - {*airflow_sitemaps.__all__})),
}
"""Headings of the API reference: the module and its public names."""


def contents() -> str:
    """Return the site's table of contents as hidden directives."""
    listed = {page for pages in CONTENTS.values() for page in pages}
    others = sorted(
        path.relative_to(ROOT / "docs").with_suffix("").as_posix()
        for path in (ROOT / "docs").rglob("*.md")
        if path.name != "index.md"
    )
    last = list(CONTENTS)[-1]
    chapters = {**CONTENTS, last: [*CONTENTS[last], *(page for page in others if page not in listed)]}
    return "".join(
        f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(pages) + "\n```\n"
        for caption, pages in chapters.items()
    )


def reference() -> str:
    """Return the directives that document every public name, from the code's own lists."""
    text = ""
    for heading, (module, names) in PUBLIC.items():
        text += f"\n## {heading}\n\n```{{eval-rst}}\n"
        for name in names:
            kind = (
                "autoclass" if isinstance(getattr(__import__(module, fromlist=[name]), name), type) else "autofunction"
            )
            members = "   :members:\n   :no-undoc-members:\n" if kind == "autoclass" else ""
            text += f".. {kind}:: {module}.{name}\n{members}\n"
        text += "```\n"
    return text


def on_source_read(app: Sphinx, page: str, source: list[str]) -> None:
    """Add to a page what only the site needs.

    Args:
        app: The build.
        page: The page's name, without its suffix.
        source: One text, which is replaced in place.
    """
    if page == "index":
        source[0] += contents()
    elif page == "reference":
        source[0] += reference()
    elif page in INCLUDED:
        text = (ROOT / INCLUDED[page]).read_text()
        text = text.replace("](docs/", "](").replace("](../docs/", "](").replace("](SECURITY.md", "](security.md")
        source[0] = UNPUBLISHED.sub(r"\1", text)
        for name, file in INCLUDED.items():
            source[0] = source[0].replace(f"]({file}", f"]({name}.md")
    for name, file in INCLUDED.items():
        source[0] = source[0].replace(f"](../{file}", f"]({'../' * page.count('/')}{name}.md")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the hook. Sphinx calls this."""
    app.connect("source-read", on_source_read)
    return {"parallel_read_safe": True}
