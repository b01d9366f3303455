"""What only other S3 servers show: Ceph's etags and versioned buckets, and a server that ignores conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.pipeline.state.capability_probe import ensure_conditions, forget, probe
from airflow_sitemaps.ports import Create, Overwrite, PutOutcomeError, Update
from tests.support.s3 import areas

if TYPE_CHECKING:
    from tests.support.s3 import S3Server

pytestmark = pytest.mark.heavy


def test_ceph_takes_etags_without_quotes_and_we_learn_it(radosgw: S3Server) -> None:
    with radosgw.store() as config:
        _, state = areas(config)
        etag = state.put("k", b"1", mode=Create(), metadata={}, content_type="text/plain")
        assert state.connection.etag_quotes
        etag = state.put("k", b"2", mode=Update(etag), metadata={}, content_type="text/plain")
        assert not state.connection.etag_quotes
        with pytest.raises(PutOutcomeError) as caught:
            state.put("k", b"3", mode=Update("0" * 32), metadata={}, content_type="text/plain")
        assert caught.value.definite
        assert state.put("k", b"4", mode=Update(etag), metadata={}, content_type="text/plain")


def test_a_versioned_bucket_of_ceph_ignores_create_and_is_refused(radosgw: S3Server) -> None:
    forget()
    bucket = radosgw.new_bucket()
    client = radosgw.client()
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    client.close()
    with radosgw.store(bucket=bucket) as config:
        store = config.open()
        assert probe(store) is False
        with pytest.raises(ConfigurationError, match="single_writer=True"):
            ensure_conditions(store, single_writer=False)


def test_a_store_that_ignores_conditions_is_refused_unless_its_user_promises(rclone: S3Server) -> None:
    forget()
    with rclone.store() as config:
        store = config.open()
        with pytest.raises(ConfigurationError, match=r"ignores conditional writes.*single_writer=True"):
            ensure_conditions(store, single_writer=False)
        ensure_conditions(store, single_writer=True)
        assert list(store.state.list()) == []


def test_a_single_writer_is_still_held_to_its_own_conditions(rclone: S3Server) -> None:
    with rclone.store(single_writer=True) as config:
        store = config.open()
        assert store.enforces_conditions is False
        put = store.state.put
        with pytest.raises(PutOutcomeError):
            put("k", b"0", mode=Update("0" * 32), metadata={}, content_type="text/plain")
        etag = put("k", b"1", mode=Create(), metadata={}, content_type="text/plain")
        with pytest.raises(PutOutcomeError) as caught:
            put("k", b"2", mode=Create(), metadata={}, content_type="text/plain")
        assert caught.value.definite
        put("k", b"3", mode=Update(etag), metadata={}, content_type="text/plain")
        with pytest.raises(PutOutcomeError):
            put("k", b"4", mode=Update(etag), metadata={}, content_type="text/plain")
        put("k", b"5", mode=Overwrite(), metadata={}, content_type="text/plain")
        found = store.state.get("k")
        assert found is not None
        assert found.body == b"5"
