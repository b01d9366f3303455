"""The base of the request and response models."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class StrictModel(BaseModel):
    """A model without undeclared fields."""

    model_config = ConfigDict(extra="forbid")
