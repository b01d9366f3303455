"""The pages in the Airflow UI, and the API beneath them."""

from pathlib import Path
from typing import Final

STATIC: Final = Path(__file__).parent / "static"
