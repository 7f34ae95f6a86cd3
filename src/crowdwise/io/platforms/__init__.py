"""Readers of platform exports, tried in this order; the first that recognises the fields reads it."""

from __future__ import annotations

from typing import Protocol

from crowdwise.io.export import Export, Request
from crowdwise.io.platforms import (
    appen,
    argilla,
    doccano,
    judges,
    label_studio,
    label_studio_table,
    labelbox,
    mturk,
    mturk_api,
    peerannot,
    prodigy,
    sagemaker,
    toloka,
    zooniverse,
)
from crowdwise.io.source import Source

__all__ = ["PLATFORMS", "Platform"]


class Platform(Protocol):
    """A module that recognises and reads the exports of one platform."""

    NAME: str
    DESCRIPTION: str

    def matches(self, source: Source) -> bool:
        """Say whether the fields are this platform's."""
        ...

    def read(self, source: Source, request: Request) -> Export:
        """Return the votes of the export."""
        ...


# From the most to the least telling fields: the last three would also fit files of others.
PLATFORMS: tuple[Platform, ...] = (
    mturk, mturk_api, toloka, zooniverse, appen, labelbox, label_studio, label_studio_table,
    argilla, sagemaker, prodigy, doccano, judges, peerannot,
)  # fmt: skip
