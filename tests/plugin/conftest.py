"""Airflow's own application with the plugin in it, and users of its own auth manager."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.api_fastapi.app import create_app, get_auth_manager, purge_cached_app
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.models.asset import AssetEvent, AssetModel, TaskInletAssetReference, TaskOutletAssetReference
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.errors import ParseImportError
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from fastapi.testclient import TestClient
from sqlalchemy import delete, update

from airflow_sitemaps.plugin import events
from airflow_sitemaps.plugin.readings import BoundedCache
from airflow_sitemaps.plugin.routes import now
from tests.support.airflow_db import database
from tests.support.plugin_factories import NOW

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.orm import Session

USERS = {"admin": "ADMIN", "user": "USER", "viewer": "VIEWER"}
BASE = "http://testserver/"


@pytest.fixture(scope="session")
def application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The API server's application, as it starts in production."""
    folder = tmp_path_factory.mktemp("passwords")
    settings = {
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{user}:{role}" for user, role in USERS.items()),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(folder / "passwords.json"),
        "AIRFLOW__API_AUTH__JWT_SECRET": "only-for-this-test-and-long-enough-to-sign-with-SHA-512-without-a-warning-at-all",
    }
    Path(folder / "passwords.json").write_text(json.dumps({user: user for user in USERS}))
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    database()
    app = create_app()
    mounted = next(route.app for route in app.routes if getattr(route, "path", "") == "/sitemaps-ui")
    mounted.dependency_overrides[now] = lambda: NOW
    yield app
    purge_cached_app()
    for name, value in before.items():
        os.environ.pop(name, None) if value is None else os.environ.update({name: value})


class Client:
    """Sends requests as one of the users, or without a user."""

    def __init__(self, application: Any, user: str | None) -> None:
        headers = {}
        if user is not None:
            who = SimpleAuthManagerUser(username=user, role=USERS[user])
            headers["Authorization"] = f"Bearer {get_auth_manager().generate_jwt(who)}"
        self.client = TestClient(application, base_url=BASE, headers=headers, raise_server_exceptions=False)

    def get(self, path: str, **params: Any) -> Any:
        return self.client.get(f"/sitemaps-ui/{path}", params=params)

    def post(self, path: str, body: Any) -> Any:
        return self.client.post(f"/sitemaps-ui/{path}", json=body)


@pytest.fixture(scope="session")
def anonymous(application: Any) -> Client:
    return Client(application, None)


@pytest.fixture(scope="session")
def admin(application: Any) -> Client:
    return Client(application, "admin")


@pytest.fixture(scope="session")
def viewer(application: Any) -> Client:
    return Client(application, "viewer")


@pytest.fixture
def session(application: Any) -> Iterator[Session]:
    """A session without the assets and events of other tests, and whose own are gone after the test."""
    _clear()
    with create_session() as found:
        yield found
    _clear()


def _clear() -> None:
    with create_session() as found:
        for table in (AssetEvent, TaskOutletAssetReference, TaskInletAssetReference, AssetModel, ParseImportError):
            found.execute(delete(table))
        for table in (XComModel, TaskInstance, DagRun):
            found.execute(delete(table))
        found.execute(update(DagModel).values(is_stale=False, is_paused=False, has_import_errors=False))
    events.SUMMARIES = BoundedCache(1_000)  # type: ignore[misc]
