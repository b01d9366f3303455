"""What can be done from a page, and that it is done as a DAG run with the group's params."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from airflow.models.asset import AssetModel
from airflow.models.dagrun import DagRun
from airflow.sdk import DAG, Param, XComArg
from airflow.utils.session import create_session
from sqlalchemy import delete, select

from airflow_sitemaps.operators.plan import PLAN_KEY, SitemapPlanOperator
from airflow_sitemaps.operators.publish import SitemapPublishOperator, SitemapRollbackOperator
from airflow_sitemaps.operators.verify import SitemapVerifyOperator
from airflow_sitemaps.plugin.dag_profiles import DagProfile, TaskProfile
from airflow_sitemaps.plugin.pages.actions import (
    ActionRefusedError,
    ActionRequest,
    AvailableAction,
    available_actions,
    conf_of,
)
from airflow_sitemaps.sitemap import Section, Sitemap
from airflow_sitemaps.stores.local import LocalStore
from airflow_sitemaps.task_group import SitemapTaskGroup, define_params
from airflow_sitemaps.testing import MemorySourceConfig
from tests.support.airflow_db import sync
from tests.support.plugin_factories import NOW, add_event, extra, report

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy.orm import Session

    from tests.plugin.conftest import Client

PARAMS = frozenset({"sections", "full", "rebuild", "dry_run", "allow"})


def shape(dag_id: str, params: frozenset[str] = frozenset(), **tasks: str) -> DagProfile:
    """A DAG with one task of each kind; a rollback's text is its generation."""
    profiles = [TaskProfile(task_id=kind, kind=kind, generation=text) for kind, text in tasks.items()]
    return DagProfile(dag_id=dag_id, params=params, tasks=profiles)


def offers(publisher: DagProfile | None, others: list[DagProfile]) -> list[AvailableAction]:
    return available_actions(publisher, others, {})


def by_name(found: list[AvailableAction]) -> dict[str, AvailableAction]:
    return {offer.action: offer for offer in found}


def test_the_group_offers_all_but_verify_and_rollback() -> None:
    found = by_name(offers(shape("shop", PARAMS, plan="", publish=""), []))

    assert [name for name, offer in found.items() if offer.possible] == ["run", "plan", "full", "rebuild", "allow"]
    assert "SitemapVerifyOperator" in found["verify"].why_not
    assert "SitemapRollbackOperator" in found["rollback"].why_not


def test_params_that_a_dag_does_not_have_are_named() -> None:
    found = by_name(offers(shape("shop", frozenset({"full", "sections"}), plan=""), []))

    assert found["full"].possible
    assert found["allow"].why_not == "The DAG has no param allow; SitemapTaskGroup defines it."


@pytest.mark.parametrize(
    ("template", "param"),
    [
        ("{{ params.generation }}", "generation"),
        ("{{ params['back_to'] | int }}", "back_to"),
        ('{{ dag_run.conf.get("x", params["number"]) }}', "number"),
    ],
)
def test_a_rollback_takes_its_generation_from_a_param(template: str, param: str) -> None:
    offer = by_name(offers(shape("shop", PARAMS, plan=""), [shape("back", rollback=template)]))["rollback"]

    assert (offer.dag_id, offer.param) == ("back", param)
    assert conf_of(ActionRequest(asset="", action="rollback", generation=3), offer) == {param: 3}


def test_a_rollback_of_a_fixed_generation_is_not_offered() -> None:
    assert not by_name(offers(None, [shape("back", rollback="7")]))["rollback"].possible


def test_a_rollback_beside_a_plan_is_not_offered() -> None:
    offer = by_name(offers(shape("shop", PARAMS, plan="", rollback="{{ params.g }}"), []))["rollback"]

    assert "rolls back and publishes in one run" in offer.why_not


def test_verify_in_every_run_is_no_action_of_its_own() -> None:
    offer = by_name(offers(shape("shop", PARAMS, plan="", verify=""), []))["verify"]

    assert not offer.possible
    assert offer.why_not.startswith("Each run of shop verifies what it published.")


@pytest.mark.parametrize(
    ("wish", "conf"),
    [
        (ActionRequest(asset="", action="run"), {}),
        (ActionRequest(asset="", action="plan"), {"dry_run": True}),
        (ActionRequest(asset="", action="full", sections=["a"]), {"full": True, "sections": ["a"]}),
        (ActionRequest(asset="", action="rebuild", shards=["a-00001"]), {"rebuild": ["a-00001"]}),
        (ActionRequest(asset="", action="allow", permits=["shrink:a"]), {"allow": ["shrink:a"]}),
        (ActionRequest(asset="", action="keep", sections=["a"]), {"keep_lastmods": ["a"]}),
        (ActionRequest(asset="", action="verify"), {}),
    ],
)
def test_the_params_of_an_action(wish: ActionRequest, conf: dict[str, Any]) -> None:
    assert conf_of(wish, AvailableAction(action=wish.action, dag_id="shop")) == conf


@pytest.mark.parametrize("action", ["rebuild", "allow", "keep", "rollback"])
def test_an_action_without_its_object_is_refused(action: Any) -> None:
    for group in (None, "de"):
        available = AvailableAction(action=action, dag_id="shop", param="g", group=group)
        with pytest.raises(ActionRefusedError, match="Name the"):
            conf_of(ActionRequest(asset="", action=action), available)


@pytest.fixture
def sitemap(tmp_path: Path) -> Sitemap:
    source = MemorySourceConfig([{"id": 1, "loc": "https://acting.example/1"}])
    return Sitemap(LocalStore(tmp_path / "site", base_url="https://acting.example/"), [Section("pages", source)])


@pytest.fixture
def acting(session: Session, sitemap: Sitemap) -> str:
    """Three DAGs of one sitemap, synced; and an event of it. Returns the asset's URI."""
    with DAG("acting", schedule=None, max_active_runs=1, default_args={"retries": 0}) as publish:
        SitemapTaskGroup("sitemap", sitemap)
    with DAG(
        "acting_back",
        schedule=None,
        max_active_runs=1,
        default_args={"retries": 0},
        params={"to": Param(1, type="integer")},
    ) as back:
        SitemapRollbackOperator(task_id="back", sitemap=sitemap, generation="{{ params.to }}")
    with DAG("acting_verify", schedule=None, max_active_runs=1, default_args={"retries": 0}) as verify:
        SitemapVerifyOperator(task_id="verify", sitemap=sitemap, inlets=[sitemap.asset])
    for dag in (publish, back, verify):
        sync(dag)
    asset = session.scalar(select(AssetModel.id).where(AssetModel.uri == sitemap.asset.uri))
    assert asset is not None
    add_event(session, asset, "acting", extra(report(1)), NOW)
    session.commit()
    return str(sitemap.asset.uri)


def conf_of_run(dag_id: str, run_id: str) -> Any:
    with create_session() as session:
        run = session.scalar(select(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
        assert run is not None
        found = (run.conf, run.triggering_user_name, run.note)
        session.execute(delete(DagRun).where(DagRun.id == run.id))
        return found


@pytest.mark.parametrize(
    ("wish", "dag_id", "conf"),
    [
        ({"action": "rebuild", "shards": ["pages-00001"]}, "acting", {"rebuild": ["pages-00001"]}),
        ({"action": "full", "sections": ["pages"]}, "acting", {"full": True, "sections": ["pages"]}),
        ({"action": "rollback", "generation": 1}, "acting_back", {"to": 1}),
        ({"action": "verify"}, "acting_verify", {}),
    ],
)
def test_an_action_is_a_run_of_its_dag(
    admin: Client, acting: str, wish: dict[str, Any], dag_id: str, conf: Any
) -> None:
    found = admin.post("api/actions", {"asset": acting, **wish})

    assert found.status_code == 201, found.text
    assert found.json()["dag_id"] == dag_id
    done, user, note = conf_of_run(dag_id, found.json()["run_id"])
    assert {name: done.get(name) for name in conf} == conf
    assert user == "admin"
    assert note == f"Started from the page Sitemaps: {wish['action']}"


@pytest.mark.parametrize(
    ("wish", "own", "others"),
    [
        ({"action": "allow", "permits": ["shrink:products"]}, {"allow": ("shrink:products",)}, {"allow": ()}),
        ({"action": "allow", "permits": ["total=0.4"]}, {"allow": ("total=0.4",)}, {"allow": ()}),
        ({"action": "rebuild", "shards": ["products-00001"]}, {"rebuild": ("products-00001",)}, {"rebuild": ()}),
        ({"action": "full", "sections": ["products"]}, {"full": True, "sections": ("products",)}, None),
        ({"action": "full"}, {"full": True, "sections": ()}, None),
        ({"action": "plan"}, {"dry_run": True, "sections": ()}, None),
        ({"action": "plan", "sections": ["products"]}, {"dry_run": True, "sections": ("products",)}, None),
        ({"action": "run"}, {"allow": ()}, {"allow": ()}),
    ],
)
def test_an_action_concerns_one_of_the_sitemaps_of_a_dag(wish: Any, own: Any, others: Any, tmp_path: Path) -> None:
    def sitemap(name: str) -> Sitemap:
        source = MemorySourceConfig([{"id": 1, "loc": f"https://{name}.example/1"}])
        sections = [Section("products", source), Section("posts", source)]
        return Sitemap(LocalStore(tmp_path / name, base_url=f"https://{name}.example/"), sections)

    with DAG("two", schedule=None, max_active_runs=1, default_args={"retries": 0}):
        mine, theirs = (SitemapTaskGroup(name, sitemap(name)) for name in ("de", "fr"))
    available = AvailableAction(action=wish["action"], dag_id="two", group="de")
    conf = conf_of(ActionRequest(asset="", **wish), available)
    for group, expected in ((mine, own), (theirs, others)):
        request = group.plan.request(conf)
        if expected is None:
            assert request is None
        else:
            assert {name: getattr(request, name) for name in expected} == expected


def test_the_group_of_a_sitemap_is_known_to_its_page(session: Session, admin: Client, tmp_path: Path) -> None:
    source = MemorySourceConfig([{"id": 1, "loc": "https://grouped.example/1"}])
    sitemaps = [
        Sitemap(LocalStore(tmp_path / name, base_url=f"https://grouped.example/{name}/"), [Section("pages", source)])
        for name in ("de", "fr")
    ]
    with DAG("grouped", schedule=None, max_active_runs=1, default_args={"retries": 0}) as dag:
        for name, sitemap in zip(("de", "fr"), sitemaps, strict=True):
            SitemapTaskGroup(name, sitemap)
    sync(dag)
    wish = {"asset": str(sitemaps[1].asset.uri), "action": "allow", "permits": ["shrink:pages"]}
    answer = admin.post("api/actions", wish)
    assert answer.status_code == 201, answer.text
    assert conf_of_run("grouped", answer.json()["run_id"])[0]["allow"] == ["shrink:fr/pages"]


def test_a_writing_task_behind_a_check_is_of_the_sitemap_that_it_writes_for() -> None:
    def tasks(name: str) -> tuple[TaskProfile, ...]:
        return (
            TaskProfile(task_id=f"plan_{name}", kind="plan", next=(f"check_{name}", f"publish_{name}")),
            TaskProfile(task_id=f"write_{name}", kind="write", next=(f"publish_{name}",)),
            TaskProfile(task_id=f"publish_{name}", kind="publish"),
        )

    profile = DagProfile(dag_id="checked", tasks=(*tasks("de"), *tasks("fr")))
    assert profile.chains() == {
        f"{kind}_{name}": f"publish_{name}" for name in ("de", "fr") for kind in ("plan", "write", "publish")
    }


def test_an_action_on_a_sitemap_of_single_operators_names_its_publishing_task(
    session: Session, admin: Client, tmp_path: Path
) -> None:
    source = MemorySourceConfig([{"id": 1, "loc": "https://single.example/1"}])
    with DAG("single", schedule=None, max_active_runs=1) as dag:
        for name in ("de", "fr"):
            store = LocalStore(tmp_path / name, base_url=f"https://single.example/{name}/")
            sitemap = Sitemap(store, [Section("pages", source)])
            plan = SitemapPlanOperator(task_id=f"plan_{name}", sitemap=sitemap)
            SitemapPublishOperator(task_id=f"publish_{name}", sitemap=sitemap, plan=XComArg(plan, PLAN_KEY))
        define_params(dag, sitemap)
    sync(dag)
    answer = admin.post("api/actions", {"asset": str(sitemap.asset.uri), "action": "full"})
    assert answer.status_code == 201, answer.text
    assert conf_of_run("single", answer.json()["run_id"])[0]["sections"] == ["publish_fr/"]


def test_the_page_offers_what_can_be_done(admin: Client, viewer: Client, acting: str) -> None:
    mine = {o["action"]: o for o in admin.get("api/sitemap", asset=acting).json()["actions"]}
    theirs = {o["action"]: o for o in viewer.get("api/sitemap", asset=acting).json()["actions"]}

    assert all(offer["possible"] and offer["allowed"] for offer in mine.values())
    assert not any(offer["allowed"] for offer in theirs.values())


@pytest.mark.parametrize(
    "body",
    [
        {"asset": "s3://x", "action": "drop"},
        {"asset": "s3://x", "action": "full", "conf": {"x": 1}},
        {"asset": "s3://x", "action": "rollback", "generation": -1},
        {"asset": "s3://x", "action": "rebuild", "shards": ["x" * 501]},
    ],
)
def test_other_wishes_are_not_understood(admin: Client, body: dict[str, Any]) -> None:
    assert admin.post("api/actions", body).status_code == 422


def test_a_form_of_another_site_does_nothing(admin: Client, acting: str) -> None:
    """A page elsewhere can post forms with the user's cookie, but not JSON."""
    found = admin.client.post("/sitemaps-ui/api/actions", data={"asset": acting, "action": "run"})

    assert found.status_code == 422


def test_an_action_that_is_not_on_offer_says_why(admin: Client, acting: str) -> None:
    found = admin.post("api/actions", {"asset": acting, "action": "allow"})

    assert found.status_code == 409
    assert found.json()["detail"] == "Name the guards to override, like shrink:products."
