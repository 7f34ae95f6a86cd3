"""The shell of methods for ratings: check, fit, keep one `Estimates`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from crowdwise.data.ratings import Ratings
from crowdwise.engines.loop import Round, Run, loop, warn_unless_converged
from crowdwise.errors import InputError
from crowdwise.estimator.estimator import Estimator
from crowdwise.kernels.types import Floats
from crowdwise.methods.ratings.coverage import NoiseOf, covering
from crowdwise.methods.ratings.features import aligned
from crowdwise.methods.ratings.result import Estimates

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Never, Self

    from crowdwise.engines.loop import Progress

__all__ = ["ABOUT_TOL", "DIRECT", "FeatureRatingMethod", "Found", "RatingMethod", "as_ratings", "iterate"]


#: Fields of an `Estimates`, by name.
Found = dict[str, Any]
#: The run of a method that computes its estimates at once.
DIRECT: Run[Any] = Run(None, (), True)
# Estimates have no probabilities: a hundredth of their mean move, in units of the overall spread, means about as much.
_MOVED = 0.01
ABOUT_TOL = (
    "Stop when a hundredth of how far estimates are still to move, estimated, in the mean and in units of the overall spread, "
    "and the relative change of the bound are at most this."
)


class _Shell(Estimator):
    """What every fitted method for ratings can be asked."""

    def _fitted(self) -> Estimates:
        found: Estimates = super()._fitted()
        return found

    @property
    def estimate_(self) -> Floats:
        """The estimates, [N, D]."""
        return self._fitted().estimate

    def _keep(self, ratings: Ratings, found: Found, run: Run[Any]) -> None:
        self.result_ = Estimates(
            method=self.name,
            settings=self.get_params(),
            votes=ratings,
            trace=run.trace,
            n_iter=run.n_iter,
            converged=run.converged,
            **{name: part for name, part in found.items() if name != "from_noise"},
        )


@dataclass(eq=False, repr=False, kw_only=True)
class RatingMethod(_Shell):
    """Base of methods that estimate numbers from ratings alone; a method defines `_fit`.

    Intervals are widened by what the answers, held-out annotators and known values show (`crowdwise.methods.ratings.coverage`).
    """

    #: What has a noise of its own.
    noise_is: ClassVar[NoiseOf] = "of annotators"

    def fit(
        self,
        data: Any,
        gold: Any = None,
        *,
        history: Any = None,
        progress: Progress | None = None,
        engine: Any = None,
        **other: Never,
    ) -> Self:
        """Estimate the value of every item.

        Parameters
        ----------
        data : Ratings or frame
            A frame has the columns item, annotator and value.
        gold : mapping or frame, optional
            Known values of some items, ``{item: value}``; see `Ratings.known`. They are kept as they are, and tell how
            annotators are off.
        history, engine
            No method of ratings takes these yet.
        progress : callable, optional
            Called after every iteration with (iteration, objective, change).
        """
        self._check_fit(other, gold=gold, history=history, engine=engine)
        ratings = as_ratings(data)
        known = ratings.known(gold)
        found, run = self._fit(ratings, known, progress)

        def refit(part: Ratings, known: Floats) -> Found:
            return self._fit(part, known, None)[0]

        self._keep(ratings, covering(found, ratings, known, refit, noise_is=self.noise_is), run)
        return self

    def _fit(self, ratings: Ratings, known: Floats, progress: Progress | None) -> tuple[Found, Run[Any]]:
        raise NotImplementedError


@dataclass(eq=False, repr=False, kw_only=True)
class FeatureRatingMethod(_Shell):
    """Base of methods that estimate numbers from features and ratings; a method defines `_checked_rows` and `_fit_rows`."""

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        items: Any = None,
        gold: Any = None,
        progress: Progress | None = None,
        engine: Any = None,
        **other: Never,
    ) -> Self:
        """Fit to features and ratings.

        Parameters
        ----------
        X : [N, F]
            A row of features per item: an array or a sparse matrix.
        y : Ratings or frame
            The answers.
        items : sequence, optional
            Ids of the rows; without them rows are in the order of the answers' items.
        gold : mapping or frame, optional
            Known values of some items.
        progress : callable, optional
            Called after every iteration or epoch with (number, objective, change).
        engine
            No method of ratings takes one yet.
        """
        self._check_fit(other, gold=gold, engine=engine)
        ratings, rows = as_ratings(y), self._checked_rows(X)
        ratings = aligned(ratings, rows.shape[0], items)
        self.n_features_in_ = int(rows.shape[1])
        self._keep(ratings, *self._fit_rows(rows, ratings, ratings.known(gold), progress))
        return self

    def _checked_rows(self, X: Any, n_features: int | None = None) -> Any:
        raise NotImplementedError

    def _fit_rows(self, rows: Any, ratings: Ratings, known: Floats, progress: Progress | None) -> tuple[Found, Run[Any]]:
        raise NotImplementedError


def as_ratings(data: Any) -> Ratings:
    """Ratings, or a frame of them; refused where there are none."""
    ratings = Ratings.from_frame(data) if hasattr(data, "columns") or isinstance(data, dict) else data
    if not isinstance(ratings, Ratings):
        raise InputError(
            f"expected Ratings or a frame, got {type(data).__name__}; "
            "build them with Ratings.from_arrays or crowdwise.read(path, Ratings)"
        )
    if not ratings.n_votes or not ratings.weights.sum() > 0:
        raise InputError("there are no values to learn from; every value is missing or has weight 0")
    return ratings


def iterate(
    state: Any,
    step: Callable[[Any], Any],
    score: Callable[[Any], float],
    *,
    tol: float,
    max_iter: int,
    progress: Progress | None,
) -> Run[Any]:
    """Run the loop on states that hold `items`, and warn where it stops early."""

    def moved(before: Any) -> tuple[Any, Round]:
        after = step(before)
        change = _MOVED * float(np.abs(after.items.mean - before.items.mean).mean()) if after.items.mean.size else 0.0
        return after, Round(change, {"objective": score(after)})

    return warn_unless_converged(loop(moved, state, max_iter=max_iter, tol=tol, progress=progress))
