"""OpenLineage's own JSON schemas, and the validation of an event by all of them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMAS = {
    str(schema["$id"]): schema
    for schema in (json.loads(path.read_text()) for path in (Path(__file__).parent / "openlineage").glob("*.json"))
}
REGISTRY: Any = Registry().with_resources((name, Resource.from_contents(schema)) for name, schema in SCHEMAS.items())


def validate(event: dict[str, Any]) -> Counter[str]:
    """Validate an event and each of its facets by the schema that it names; returns the facets by their schema's name.

    Raises:
        jsonschema.ValidationError: The event or a facet breaks its schema.
        referencing.exceptions.Unresolvable: There is no such schema.
    """
    _validate(event["schemaURL"], event)
    count: Counter[str] = Counter()
    for name, facet in _facets(event):
        url = facet["_schemaURL"]
        # A custom facet of Airflow's provider names the base schema; `_facets` yields {name: facet} of a container.
        if url.partition("#")[0].endswith("/OpenLineage.json"):
            _validate(url, facet)
        else:
            _validate(url.partition("#")[0], {name: facet})
            _validate(url, facet)
        count[url.rpartition("/")[2]] += 1
    return count


def _validate(url: str, value: Any) -> None:
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": url}
    Draft202012Validator(schema, registry=REGISTRY, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(value)


def _facets(event: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    containers = [event["run"].get("facets", {}), event["job"].get("facets", {})]
    for dataset in (*event.get("inputs", ()), *event.get("outputs", ())):
        containers += [dataset.get(kind, {}) for kind in ("facets", "inputFacets", "outputFacets")]
    for container in containers:
        yield from container.items()
