"""Confusion matrices as small multiples, one panel per annotator (needs matplotlib: the extra "report")."""

from __future__ import annotations

import math
from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np

from crowdwise.errors import InputError
from crowdwise.estimator.outcome import Result
from crowdwise.report.plot.axes import label_of
from crowdwise.report.plot.figure_file import figure_file

__all__ = ["plot_confusions"]


def plot_confusions(
    result: Result, path: str | PathLike[str], *, annotators: Sequence[Any] | None = None, most: int = 60
) -> int:
    """Draw P(label | true class) of annotators into a file, whole or not at all; return how many.

    Parameters
    ----------
    annotators : sequence, optional
        Whom to draw, in this order; by default those with most votes.
    most : int
        Panels at most: beyond some dozens nothing can be read.
    """
    votes = result.votes
    if annotators is None:
        chosen = np.argsort(-votes.votes_per_annotator, kind="stable")
    else:
        chosen = np.array([votes.positions([name], "annotator")[0] for name in annotators], int)
    chosen = chosen[:most]
    if len(chosen) == 0:
        raise InputError("there is no annotator to draw")
    columns = min(len(chosen), 6)
    rows = math.ceil(len(chosen) / columns)
    with figure_file(path, (2.2 * columns + 0.6, 2.3 * rows + 0.6)) as figure:
        _draw(figure, result, chosen, rows, columns)
    return len(chosen)


def _draw(figure: Any, result: Result, chosen: Any, rows: int, columns: int) -> None:
    votes = result.votes
    panels = np.atleast_1d(figure.subplots(rows, columns, squeeze=False)).ravel()
    names = [label_of(name) for name in votes.classes]
    few = votes.n_classes <= 12
    image = None
    for panel, a in zip(panels, chosen, strict=False):
        image = panel.imshow(result.confusion[a], vmin=0, vmax=1, cmap="Blues")
        panel.set_title(f"{label_of(votes.annotators[a])} ({votes.votes_per_annotator[a]} votes)", fontsize=8)
        panel.set_xticks(range(votes.n_classes) if few else [], names if few else [], fontsize=6, rotation=90)
        panel.set_yticks(range(votes.n_classes) if few else [], names if few else [], fontsize=6)
    for panel in panels[len(chosen) :]:
        panel.set_axis_off()
    figure.supxlabel("label given", fontsize=9)
    figure.supylabel("true class", fontsize=9)
    if image is not None:
        figure.colorbar(image, ax=list(panels), shrink=0.6, label="probability")
