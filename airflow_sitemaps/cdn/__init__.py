"""Purge hooks: remove changed addresses from a content delivery network, after the shards and before the index.

A hook is a callable that takes the changed addresses and raises an error if it cannot remove them. Pass one as
``purge=`` to a store: a hook of this package, or your own function.
"""

from __future__ import annotations

from airflow_sitemaps.cdn.cloudflare import CloudflarePurge
from airflow_sitemaps.cdn.cloudfront import CloudFrontPurge
from airflow_sitemaps.cdn.fastly import FastlyPurge

__all__ = ["CloudFrontPurge", "CloudflarePurge", "FastlyPurge"]
