"""The injector of faults does what each fault says, and nothing else."""

from __future__ import annotations

from random import Random

import pytest

from airflow_sitemaps.errors import StoreError
from airflow_sitemaps.ports import Create, ObjectStore, Overwrite, PutOutcomeError, Update
from airflow_sitemaps.stores.memory import MemoryStore
from tests.simulation.faults import Call, Fault, Faults, FaultyStore, SimulatedCrash, seeded

LANDS = {Fault.LOST_ANSWER, Fault.REFUSED_AFTER, Fault.CRASH_AFTER}
CRASHES = {Fault.CRASH_BEFORE, Fault.CRASH_AFTER}
REFUSES = {Fault.REFUSED, Fault.REFUSED_AFTER}


def put(area: ObjectStore, key: str = "k", body: bytes = b"x", mode: Create | Update | Overwrite | None = None) -> str:
    return area.put(key, body, mode=mode or Create(), metadata={"write-id": "w"}, content_type="text/plain")


@pytest.mark.parametrize("fault", list(Fault))
def test_each_fault_on_a_put(fault: Fault) -> None:
    memory = MemoryStore()
    faults = Faults().on("put", "k", fault)
    area = FaultyStore(memory, faults).open().state
    with pytest.raises(SimulatedCrash if fault in CRASHES else PutOutcomeError) as caught:
        put(area)
    if isinstance(caught.value, PutOutcomeError):
        assert caught.value.definite is (fault in REFUSES)
    assert (memory.state.get("k") is not None) is (fault in LANDS)
    assert [struck for _, struck in faults.struck] == [fault]
    memory.state.delete("k")
    put(area)  # struck once only


@pytest.mark.parametrize("verb", ["get", "head", "list", "delete"])
@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.STALE])
def test_each_fault_on_the_other_calls(fault: Fault, verb: str) -> None:
    memory = MemoryStore()
    put(memory.open().public)
    area = FaultyStore(memory, Faults(lambda call: fault)).open().public
    with pytest.raises(SimulatedCrash if fault in CRASHES else StoreError):
        list(area.list()) if verb == "list" else getattr(area, verb)("k")
    assert (memory.public.get("k") is None) is (verb == "delete" and fault in LANDS)


@pytest.mark.parametrize("verb", ["get", "head", "list"])
def test_a_stale_read_answers_as_the_last_one_did(verb: str) -> None:
    memory = MemoryStore()
    faults = Faults().on(verb, "*", Fault.STALE, after=1)  # type: ignore[arg-type]
    area = FaultyStore(memory, faults).open().public

    def etags() -> list[str]:
        found = list(area.list("k")) if verb == "list" else [getattr(area, verb)("k")]
        return [getattr(each, "info", each).etag for each in found]

    put(area, body=b"old")
    before = etags()
    put(area, body=b"new", mode=Overwrite())
    assert etags() == before
    assert etags() != before


def test_a_late_put_lands_under_its_own_condition() -> None:
    memory = MemoryStore()
    faults = Faults().on("put", "k", Fault.LATE, times=2)
    area = FaultyStore(memory, faults).open().state
    for body in (b"first", b"second"):
        with pytest.raises(PutOutcomeError):
            put(area, body=body)
    assert (faults.on_the_way, memory.state.get("k")) == (2, None)
    landed = faults.land()
    assert [call.number for call in landed] == [1]  # the other one met the condition that it no longer held
    found = memory.state.get("k")
    assert found is not None
    assert (found.body, faults.on_the_way) == (b"first", 0)


def test_a_lost_answer_may_have_been_a_refusal() -> None:
    memory = MemoryStore()
    put(memory.open().state, body=b"theirs")
    area = FaultyStore(memory, Faults().on("put", "*", Fault.LOST_ANSWER)).open().state
    with pytest.raises(PutOutcomeError) as caught:
        put(area, body=b"ours")
    assert not caught.value.definite
    found = memory.state.get("k")
    assert found is not None
    assert found.body == b"theirs"


def test_rules_count_and_choose_by_area_key_and_number() -> None:
    memory = MemoryStore()
    faults = Faults().on("put", "b*", Fault.UNAVAILABLE, area="public", after=1, times=1).at(6, Fault.CRASH_BEFORE)
    store = FaultyStore(memory, faults).open()
    put(store.state, "b1")
    put(store.public, "a1")
    put(store.public, "b1")
    with pytest.raises(PutOutcomeError, match="503"):
        put(store.public, "b2")
    put(store.public, "b2")
    with pytest.raises(SimulatedCrash):
        put(store.public, "b3")
    assert [call.number for call, _ in faults.struck] == [4, 6]
    assert len(faults.calls) == 6


def test_a_rival_can_act_between_any_two_calls() -> None:
    memory = MemoryStore()

    def rival(call: Call) -> None:
        if call.verb == "put":
            put(memory.open().state, body=b"rival")

    area = FaultyStore(memory, Faults(before=rival)).open().state
    with pytest.raises(PutOutcomeError) as caught:
        put(area)
    assert caught.value.definite


def test_seeded_faults_repeat_and_keep_to_their_share() -> None:
    def strikes(seed: int) -> list[Fault | None]:
        choose = seeded(Random(seed), 0.2)
        return [choose(Call(number=n, area="state", verb="put", key="k")) for n in range(2_000)]

    assert strikes(1) == strikes(1) != strikes(2)
    assert 300 < sum(fault is not None for fault in strikes(1)) < 500
