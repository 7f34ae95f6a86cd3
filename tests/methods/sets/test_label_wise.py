"""Label-wise inference against the sum over all sets of labels."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from tests.methods.sets.crowds import set_crowd, sigmoid

from crowdwise.data.label_sets import LabelSets
from crowdwise.errors import ConvergenceWarning, InputError, NotFittedError, SettingError
from crowdwise.estimator.registry import make
from crowdwise.methods.sets.evidence import Evidence
from crowdwise.methods.sets.label_wise import LabelWise
from crowdwise.methods.sets.patterns import Patterns
from crowdwise.methods.sets.skills import Coin

MIXED = LabelSets.from_arrays(
    ["i", "i", "i", "j", "j", "k", "l"],
    ["a", "b", "c", "a", "b", "c", "d"],
    ["x|y", "!x", "none", "z", "x|!z", "y|z", "abstain"],
)


@pytest.mark.parametrize("dependence", [False, True])
def test_probabilities_are_sums_over_all_sets_of_labels(dependence: bool) -> None:
    model = LabelWise(dependence=dependence, patterns=3, max_iter=4, tol=1e-15, confidence="model")
    with pytest.warns(ConvergenceWarning):
        model.fit(MIXED)
    result, prior = model.result_, model.patterns_
    hit, clear = result.sensitivity, result.specificity
    evidence = 0.0
    for n in range(MIXED.n_items):
        total, by_label, chosen = 0.0, np.zeros(3), 0.0
        for labels in itertools.product([0, 1], repeat=3):
            y = np.array(labels)
            p = sum(s * np.prod(np.where(y, t, 1 - t)) for s, t in zip(prior.share_c, prior.theta_cl, strict=True))
            for e in np.flatnonzero(MIXED.item == n):
                said = dict(zip(MIXED.label[MIXED.answer == e], MIXED.chosen[MIXED.answer == e], strict=True))
                a = MIXED.annotator[e]
                for l in range(3):
                    if l in said or MIXED.complete[e]:
                        yes = hit[a, l] if y[l] else 1 - clear[a, l]
                        p *= yes if said.get(l, False) else 1 - yes
            total += p
            by_label += p * y
            chosen += p * bool((y == result.chosen[n]).all())
        np.testing.assert_allclose(result.probability[n], by_label / total, atol=1e-12)
        assert result.set_probability[n] == pytest.approx(chosen / total)
        evidence += np.log(total)
    answers = Evidence.of(MIXED)
    yes, no = answers.log_lik(np.log(hit), np.log(1 - hit)), answers.log_lik(np.log(1 - clear), np.log(clear))
    assert prior.infer(yes, no)[1] == pytest.approx(evidence)


def test_a_pattern_step_and_its_penalty_are_a_map_step() -> None:
    rng = np.random.default_rng(0)
    yes, no = rng.normal(0, 1, (2, 12, 3))
    patterns, posterior = Patterns.start(sigmoid(yes), 3, weight=2.0)
    before = -np.inf
    for _ in range(30):
        patterns = patterns.update(posterior)
        posterior, total = patterns.infer(yes, no)
        bound = total - patterns.penalty()
        assert bound >= before - 1e-10
        before = bound
    np.testing.assert_allclose(posterior.label, np.einsum("nc,cnl->nl", posterior.pattern, posterior.given))


@pytest.mark.slow
def test_skills_end_where_a_general_optimiser_ends() -> None:
    rng = np.random.default_rng(3)
    total = rng.gamma(2, 2, (4, 3))
    yes = total * rng.random((4, 3))
    coin = Coin.start(4, 3, 0.75, 1.0, 0.8, 0.5)
    for _ in range(2000):
        coin = coin.update(yes, total)
    centre = np.log(3)

    def loss(x: np.ndarray) -> float:
        skill, ease, own = x[:4], x[4:7], x[7:].reshape(4, 3)
        eta = skill[:, None] + ease + own
        prior = 0.5 * ((skill**2).sum() + ((ease - centre) ** 2).sum() / 0.64 + (own**2).sum() / 0.25)
        return float(prior - (yes * eta - total * np.logaddexp(0, eta)).sum())

    best = minimize(loss, np.zeros(19), method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose(coin.logit, best.x[:4, None] + best.x[4:7] + best.x[7:].reshape(4, 3), atol=1e-5)
    np.testing.assert_allclose(coin.skill_a, best.x[:4], atol=1e-4)


@pytest.mark.parametrize(
    "settings", [{}, {"dependence": True}, {"own_sd": 0.0}, {"dependence": True, "patterns": 2, "own_sd": 2.0}]
)
def test_the_bound_never_falls(settings: dict[str, object]) -> None:
    for seed in range(4):
        answers, *_ = set_crowd(seed, 30, 6, 4, 3, together=seed % 2 == 0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = LabelWise(**settings, max_iter=80, tol=1e-3).fit(answers)
        assert (np.diff(model.trace_) >= -1e-9 * np.abs(model.trace_[1:])).all()


@pytest.mark.slow
def test_sensitivity_and_specificity_are_recovered_and_not_exchanged() -> None:
    answers, truth, sensitivity, specificity = set_crowd(2, 600, 8, 4, 5)
    result = LabelWise(tol=1e-5).fit(answers).result_
    assert np.abs(result.sensitivity - sensitivity).mean() < 0.07
    assert np.abs(result.specificity - specificity).mean() < 0.05
    assert (result.chosen == truth).mean() > 0.88


def exact(chosen: np.ndarray, truth: np.ndarray) -> float:
    return float((chosen == truth).all(axis=1).mean())


@pytest.mark.slow
def test_shared_skill_beats_a_model_per_label_and_patterns_beat_both_where_labels_go_together() -> None:
    rows = []
    for seed in range(3):
        answers, truth, *_ = set_crowd(seed, together=True)
        per_label = [make("dawid-skene", tol=1e-4).fit(answers.binary(k)).posterior_[:, 1] >= 0.5 for k in range(6)]
        plain, patterns = (LabelWise(dependence=d, tol=1e-4).fit(answers).result_.chosen for d in (False, True))
        rows.append([exact(np.column_stack(per_label), truth), exact(plain, truth), exact(patterns, truth)])
    apart, plain, patterns = np.mean(rows, axis=0)
    assert plain > apart + 0.05
    assert patterns > plain + 0.05


def test_items_without_answers_get_the_shares_of_labels() -> None:
    result = LabelWise().fit(MIXED).result_
    np.testing.assert_allclose(result.probability[3], result.share, atol=1e-9)
    frame = result.items_frame()
    assert frame["note"].to_list() == ["", "", "", "no answers"]
    assert frame.columns == ["item", "label", "confidence", "confidence_source", "n_votes", "note", "p(x)", "p(y)", "p(z)"]
    people = result.annotators_frame()
    assert people.columns == ["annotator", "n_votes", "sensitivity", "specificity"]
    assert dict(people.select("annotator", "n_votes").rows()) == {"a": 2, "b": 2, "c": 2, "d": 0}
    assert result.labels_frame().height == 12


def test_a_higher_threshold_chooses_fewer_labels() -> None:
    answers, *_ = set_crowd(5, 60)
    few, many = (LabelWise(threshold=t).fit(answers).result_.chosen for t in (0.9, 0.1))
    assert (few <= many).all()
    assert few.sum() < many.sum()


@pytest.mark.parametrize("labels", [["x"], ["x|y"], ["none", "x"]])
def test_tiny_answers_survive(labels: list[str]) -> None:
    n = len(labels)
    result = LabelWise(dependence=True).fit(LabelSets.from_arrays(["i"] * n, list("abc")[:n], labels)).result_
    assert np.isfinite(result.probability).all()
    assert len(result.sets) == 1


def test_the_same_bits_again() -> None:
    answers, *_ = set_crowd(1, 40, together=True)
    first, second = (LabelWise(dependence=True).fit(answers).result_.probability for _ in range(2))
    assert first.tobytes() == second.tobytes()


def test_errors_name_the_fix() -> None:
    with pytest.raises(InputError, match="labels="):
        LabelWise().fit(LabelSets.from_arrays(["x"], ["a"], ["none"]))
    with pytest.raises(SettingError, match="threshold"):
        LabelWise(threshold=1.5).fit(MIXED)
    with pytest.raises(NotFittedError):
        _ = LabelWise().items_frame()
