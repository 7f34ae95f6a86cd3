"""Dawid-Skene on a graph: labels of neighbours are alike, a confusion matrix per annotator, the coupling learned.

Model      p(z) proportional to prod_n d[z_n] exp(coupling sum over edges (n, m) of w_nm 1[z_n = z_m])     (a Potts field)
           P(annotator a says l | z_n = k) = pi_akl
Stage 1    dawid-skene, without edges
Test       are neighbours more alike than any two items? If not, coupling = 0 and stage 1 is the result
E-step     a sweep of beliefs, or of mean field: q_n proportional to d exp(sum of log pi of the votes + coupling sum_m w_nm q_m)
M-step     pi as in dawid-skene; coupling and d by the pseudo-likelihood of the votes, sum_n log p(votes on n | all other votes)

Symbols
-------
pi_akl : [A, K, L]   P(observed l | true k)
q_nk : [N, K]        posterior of the true class
x_n : [K]            q_n of stage 1 less its mean over items

Notes
-----
Besag (1986) learns the coupling from a labelling that was itself smoothed with the coupling, which then confirms itself. Here
every item is predicted from its neighbours as they would be without it (their cavities), and what is predicted are its
votes: the derivative has mean zero at the true coupling, and edges that mean nothing leave none.

The test is a score test of coupling = 0: z = sum over edges of w x_n . x_m, divided by its standard deviation if labels did not
depend on edges. By the information criterion of Schwarz (1978), one more parameter has to be worth z^2 > log N.

Neighbours that the same annotators labelled one after another may agree for that reason alone; a graph of who labelled
what together is no graph of labels. Cost per iteration: O(E K) of votes plus O(edges K).

References
----------
Besag (1986), Journal of the Royal Statistical Society B 48(3), 259-302, for the field and its pseudo-likelihood; Dawid and
Skene (1979) for annotators; Yedidia, Freeman and Weiss (2003) for beliefs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from crowdwise.data.edges import Edges
from crowdwise.engines.loop import Fit, alternate, warn_unless_converged
from crowdwise.engines.potts import INFERENCES, STRONGEST, couple
from crowdwise.errors import SettingError
from crowdwise.estimator.aggregator import Problem, as_annotations
from crowdwise.estimator.carry import positions
from crowdwise.estimator.estimator import announce, setting
from crowdwise.kernels.potts import Neighbours, association
from crowdwise.kernels.types import Floats
from crowdwise.methods.labels.dawid_skene import ABOUT_SMOOTHING, IterativeAggregator, smoothed_confusion, start_posteriors
from crowdwise.parts.annotators.model import predictive
from crowdwise.parts.priors.potts import PottsField

__all__ = ["GraphDawidSkene"]


@dataclass(eq=False, repr=False, kw_only=True)
class GraphDawidSkene(IterativeAggregator):
    """Dawid-Skene whose items depend on each other along given edges; the strength of that is learned.

    Examples
    --------
    >>> from crowdwise import Annotations
    >>> votes = Annotations.from_arrays([1, 1, 2, 2, 3, 3], ["x", "y"] * 3, ["a", "a", "a", "b", "a", "a"])
    >>> GraphDawidSkene(edges=[(1, 2), (2, 3)], coupling=2).fit(votes).labels_.tolist()
    ['a', 'a', 'a']
    """

    edges: Any = setting(
        None,
        "Which items depend on each other: pairs of item ids, a table (source, target, weight), or Edges; see nearest_edges.",
        free=True,
    )
    coupling: Any = setting(
        "learned",
        'Log-odds that an edge of weight one adds to the class of the neighbour: "learned", or a number.',
        choices=("learned",),
        free=True,
    )
    inference: str = setting(
        "bp",
        'How labels are inferred: "bp", messages along the edges, or "mean-field", a little faster and less accurate.',
        choices=INFERENCES,
    )
    smoothing: float | None = setting(None, ABOUT_SMOOTHING, low=0, optional=True)

    name: ClassVar[str] = "graph-dawid-skene"

    def _fit(self, problem: Problem) -> Fit:
        given = self._given_coupling()
        if self.edges is None:
            raise SettingError(
                "graph-dawid-skene needs the edges between items: GraphDawidSkene(edges=[('a', 'b'), ...]), "
                "or --edges edges.csv; without any, use dawid-skene"
            )
        if not problem.in_memory:
            return self._over_shards(problem, given)
        votes = problem.votes
        graph = Neighbours.of(votes.n_items, *Edges.of(self.edges).between(votes.items))
        options: dict[str, Any] = {"max_iter": self.max_iter, "tol": self.tol, "progress": problem.progress}
        alone = self._alone(problem, options)
        found = association(graph, alone.posterior)
        if _wanted(given, found, votes.n_items) and graph.n_edges:
            beliefs = self.inference == "bp"
            done = couple(alone, votes, problem.known, graph, coupling=given, association=found, beliefs=beliefs, **options)
            # Where many edges are wrong, a coupling may draw all items to one class, and then predicts votes worse than none.
            if given is not None or done.bound >= alone.bound:
                return warn_unless_converged(done)
        flat = np.repeat(alone.prior.log_prob(), votes.n_items, axis=0)
        return warn_unless_converged(replace(alone, prior=PottsField(flat, alone.prior, 0.0, found)))

    def _over_shards(self, problem: Problem, given: float | None) -> Fit:
        """The same over shards that are cut along connected components."""
        from crowdwise.engines.potts_shards import associate, couple_over, leave_alone, prepare

        shards, crowd = problem.shards, problem.crowd
        graphs = prepare(shards)
        size = f"{graphs.most_items:,} items and {graphs.most_edges:,} edges"
        advice = f"the largest shard has {size}, and connected items cannot be cut: leave out edges, or take more shards"
        announce(self.name, operations=0, memory=8.0 * graphs.numbers_per_class * crowd.n_classes, advice=advice)
        alone = self.alternate(problem, problem.marginals(), smoothed_confusion(problem, self.smoothing))
        found, mean_square = associate(shards, graphs)
        if _wanted(given, found, crowd.n_items) and graphs.n_edges:
            options: dict[str, Any] = {"max_iter": self.max_iter, "tol": self.tol, "progress": problem.progress}
            options |= {"coupling": given, "association": found, "beliefs": self.inference == "bp"}
            done = couple_over(shards, alone, weights=(mean_square, graphs.largest_weight), **options)
            if given is not None or done.bound >= alone.bound:
                return warn_unless_converged(done)
        return leave_alone(shards, alone, found)

    def _alone(self, problem: Problem, options: dict[str, Any]) -> Fit:
        """Stage 1 from the best start; whether it converged matters only where it is the result."""
        prior, annotators = problem.marginals(), smoothed_confusion(problem, self.smoothing)
        starts = start_posteriors(problem, self.init, self.restarts)
        fits = (alternate(problem.votes, prior, annotators, start=start, known=problem.known, **options) for start in starts)
        return max(fits, key=lambda done: done.bound)

    def _given_coupling(self) -> float | None:
        """The setting `coupling`; None where it is learned."""
        if isinstance(self.coupling, str):
            return None
        number = isinstance(self.coupling, Real) and not isinstance(self.coupling, bool)
        if not number or not 0 <= float(self.coupling) <= STRONGEST:
            raise SettingError(f'coupling must be "learned" or a number from 0 to {STRONGEST:g}; got {self.coupling!r}')
        return float(self.coupling)

    def summary_fields(self, done: Fit, history: Floats | None) -> dict[str, Any]:
        """As of every method; edges of any shape are kept as `Edges`, which can be saved."""
        found = super().summary_fields(done, history)
        return found | {"settings": found["settings"] | {"edges": Edges.of(self.edges)}}

    def _infer(self, votes: Any, predict: bool = False) -> tuple[Floats, float, float]:
        """As in every method. Items of the fit have the neighbours that they had there; others have none."""
        result = self._fitted()
        votes = as_annotations(votes).with_classes(result.votes.classes.tolist())
        what = positions(votes.items, result.votes.items)
        annotators = result.annotators.aligned(positions(votes.annotators, result.votes.annotators), what)
        posterior = np.zeros((votes.n_items, votes.n_classes))
        model = predictive(annotators) if predict else annotators
        evidence, _ = model.infer(votes, result.prior.aligned(what), np.empty(0, np.int16), posterior)
        return posterior, evidence, votes.total_weight

    @property
    def coupling_(self) -> float:
        """Log-odds that an edge of weight one adds to the class of the neighbour; 0 where edges say nothing."""
        return float(self._outcome().prior.coupling)

    @property
    def association_(self) -> float:
        """Standard deviations by which neighbours are more alike than any two items, without any coupling."""
        return float(self._outcome().prior.association)


def _wanted(given: float | None, association: float, n_items: int) -> bool:
    """Whether items are to be coupled: as given, or because neighbours are alike enough."""
    return association > math.sqrt(math.log(max(n_items, 1))) if given is None else given > 0
