"""A figure that becomes a file, whole or not at all (needs matplotlib: the extra "report")."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from typing import Any

from crowdwise.errors import InputError, MissingExtraError
from crowdwise.io.writer import replacing

__all__ = ["SUFFIXES", "figure_file"]

SUFFIXES = (".png", ".pdf", ".svg")


@contextmanager
def figure_file(path: str | PathLike[str], size: tuple[float, float], dpi: int = 110) -> Iterator[Any]:
    """A new matplotlib figure to draw on, which is written when the block ends without an error."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as problem:
        raise MissingExtraError('plots need matplotlib: pip install "crowdwise[report]"') from problem
    if not str(path).lower().endswith(SUFFIXES):
        raise InputError(f"{path}: a plot ends in {', '.join(SUFFIXES)}")
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    yield figure
    with replacing(path) as partial:
        figure.savefig(partial, dpi=dpi, format=str(path).rpartition(".")[2].lower())
