"""A Gaussian process of the features, with biases and noise of annotators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from crowdwise.data.ratings import Ratings
from crowdwise.data.storable import storable
from crowdwise.engines.loop import Progress, Run
from crowdwise.errors import InputError
from crowdwise.estimator.estimator import random_state_setting, seed_of, setting
from crowdwise.estimator.storage import members_of, value_of
from crowdwise.kernels.types import Floats
from crowdwise.methods.ratings.base import ABOUT_TOL, FeatureRatingMethod, Found, iterate
from crowdwise.methods.ratings.features import checked_features
from crowdwise.methods.ratings.finish import point_estimates
from crowdwise.methods.ratings.gaussian import Items, annotator_prior, relative_noise, update_annotators
from crowdwise.methods.ratings.problem import Problem
from crowdwise.methods.ratings.sparse_process import Kernel, Process, inducing_rows

__all__ = ["GPCrowdRegression"]

# Sparse columns are filled up, and distances over more of them take minutes and tell rows apart poorly.
_MOST_SPARSE = 2_000


@dataclass(frozen=True, eq=False)
class _State:
    """Annotators as points, and per dimension a kernel, the spread of items around f, and the process."""

    bias: Floats
    tau: Floats
    noise: Floats
    kernels: list[Kernel]
    own: Floats
    processes: list[Process]
    items: Items
    score: float


@storable
@dataclass(frozen=True, eq=False)
class ProcessRegression:
    """What predicts values from features: a process per dimension, and the units of rows and values.

    Attributes
    ----------
    processes : tuple of Process
    row_centre, row_scale : [F]
        Mean and standard deviation of the features.
    shift, own : [D]
        What estimates are moved by, and the variance of items around their process; in units of `spread`.
    centre, spread : [D]
        Mean and standard deviation of the values.
    """

    processes: tuple[Process, ...]
    row_centre: Floats
    row_scale: Floats
    shift: Floats
    own: Floats
    centre: Floats
    spread: Floats

    def sound(self) -> bool:
        """Whether saved arrays agree with each other: predict one row."""
        return self.predict(self.row_centre[None])[0].shape == (1, len(self.processes))

    def predict(self, rows: Floats) -> tuple[Floats, Floats]:
        """Values of rows, and their standard deviations, [N, D] each."""
        found = [process.at((rows - self.row_centre) / self.row_scale) for process in self.processes]
        mean = np.stack([part[0] for part in found], axis=1) + self.shift
        sd = np.sqrt(np.stack([part[1] for part in found], axis=1) + self.own)
        return mean * self.spread + self.centre, sd * self.spread


@dataclass(eq=False, repr=False, kw_only=True)
class GPCrowdRegression(FeatureRatingMethod):
    """Values and features: a Gaussian process for what features tell, a bias and a noise variance per annotator.

    f is a Gaussian process of the features; z_n ~ N(f(x_n), s); a value of annotator a is z_n + b_a plus noise of precision
    tau_a. All is Gaussian, so f and z are summed out in closed form, f by inducing points; kernel and s maximise the bound,
    and annotators follow by EM as in `gaussian-crowd`. Items with values get estimates from features and values together,
    others from features.

    References
    ----------
    Titsias (2009), Variational learning of inducing variables in sparse Gaussian processes; Groot, Birlutiu and Heskes (2011),
    Learning from multiple annotators with Gaussian processes.
    """

    kernel: str = setting("rbf", "How features tell rows apart: by distance, or linearly.", choices=("rbf", "linear"))
    inducing: int = setting(100, "Inducing points at most.", low=1, whole=True)
    standardise: bool = setting(True, "Bring every feature to mean 0 and variance 1.")
    shrinkage: float = setting(1.0, "Biases shrink as if an annotator had given so many answers without one.", above=0)
    strength: float = setting(0.1, "Prior of the precisions: counts as twice as many answers of the overall variance.", above=0)
    shared: bool = setting(True, "One precision of an annotator for all dimensions, else one for each.")
    level: str = setting(
        "values", "Mean bias 0 over values or annotators, without known values.", choices=("values", "annotators")
    )
    tol: float = setting(1e-5, ABOUT_TOL, above=0)
    max_iter: int = setting(100, "Rounds at most.", low=1, whole=True)
    random_state: int | None = random_state_setting("Seed of the inducing points.")

    name: ClassVar[str] = "gp-crowd-regression"

    def _checked_rows(self, X: Any, n_features: int | None = None) -> Floats:
        rows = checked_features(X, n_features)
        if not hasattr(rows, "todense"):
            return np.asarray(rows)
        if rows.shape[1] > _MOST_SPARSE:
            raise InputError(
                f"{rows.shape[1]:,} sparse columns: a Gaussian process goes by distances between rows, and takes up to "
                f"{_MOST_SPARSE:,} of them; give it sklearn.decomposition.TruncatedSVD(100).fit_transform(X), or take "
                "crowd-layer-regression"
            )
        return np.asarray(rows.todense(), np.float64)

    def _fit_rows(self, rows: Floats, ratings: Ratings, known: Floats, progress: Progress | None) -> tuple[Found, Run[Any]]:
        centre = rows.mean(axis=0) if self.standardise else np.zeros(rows.shape[1])
        scale = np.maximum(rows.std(axis=0), 1e-12) if self.standardise else np.ones(rows.shape[1])
        rows = (rows - centre) / scale
        problem = Problem.of(ratings, known, correct=True)
        self._points = inducing_rows(rows, self.inducing, seed_of(self.random_state))
        run = iterate(
            self._start(problem, rows),
            lambda state: self._step(problem, rows, state),
            lambda state: state.score,
            tol=self.tol,
            max_iter=self.max_iter,
            progress=progress,
        )
        state = run.state
        del self._points
        signal = float(sum(kernel.diagonal(rows).mean() for kernel in state.kernels) + state.own.sum())
        points = state.tau, state.noise, state.bias
        found = point_estimates(problem, state.items, *points, level=self.level, signal=signal, **self._prior())
        # The level of the biases was fixed after the fit; predictions move with it.
        seen = problem.is_known
        moved = (found["estimate"] - problem.centre) / problem.spread - state.items.mean
        share = problem.count / problem.count.sum()
        held = 0.0 if seen.any() else float((share**2).sum())
        self.model_ = ProcessRegression(
            tuple(state.processes),
            centre,
            scale,
            moved[~seen].mean(axis=0) if (~seen).any() else np.zeros(problem.n_dimensions),
            state.own + held * (state.bias**2).mean(axis=0),
            problem.centre,
            problem.spread,
        )
        return found, run

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Values of new items by their features, [N, D]; with `return_std`, their standard deviations as well."""
        rows = self._checked_rows(X, self._kept("n_features_in_"))
        estimate, sd = self.model_.predict(rows)
        return (estimate, sd) if return_std else estimate

    def _members(self) -> dict[str, bytes]:
        return members_of(self.model_, "model")

    def _restore(self, outcome: Any, members: Mapping[str, bytes], network: Any = None) -> None:
        super()._restore(outcome, members, network)
        self.model_ = value_of(members, "model")
        self.n_features_in_ = len(self.model_.row_centre)

    def _prior(self) -> dict[str, Any]:
        return {"shrinkage": self.shrinkage, "strength": self.strength, "shared": self.shared}

    def _start(self, problem: Problem, rows: Floats) -> _State:
        shape = (problem.n_annotators, problem.n_dimensions)
        noise, d = problem.noise(), problem.n_dimensions
        relative = relative_noise(noise) if self.shared else np.ones(d)
        length = np.sqrt(rows.shape[1]) if self.kernel == "rbf" else 1.0
        kernels = [Kernel(self.kernel, 0.5, float(length)) for _ in range(d)]
        tau = np.broadcast_to(relative / noise, shape)
        return self._infer(problem, rows, np.zeros(shape), tau, relative, kernels, np.full(d, 0.2))

    def _step(self, problem: Problem, rows: Floats, state: _State) -> _State:
        bias, tau, noise = update_annotators(problem, state.items, state.noise, **self._prior())
        if not problem.is_known.any():
            # What items and biases could both carry goes where the biases' prior likes it best; the mean of f follows.
            weight = tau / noise
            bias = bias - (weight * bias).sum(axis=0) / weight.sum(axis=0)
        return self._infer(problem, rows, bias, tau, noise, state.kernels, state.own)

    def _infer(
        self,
        problem: Problem,
        rows: Floats,
        bias: Floats,
        tau: Floats,
        noise: Floats,
        kernels: list[Kernel],
        own: Floats,
    ) -> _State:
        """Posterior of f and of the items, with the kernel that suits best."""
        precision = problem.weight[:, None] * (tau / noise)[problem.annotator]
        total = problem.by_item(precision)
        shifted = problem.by_item(precision * (problem.value - bias[problem.annotator]))
        summed = shifted / np.where(total > 0, total, 1.0)
        score = annotator_prior(tau, noise, bias, **self._prior())
        mean, variance = np.zeros(total.shape), np.zeros(total.shape)
        prior_mean, prior_variance = np.zeros(total.shape), np.zeros(total.shape)
        found, made, spreads = [], [], np.array(own)
        for d in range(problem.n_dimensions):
            known = problem.is_known
            seen = known | (total[:, d] > 0)
            target = np.where(known, problem.known[:, d], summed[:, d])
            measured = np.where(known, 0.0, 1 / np.maximum(total[:, d], 1e-300))
            kernel, spreads[d], process = _best_process(
                kernels[d], own[d], self._points, rows[seen], target[seen], measured[seen]
            )
            score += process.bound + _within_items(problem, d, precision[:, d], bias, total[:, d], summed[:, d])
            f, f_variance = process.at(rows)
            weight = np.where(known, 0.0, total[:, d])
            z_variance = 1 / (1 / spreads[d] + weight)
            mean[:, d] = np.where(known, problem.known[:, d], z_variance * (f / spreads[d] + weight * target))
            variance[:, d] = np.where(known, 0.0, z_variance + (z_variance / spreads[d]) ** 2 * f_variance)
            # What features and all other items say of this one: its posterior without its own answers.
            cavity = 1 / np.maximum(1 / np.maximum(variance[:, d], 1e-12) - weight, 1e-9)
            prior_variance[:, d] = np.where(known, spreads[d], cavity)
            prior_mean[:, d] = np.where(
                known, f, prior_variance[:, d] * (mean[:, d] / np.maximum(variance[:, d], 1e-12) - weight * target)
            )
            found.append(process)
            made.append(kernel)
        items = Items(mean, variance, prior_mean, prior_variance)
        return _State(bias, tau, noise, made, spreads, found, items, float(score))


def _within_items(problem: Problem, d: int, precision: Floats, bias: Floats, total: Floats, summed: Floats) -> float:
    """Log-probability of answers beyond that of their weighted mean, which the process explains."""
    off = problem.value[:, d] - bias[problem.annotator, d]
    each = precision / np.where(problem.weight > 0, problem.weight, 1.0)
    log_lik = 0.5 * (problem.weight * np.log(np.maximum(each, 1e-300) / (2 * np.pi))).sum()
    known = problem.is_known
    log_lik -= 0.5 * (precision * (off - np.where(known, problem.known[:, d], summed)[problem.item]) ** 2).sum()
    free = (total > 0) & ~known
    return float(log_lik + 0.5 * np.log(2 * np.pi / total[free]).sum())


def _best_process(
    kernel: Kernel, own: float, points: Floats, rows: Floats, target: Floats, measured: Floats
) -> tuple[Kernel, float, Process]:
    """Kernel and spread of items around f that raise the bound, a few steps from where they are."""
    from scipy.optimize import minimize

    def made(settings: Floats) -> tuple[Kernel, float, Process]:
        variance, length, spread = np.exp(np.clip(settings, -12, 12))
        new = replace(kernel, variance=float(variance), length=float(length))
        noise = measured + spread
        # The mean of f is that of the targets, by their precision: flat and without a step of its own.
        return new, float(spread), Process.of(new, points, rows, target, noise, float(np.average(target, weights=1 / noise)))

    now = np.log([kernel.variance, kernel.length, own])
    found = minimize(
        lambda s: -made(s)[2].bound, now, method="L-BFGS-B", bounds=[(-8, 4), (-6, 6), (-8, 2)], options={"maxiter": 15}
    )
    better = made(found.x)
    before = made(now)
    return better if better[2].bound >= before[2].bound else before
