"""What listens to a training: a record after every epoch, and the right to ask for its end.

A callback is any object with `on_epoch_end(record)`, whose answer True asks training to stop; `on_fit_begin()` and
`on_fit_end()` are called where it has them. It sees what happened and changes nothing: a fit with callbacks that do not stop
it ends in the same bits as one without. In several processes the first one calls them.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any, TextIO

from crowdwise.errors import MissingExtraError, SettingError

__all__ = ["CSVLog", "EpochRecord", "ProgressBar", "TensorBoardLog", "checked_callbacks", "listening"]


@dataclass(frozen=True)
class EpochRecord:
    """An epoch that is over.

    Attributes
    ----------
    stage : str
        "training", or "refit" for the training on all items that follows early stopping.
    member : int
        Which network of an ensemble, from 0.
    epoch, step : int
        Epochs and steps of the stage so far.
    loss : float
        Mean loss of the epoch's batches.
    held_out, judged : float or None
        Minus the log-likelihood per held-out vote, of the whole model and of the classifier alone; None without any.
    best_epoch : int or None
        The epoch that would be kept now, from 1; None in a warm-up, whose epochs are not judged.
    learning_rate : float
        Rate of the network at the end of the epoch.
    seconds : float
        Since the stage began; the one value that differs from run to run.
    """

    stage: str
    member: int
    epoch: int
    step: int
    loss: float
    held_out: float | None
    judged: float | None
    best_epoch: int | None
    learning_rate: float
    seconds: float


def checked_callbacks(given: Any) -> tuple[Any, ...]:
    """The callbacks of a setting: none, one, or several."""
    several = () if given is None else tuple(given) if isinstance(given, Sequence) else (given,)
    for callback in several:
        if isinstance(callback, type) or not callable(getattr(callback, "on_epoch_end", None)):
            raise SettingError(f"callbacks must have a method on_epoch_end(record); got {callback!r:.60}")
    return several


@contextmanager
def listening(callbacks: Sequence[Any]) -> Iterator[None]:
    """Begin and end callbacks around a fit, also where it fails."""
    begun = []
    try:
        for callback in callbacks:
            begun.append(callback)
            getattr(callback, "on_fit_begin", lambda: None)()
        yield
    finally:
        for callback in reversed(begun):
            getattr(callback, "on_fit_end", lambda: None)()


class CSVLog:
    """A line per epoch in a CSV file, which a new fit replaces; every line is written whole before the next epoch."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = path
        self._file: TextIO | None = None

    def on_fit_begin(self) -> None:
        """Open the file and write the names of the columns."""
        self._file = Path(self.path).open("w", newline="", encoding="utf-8")  # noqa: SIM115  (open for as long as the fit)
        self._write([field.name for field in fields(EpochRecord)])

    def on_epoch_end(self, record: EpochRecord) -> None:
        """Write a line."""
        self._write(["" if value is None else value for value in vars(record).values()])

    def on_fit_end(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, values: list[Any]) -> None:
        assert self._file is not None
        csv.writer(self._file).writerow(values)
        self._file.flush()


class TensorBoardLog:
    """Losses, held-out scores and rates for TensorBoard, in a folder; needs the package tensorboard."""

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.folder = folder
        self._writer: Any = None

    def on_fit_begin(self) -> None:
        """Open a writer."""
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as problem:
            raise MissingExtraError("TensorBoardLog needs the package tensorboard: pip install tensorboard") from problem
        self._writer = SummaryWriter(str(self.folder))

    def on_epoch_end(self, record: EpochRecord) -> None:
        """Write the numbers of the epoch."""
        place = f"{record.stage}/{record.member}"
        for name in ("loss", "held_out", "judged", "learning_rate"):
            if getattr(record, name) is not None:
                self._writer.add_scalar(f"{place}/{name}", getattr(record, name), record.epoch)

    def on_fit_end(self) -> None:
        """Close the writer."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class ProgressBar:
    """A line on the standard error stream that moves with the epochs: what ``verbose=True`` shows."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None

    def on_fit_begin(self) -> None:
        """Show the line."""
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        # Output of the program may be a result: it is left alone.
        self._bar = Progress(*columns, console=Console(stderr=True), redirect_stdout=False)
        self._task = self._bar.add_task("training", total=None)
        self._bar.start()

    def on_epoch_end(self, record: EpochRecord) -> None:
        """Move the line."""
        best = "warming up" if record.best_epoch is None else f"best epoch {record.best_epoch}"
        judged = "" if record.judged is None else f", held-out {record.judged:.4f}, {best}"
        self._bar.update(self._task, description=f"{record.stage}: epoch {record.epoch}, loss {record.loss:.4f}{judged}")

    def on_fit_end(self) -> None:
        """Leave the last line."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
