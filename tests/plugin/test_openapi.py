"""The pages' types are made from the API's own description: `make ui-types` after a change of the models."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from airflow_sitemaps.plugin.airflow_plugin import make_app

DESCRIPTION = Path(__file__).parents[2] / "ui" / "openapi.json"


def schemas() -> dict[str, Any]:
    """The models of requests and responses."""
    found = make_app().openapi()["components"]["schemas"]
    return {name: found[name] for name in sorted(found) if not name.endswith("ValidationError")}


def test_the_description_that_the_pages_types_are_made_from_is_the_apis() -> None:
    text = json.dumps({"components": {"schemas": schemas()}}, indent=1) + "\n"
    if os.environ.get("SITEMAPS_WRITE_OPENAPI"):
        DESCRIPTION.write_text(text)

    assert DESCRIPTION.read_text() == text, "run `make ui-types`, and commit ui/openapi.json and ui/src/api-types.ts"
