"""``init="moments"``: a start of EM and variational Bayes that does not need a trustworthy majority.

Four starts: `cnmf` (pairs, full confusion matrices), `spectral-ds` (third moments), `pgd` (one accuracy
per annotator, for thin designs) and vote shares. From the posterior of each a few Dawid-Skene EM steps
are run; the method then continues from all four and keeps the highest bound, so that it never ends below
the bound of the vote's start. ``restarts`` above four adds random starts.

Classes are named by the head count of `crowdwise.engines.permutation`: the bound does not change when
classes are renamed, so EM cannot mend a start in which consistent adversaries named them. Gold labels, a
history of annotators or given class shares name classes themselves; the head count is left out then.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.engines.loop import Fit, alternate
from crowdwise.engines.moments import Cooccurrence
from crowdwise.engines.permutation import name_classes
from crowdwise.errors import DataWarning
from crowdwise.kernels.numerics import log_floored
from crowdwise.kernels.types import Floats
from crowdwise.parts.annotators.model import Confusion, infer_by_table, row_smoothing

if TYPE_CHECKING:
    from crowdwise.estimator.aggregator import Problem

__all__ = ["moment_starts"]


_STEPS = 10


def moment_starts(problem: Problem) -> list[Floats]:
    """Posteriors [N, K] of the candidates, best first, their classes named by most informative annotators."""
    from crowdwise.methods.labels.cnmf import CNMF
    from crowdwise.methods.labels.pgd import PGD
    from crowdwise.methods.labels.spectral_ds import SpectralDS

    votes = problem.votes
    starts = [problem.shares]
    with warnings.catch_warnings():
        # Where meetings are too few, a method starts from vote shares like the first candidate.
        warnings.simplefilter("ignore", DataWarning)
        starts += [method.solve(problem).posterior for method in (CNMF(polish=0), SpectralDS(polish=0), PGD(polish=0))]
    pseudo = row_smoothing(votes, 1 / votes.n_classes)
    if problem.history is not None:
        pseudo = pseudo + problem.history
    empty = Confusion.start(pseudo, votes.n_annotators)

    def run(start: Floats) -> Fit:
        return alternate(votes, problem.marginals(), empty, start=start, known=problem.known, max_iter=_STEPS, tol=1e-12)

    runs = sorted((run(start) for start in starts), key=lambda done: -done.bound)
    named_already = (problem.known >= 0).any() or problem.history is not None or _tells_classes_apart(problem.class_prior)
    if named_already or votes.n_classes == 1:
        return [done.posterior for done in runs]
    moments = Cooccurrence.of(votes)
    return [_renamed(problem, moments, done) for done in runs]


def _tells_classes_apart(class_prior: Floats | None) -> bool:
    return class_prior is not None and float(np.ptp(class_prior)) > 1e-9


def _renamed(problem: Problem, moments: Cooccurrence, best: Fit) -> Floats:
    """The posterior after a head count of the annotators about the names of the classes."""
    votes = problem.votes
    seen = moments.count_al.sum(axis=1) > 0
    table, shares = name_classes(
        best.annotators.pi_alk, best.prior.probability, votes, problem.known, problem.shares, moments.component, seen
    )
    posterior = best.posterior.copy()
    infer_by_table(votes, table, log_floored(shares)[None], problem.known, posterior)
    return posterior
