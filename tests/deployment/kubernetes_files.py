"""The files of deploy/kubernetes/, read as Helm reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
POD_TEXT = (FOLDER / "pod-template.yaml").read_text(encoding="utf-8")
POD: dict[str, Any] = yaml.safe_load(POD_TEXT)


def merged(*names: str) -> dict[str, Any]:
    """Several files of values, the later ones over the earlier ones, as ``helm --values`` merges them."""
    values: dict[str, Any] = {}
    for name in names:
        overlay(values, yaml.safe_load((FOLDER / name).read_text(encoding="utf-8")))
    return values


def overlay(values: dict[str, Any], more: dict[str, Any]) -> None:
    """Put values over others in place."""
    for name, value in more.items():
        if isinstance(value, dict) and isinstance(values.get(name), dict):
            overlay(values[name], value)
        else:
            values[name] = value


KUBERNETES = merged("values.yaml") | {"podTemplate": POD_TEXT}
CELERY = merged("values.yaml", "values-celery.yaml")
EXECUTORS = {"KubernetesExecutor": KUBERNETES, "CeleryExecutor": CELERY}
