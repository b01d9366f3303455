"""Identity: the fingerprint of a section's settings, the owner of areas and objects, and what proves a file's content.

Each public object has a stamp in its metadata: the owner and the id of the state area. Objects without a stamp were
written before stamps existed, or by another program. Only an index without one is refused, at the first publication.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

from blake3 import blake3

from airflow_sitemaps.errors import ConfigurationError, GuardError, InvalidSitemapError, OwnershipError
from airflow_sitemaps.protocol.gzip import decompress, with_variant
from airflow_sitemaps.protocol.markup import with_comment, without_comment
from airflow_sitemaps.protocol.rules import changed_rules
from airflow_sitemaps.shards.guards import Refusal, permitted

if TYPE_CHECKING:
    from airflow_sitemaps.ports import ObjectInfo
    from airflow_sitemaps.shards.manifest import Manifest, PublicFile
    from airflow_sitemaps.shards.plan import Plan
    from airflow_sitemaps.sitemap import Section, Sitemap

RENDERER: Final = 1
"""Version of the renderer and the rules; increase it if equal rows are written differently than before.

A changed default of a rule needs a new version. A new rule needs one only if it must apply to unchanged rows at once:
with a new version, every row of every user is read again.
"""


def fingerprint(sitemap: Sitemap, section: Section) -> str:
    """Return 64 hexadecimal digits that depend on a section's source, mapping, rules, limits, format and renderer.

    They do not depend on the digest's expression, which the manifest records separately. They do not depend on the
    sizes of shards either: a change of sizes cuts and joins only the ranges that need it.
    """
    depends: dict[str, object] = {
        "renderer": RENDERER,
        "source": section.source.identity(),
        "rules": changed_rules(sitemap.rulebook(section)),
        "limits": sitemap.limits_of(section).name,
        "kind": section.kind,
        "format": section.format,
        "base_url": sitemap.base_url_of(section),
        "cross_submit": sorted(sitemap.cross_submit),
    }
    if sitemap.must_list:  # a write records which shard lists them
        depends["must_list"] = sorted(sitemap.must_urls)
    return hashlib.sha256(json.dumps(depends, sort_keys=True, default=str).encode()).hexdigest()


def check_unchanged(sitemap: Sitemap, plan: Plan, names: Iterable[str]) -> None:
    """Refuse a plan that was made with another configuration, because its fingerprints would not match the files."""
    sections = {section.name: section for section in sitemap.sections}
    back = [name for name in plan.retired if name in sections]
    if back:
        raise ConfigurationError(
            f"run {plan.run} removes section {back[0]!r}, but the code has it now: the DAG was changed between two "
            "tasks of this run. Nothing of this run was published and nothing is lost: run the DAG again."
        )
    for name in names:
        if name not in sections:
            what = "is no longer in the code"
        elif fingerprint(sitemap, sections[name]) != plan.sections[name].fingerprint:
            what = "has a different configuration than when this run was planned"
        else:
            continue
        raise ConfigurationError(
            f"section {name!r} {what}: the DAG was changed between two tasks of run {plan.run}. Nothing of this run was "
            "published and nothing is lost: run the DAG again, or clear this run's tasks from the plan task onwards."
        )


log = logging.getLogger(__name__)

OWNER: Final = "owner"
"""Metadata key of the sitemap's owner, percent-encoded because headers hold ASCII."""
STATE_ID: Final = "state-id"
"""Metadata key of the state area of the pipeline that put the object."""
OWNER_CHARACTERS: Final = 200
"""Maximum length of an encoded owner in metadata, in characters. The state id decides; the owner is for people."""


def stamp(manifest: Manifest) -> dict[str, str]:
    """Return the metadata that marks a public object as this pipeline's."""
    return {OWNER: _owner_text(manifest.owner), STATE_ID: manifest.state_id}


def _owner_text(owner: str) -> str:
    return quote(owner, safe=" ")[:OWNER_CHARACTERS].strip()


def is_of_another(info: ObjectInfo, manifest: Manifest | None) -> bool:
    """Return whether another pipeline stamped a public object."""
    theirs = info.metadata.get(STATE_ID, "")
    return bool(theirs) and theirs != (manifest.state_id if manifest is not None else None)


def is_of_owner(info: ObjectInfo, owner: str) -> bool:
    """Return whether a pipeline of this owner stamped a public object. Its state may be lost."""
    return bool(info.metadata.get(STATE_ID)) and info.metadata.get(OWNER, "") == _owner_text(owner)


def check_stamp(url: str, info: ObjectInfo, manifest: Manifest | None) -> None:
    """Refuse to replace a public object that another pipeline stamped."""
    if not is_of_another(info, manifest):
        return
    owner, theirs = unquote(info.metadata.get(OWNER, "")), info.metadata[STATE_ID]
    ours = (manifest.state_id if manifest is not None else None) or "not assigned yet"
    raise OwnershipError(
        f"{url} was published by another pipeline (owner {owner!r}, state id {theirs}); the state id of this one is "
        f"{ours}. Two pipelines must not share a public address: nothing was replaced. Give this sitemap a path, a "
        "base_url and a state area of its own. If the other pipeline no longer runs, or its state was lost, take its "
        "files over with `airflow-sitemaps adopt` or build(sitemap, adopt=True), or remove that file and run again."
    )


def check_owner(sitemap: Sitemap, manifest: Manifest) -> None:
    """Refuse to work on another pipeline's sitemap."""
    if manifest.base_url != sitemap.store.base_url or manifest.owner != sitemap.owner:
        raise OwnershipError(
            f"the state area belongs to another sitemap: {manifest.base_url} (owner {manifest.owner!r}), and this one "
            f"is {sitemap.store.base_url} (owner {sitemap.owner!r}). Give this sitemap an address and a state area "
            "of its own (state_url=, or state_dir= of a LocalStore)."
        )
    families = {section.member.family for section in manifest.sections.values() if section.member is not None}
    is_own = any(map(sitemap.has_section, manifest.sections)) or families & {*sitemap.retired}
    if manifest.sections and not (is_own or manifest.sections.keys() & {*sitemap.retired}):
        raise OwnershipError(
            f"the sitemap at {manifest.base_url} has the sections {', '.join(manifest.sections)}, and none of them is "
            "in this pipeline: two pipelines would publish to one address. Give this pipeline an address of its own, "
            "or name the old sections in retired= if this pipeline replaces them."
        )


def check_origin(manifest: Manifest | None, origin: str, allow: Sequence[str], *, run: str) -> None:
    """Refuse a run of another deployment than the one that published last, unless a permit says that the sitemap moved.

    A run of an Airflow that does not know its address passes with a warning.
    """
    if manifest is None or manifest.origin in ("", origin):
        return
    sentence = f"{manifest.base_url} was last published by the deployment {manifest.origin}, and this run is of"
    if not origin:
        log.warning(
            "%s an Airflow that does not know its address. If it is another one, it replaces that one's URLs: give it a "
            "store of its own. To have it refused, set [api] base_url",
            sentence,
        )
        return
    message = (
        f"{sentence} {origin}. Two deployments with one store replace each other's URLs: nothing was changed. Give this one "
        "a store of its own. If it takes the sitemap over, switch the DAG in the other one off."
    )
    if refused := permitted([Refusal(guard="moved", section="", message=message)], allow)[0]:
        raise GuardError(f"This run was refused. {refused[0]}", refused, run=run)
    log.warning("allowed: %s moved from the deployment %s to %s", manifest.base_url, manifest.origin, origin)


def in_variant(file: PublicFile, body: bytes) -> bytes:
    """Return the bytes that a promotion puts, from those of the file's private body."""
    return with_variant(body, file.variant) if file.name.endswith(".gz") else with_comment(body, file.variant)


def is_body(file: PublicFile, body: bytes) -> bool:
    """Return whether bytes have the file's content, in any variant. Sizes and metadata prove nothing: they can be copied."""
    try:
        xml = decompress(body, max_byte_size=file.xml_byte_size) if file.name.endswith(".gz") else without_comment(body)
    except InvalidSitemapError:
        return False
    return blake3(xml).hexdigest() == file.xml_hash


def is_public_body(file: PublicFile, body: bytes) -> bool:
    """Return whether bytes have the file's content, in the file's variant."""
    plain = body if file.name.endswith(".gz") else without_comment(body)
    return is_body(file, body) and in_variant(file, plain) == body
