"""The moment methods: exact on exact moments, close on samples, whatever the design and the adversaries."""

from __future__ import annotations

import itertools
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.methods.labels.helpers import crowd, diagonal_crowd, quiet

import crowdwise
import crowdwise.io
from crowdwise.data.annotations import Annotations
from crowdwise.data.gold import encode_gold
from crowdwise.engines.composite import composite_em
from crowdwise.engines.moments import Cooccurrence, others_table
from crowdwise.engines.spectral import joint_diagonaliser
from crowdwise.errors import CostWarning, DataWarning, InputError, SettingError
from crowdwise.estimator.registry import label_methods, make
from crowdwise.methods.labels.dawid_skene import MOMENT_STARTS
from crowdwise.trust.metrics import accuracy, confusion_error

METHODS = label_methods()

FULL = ["spectral-ds", "tensor-admm", "multi-spa", "cnmf", "sym-nmf"]
ONE_COIN = ["pgd", "m-msr"]
EVERY = [*FULL, *ONE_COIN, "eigen"]
# Without smoothing or pseudo-counts the estimate itself is reported.
RAW: dict[str, dict[str, Any]] = {
    **{name: {"polish": 0, "smoothing": 0} for name in [*FULL, "eigen"]},
    **{name: {"polish": 0, "right": 0, "wrong": 0, "class_prior": "learn"} for name in ONE_COIN},
}
RAW["tensor-admm"] |= {"tol": 1e-10, "max_iter": 1000}

# Quarters; in each matrix one label is used for one class only, so the moments are separable.
EXPERTS = (
    np.array([[[2, 1, 1], [0, 3, 1], [0, 1, 3]], [[3, 0, 1], [1, 2, 1], [1, 0, 3]], [[3, 1, 0], [1, 3, 0], [1, 1, 2]]]) / 4
)
SEPARABLE = np.concatenate([EXPERTS, EXPERTS])
# Fifths; no label of anybody is pure, one annotator is an adversary, none is symmetric.
MIXED = np.array([[[4, 1], [2, 3]], [[3, 2], [1, 4]], [[3, 2], [1, 4]], [[1, 4], [3, 2]]]) / 5


def exact_votes(confusion: np.ndarray, shares: np.ndarray, parts: int) -> Annotations:
    """Votes whose moments of every order equal the population's: each pattern as often as its probability says."""
    n_annotators, n_classes, _ = confusion.shape
    patterns = np.array(list(itertools.product(range(n_classes), repeat=n_annotators)))
    chance = sum(
        shares[k] * np.prod([confusion[a, k, patterns[:, a]] for a in range(n_annotators)], axis=0) for k in range(n_classes)
    )
    times = chance * parts ** (n_annotators + 1)
    np.testing.assert_allclose(times, times.round(), atol=1e-6)
    labels = np.repeat(patterns, times.round().astype(int), axis=0)
    item = np.repeat(np.arange(len(labels)), n_annotators)
    return Annotations.from_arrays(
        item, np.tile(np.arange(n_annotators), len(labels)), labels.ravel(), classes=range(n_classes)
    )


@pytest.fixture(scope="module")
def separable() -> Annotations:
    return exact_votes(SEPARABLE, np.array([0.5, 0.25, 0.25]), 4)


@pytest.fixture(scope="module")
def mixed() -> Annotations:
    return exact_votes(MIXED, np.array([0.6, 0.4]), 5)


@pytest.mark.parametrize("name", FULL)
def test_exact_moments_give_exact_confusion_matrices(name: str, separable: Annotations) -> None:
    # Asymmetric matrices: a transposed axis or a wrong order of classes would be far off.
    model = make(name, **RAW[name]).fit(separable)
    np.testing.assert_allclose(model.confusion_, SEPARABLE, atol=1e-6)
    np.testing.assert_allclose(model.prior_, [0.5, 0.25, 0.25], atol=1e-6)
    assert model.trace_.size == 0
    assert model.converged_


@pytest.mark.parametrize("name", ["eigen", "spectral-ds", "tensor-admm"])
def test_third_moments_need_no_pure_labels(name: str, mixed: Annotations) -> None:
    model = make(name, **RAW[name]).fit(mixed)
    np.testing.assert_allclose(model.confusion_, MIXED, atol=1e-6)
    np.testing.assert_allclose(model.prior_, [0.6, 0.4], atol=1e-6)


@pytest.mark.parametrize("name", ONE_COIN)
def test_exact_agreements_give_exact_accuracies(name: str) -> None:
    confusion = np.concatenate([diagonal_crowd(1, 3, right) for right in (0.8, 0.4, 0.6, 0.2)])
    votes = exact_votes(confusion, np.array([0.4, 0.4, 0.2]), 10)
    model = make(name, **RAW[name]).fit(votes)
    np.testing.assert_allclose(model.confusion_, confusion, atol=1e-6)
    np.testing.assert_allclose(model.prior_, [0.4, 0.4, 0.2], atol=1e-6)


def test_composite_em_never_gets_worse(separable: Annotations) -> None:
    for votes in (separable, crowd(0, 200, diagonal_crowd(6, 4, 0.6), votes_per_item=3)[0]):
        moments = Cooccurrence.of(votes)
        _, _, trace, _ = composite_em(moments, *others_table(moments), max_iter=60, tol=0.0)
        assert (np.diff(trace) >= -1e-12).all()
        # The objective by its definition, in plain loops, for the start.
        table, shares = others_table(moments)
        total = sum(
            count * np.log((shares * table[i] * table[j]).sum())
            for i, j, count in zip(moments.left, moments.right, moments.count_c, strict=True)
        )
        assert trace[0] == pytest.approx(total / moments.count_c.sum())


def test_joint_diagonaliser_finds_a_common_basis() -> None:
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    slices = np.einsum("ik,lk,jk->lij", basis, rng.random((5, 5)), basis)
    found = joint_diagonaliser(slices)
    np.testing.assert_allclose(np.abs(found.T @ basis).max(axis=1), 1, atol=1e-10)
    np.testing.assert_allclose(found.T @ found, np.eye(5), atol=1e-12)


@pytest.mark.parametrize("name", FULL)
def test_samples_recover_asymmetric_annotators_spammers_and_adversaries(name: str) -> None:
    rng = np.random.default_rng(1)
    honest = 0.65 * np.eye(3) + 0.35 * rng.dirichlet(np.ones(3), size=(9, 3))
    confusion = np.concatenate([honest, np.roll(diagonal_crowd(3, 3, 0.85), 1, axis=2), np.full((3, 3, 3), 1 / 3)])
    votes, truth = crowd(2, 4000, confusion, votes_per_item=8, prior=[0.5, 0.3, 0.2])
    raw, polished = (make(name, polish=steps).fit(votes) for steps in (0, 10))
    assert confusion_error(raw.confusion_, confusion, align=False) < 0.25
    assert confusion_error(polished.confusion_, confusion, align=False) < 0.08
    assert accuracy(polished.result_.model_posterior, truth) > 0.94
    assert len(polished.trace_) == polished.n_iter_ <= 10
    assert (np.diff(polished.trace_) >= -1e-9 * np.abs(polished.trace_[1:])).all()


@cache
def strangers(n_classes: int) -> tuple[Annotations, np.ndarray, float]:
    """Votes of annotators most of whom never met, their truth, and the accuracy of simpler methods."""
    votes, truth = crowd(3, 3000, diagonal_crowd(200, n_classes, 0.75), votes_per_item=3)
    assert len(Cooccurrence.of(votes).met_p) < 0.5 * 200 * 199 / 2
    with quiet():
        found = (make(other).fit(votes).result_.model_posterior for other in ("majority", "dawid-skene"))
        return votes, truth, min(accuracy(posterior, truth) for posterior in found)


@pytest.mark.parametrize("name", EVERY)
def test_most_pairs_never_met(name: str) -> None:
    # Three votes per item by two hundred annotators: most pairs share no item.
    votes, truth, floor = strangers(2 if name == "eigen" else 3)
    with quiet():
        model = make(name).fit(votes)
    # Forty-five votes each: confusion matrices themselves cost accuracy here, so Dawid-Skene is the measure.
    assert accuracy(model.result_.model_posterior, truth) > floor - 0.04


@pytest.mark.parametrize("name", EVERY)
def test_annotators_without_meetings_are_filled_in(name: str) -> None:
    n_classes = 2 if name == "eigen" else 3
    votes, truth = crowd(4, 1000, diagonal_crowd(6, n_classes, 0.8))
    # A loner who labels items of his own, and one with two labels.
    item = np.concatenate([votes.item, np.arange(1000, 1050), [0, 1]])
    who = np.concatenate([votes.annotator, np.full(50, 6), [7, 7]])
    label = np.concatenate([votes.label, np.arange(50) % n_classes, truth[:2]])
    model = make(name).fit(Annotations.from_arrays(item, who, label, classes=range(n_classes)))
    assert model.confusion_.shape == (8, n_classes, n_classes)
    assert np.isfinite(model.confusion_).all()
    assert accuracy(model.result_.model_posterior[:1000], truth) > 0.9
    assert model.predict(Annotations.from_arrays([0], [6], [1]))[0] == 1


@pytest.mark.parametrize("name", EVERY)
def test_too_few_meetings_are_announced_and_survived(name: str) -> None:
    votes = Annotations.from_arrays([0, 1, 2, 3], [0, 1, 0, 1], [0, 1, 1, 0])
    with pytest.warns(DataWarning, match="too few items"):
        model = make(name).fit(votes)
    assert model.labels_.tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize("name", FULL)
def test_gold_teaches_the_names_of_classes(name: str) -> None:
    # Everybody calls every class by the next one's name; only gold can tell.
    votes, truth = crowd(5, 600, np.roll(diagonal_crowd(6, 3, 0.85), 1, axis=2))
    with quiet():
        model = make(name).fit(votes, gold=dict(enumerate(truth[:100].tolist())))
    assert accuracy(model.result_.model_posterior[100:], truth[100:]) > 0.9


def test_eigen_needs_two_classes() -> None:
    votes, _ = crowd(6, 50, diagonal_crowd(4, 3, 0.8))
    with pytest.raises(InputError, match="two classes, these votes have 3"):
        make("eigen").fit(votes)


def test_eigen_keeps_the_contract_on_two_classes() -> None:
    votes, truth = crowd(8, 400, MIXED.repeat(2, axis=0)[:7], prior=[0.6, 0.4])
    model = make("eigen").fit(votes, gold={0: int(truth[0])}, history={1: (8, 2)})
    np.testing.assert_allclose(model.result_.model_posterior.sum(axis=1), 1)
    assert model.labels_[0] == truth[0]
    np.testing.assert_allclose(make("eigen").fit(votes).predict_proba(votes), make("eigen").fit(votes).posterior_, atol=1e-9)
    first, second = votes[:250], votes[250:]
    np.testing.assert_allclose(
        make("eigen").fit(first).update(second).result_.model_posterior,
        make("eigen").fit(votes).result_.model_posterior,
        atol=1e-9,
    )
    assert crowdwise.Eigen is type(make("eigen"))


def test_trim_is_below_one_half() -> None:
    with pytest.raises(SettingError, match="trim"):
        make("m-msr", trim=0.5).fit(crowd(6, 50, diagonal_crowd(4, 3, 0.8))[0])


def test_a_colluding_minority_does_not_mislead_m_msr() -> None:
    from crowdwise.data.simulate import simulate

    options = {"colluder": {"accuracy": 0.1}, "one-coin": {"a": 6, "b": 4}}
    for share, gain in ((0.2, 0.01), (0.3, 0.5)):
        mix = {"one-coin": 1 - share, "colluder": share}
        drawn = simulate(2000, 60, 3, 15, mix, options=options, random_state=0)
        with quiet():
            robust, plain = (
                accuracy(make(name).fit(drawn.votes).result_.model_posterior, drawn.truth) for name in ("m-msr", "one-coin")
            )
        # Three tenths of colluders turn likelihood methods round; the trimmed fit hardly notices.
        assert robust > 0.88
        assert robust > plain + gain


@pytest.mark.parametrize("name", ["dawid-skene", "bayes-gc"])
def test_moments_start_where_the_vote_fails(name: str) -> None:
    # Weak honest majority, strong consistent adversaries: the vote's start ends with classes renamed.
    rng = np.random.default_rng(0)
    honest = 0.35 * np.eye(3) + 0.65 * rng.dirichlet(np.full(3, 4.0), size=(18, 3))
    confusion = np.concatenate([honest, np.roll(diagonal_crowd(12, 3, 0.9), 1, axis=2)])
    votes, truth = crowd(7, 1500, confusion, votes_per_item=10)
    with quiet():
        by_vote, by_moments = (
            accuracy(make(name, init=init).fit(votes).result_.model_posterior, truth) for init in ("votes", "moments")
        )
    assert by_vote < 0.2
    if name == "dawid-skene":
        assert by_moments > 0.85
    else:
        # Its prior expects annotators to be right, so it may still prefer the adversaries' names.
        assert by_moments >= by_vote - 0.01


@pytest.mark.slow
def test_moments_start_as_well_as_votes_on_ordinary_crowds() -> None:
    for seed in range(5):
        votes, truth = crowd(seed, 300, diagonal_crowd(10, 3, 0.7), votes_per_item=5)
        with quiet():
            scores = [
                accuracy(make("dawid-skene", init=init).fit(votes).result_.model_posterior, truth)
                for init in ("votes", "moments")
            ]
        assert scores[1] >= scores[0] - 0.01


def test_dear_fits_are_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    import crowdwise.estimator.estimator as cost

    monkeypatch.setattr(cost, "_SLOW_SECONDS", 0.0)
    with pytest.warns(CostWarning, match="cnmf may take up to"):
        make("cnmf").fit(crowd(0, 100, diagonal_crowd(5, 2, 0.8))[0])


# Majority vote and published neighbours differ on these sets; no method may fall far below the vote. One-coin
# models lose to the vote on bluebird, where annotators confuse in one direction: they are held to `one-coin`.
@pytest.mark.slow
@pytest.mark.parametrize("dataset", ["bluebird", "dog", "web"])
def test_real_sets(dataset: str, shared_data: Path) -> None:
    folder = shared_data / dataset
    votes = crowdwise.read(next(folder.glob("annotations.csv*"))).deduplicate()
    truth = encode_gold(votes, crowdwise.io.read_gold(folder / "truth.csv"))
    with quiet():
        floor = {name: accuracy(make(name).fit(votes).result_.model_posterior, truth) for name in ("majority", "one-coin")}
        for name in EVERY:
            if name == "eigen" and votes.n_classes > 2:
                continue
            got = accuracy(make(name).fit(votes).result_.model_posterior, truth)
            assert got >= floor["one-coin" if name in ONE_COIN else "majority"] - 0.02, name


@pytest.mark.parametrize("name", MOMENT_STARTS)
def test_every_moment_method_can_start_another(name: str) -> None:
    votes, truth = crowd(5, 400, diagonal_crowd(8, 2 if name == "eigen" else 3, 0.75))
    for method in ("dawid-skene", "bayes-gc"):
        started = make(method, init=name).fit(votes)
        # Where nothing is in doubt, all starts lead to the same place.
        plain = make(method).fit(votes)
        assert started.converged_
        np.testing.assert_allclose(started.result_.model_posterior, plain.result_.model_posterior, atol=1e-2)
        assert np.mean(started.result_.codes == truth) > 0.9


def test_the_registry_and_the_list_of_starts_agree() -> None:
    assert set(MOMENT_STARTS) == {name for name, method in METHODS.items() if method.family == "moments"}
