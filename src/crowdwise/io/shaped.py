"""Readers trust the shape of a record that was recognised; what breaks that trust becomes an error that names the place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from crowdwise.errors import CrowdwiseError, InputError
from crowdwise.io.source import Source

__all__ = ["trusted"]


@contextmanager
def trusted(source: Source, name: str) -> Iterator[None]:
    """Turn the errors of a record of another shape into one that names it."""
    try:
        yield
    except CrowdwiseError:
        raise
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, OverflowError, StopIteration, RuntimeError) as error:
        raise InputError(
            f"{source.last_place}: recognised as {name}, but this record is not shaped like it; "
            "export it again, or name another format with format=... or --format"
        ) from error
