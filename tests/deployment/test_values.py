"""The values for Airflow's Helm chart: keys that the chart has, memory that was measured, no secret, one image."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

import pytest
from airflow.configuration import conf

from airflow_sitemaps import __version__
from tests.deployment.kubernetes_files import CELERY, EXECUTORS, FOLDER, KUBERNETES, POD, POD_TEXT, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

# Paths of the official chart 1.20 with the types of their values, from its values.schema.json. `make test-kubernetes`
# checks the values against the schema itself where SITEMAPS_CHART names a folder with the chart.
QUANTITY = re.compile(r"\d+(m|Mi|Gi)?")
PATHS: dict[str, type] = {
    "airflowVersion": str,
    "apiSecretKeySecretName": str,
    "apiServer.resources.*.*": str,
    "config.*.*": object,  # sections and options of airflow.cfg
    "dagProcessor.resources.*.*": str,
    "data.metadataSecretName": str,
    "executor": str,
    "extraEnvFrom": str,
    "fernetKeySecretName": str,
    "images.airflow.repository": str,
    "images.airflow.tag": str,
    "images.pod_template.repository": str,
    "images.pod_template.tag": str,
    "jwtSecretName": str,
    "podTemplate": str,
    "postgresql.enabled": bool,
    "scheduler.resources.*.*": str,
    "triggerer.resources.*.*": str,
    "workers.celery.persistence.enabled": bool,
    "workers.celery.replicas": int,
    "workers.resources.*.*": str,
    "workers.terminationGracePeriodSeconds": int,
}
PROVIDERS_SECTIONS = {"celery", "celery_broker_transport_options", "kubernetes_executor"}  # not in requirements.lock
TASK_MB = 500  # docs/scale.md: 375 MB of a write task and up to 130 MB of its supervisor
MIB = 1024 * 1024
PAGE = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")


def leaves(values: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def bytes_of(quantity: str) -> int:
    """The bytes of an amount of memory."""
    units = {"Mi": MIB, "Gi": 1024 * MIB}
    return int(quantity[:-2]) * units[quantity[-2:]]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_every_value_has_a_path_and_a_type_that_the_chart_knows(executor: str) -> None:
    assert EXECUTORS[executor]["executor"] == executor
    for path, value in leaves(EXECUTORS[executor]):
        known = [kind for pattern, kind in PATHS.items() if fnmatch(path, pattern)]
        assert known, path
        assert isinstance(value, known[0]), (path, value)
        if ".resources." in path:
            assert QUANTITY.fullmatch(value), (path, value)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_settings_are_airflows(executor: str) -> None:
    for section, options in EXECUTORS[executor]["config"].items():
        if section not in PROVIDERS_SECTIONS:
            for option in options:
                assert conf.has_option(section, option), (section, option)


def test_a_pod_has_the_memory_of_one_task_and_room() -> None:
    (container,) = POD["spec"]["containers"]
    request, limit = (bytes_of(container["resources"][name]["memory"]) for name in ("requests", "limits"))

    assert request >= TASK_MB * 10**6
    assert 1.5 * request <= limit
    assert "cpu" not in container["resources"]["limits"]


def test_a_celery_worker_has_the_memory_of_all_its_tasks() -> None:
    tasks = CELERY["config"]["celery"]["worker_concurrency"]
    resources = CELERY["workers"]["resources"]

    assert (
        tasks * TASK_MB * 10**6 <= bytes_of(resources["requests"]["memory"]) < bytes_of(resources["limits"]["memory"])
    )


def test_the_figure_is_that_of_the_page_on_scaling() -> None:
    scale = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")

    assert f"its memory ÷ {TASK_MB} MB" in scale
    assert f"{TASK_MB} MB" in PAGE


def test_the_pod_and_the_parts_have_the_same_image_of_this_version() -> None:
    image = KUBERNETES["images"]["airflow"]

    assert image["tag"] == __version__
    assert image == KUBERNETES["images"]["pod_template"]
    assert POD["spec"]["containers"][0]["image"] == f"{image['repository']}:{image['tag']}"


def test_every_secret_is_named_explained_and_never_written_down() -> None:
    named = {value for path, value in leaves(KUBERNETES) if path.endswith("SecretName")}
    named |= set(re.findall(r"secretRef:\s+name: ([\w-]+)", KUBERNETES["extraEnvFrom"]))
    used = set(re.findall(r"secret(?:Key)?Ref: \{name: ([\w-]+)", POD_TEXT))

    assert len(named) == 5
    assert used <= named
    for name in named:
        assert f"create secret generic {name} " in PAGE
    for file in FOLDER.iterdir():
        assert not re.search(r"(password|token|secret_key|://\w+:\w+@)", file.read_text(encoding="utf-8")), file.name
