"""dbt's manifest: the table or view that a model, seed or snapshot is, and its columns.

https://docs.getdbt.com/reference/artifacts/manifest-json and https://schemas.getdbt.com/dbt/manifest/v12.json
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.protocol.url_template import Template
from airflow_sitemaps.sources.user_texts import NamePart, found_file, name_parts, nearest, written_name

if TYPE_CHECKING:
    from airflow_sitemaps.sources.source_settings import SourceSettings

SCHEMA: Final = re.compile(r"/manifest/v(\d+)\.json$")
OLDEST: Final = 4
"""The manifest of dbt 1.0."""
RELATIONS: Final = frozenset({"model", "seed", "snapshot"})
"""The kinds of nodes that are tables or views."""
UNQUOTED: Final = frozenset({"snowflake"})
"""The adapters that write names without quotes unless the project says so."""


def dbt_model(manifest: str, model: str, folder: str) -> tuple[str, tuple[str, ...]]:
    """Return a model's table, and its columns if dbt enforces its contract, so that it has no others.

    A relative path ``manifest`` is looked for in ``folder``, in the working directory and in the DAG folder. ``model``
    is its name, ``package.name``, ``name.v2`` for a version, or dbt's unique id.
    """
    hint = "`dbt parse`, `dbt compile` and `dbt run` write it"
    path = found_file(manifest, folder, f"SqlSource.from_dbt(manifest={manifest!r})", hint=hint)
    content = _content(path, path.stat().st_mtime_ns)
    where = f"SqlSource.from_dbt(manifest={manifest!r}, model={model!r})"
    node = _node(content, model, where)
    kind = str(_config(node).get("materialized", ""))
    if kind == "ephemeral":
        raise SourceConfigurationError(
            f"{where}: the model is ephemeral, so the database has no table of it. Materialize it as a table, a view or an "
            "incremental model, or give its SQL as query="
        )
    columns = tuple(str(each.get("name", name)) for name, each in (node.get("columns") or {}).items())
    contract = _config(node).get("contract") or {}
    return _table(node, content, where), columns if contract.get("enforced") else ()


def check_columns(columns: tuple[str, ...], settings: SourceSettings, where: str) -> None:
    """Refuse a column that is not one of a contract.

    Without a contract, the manifest lists only documented columns, and the database checks the others.
    """
    if not columns:
        return
    folded = {column.casefold() for column in columns}
    loc = Template.parse(settings.loc).columns if "{" in settings.loc else (settings.loc,)
    groups = (name for name in (settings.group, settings.language) if name is not None)
    for name in (*settings.key_columns, *loc, *settings.field_columns.values(), *settings.page_columns, *groups):
        if name.casefold() not in folded:
            raise SourceConfigurationError(
                f"{where}: the model has no column {name!r} in its contract.{nearest(name, columns)}"
            )


@lru_cache(maxsize=4)
def _content(path: Path, _modified_at: int) -> Mapping[str, Any]:
    """Return a manifest. A file that several sections name is read once."""
    try:
        content = json.loads(path.read_bytes())
        version = SCHEMA.search(str(content["metadata"]["dbt_schema_version"]))
        nodes = content["nodes"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise SourceConfigurationError(
            f"{path} is not a dbt manifest ({type(error).__name__}: {error}); give the path of target/manifest.json"
        ) from None
    if version is None or not isinstance(nodes, dict):
        raise SourceConfigurationError(f"{path} is no manifest of dbt; give the path of target/manifest.json")
    if int(version[1]) < OLDEST:
        raise SourceConfigurationError(
            f"{path} is a manifest of version {version[1]}; the oldest that is read is {OLDEST}, of dbt 1.0: upgrade dbt"
        )
    return dict(content)


def _node(content: Mapping[str, Any], model: str, where: str) -> Mapping[str, Any]:
    """Return the node of a model. Of several versions it is the latest, as in dbt's own ``ref``."""
    nodes = [node for node in content["nodes"].values() if node.get("resource_type") in RELATIONS]
    matches = [node for node in nodes if model in _names(node)]
    latest = [node for node in matches if node.get("version") == node.get("latest_version")]
    if len(matches) > 1 and len({node["package_name"] for node in matches}) == 1 and len(latest) == 1:
        matches = latest
    if len(matches) == 1:
        return dict(matches[0])
    if matches:
        ids = ", ".join(sorted(str(node["unique_id"]) for node in matches))
        raise SourceConfigurationError(f"{where}: several models have this name: {ids}. Give one as package.name")
    disabled = [each for group in (content.get("disabled") or {}).values() for each in group if model in _names(each)]
    if disabled:
        raise SourceConfigurationError(f"{where}: the model is disabled in dbt, so it has no table. Enable it")
    names = [str(node["name"]) for node in nodes]
    raise SourceConfigurationError(f"{where}: the manifest has no such model.{nearest(model, names)}")


def _names(node: Mapping[str, Any]) -> set[str]:
    name, package = str(node.get("name")), str(node.get("package_name"))
    names = {name, f"{name}.v{node['version']}"} if node.get("version") is not None else {name}
    return {*names, *(f"{package}.{each}" for each in names), str(node.get("unique_id"))}


def _config(node: Mapping[str, Any]) -> Mapping[str, Any]:
    return dict(node.get("config") or {})


def _table(node: Mapping[str, Any], content: Mapping[str, Any], where: str) -> str:
    """Return the relation's name as dbt quotes it: of database, schema and alias if the manifest was only parsed."""
    written = node.get("relation_name")
    if written:
        try:
            return written_name(name_parts(str(written)))
        except SourceConfigurationError:
            raise SourceConfigurationError(
                f"{where}: the relation's name {written!r} cannot be read; give it as table= in this database's form"
            ) from None
    parts = [node.get("database"), node.get("schema"), node.get("alias") or node.get("name")]
    if not parts[1]:
        raise SourceConfigurationError(
            f"{where}: the manifest names no schema for it; run `dbt compile`, and try again"
        )
    quoted = content["metadata"].get("adapter_type") not in UNQUOTED
    return written_name(NamePart(str(part), is_quoted=quoted) for part in parts if part)
