"""The shell answers at once: what costs seconds is imported by the command that needs it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = (
    "adbc_driver_manager",
    "airflow",
    "boto3",
    "botocore",
    "fastapi",
    "jinja2",
    "lxml",
    "moto",
    "pandas",
    "sqlalchemy",
)
LOADED = """
import json, sys
from contextlib import suppress
{statement}
print(json.dumps(sorted({{name.partition(".")[0] for name in sys.modules}})))
"""


@pytest.mark.parametrize(
    "statement",
    [
        "from airflow_sitemaps.cli import main\nwith suppress(SystemExit):\n    main(['--help'])",
        "from airflow_sitemaps.cli import main\nmain(['estimate', '--rows', '10'])",
        "import airflow_sitemaps.cli.commands",
    ],
    ids=["help", "a command without a sitemap", "the commands"],
)
def test_what_needs_no_airflow_does_not_import_it(statement: str) -> None:
    code = LOADED.format(statement=statement)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert not set(HEAVY) & set(json.loads(done.stdout.splitlines()[-1]))
