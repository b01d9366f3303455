"""Purge hooks: remove changed addresses from a content delivery network between new shards and a new index.

A hook is a callable that takes the changed addresses and raises if it cannot remove them. Pass one as ``purge=`` to a
store: one of this package's, or a function of your own.
"""

from __future__ import annotations

from airflow_sitemaps.cdn.cloudflare import CloudflarePurge
from airflow_sitemaps.cdn.cloudfront import CloudFrontPurge
from airflow_sitemaps.cdn.fastly import FastlyPurge

__all__ = ["CloudFrontPurge", "CloudflarePurge", "FastlyPurge"]
