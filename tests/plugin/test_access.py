"""Who may see and do what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from airflow.models.asset import AssetEvent
from fastapi.routing import APIRoute
from sqlalchemy import update

from airflow_sitemaps.airflow_compat import DagAccessEntity
from airflow_sitemaps.plugin.airflow_plugin import make_app
from tests.support.plugin_factories import NOW, Ran, add_asset, add_event, add_history, add_run, extra, report

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from tests.plugin.conftest import Client

URI = "s3://shop/sitemaps/sitemap.xml"
MANAGER = "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager"

PATHS = sorted({route.path for route in make_app().routes if isinstance(route, APIRoute)})


def test_there_are_the_routes_that_are_tested() -> None:
    assert PATHS == [
        "/api/actions",
        "/api/archive",
        "/api/dags/{dag_id}/runs/{run_id}",
        "/api/dags/{dag_id}/sitemaps",
        "/api/find",
        "/api/openapi.json",
        "/api/sitemap",
        "/api/sitemap/announcements",
        "/api/sitemap/changes",
        "/api/sitemap/changes.csv",
        "/api/sitemap/coverage",
        "/api/sitemap/funnel",
        "/api/sitemap/generations",
        "/api/sitemap/guards",
        "/api/sitemap/history",
        "/api/sitemap/index-status",
        "/api/sitemap/issues.csv",
        "/api/sitemap/runs",
        "/api/sitemap/shards",
        "/api/sitemap/shards/fetches",
        "/api/sitemap/shards/texts",
        "/api/sitemaps",
        "/api/sitemaps.csv",
        "/static/{name}",
    ]


@pytest.mark.parametrize("path", PATHS)
def test_nobody_gets_anything(anonymous: Client, path: str) -> None:
    asked = path.format(dag_id="shop", run_id="r", name="airflow-sitemaps.js").lstrip("/")
    bodies = {"/api/actions": {"asset": URI, "action": "run"}, "/api/archive": {"asset": URI, "archived": True}}
    params = {"asset": URI, "section": "x", "url": "https://x.example/"}
    found = anonymous.post(asked, bodies[path]) if path in bodies else anonymous.get(asked, **params)

    assert found.status_code == 401


def test_the_bundle_is_for_people_who_are_logged_in(viewer: Client) -> None:
    found = viewer.get("static/airflow-sitemaps.js")

    assert found.status_code == 200
    assert found.headers["content-type"].startswith("text/javascript")
    assert found.headers["cache-control"].startswith("private")
    assert viewer.get("static/..%2fapi.py").status_code == 404
    assert viewer.get("static/api.py").status_code == 404


def test_a_viewer_sees_but_cannot_act(viewer: Client, session: Session) -> None:
    add_history(session, URI, "shop", 3)
    session.commit()

    seen = viewer.get("api/sitemap", asset=URI)
    done = viewer.post("api/actions", {"asset": URI, "action": "run"})

    assert seen.status_code == 200
    assert not any(offer["allowed"] for offer in seen.json()["actions"])
    assert done.status_code == 403


def test_a_dag_that_a_user_may_not_read_hides_its_sitemap(viewer: Client, session: Session) -> None:
    add_history(session, URI, "shop", 3)
    add_history(session, "s3://other/sitemap.xml", "other", 3)
    session.commit()

    def only_other(_: Any, **__: Any) -> set[str]:
        return {"other"}

    with patch(f"{MANAGER}.get_authorized_dag_ids", only_other):
        listed = viewer.get("api/sitemaps").json()
        answers = [
            viewer.get("api/sitemap", asset=URI),
            viewer.get("api/sitemap/history", asset=URI),
            viewer.get("api/sitemap/shards", asset=URI),
            viewer.get("api/dags/shop/sitemaps"),
            viewer.get("api/dags/shop/runs/run-1"),
        ]

    assert [line["dag_id"] for line in listed["sitemaps"]] == ["other"]
    assert [answer.status_code for answer in answers] == [404, 404, 404, 403, 403]


def test_a_sitemap_that_a_hidden_dag_publishes_is_not_said_to_be_published_by_none(
    viewer: Client, session: Session
) -> None:
    """Its DAG was renamed, and the user may read only the former one."""
    asset = add_history(session, URI, "shop", 3)
    session.execute(update(AssetEvent).where(AssetEvent.asset_id == asset).values(source_dag_id="former"))
    session.commit()

    with patch(f"{MANAGER}.get_authorized_dag_ids", lambda _, **__: {"former"}):
        page = viewer.get("api/sitemap", asset=URI).json()

    (problem,) = page["problem_list"]
    assert page["reason"] == "Orphaned: no DAG that you may see publishes it"
    assert problem["next_step"].endswith(
        "If no DAG publishes it, archive it here, and remove its files from the store."
    )
    assert "shop" not in str(page["problem_list"])


@pytest.mark.parametrize("path", [path for path in PATHS if path.startswith("/api/sitemap/")])
def test_an_asset_with_a_nul_is_a_wrong_request(viewer: Client, path: str) -> None:
    """PostgreSQL accepts no text with a NUL, so the request must end before the query."""
    assert viewer.get(path.lstrip("/"), asset="s3://shop\0", section="x").status_code == 422


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("actions", {"asset": "\0", "action": "run"}),
        ("actions", {"asset": URI, "action": "full", "sections": ["\0"]}),
        ("archive", {"asset": "\0", "archived": True}),
    ],
)
def test_a_body_with_a_nul_is_a_wrong_request(admin: Client, path: str, body: dict[str, Any]) -> None:
    assert admin.post(f"api/{path}", body).status_code == 422


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("actions", r'{"asset": "s3://\ud800", "action": "run"}'),
        ("actions", r'{"asset": "s3://shop", "action": "full", "sections": ["\ud800"]}'),
        ("actions", r'{"asset": "s3://shop", "action": "run", "generation": NaN}'),
        ("actions", r'{"asset": "s3://shop", "action": "run", "\ud800": 1}'),
        ("archive", r'{"asset": "\ud800", "archived": NaN}'),
    ],
)
def test_a_body_that_no_answer_can_repeat_is_a_wrong_request(admin: Client, path: str, body: str) -> None:
    headers = {"Content-Type": "application/json"}
    response = admin.client.post(f"/sitemaps-ui/api/{path}", content=body, headers=headers)

    assert response.status_code == 422
    assert response.json()["detail"][0]["loc"][0] == "body"


def test_a_run_id_with_a_nul_is_a_wrong_request(viewer: Client, session: Session) -> None:
    add_history(session, URI, "shop", 1)
    session.commit()

    assert viewer.get("api/dags/shop/runs/%00").status_code == 422


def test_a_run_is_only_for_users_who_may_read_runs(viewer: Client, session: Session) -> None:
    add_history(session, URI, "shop", 1)
    add_run(session, "shop", Ran(1, conf={"token": "params may hold one"}), NOW)
    session.commit()

    def no_runs(_: Any, *, access_entity: DagAccessEntity | None = None, **__: Any) -> bool:
        return access_entity is not DagAccessEntity.RUN

    assert viewer.get("api/dags/shop/runs/run-1").status_code == 200
    with patch(f"{MANAGER}.is_authorized_dag", no_runs):
        assert viewer.get("api/dags/shop/runs/run-1").status_code == 403
        assert viewer.get("api/sitemap", asset=URI).status_code == 200


def test_an_event_that_no_dag_wrote_does_not_count(admin: Client, session: Session) -> None:
    """Anybody who may post events could else make the API server read a store of their choice."""
    asset = add_asset(session, URI, "shop")
    add_event(session, asset, None, extra(report(1)), NOW)
    session.commit()

    (line,) = admin.get("api/sitemaps").json()["sitemaps"]
    assert (line["reason"], line["generation"]) == ("Never published", 0)
    assert "Nothing has been published yet" in admin.get("api/sitemap/shards", asset=URI).json()["unavailable"]


def test_the_api_describes_itself(viewer: Client) -> None:
    found = viewer.get("api/openapi.json").json()

    assert set(found["paths"]) == {path for path in PATHS if path.startswith("/api/") and "openapi" not in path}
    assert "SitemapPage" in found["components"]["schemas"]
