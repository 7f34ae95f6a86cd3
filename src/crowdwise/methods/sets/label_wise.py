"""Label-wise: every label is a yes-no question with sensitivity and specificity per annotator; skill is shared across labels.

Model      logit sensitivity_al = skill_a + ease_l + own_al (Gaussian priors), likewise specificity
           labels of an item: independent with shares pi_l, or with `dependence` a mixture of patterns (see `patterns`)
E-step     exact, for a mixture too: given the pattern labels are independent
M-step     a bound that is exact at the present value (see `skills`); patterns in closed form

Notes
-----
A Dawid-Skene per label learns 2 K numbers of every annotator, each from the few items with that label. Here an annotator who
misses half of the common labels is expected to miss half of the rare ones, too; `own_sd` says how far labels may differ.
Patterns help where labels go together and votes are few. Votes "not k" and answers on shown labels only are taken for what
they say. Cost per iteration: O(answers + chosen labels + items x labels x patterns).

References
----------
Duan, Oyama, Sato and Kurihara (2014), Separate or joint? Estimation of multiple labels from crowdsourced annotations, Expert
Systems with Applications 41(13); Dawid and Skene (1979).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from crowdwise.data.label_sets import LabelSets
from crowdwise.engines.loop import ABOUT_TOL, Round, loop, warn_unless_converged
from crowdwise.errors import InputError, SettingError
from crowdwise.estimator.estimator import Estimator, announce, setting
from crowdwise.estimator.experience import CONFIDENCES
from crowdwise.estimator.judgement import exponent_of
from crowdwise.kernels.types import Array
from crowdwise.methods.sets.believed import cooled, on_its_side
from crowdwise.methods.sets.evidence import Evidence
from crowdwise.methods.sets.patterns import Patterns
from crowdwise.methods.sets.result import InferredSets
from crowdwise.methods.sets.skills import Coin

if TYPE_CHECKING:
    from typing_extensions import Never, Self

    from crowdwise.engines.loop import Progress
    from crowdwise.methods.sets.patterns import Posterior

__all__ = ["LabelWise"]


@dataclass(frozen=True, eq=False)
class _State:
    """Annotators on labels that apply and that do not, the mixture, and the posterior of the items."""

    hit: Coin
    clear: Coin
    patterns: Patterns
    posterior: Posterior


@dataclass(eq=False, repr=False, kw_only=True)
class LabelWise(Estimator):
    """Sets of labels from chosen labels, with annotators' skill shared across labels."""

    dependence: bool = setting(False, "Let labels go together: a mixture of label patterns instead of independent labels.")
    patterns: int | None = setting(
        None,
        "Most patterns of the mixture; by default twice the number of labels, and 20 at most.",
        low=1,
        whole=True,
        optional=True,
    )
    threshold: float = setting(0.5, "Probability from which a label is chosen.", above=0)
    sensitivity: float = setting(0.75, "How often a typical annotator chooses a label that applies.", above=0)
    specificity: float = setting(0.9, "How often a typical annotator leaves out a label that does not apply.", above=0)
    skill_sd: float = setting(1.0, "Spread of skill among annotators, in logits.", above=0)
    label_sd: float = setting(1.0, "Spread of ease among labels, in logits.", above=0)
    own_sd: float = setting(0.5, "How far an annotator's skill on a label differs from its skill in general, in logits.", low=0)
    confidence: str = setting(
        "experience", "What probabilities rest on: experience with real crowds, or the model alone.", choices=CONFIDENCES
    )
    max_iter: int = setting(2000, "Most iterations.", low=1, whole=True)
    tol: float = setting(1e-6, ABOUT_TOL, above=0)

    name: ClassVar[str] = "label-wise"

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
        """Fit to sets of labels.

        Parameters
        ----------
        data : LabelSets or frame
            A frame is one that `LabelSets.from_frame` takes.
        gold, history, engine
            This method takes none of these yet.
        progress : callable, optional
            Called after every iteration with (iteration, bound, mean change).
        """
        self._check_fit(other, gold=gold, history=history, engine=engine)
        for name in ("threshold", "sensitivity", "specificity"):
            if not 0 < getattr(self, name) < 1:
                raise SettingError(f"LabelWise: {name} must lie between 0 and 1; got {getattr(self, name)!r}")
        answers = data if isinstance(data, LabelSets) else LabelSets.from_frame(data)
        if answers.n_labels == 0:
            raise InputError("no label is named in any answer; give all of them with labels=... or --classes")
        evidence = Evidence.of(answers)
        step = partial(self._step, evidence)
        run = loop(step, self._start(answers, evidence), max_iter=self.max_iter, tol=self.tol, progress=progress)
        state = warn_unless_converged(run, stacklevel=3).state
        inferred, lowered, share = state.posterior.label, self.confidence == "experience", state.patterns.probability
        believed = on_its_side(cooled(inferred, evidence.asked(), exponent_of(self.name)), inferred, share)
        self.result_ = InferredSets.of_labels(
            answers,
            self.threshold,
            inferred=inferred,
            probability=believed if lowered else inferred,
            set_probability=None if lowered else state.posterior.of_set,
            confidence_source="experience" if lowered else "model",
            method=self.name,
            settings=self.get_params(),
            trace=run.trace,
            n_iter=run.n_iter,
            converged=run.converged,
            sensitivity=state.hit.probability,
            specificity=state.clear.probability,
            share=share,
            patterns=state.patterns,
        )
        return self

    def _start(self, answers: LabelSets, evidence: Evidence) -> _State:
        wanted = 1 if not self.dependence else self.patterns or min(2 * answers.n_labels, 20)
        cells = answers.n_items * answers.n_labels * wanted
        announce(self.name, operations=3000.0 * cells, memory=3.0 * 8 * cells, advice="use fewer patterns, or dependence=false")
        patterns, posterior = Patterns.start(evidence.shares(), wanted, weight=1.0)
        size = (answers.n_annotators, answers.n_labels)
        spread = (self.skill_sd, self.label_sd, self.own_sd)
        hit, clear = Coin.start(*size, self.sensitivity, *spread), Coin.start(*size, self.specificity, *spread)
        return _State(hit, clear, patterns, posterior)

    def _step(self, evidence: Evidence, before: _State) -> tuple[_State, Round]:
        hit, clear, patterns = self._maximise(evidence, before.hit, before.clear, before.patterns, before.posterior)
        (log_hit, log_miss), (log_clear, log_alarm) = hit.log_prob(), clear.log_prob()
        yes, no = evidence.log_lik(log_hit, log_miss), evidence.log_lik(log_alarm, log_clear)
        posterior, total = patterns.infer(yes, no)
        bound = total - patterns.penalty() - hit.penalty() - clear.penalty()
        # A label is a question of its own: the largest change of an item's labels, on average.
        moved = np.abs(posterior.label - before.posterior.label).max(axis=1, initial=0.0)
        change = float(moved.mean()) if len(moved) else 0.0
        return _State(hit, clear, patterns, posterior), Round(change, {"objective": bound})

    @property
    def patterns_(self) -> Patterns:
        """Labels that go together."""
        patterns: Patterns = self._fitted().patterns
        return patterns

    @property
    def classes_(self) -> Array:
        """The labels, [K]."""
        labels: Array = self._fitted().votes.labels
        return labels

    @staticmethod
    def _maximise(
        evidence: Evidence, hit: Coin, clear: Coin, patterns: Patterns, posterior: Posterior
    ) -> tuple[Coin, Coin, Patterns]:
        applies = posterior.label
        chosen, asked = evidence.counts(applies)
        alarms, asked_not = evidence.counts(1 - applies)
        return hit.update(chosen, asked), clear.update(asked_not - alarms, asked_not), patterns.update(posterior)
