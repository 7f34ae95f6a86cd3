"""Confusion matrices as small multiples, one panel per annotator (needs matplotlib: the extra "report")."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.errors import InputError, MissingExtraError
from crowdwise.io.atomic import replacing

if TYPE_CHECKING:
    from os import PathLike

    from crowdwise.estimator.result import Result

__all__ = ["SUFFIXES", "plot_confusions"]

SUFFIXES = (".png", ".pdf", ".svg")


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
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as problem:
        raise MissingExtraError('plots need matplotlib: pip install "crowdwise[report]"') from problem
    if not str(path).lower().endswith(SUFFIXES):
        raise InputError(f"{path}: a plot ends in {', '.join(SUFFIXES)}")
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
    figure = Figure(figsize=(2.2 * columns + 0.6, 2.3 * rows + 0.6), layout="constrained")
    FigureCanvasAgg(figure)
    panels = np.atleast_1d(figure.subplots(rows, columns, squeeze=False)).ravel()
    # Dollar signs would start a formula.
    names = [str(name).replace("$", r"\$") for name in votes.classes]
    few = votes.n_classes <= 12
    image = None
    for panel, a in zip(panels, chosen, strict=False):
        image = panel.imshow(result.confusion[a], vmin=0, vmax=1, cmap="Blues")
        title = str(votes.annotators[a]).replace("$", r"\$")
        panel.set_title(f"{title} ({votes.votes_per_annotator[a]} votes)", fontsize=8)
        panel.set_xticks(range(votes.n_classes) if few else [], names if few else [], fontsize=6, rotation=90)
        panel.set_yticks(range(votes.n_classes) if few else [], names if few else [], fontsize=6)
    for panel in panels[len(chosen) :]:
        panel.set_axis_off()
    figure.supxlabel("label given", fontsize=9)
    figure.supylabel("true class", fontsize=9)
    if image is not None:
        figure.colorbar(image, ax=list(panels), shrink=0.6, label="probability")
    with replacing(path) as partial:
        figure.savefig(partial, dpi=110)
    return len(chosen)
