"""The two vote kernels: numpy, compiled and threaded paths against loops that anyone can check."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from crowdwise.kernels import logistic
from crowdwise.kernels import numerics as kernels

NONE_KNOWN = np.empty(0, np.int16)
EACH_VOTE = np.empty(0, np.int32)
PATHS = ["numpy", "compiled", "threads-1", "threads-2", "threads-3"]


@pytest.fixture(params=PATHS)
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Force one implementation, whatever the size of the problem."""
    force(request.param, monkeypatch)
    return request.param


def force(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (kernels, logistic):
        monkeypatch.setattr(module, "COMPILED_FROM", 10**9 if name == "numpy" else 0)
    monkeypatch.setattr(kernels, "THREADED_FROM", 0 if name.startswith("threads") else 10**9)
    if name.startswith("threads"):
        monkeypatch.setenv("CROWDWISE_THREADS", name.removeprefix("threads-"))


class Case:
    """A random problem: ragged items (some without votes), a table of probabilities, priors, weights, gold."""

    def __init__(
        self,
        n_classes: int,
        seed: int,
        *,
        weights: bool = False,
        gold: bool = False,
        per_item: bool = False,
        zeros: bool = False,
    ):
        rng = np.random.default_rng(seed)
        n_items, n_annotators = 23, 5
        sizes = rng.integers(0, 9, n_items)
        sizes[[0, 7, n_items - 1]] = 0
        self.item_ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        n_votes = int(self.item_ptr[-1])
        self.label = rng.integers(0, n_classes, n_votes).astype(np.int16)
        annotator = rng.integers(0, n_annotators, n_votes).astype(np.int32)
        self.row = (annotator * n_classes + self.label).astype(np.int32)
        table = rng.dirichlet(np.ones(n_classes), size=(n_annotators, n_classes)).transpose(0, 2, 1)
        if zeros:
            table = np.where(rng.random(table.shape) < 0.3, 0.0, table)
        self.table = np.ascontiguousarray(table.reshape(-1, n_classes))
        self.log_prior = np.log(rng.dirichlet(np.ones(n_classes), size=n_items if per_item else 1))
        self.weight = rng.random(n_votes) * 3 if weights else kernels.NO_WEIGHT
        self.known = (
            np.where(rng.random(n_items) < 0.3, rng.integers(0, n_classes, n_items), -1).astype(np.int16)
            if gold
            else NONE_KNOWN
        )
        self.before = rng.dirichlet(np.ones(n_classes), size=n_items)
        self.base, self.bonus = rng.normal(size=(2, n_votes))
        self.n_rows = n_annotators * n_classes

    def infer(self) -> tuple[np.ndarray, float, float]:
        posterior = self.before.copy()
        evidence, change = kernels.infer_table(
            self.item_ptr, self.row, self.weight, self.table, self.log_prior, self.known, posterior
        )
        return posterior, evidence, change

    def infer_voted(self, entry: np.ndarray = EACH_VOTE) -> tuple[np.ndarray, float, float]:
        posterior = self.before.copy()
        evidence, change = kernels.infer_voted(
            self.item_ptr, self.label, entry, self.weight, self.base, self.bonus, self.log_prior, self.known, posterior
        )
        return posterior, evidence, change

    def count(self) -> np.ndarray:
        return kernels.confusion_counts(self.item_ptr, self.row, self.weight, self.before, self.n_rows)


def naive(case: Case, score_of_vote) -> tuple[np.ndarray, float, float]:
    """Bayes' rule item by item, in logs, with Python's own floats."""
    posterior, evidence = [], 0.0
    n_classes = case.before.shape[1]
    for n in range(len(case.item_ptr) - 1):
        prior = case.log_prior[n if len(case.log_prior) > 1 else 0]
        scores = [float(value) for value in prior]
        for e in range(case.item_ptr[n], case.item_ptr[n + 1]):
            for k in range(n_classes):
                scores[k] += score_of_vote(e, k)
        if len(case.known) and case.known[n] >= 0:
            scores = [s if k == case.known[n] else -math.inf for k, s in enumerate(scores)]
        top = max(scores)
        total = math.fsum(math.exp(s - top) for s in scores)
        evidence += top + math.log(total)
        posterior.append([math.exp(s - top) / total for s in scores])
    posterior = np.array(posterior)
    moved = math.fsum(abs(float(new) - float(old)) for new, old in zip(posterior.ravel(), case.before.ravel(), strict=True)) / 2
    return posterior, evidence, moved


def by_table(case: Case):
    def score(e: int, k: int) -> float:
        weight = float(case.weight[e]) if len(case.weight) else 1.0
        return weight * math.log(max(float(case.table[case.row[e], k]), 1e-300))

    return score


VARIANTS = {
    "plain": {},
    "weights": {"weights": True},
    "gold": {"gold": True},
    "a prior per item": {"per_item": True},
    "zeros": {"zeros": True},
    "all": {"weights": True, "gold": True, "per_item": True, "zeros": True},
}


@pytest.mark.parametrize("variant", VARIANTS)
# Four classes run at a time, then two, then one; rows of twelve and more are long ones.
@pytest.mark.parametrize("n_classes", [1, 2, 3, 4, 7, 12, 100])
def test_posterior_evidence_and_change_equal_a_naive_loop(path: str, n_classes: int, variant: str) -> None:
    case = Case(n_classes, seed=n_classes, **VARIANTS[variant])
    posterior, evidence, change = case.infer()
    expected, expected_evidence, expected_change = naive(case, by_table(case))
    np.testing.assert_allclose(posterior, expected, rtol=0, atol=1e-12)
    assert evidence == pytest.approx(expected_evidence, rel=1e-12)
    assert change == pytest.approx(expected_change, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("variant", ["plain", "gold", "zeros"])
@pytest.mark.parametrize("n_classes", [1, 2, 3, 7, 100])
def test_an_item_that_stands_for_several_counts_as_often(path: str, n_classes: int, variant: str) -> None:
    case = Case(n_classes, seed=n_classes, **VARIANTS[variant])
    times = np.random.default_rng(n_classes).integers(1, 5, len(case.before))
    posterior = case.before.copy()
    evidence, change = kernels.infer_table(
        case.item_ptr, case.row, case.weight, case.table, case.log_prior, case.known, posterior, times.astype(float)
    )
    one_by_one = np.zeros(2)
    for n, often in enumerate(times):
        own = Case(n_classes, seed=n_classes, **VARIANTS[variant])
        first, last = case.item_ptr[n : n + 2]
        own.item_ptr, own.row, own.before = np.array([0, last - first]), case.row[first:last], case.before[n : n + 1]
        own.known = case.known[n : n + 1]
        expected, *sums = naive(own, by_table(own))
        one_by_one += often * np.array(sums)
        np.testing.assert_allclose(posterior[n], expected[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose((evidence, change), one_by_one, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("looked_up", [False, True], ids=["per vote", "per entry"])
@pytest.mark.parametrize("variant", ["plain", "weights", "gold", "a prior per item"])
@pytest.mark.parametrize("n_classes", [1, 2, 7, 100])
def test_voted_inference_equals_a_naive_loop(path: str, n_classes: int, variant: str, looked_up: bool) -> None:
    case = Case(n_classes, seed=n_classes, **VARIANTS[variant])
    place = case.row % 5 if looked_up else np.arange(len(case.row))
    posterior, evidence, change = case.infer_voted(place.astype(np.int32) if looked_up else EACH_VOTE)

    def score(e: int, k: int) -> float:
        weight = float(case.weight[e]) if len(case.weight) else 1.0
        return weight * (float(case.base[place[e]]) + (float(case.bonus[place[e]]) if case.label[e] == k else 0.0))

    expected, expected_evidence, expected_change = naive(case, score)
    np.testing.assert_allclose(posterior, expected, rtol=0, atol=1e-12)
    assert evidence == pytest.approx(expected_evidence, rel=1e-12, abs=1e-12)
    assert change == pytest.approx(expected_change, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("n_classes", [1, 2, 3, 4, 5, 7, 9, 12, 100])
def test_counts_equal_a_naive_loop(path: str, n_classes: int, weights: bool) -> None:
    case = Case(n_classes, seed=n_classes, weights=weights)
    expected = np.zeros((case.n_rows, n_classes))
    for n in range(len(case.item_ptr) - 1):
        for e in range(case.item_ptr[n], case.item_ptr[n + 1]):
            expected[case.row[e]] += case.before[n] * (case.weight[e] if weights else 1.0)
    np.testing.assert_allclose(case.count(), expected, rtol=1e-12, atol=1e-12)


def test_no_votes_are_no_evidence(path: str) -> None:
    posterior, none = np.zeros((2, 3)), np.empty(0)
    evidence, _ = kernels.infer_voted(
        np.zeros(3, np.int64), np.empty(0, np.int16), EACH_VOTE, none, np.ones(4), np.ones(4),
        np.log([[0.5, 0.3, 0.2]]), NONE_KNOWN, posterior,
    )  # fmt: skip
    assert evidence == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(posterior, [[0.5, 0.3, 0.2]] * 2)


@pytest.mark.parametrize("weights", [False, True])
def test_voted_sums_equal_a_naive_loop(path: str, weights: bool) -> None:
    case = Case(7, seed=1, weights=weights)
    expected = np.zeros(case.n_rows)
    for n in range(len(case.item_ptr) - 1):
        for e in range(case.item_ptr[n], case.item_ptr[n + 1]):
            expected[case.row[e]] += case.before[n, case.label[e]] * (case.weight[e] if weights else 1.0)
    found = kernels.voted_sums(case.item_ptr, case.label, case.row, case.weight, case.before, case.n_rows)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_every_path_repeats_itself_to_the_bit(path: str) -> None:
    for variant in VARIANTS.values():
        case = Case(7, seed=3, **variant)
        for compute in (case.infer, case.infer_voted):
            first, second = compute(), compute()
            assert first[0].tobytes() == second[0].tobytes()
            assert first[1:] == second[1:]
        assert case.count().tobytes() == case.count().tobytes()


@pytest.mark.parametrize("ratio", [0.6, 0.999])
def test_a_thousand_votes_on_one_item_do_not_underflow(path: str, ratio: float) -> None:
    # 507 votes against 493: the log-odds of all but 14 cancel.
    label = np.array([0] * 507 + [1] * 493, np.int16)
    table = np.array([[ratio, 1 - ratio], [1 - ratio, ratio]]) * 1e-3
    posterior = np.full((1, 2), 0.5)
    item_ptr = np.array([0, 1000])
    evidence, _ = kernels.infer_table(
        item_ptr, label.astype(np.int32), kernels.NO_WEIGHT, table, np.log([[0.5, 0.5]]), NONE_KNOWN, posterior
    )
    odds = 14 * math.log(ratio / (1 - ratio))
    assert math.log(posterior[0, 0]) - math.log(posterior[0, 1]) == pytest.approx(odds, rel=1e-9)
    # log of 0.5 (p^507 r^493 + r^507 p^493) 10^-3000, with the smaller term taken out
    expected = (
        507 * math.log(ratio) + 493 * math.log(1 - ratio) + math.log1p(math.exp(-odds)) + math.log(0.5) - 3000 * math.log(10)
    )
    assert evidence == pytest.approx(expected, rel=1e-12)


def test_a_class_that_a_vote_excludes_gets_nothing(path: str) -> None:
    # Two votes, each of which is impossible under another class; class 2 is impossible under both.
    table = np.array([[0.5, 0.0, 0.0], [0.5, 0.25, 0.0]])
    posterior = np.zeros((1, 3))
    kernels.infer_table(
        np.array([0, 2]),
        np.array([0, 1], np.int32),
        kernels.NO_WEIGHT,
        table,
        np.log(np.full((1, 3), 1 / 3)),
        NONE_KNOWN,
        posterior,
    )
    np.testing.assert_allclose(posterior, [[1.0, 0.0, 0.0]], atol=1e-12)


def test_an_item_on_which_every_class_is_excluded_follows_the_fewest_exclusions(path: str) -> None:
    table = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    posterior = np.zeros((1, 2))
    kernels.infer_table(
        np.array([0, 3]), np.array([0, 1, 2], np.int32), kernels.NO_WEIGHT, table, np.log([[0.5, 0.5]]), NONE_KNOWN, posterior
    )
    assert np.isfinite(posterior).all()
    np.testing.assert_allclose(posterior, [[0.0, 1.0]], atol=1e-12)


def test_a_problem_without_votes_returns_the_prior(path: str) -> None:
    prior = np.array([[0.2, 0.8]])
    posterior = np.zeros((3, 2))
    none = np.empty(0, np.int32)
    item_ptr = np.zeros(4, np.int64)
    evidence, _ = kernels.infer_table(item_ptr, none, kernels.NO_WEIGHT, np.ones((2, 2)), np.log(prior), NONE_KNOWN, posterior)
    np.testing.assert_allclose(posterior, np.repeat(prior, 3, axis=0), atol=1e-15)
    assert evidence == pytest.approx(0.0, abs=1e-12)
    assert not kernels.confusion_counts(item_ptr, none, kernels.NO_WEIGHT, posterior, 2).any()


@pytest.mark.slow
def test_a_whole_fit_is_the_same_on_every_path(monkeypatch: pytest.MonkeyPatch) -> None:
    # The paths meet real arrays here: dtypes, memory order and read-only flags as `Annotations` gives them.
    from crowdwise.data.annotations import Annotations
    from crowdwise.errors import ConvergenceWarning
    from crowdwise.estimator.registry import label_methods, make

    METHODS = label_methods()

    rng = np.random.default_rng(5)
    truth = rng.integers(0, 3, 40)
    item, annotator = (part.ravel() for part in np.indices((40, 6)))
    label = np.where(rng.random(240) < 0.7, truth[item], rng.integers(0, 3, 240))
    weight = rng.integers(1, 4, 240).astype(float)
    gold = {0: int(truth[0]), 1: int(truth[1])}
    for weights in (None, weight):
        votes = Annotations.from_arrays(item, annotator, label, weights)
        # `auto` fits the others.
        for name in (name for name, method in METHODS.items() if method.suits(3) and name != "auto"):
            fits = []
            # How many threads there are changes no kernel, as the tests above say of each. A few steps show whether paths part.
            few = {"max_iter": 10} if "max_iter" in make(name).get_params() else {}
            for one in ("numpy", "compiled", "threads-2"):
                force(one, monkeypatch)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    fits.append(make(name, **few).fit(votes, gold=gold).result_.model_posterior)
            for other in fits[1:]:
                np.testing.assert_allclose(other, fits[0], rtol=0, atol=1e-9)


@pytest.mark.parametrize("n_classes", [1, 5])
def test_mass_of_classes_equals_a_sum_by_hand(path: str, n_classes: int) -> None:
    case = Case(n_classes, seed=3)
    expected = [math.fsum(float(value) for value in column) for column in case.before.T]
    np.testing.assert_allclose(kernels.class_mass(case.item_ptr, case.before), expected, rtol=1e-14)


def test_loops_see_one_type_whatever_they_are_given() -> None:
    given = np.arange(12.0).reshape(3, 4)
    for array in (given, given[:, ::2], given.astype(np.float32), np.asfortranarray(given)):
        seen = kernels.of_type(np.float64, array)
        np.testing.assert_array_equal(seen, array)
        assert (type(seen), seen.dtype, seen.flags.c_contiguous, seen.flags.writeable) == (np.ndarray, float, True, False)
    given[0, 0] = 5.0  # the caller's array is as it was
    assert kernels.of_type(np.float64, given)[0, 0] == 5.0


@pytest.mark.parametrize("weights", [False, True])
def test_vote_shares_equal_a_count_by_hand(path: str, weights: bool) -> None:
    case = Case(4, seed=6, weights=weights)
    shares = kernels.vote_shares(case.item_ptr, case.label, case.weight, 4)
    counts = [[0.0] * 4 for _ in range(23)]
    for n in range(23):
        for e in range(case.item_ptr[n], case.item_ptr[n + 1]):
            counts[n][case.label[e]] += float(case.weight[e]) if weights else 1.0
    overall = [math.fsum(row[k] for row in counts) for k in range(4)]
    for n, row in enumerate(counts):
        own = row if sum(row) else overall
        np.testing.assert_allclose(shares[n], [value / math.fsum(own) for value in own], rtol=1e-13)
