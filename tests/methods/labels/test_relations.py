"""What must happen to the result when the votes change in a known way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.contract.crowds import CANDIDATES
from tests.methods.labels.helpers import ALL, ITERATIVE, ORDERED, crowd, diagonal_crowd, quiet, slow_unless_classic
from tests.strategies import small_votes

from crowdwise.data.annotations import Annotations
from crowdwise.estimator.registry import make
from crowdwise.parts.annotators.accuracy import ClassAccuracy, OneAccuracy
from crowdwise.parts.annotators.difficulty import AbilityDifficulty
from crowdwise.parts.annotators.model import Confusion, DirichletConfusion
from crowdwise.parts.annotators.spammer import Spammer

method = pytest.mark.parametrize("name", slow_unless_classic(ALL))

# Their first division into subtypes, communities or clusters follows the order of the names, so that a few rounds differ
# under other names; where the votes are clear they end at the same labels (below).
SEEDED = ("ebcc", "cbcc", "worker-cluster")
examples = settings(max_examples=max(settings.default.max_examples // 10, 10), suppress_health_check=[HealthCheck.too_slow])


def fit(name: str, votes: Annotations, **options: Any) -> Any:
    if name in CANDIDATES:
        options = {"methods": CANDIDATES[name]} | options
    with quiet():
        return make(name, **options).fit(votes)


def renamed(votes: Annotations, items: Any = None, annotators: Any = None, classes: Any = None) -> Annotations:
    """The same votes under other names, which sort in another order."""
    names = [
        np.asarray(vocabulary if new is None else new, dtype=object)
        for vocabulary, new in ((votes.items, items), (votes.annotators, annotators), (votes.classes, classes))
    ]
    return Annotations.from_arrays(
        names[0][votes.item],
        names[1][votes.annotator],
        names[2][votes.label],
        items=sorted(names[0]),
        annotators=sorted(names[1]),
        classes=sorted(names[2]),
    )


@method
@examples
@given(votes=small_votes(min_classes=2), data=st.data())
def test_other_names_permute_the_result(name: str, votes: Annotations, data: st.DataObject) -> None:
    sizes = (votes.n_items, votes.n_annotators, votes.n_classes)
    i, a, c = (data.draw(st.permutations(range(size))) for size in sizes)
    if name in ORDERED:
        # Upside down is the same order; any other is not.
        c = sorted(c, reverse=c[0] > c[-1])
    other = renamed(votes, [f"i{j}" for j in i], [f"a{j}" for j in a], [f"c{j}" for j in c])
    # A few rounds: every step is equivariant. At the end of many, rounding decides which way ties fall; methods
    # that re-vote with hard labels meet ties at once, so they take only votes whose majority is clear.
    options: dict[str, Any] = {"max_iter": 4} if name in ITERATIVE else {}
    if name == "kos":
        # Its random start is drawn in the order of the names.
        options["noise"] = 0
    if name in SEEDED:
        return
    first = fit(name, votes, **options)
    if name in ("wawa", "zbs", "m3v", "kos") and has_ties(votes):
        return
    second = fit(name, other, **options)
    np.testing.assert_allclose(second.result_.model_posterior[np.ix_(i, c)], first.result_.model_posterior, atol=1e-8)
    np.testing.assert_allclose(second.prior_[c], first.prior_, atol=1e-8)
    np.testing.assert_allclose(second.confusion_[np.ix_(a, c, c)], first.confusion_, atol=1e-8)
    np.testing.assert_allclose(second.trace_, first.trace_, rtol=1e-9, atol=1e-9)


def has_ties(votes: Annotations) -> bool:
    """Whether re-weighting could meet a tie: any item whose votes are not unanimous, or no votes at all."""
    counts = np.zeros((votes.n_items, votes.n_classes))
    np.add.at(counts, (votes.item, votes.label), 1)
    return bool(((counts > 0).sum(axis=1) != 1).any())


@pytest.mark.parametrize("name", slow_unless_classic([name for name in ALL if name not in ORDERED]))
def test_relabelling_classes_permutes_the_labels(name: str) -> None:
    votes, _ = crowd(3, 60, diagonal_crowd(7, 3, 0.75))
    first = fit(name, votes)
    second = fit(name, renamed(votes, classes=["z", "x", "y"]))
    assert second.classes_.tolist() == ["x", "y", "z"]
    # Class 0 is now called z and comes last.
    tolerance = 1e-4 if name in SEEDED else 1e-6
    np.testing.assert_allclose(second.result_.model_posterior[:, [2, 0, 1]], first.result_.model_posterior, atol=tolerance)
    assert [{0: "z", 1: "x", 2: "y"}[label] for label in first.labels_] == second.labels_.tolist()


# -- parts with given values ----------------------------------------------------------------------


def equal_parts(n_annotators: int, n_items: int, n_classes: int) -> dict[str, Any]:
    """Every annotator model with the same better-than-chance value for everyone."""
    table = diagonal_crowd(n_annotators, n_classes, 0.6).transpose(0, 2, 1)
    ones = np.ones(n_annotators)
    return {
        "confusion": Confusion(np.zeros((1, n_classes, 1)), table, table[0]),
        "dirichlet": DirichletConfusion(table * 20, table * 20),
        "one accuracy": OneAccuracy(ones, ones, 0.6 * ones, 0.6, n_classes),
        "class accuracy": ClassAccuracy(
            np.ones((n_annotators, n_classes)),
            np.ones((n_annotators, n_classes)),
            np.full((n_annotators, n_classes), 0.6),
            np.full(n_classes, 0.6),
        ),
        "ability": AbilityDifficulty(ones, ones, 0.7 * ones, np.full(n_items, 0.2), n_classes),
        "spammer": Spammer(*(np.ones((n_annotators, size)) * 4 for size in (2, n_classes, 2, n_classes))),
    }


PARTS = list(equal_parts(1, 1, 2))


def opinion(part: Any, votes: Annotations) -> np.ndarray:
    posterior = np.zeros((votes.n_items, votes.n_classes))
    flat = np.log(np.full((1, votes.n_classes), 1 / votes.n_classes))
    part.infer(votes, flat, np.empty(0, np.int16), posterior)
    return posterior


@pytest.mark.parametrize("kind", PARTS)
@examples
@given(votes=small_votes(min_classes=2))
def test_equal_annotators_give_the_plurality_vote(kind: str, votes: Annotations) -> None:
    posterior = opinion(equal_parts(votes.n_annotators, votes.n_items, votes.n_classes)[kind], votes)
    counts = np.zeros(posterior.shape)
    np.add.at(counts, (votes.item, votes.label), 1)
    # More votes, more probability; as many votes, as much.
    for n in range(votes.n_items):
        np.testing.assert_array_equal(
            np.sign(np.subtract.outer(counts[n], counts[n])),
            np.sign(np.round(np.subtract.outer(posterior[n], posterior[n]), 9)),
        )


@examples
@given(votes=small_votes(min_classes=2), data=st.data())
def test_a_coin_flip_annotator_with_known_confusion_adds_nothing(votes: Annotations, data: st.DataObject) -> None:
    # Annotator 0 answers by a fixed lottery, whatever the item: any number of such votes leaves the others' opinion.
    n_classes = votes.n_classes
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    pi = rng.dirichlet(np.ones(n_classes), size=(votes.n_annotators, n_classes)).transpose(0, 2, 1)
    pi[0] = rng.dirichlet(np.ones(n_classes))[:, None]
    part = Confusion(np.zeros((1, n_classes, 1)), pi, pi[0])
    without = votes.take_votes(votes.annotator != 0)
    np.testing.assert_allclose(opinion(part, votes), opinion(part, without), atol=1e-12)


@pytest.mark.parametrize("name", slow_unless_classic(ITERATIVE))
def test_a_coin_flip_annotator_changes_next_to_nothing(name: str) -> None:
    honest, truth = crowd(5, 300, diagonal_crowd(5, 3, 0.8))
    flips = np.random.default_rng(0).integers(0, 3, 300)
    noisy = honest.concat(Annotations.from_arrays(np.arange(300), ["spam"] * 300, flips))
    before, after = fit(name, honest), fit(name, noisy)
    assert (before.labels_ == after.labels_).mean() > 0.98
    assert np.abs(before.result_.model_posterior - after.result_.model_posterior).mean() < 0.02
    assert (after.labels_ == truth).mean() > 0.93
    # And it is seen for what it is: right in a third of the cases.
    assert after.result_.accuracy[list(after.result_.votes.annotators).index("spam")] == pytest.approx(1 / 3, abs=0.1)


# -- models against each other and against the truth ----------------------------------------------

ASYMMETRIC = np.array(
    [
        [[0.9, 0.1, 0.0], [0.4, 0.5, 0.1], [0.05, 0.15, 0.8]],
        [[0.8, 0.05, 0.15], [0.1, 0.85, 0.05], [0.3, 0.1, 0.6]],
        [[0.7, 0.2, 0.1], [0.05, 0.9, 0.05], [0.02, 0.28, 0.7]],
        [[0.85, 0.1, 0.05], [0.2, 0.7, 0.1], [0.1, 0.2, 0.7]],
        [[0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.05, 0.05, 0.9]],
    ]
)


@pytest.mark.parametrize("name", ["dawid-skene", "bayes-gc"])
def test_an_asymmetric_confusion_is_recovered_untransposed(name: str) -> None:
    votes, truth = crowd(6, 4000, ASYMMETRIC, prior=[0.5, 0.3, 0.2])
    model = fit(name, votes)
    np.testing.assert_allclose(model.confusion_, ASYMMETRIC, atol=0.06)
    np.testing.assert_allclose(model.prior_, [0.5, 0.3, 0.2], atol=0.03)
    # The transpose, normalised, is far away, so the test above would see it.
    transposed = model.confusion_.transpose(0, 2, 1)
    assert np.abs(transposed / transposed.sum(axis=2, keepdims=True) - ASYMMETRIC).max() > 0.15
    assert (model.labels_ == truth).mean() > (fit("majority", votes).labels_ == truth).mean()


@pytest.mark.parametrize("name", ["majority", "wawa", "zbs", "glad"])
def test_plug_in_confusions_are_untransposed_too(name: str) -> None:
    votes, _ = crowd(6, 4000, ASYMMETRIC, prior=[0.5, 0.3, 0.2])
    found = fit(name, votes).confusion_
    transposed = ASYMMETRIC.transpose(0, 2, 1) / ASYMMETRIC.transpose(0, 2, 1).sum(axis=2, keepdims=True)
    assert np.abs(found - ASYMMETRIC).mean() < 0.7 * np.abs(found - transposed).mean()


def test_class_accuracies_belong_to_the_true_class() -> None:
    # Errors are uniform given the true class, as the confusion vector assumes.
    w = np.array([[0.95, 0.5, 0.7], [0.6, 0.9, 0.7], [0.8, 0.6, 0.95], [0.7, 0.8, 0.6], [0.9, 0.7, 0.75]])
    confusion = np.repeat(((1 - w) / 2)[:, :, None], 3, axis=2)
    confusion[:, np.arange(3), np.arange(3)] = w
    votes, _ = crowd(9, 4000, confusion)
    np.testing.assert_allclose(fit("confusion-vector", votes).result_.annotators.accuracy, w, atol=0.06)


def test_one_coin_accuracies_are_recovered() -> None:
    w = np.array([0.9, 0.55, 0.75, 0.3, 0.65])
    confusion = np.concatenate([diagonal_crowd(1, 3, right) for right in w])
    votes, _ = crowd(10, 3000, confusion)
    np.testing.assert_allclose(fit("one-coin", votes).result_.annotators.accuracy, w, atol=0.06)


def test_mace_tells_honesty_from_habit() -> None:
    theta, habit = np.array([0.9, 0.7, 0.5, 0.05]), np.array([0.7, 0.2, 0.1])
    confusion = theta[:, None, None] * np.eye(3) + (1 - theta)[:, None, None] * habit
    votes, _ = crowd(14, 3000, confusion)
    part = fit("mace", votes, class_prior="learn").result_.annotators
    np.testing.assert_allclose(part.honesty, theta, atol=0.06)
    # The habit of the spammer, who shows it most often.
    np.testing.assert_allclose((part.habit_al / part.habit_al.sum(axis=1, keepdims=True))[3], habit, atol=0.05)


def test_glad_finds_the_able_and_the_hard() -> None:
    rng = np.random.default_rng(1)
    ability, log_easiness = np.array([3.0, 2.0, 1.0, 0.5, 2.5, -1.0, 1.5, 0.2]), rng.normal(0.5, 1, 1500)
    right = rng.random((1500, 8)) < 1 / (1 + np.exp(-np.exp(log_easiness)[:, None] * ability))
    truth = rng.integers(0, 2, 1500)
    label = np.where(right, truth[:, None], 1 - truth[:, None])
    model = fit("glad", Annotations.from_matrix(label))
    assert (model.labels_ == truth).mean() > 0.93
    assert np.argsort(model.result_.annotators.ability).tolist() == np.argsort(ability).tolist()
    assert model.result_.annotators.ability[5] < 0
    assert np.corrcoef(model.result_.annotators.log_easiness, log_easiness)[0, 1] > 0.4


def test_bayes_gc_approaches_dawid_skene_as_votes_grow() -> None:
    gaps = []
    for n_items in (30, 300, 3000):
        votes, _ = crowd(15, n_items, ASYMMETRIC)
        bayes, em = (fit(name, votes, tol=1e-8, max_iter=3000) for name in ("bayes-gc", "dawid-skene"))
        gaps.append(np.abs(bayes.confusion_ - em.confusion_).mean())
    assert gaps[0] > 2 * gaps[1] > 4 * gaps[2]
    assert gaps[2] < 0.01


@pytest.mark.parametrize("name", slow_unless_classic(ITERATIVE))
def test_an_adversary_among_honest_annotators_is_used_or_ignored_but_never_believed(name: str) -> None:
    honest, truth = crowd(16, 400, diagonal_crowd(5, 2, 0.75))
    # Nearly always the opposite: as informative as an expert.
    liar = np.where(np.random.default_rng(2).random(400) < 0.95, 1 - truth, truth)
    both = honest.concat(Annotations.from_arrays(np.arange(400), ["liar"] * 400, liar))
    model = fit(name, both)
    right = (model.labels_ == truth).mean()
    if name == "mace":
        # Honest or spamming by habit: a liar is neither, and counts as a spammer.
        assert right > 0.85
    else:
        assert right > 0.93
        assert right > (fit(name, honest).labels_ == truth).mean() + 0.02
    # To cumulative-link some items lie at the border of the classes, where nobody is right or wrong for certain.
    most = {"mace": 0.6, "cumulative-link": 0.2}.get(name, 0.1)
    assert model.result_.accuracy[list(both.annotators).index("liar")] < most


@pytest.mark.parametrize("smoothing", [0.01, 0.1, 0.5])
def test_an_annotator_who_always_answers_the_same_is_no_evidence(smoothing: float) -> None:
    honest, _ = crowd(17, 100, diagonal_crowd(5, 3, 0.8), prior=[0.7, 0.25, 0.05])
    votes = honest.concat(Annotations.from_arrays(np.arange(100), ["parrot"] * 100, [0] * 100))
    model = fit("dawid-skene", votes, smoothing=smoothing)
    parrot = np.flatnonzero(votes.annotator == list(votes.annotators).index("parrot"))
    evidence = model.result_.annotators.log_lik(votes, parrot)
    assert np.ptp(evidence, axis=1).max() < 0.02
    np.testing.assert_allclose(
        model.result_.model_posterior, fit("dawid-skene", honest, smoothing=smoothing).result_.model_posterior, atol=0.02
    )


@pytest.mark.parametrize("name", slow_unless_classic(ITERATIVE))
def test_random_starts_of_a_method_differ_and_end_alike_on_clear_votes(name: str) -> None:
    # A first step that forgets its start would make `init`, `restarts`, `warm_start` and `update` empty words.
    votes, truth = crowd(7, 60, diagonal_crowd(7, 2, 0.8))
    early = [fit(name, votes, init="random", random_state=seed, max_iter=1).result_.model_posterior for seed in range(3)]
    assert np.abs(early[0] - early[1]).max() > 1e-3
    assert np.abs(early[1] - early[2]).max() > 1e-3
    for seed in range(3):
        assert (fit(name, votes, init="random", random_state=seed).labels_ == truth).mean() > 0.9


@pytest.mark.slow
def test_gold_teaches_the_model_about_annotators() -> None:
    # Two camps of equal size disagree on every item; gold on five items says which one is right.
    item, annotator = (part.ravel() for part in np.indices((40, 6)))
    truth = np.arange(40) % 2
    label = np.where(annotator < 3, truth[item], 1 - truth[item])
    votes = Annotations.from_arrays(item, annotator, label)
    # Votes that are only counted, alone or within groups, learn nothing of annotators from gold, and m-msr keeps its
    # robust estimate, in which gold has no part.
    for name in [n for n in ALL if n not in ("majority", "group-vote", "m-msr")]:
        for camp in (truth, 1 - truth):
            gold = {n: int(camp[n]) for n in range(6)}
            with quiet():
                model = make(name).fit(votes, gold=gold)
            assert model.labels_.tolist() == camp.tolist(), name
