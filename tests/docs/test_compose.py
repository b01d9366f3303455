"""The compose file and the image: parsed, complete, pinned, and every service has a health check."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.jobs.dag_processor_job_runner import DagProcessorJobRunner
from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
from airflow.jobs.triggerer_job_runner import TriggererJobRunner
from airflow.models import Connection

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
ONE_SHOT = {"airflow-init", "s3-bucket"}


def environment() -> dict[str, str]:
    return dict(SERVICES["airflow-api"]["environment"])


def test_every_part_of_a_celery_deployment_is_there() -> None:
    parts = {"api", "scheduler", "dag-processor", "triggerer", "worker-1", "worker-2"}
    assert {f"airflow-{part}" for part in parts} | {"redis", "airflow-db", "warehouse", "s3"} <= set(SERVICES)
    assert environment()["AIRFLOW__CORE__EXECUTOR"] == "CeleryExecutor"
    assert environment()["AIRFLOW__CELERY__BROKER_URL"].startswith("redis://redis:")
    assert all(SERVICES[f"airflow-worker-{number}"]["command"] == "celery worker" for number in (1, 2))


@pytest.mark.parametrize("name", sorted(set(SERVICES) - ONE_SHOT))
def test_every_service_that_stays_has_a_health_check(name: str) -> None:
    check = SERVICES[name]["healthcheck"]
    assert check["test"][0] in ("CMD", "CMD-SHELL")
    assert check["retries"] >= 10
    assert "start_period" in check


@pytest.mark.parametrize("name", ["scheduler", "dag-processor", "triggerer"])
def test_health_checks_name_a_kind_of_job_that_airflow_has(name: str) -> None:
    kinds = {runner.job_type for runner in (DagProcessorJobRunner, SchedulerJobRunner, TriggererJobRunner)}
    named = re.search(r"--job-type (\w+)", SERVICES[f"airflow-{name}"]["healthcheck"]["test"][1])
    assert named is not None
    assert named[1] in kinds


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_services_depend_on_services_that_can_satisfy_them(name: str) -> None:
    for other, wanted in SERVICES[name].get("depends_on", {}).items():
        assert other in SERVICES
        expected = "service_completed_successfully" if other in ONE_SHOT else "service_healthy"
        assert wanted["condition"] == expected


def test_every_image_is_pinned() -> None:
    for name, service in SERVICES.items():
        tag = service["image"].rpartition(":")[2]
        assert re.match(r"\d", tag), f"{name}: {service['image']}"


def test_the_image_pins_airflow_where_it_installs_the_package() -> None:
    install = re.search(r"^RUN pip install (.+)$", DOCKERFILE, re.MULTILINE)
    assert install is not None
    assert '"apache-airflow==${AIRFLOW_VERSION}"' in install[1]
    assert "/opt/airflow-sitemaps[" in install[1]
    lock = re.search(r"^apache-airflow==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    version = re.search(r"^ARG AIRFLOW_VERSION=(\S+)", DOCKERFILE, re.MULTILINE)
    assert lock is not None
    assert version is not None
    assert version[1] == lock[1]
    extras = re.search(r"airflow-sitemaps\[([\w,]+)\]", DOCKERFILE)
    assert extras is not None
    project = (ROOT / "pyproject.toml").read_text()
    assert all(re.search(rf"^{extra} = ", project, re.MULTILINE) for extra in extras[1].split(","))


def test_secrets_are_long_and_can_be_replaced() -> None:
    for name in ("AIRFLOW__API_AUTH__JWT_SECRET", "AIRFLOW__API__SECRET_KEY"):
        default = re.fullmatch(r"\$\{[A-Z_]+:-(.+)\}", environment()[name])
        assert default is not None
        assert len(default[1]) >= 64


def test_ports_are_published_on_loopback_only() -> None:
    for service in SERVICES.values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


def test_the_workers_reach_the_store_with_the_credentials_that_it_knows() -> None:
    connection = json.loads(environment()["AIRFLOW_CONN_AWS_DEFAULT"])
    credentials = json.loads(COMPOSE["configs"]["s3-identities"]["content"])["identities"][0]["credentials"]
    assert {"accessKey": connection["login"], "secretKey": connection["password"]} in credentials
    assert connection["extra"]["endpoint_url"] == "http://s3:8333"
    assert Connection(uri=environment()["AIRFLOW_CONN_PLACES"]).host in SERVICES


def test_every_worker_sees_the_same_dags_and_settings() -> None:
    workers = [service for name, service in SERVICES.items() if name.startswith("airflow-") and name != "airflow-db"]
    for service in workers:
        assert service["volumes"] == workers[0]["volumes"]
        assert service["image"] == workers[0]["image"]
        assert environment().items() <= service["environment"].items()


def test_every_volume_and_config_is_declared_and_used() -> None:
    used = {volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", ())}
    assert {name for name in used if not name.startswith(".")} == set(COMPOSE["volumes"])
    configs = {config["source"] for service in SERVICES.values() for config in service.get("configs", ())}
    assert configs == set(COMPOSE["configs"])
