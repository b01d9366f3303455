"""The probe asks each question for itself: a store may enforce one condition and ignore another."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sitemaps import MemoryStore
from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.pipeline.state import capability_probe
from airflow_sitemaps.ports import Create, ObjectInfo, ObjectStore, Overwrite, PutMode, Update
from airflow_sitemaps.stores.memory import MemoryObjects

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_sitemaps.ports import Store


class Careless(MemoryObjects):
    """An area that ignores one kind of condition."""

    ignored: type[Create | Update] | None = None
    ignores_source = False
    updates_nothing = False

    def put(self, key: str, body: bytes, *, mode: PutMode, **kwargs: Any) -> str:
        if self.updates_nothing and isinstance(mode, Update) and key not in self.objects:
            mode = Overwrite()
        obeyed = Overwrite() if self.ignored is not None and isinstance(mode, self.ignored) else mode
        return super().put(key, body, mode=obeyed, **kwargs)

    def copy(self, source: ObjectStore, found: ObjectInfo, key: str, **kwargs: Any) -> str:
        there = source.head(found.key) if self.ignores_source else found
        return super().copy(source, there or found, key, **kwargs)


def store_of(ignored: type[Create | Update] | None, area: str, *, ignores_source: bool = False) -> Store:
    config = MemoryStore()
    there = getattr(config, area)
    careless = Careless(there.area, there.log, there.lock, there.now, there.objects)
    careless.ignored, careless.ignores_source = ignored, ignores_source
    setattr(config, area, careless)
    return replace(config.open(), enforces_conditions=None, copies=None)


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    capability_probe.forget()
    yield
    capability_probe.forget()


@pytest.mark.parametrize("area", ["public", "state"])
@pytest.mark.parametrize("ignored", [Create, Update])
def test_a_store_that_ignores_one_condition_is_found_out(ignored: type[Create | Update], area: str) -> None:
    store = store_of(ignored, area)
    assert not capability_probe.probe(store)
    assert not list(store.public.list())
    assert not list(store.state.list())


@pytest.mark.parametrize("area", ["public", "state"])
def test_a_store_that_replaces_what_does_not_exist_is_found_out(area: str) -> None:
    """As MinIO before its releases of September 2025."""
    store = store_of(None, area)
    getattr(store, area).updates_nothing = True
    assert not capability_probe.probe(store)
    with pytest.raises(ConfigurationError, match=r"It accepted: replace an object that does not exist\."):
        capability_probe.ensure_conditions(store, single_writer=False)
    assert not list(store.public.list())
    assert not list(store.state.list())


def test_a_store_that_ignores_none_passes() -> None:
    assert capability_probe.probe(store_of(None, "public"))
    assert capability_probe.copies(store_of(None, "public"), capability_probe.WORTH_ASKING)


@pytest.mark.parametrize(("ignored", "source"), [(Create, False), (Update, False), (None, True)])
def test_a_copy_that_ignores_one_condition_is_found_out(ignored: type[Create | Update] | None, source: bool) -> None:
    assert not capability_probe.copies(
        store_of(ignored, "public", ignores_source=source), capability_probe.WORTH_ASKING
    )


@pytest.mark.parametrize("ignored", [Create, Update])
def test_an_object_that_an_earlier_probe_left_changes_no_verdict(ignored: type[Create | Update]) -> None:
    store = store_of(ignored, "state")
    key = capability_probe.PREFIX + "0" * 32
    store.state.put(key, b"1", mode=Overwrite(), metadata={}, content_type="text/plain")
    assert not capability_probe.probe(store)
    assert not list(store.state.list())
