"""The pods that come out of deploy/kubernetes/, by Kubernetes' own schemas: of the executor, and of the rendered chart.

``make test-kubernetes`` makes an environment for them. ``SITEMAPS_CHART`` names a folder with Airflow's chart, or with its
``values.schema.json`` alone.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.deployment.kubernetes_files import EXECUTORS, FOLDER, KUBERNETES, POD

validator = pytest.importorskip("kubernetes_validate", reason="Kubernetes' schemas are missing: `make test-kubernetes`")
pod_generator = pytest.importorskip(
    "airflow.providers.cncf.kubernetes.pod_generator", reason="no KubernetesExecutor: run `make test-kubernetes`"
)
OLDEST = "1.31"
CHART = Path(os.environ.get("SITEMAPS_CHART") or Path(__file__).parents[2].parent / "shared" / "airflow-chart")
SCHEMA = CHART / "values.schema.json"
with_schema = pytest.mark.skipif(
    not SCHEMA.is_file(), reason="SITEMAPS_CHART names no folder with Airflow's Helm chart"
)
with_chart = pytest.mark.skipif(
    not (CHART / "Chart.yaml").is_file(), reason="SITEMAPS_CHART names no folder with Airflow's Helm chart"
)


def check(manifest: dict[str, Any]) -> None:
    """Refuse what Kubernetes' API would refuse, and any field that it does not know."""
    for version in (OLDEST, validator.latest_version()):
        validator.validate(manifest, version, strict=True)


def rendered(values: dict[str, Any]) -> list[dict[str, Any]]:
    """The manifests of the chart."""
    helm = pytest.importorskip("helm_python", reason="no Helm: `make test-kubernetes CHART=folder` installs it")
    files = helm.Chart.load(str(CHART)).render(values, name="airflow", namespace="airflow")
    texts = (text for name, text in files.items() if name.endswith(".yaml"))
    return [manifest for text in texts for manifest in yaml.safe_load_all(text) if manifest]


def containers(manifests: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """The containers of a name in all deployments and stateful sets."""
    pods = [each["spec"]["template"]["spec"] for each in manifests if each["kind"] in ("Deployment", "StatefulSet")]
    return [container for pod in pods for container in pod["containers"] if container["name"] == name]


def test_the_template_is_a_pod_without_unknown_fields() -> None:
    check(POD)

    POD["spec"]["containers"][0]["resources"]["request"] = {}
    with pytest.raises(validator.ValidationError):
        check(POD)
    del POD["spec"]["containers"][0]["resources"]["request"]


def test_the_executor_makes_a_pod_of_each_task() -> None:
    pod = pod_generator.PodGenerator.construct_pod(
        dag_id="shop",
        task_id="sitemap.write",
        pod_id="shop-sitemap-write-1",
        try_number=1,
        kube_image="",
        date=None,
        args=["python", "-m", "airflow.sdk.execution_time.execute_workload", "--json-string", "{}"],
        pod_override_object=None,
        base_worker_pod=pod_generator.PodGenerator.deserialize_model_file(str(FOLDER / "pod-template.yaml")),
        namespace="airflow",
        scheduler_job_id="1",
        run_id="manual",
        map_index=3,
    )

    made = json.loads(json.dumps(pod_generator.PodGenerator.serialize_pod(pod)))
    check(made)
    (container,) = made["spec"]["containers"]
    (template,) = POD["spec"]["containers"]
    assert container["resources"] == template["resources"]
    assert container["image"] == template["image"]
    assert container["args"][-2:] == ["--json-string", "{}"]
    assert made["metadata"]["labels"]["map_index"] == "3"
    assert made["spec"]["restartPolicy"] == "Never"


@with_schema
@pytest.mark.parametrize("executor", EXECUTORS)
def test_the_values_are_valid_by_the_charts_schema(executor: str) -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    judge = jsonschema.Draft7Validator(schema)

    assert not [error.message for error in judge.iter_errors(EXECUTORS[executor])]
    wrong = {**EXECUTORS[executor], "workers": {"resource": {}}}
    assert [error.message for error in judge.iter_errors(wrong)]


@with_chart
@pytest.mark.parametrize("executor", EXECUTORS)
def test_the_chart_renders_what_kubernetes_accepts(executor: str) -> None:
    manifests = rendered(EXECUTORS[executor])

    for manifest in manifests:
        check(manifest)
    for part, key in (("scheduler", "scheduler"), ("api-server", "apiServer"), ("triggerer", "triggerer")):
        (container,) = containers(manifests, part)
        assert container["resources"] == EXECUTORS[executor][key]["resources"]
    workers = [container["resources"] for container in containers(manifests, "worker")]
    assert workers == ([EXECUTORS[executor]["workers"]["resources"]] if executor == "CeleryExecutor" else [])


@with_chart
def test_the_chart_hands_the_template_to_the_executor_as_it_is() -> None:
    manifests = rendered(KUBERNETES)

    (config,) = [
        each for each in manifests if each["kind"] == "ConfigMap" and each["metadata"]["name"] == "airflow-config"
    ]
    assert yaml.safe_load(config["data"]["pod_template_file.yaml"]) == POD
    accounts = {each["metadata"]["name"] for each in manifests if each["kind"] == "ServiceAccount"}
    assert POD["spec"]["serviceAccountName"] in accounts
    assert {"config"} == {volume["name"] for volume in POD["spec"]["volumes"] if "configMap" in volume}
    assert "airflow.cfg" in config["data"]
