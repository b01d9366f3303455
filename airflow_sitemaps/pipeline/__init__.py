"""Use cases over ports: recover, plan, write, publish; build, roll back, adopt, status, changes, find, inventory.

The functions ``plan``, ``write`` and ``publish`` share their names with the sub-packages that implement them. This
module imports the stages, so that the package's attributes are the functions, whatever is imported first.
"""

from airflow_sitemaps.pipeline.adoption import adopt
from airflow_sitemaps.pipeline.changes import changes
from airflow_sitemaps.pipeline.find import find
from airflow_sitemaps.pipeline.inventory import inventory
from airflow_sitemaps.pipeline.publish.rollback import rollback
from airflow_sitemaps.pipeline.stages import build, plan, publish, recover, write
from airflow_sitemaps.pipeline.status import status

__all__ = [
    "adopt",
    "build",
    "changes",
    "find",
    "inventory",
    "plan",
    "publish",
    "recover",
    "rollback",
    "status",
    "write",
]
