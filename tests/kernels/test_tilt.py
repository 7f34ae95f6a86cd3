"""Items that differ in how much they tell, against sums over every discrimination and every class."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from crowdwise.kernels import tilt
from crowdwise.kernels.tilt import (
    DISCRIMINATIONS,
    count_discriminations,
    infer_tilted,
    mixture_weights,
    of_discriminations,
    tilt_tables,
)

SHARE = np.array([0.1, 0.2, 0.4, 0.3])


class Case:
    """Random tables and votes of a few items, items without votes among them."""

    def __init__(self, seed: int, n_items: int, n_annotators: int, n_classes: int, n_votes: int, **more: bool) -> None:
        rng = np.random.default_rng(seed)
        self.pi = rng.dirichlet(np.ones(n_classes), (n_annotators, n_classes))  # [a, k, l]
        self.item = np.sort(rng.integers(0, n_items, n_votes))
        self.annotator = rng.integers(0, n_annotators, n_votes)
        self.label = rng.integers(0, n_classes, n_votes)
        self.weight = rng.choice([0.0, 0.5, 1.0, 2.0], n_votes) if more.get("weights") else np.empty(0)
        self.known = rng.integers(-1, n_classes, n_items) if more.get("known") else np.empty(0, np.int64)
        rows = n_items if more.get("prior_by_item") else 1
        self.prior = rng.dirichlet(np.ones(n_classes), rows)
        self.n_items, self.n_classes = n_items, n_classes

    def infer(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Posterior, evidence and logs from the kernel, which gets a table that is not normalised."""
        scale = np.random.default_rng(0).uniform(0.5, 2, self.pi.shape[:2])
        log_table, log_norm = tilt_tables(np.log(self.pi * scale[:, :, None]).transpose(0, 2, 1))
        ptr = np.searchsorted(self.item, np.arange(self.n_items + 1))
        row = self.annotator * self.n_classes + self.label
        posterior = np.full((self.n_items, self.n_classes), np.nan)
        evidence, top = infer_tilted(
            ptr, row, self.weight, log_table, log_norm, np.log(self.prior), self.known, SHARE, posterior
        )
        return posterior, evidence, top

    def enumerate(self) -> tuple[np.ndarray, np.ndarray]:
        """Posterior [N, K] and rho_k prod_e p(y_e | a_e, k, f) summed over k, [N, F], one product after the other."""
        joint = np.zeros((self.n_items, 4, self.n_classes))
        for n in range(self.n_items):
            for i, f in enumerate((0, 1 / 3, 1, 3)):
                for k in range(self.n_classes):
                    if len(self.known) and self.known[n] not in (-1, k):
                        continue
                    joint[n, i, k] = self.prior[n if len(self.prior) > 1 else 0, k]
                    for e in np.flatnonzero(self.item == n):
                        tilted = self.pi[self.annotator[e], k] ** f
                        chance = tilted[self.label[e]] / tilted.sum()
                        joint[n, i, k] *= chance ** (self.weight[e] if len(self.weight) else 1)
        mixed = np.tensordot(joint, SHARE, ((1,), (0,)))
        return mixed / mixed.sum(axis=1, keepdims=True), joint.sum(axis=2)


CASES: dict[str, tuple[Any, ...]] = {
    "plain": (5, 3, 3, 12),
    "one annotator": (6, 1, 2, 9),
    "one item": (1, 4, 3, 7),
    "one class": (3, 2, 1, 5),
    "two classes": (8, 5, 2, 40),
    "hundred classes": (4, 3, 100, 10),
    "no votes": (3, 2, 4, 0),
}
OPTIONS = [
    {},
    {"weights": True},
    {"known": True},
    {"prior_by_item": True},
    {"weights": True, "known": True, "prior_by_item": True},
]


@pytest.fixture(params=["numpy", "compiled"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(tilt, "COMPILED_FROM", 0 if request.param == "compiled" else 10**9)
    return str(request.param)


@pytest.mark.parametrize("sizes", CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "+".join(options) or "votes")
def test_posterior_and_evidence_are_the_sums_over_discriminations_and_classes(
    path: str, sizes: tuple[int, ...], options: dict[str, bool]
) -> None:
    case = Case(sum(sizes), *sizes, **options)
    posterior, evidence, top = case.infer()
    expected, sums = case.enumerate()
    np.testing.assert_allclose(posterior, expected, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(evidence * np.exp(top)[:, None], sums, rtol=1e-9)
    np.testing.assert_allclose(of_discriminations(evidence, SHARE), sums * SHARE / (sums @ SHARE)[:, None], rtol=1e-9)
    np.testing.assert_allclose(count_discriminations(evidence, SHARE), (sums * SHARE / (sums @ SHARE)[:, None]).sum(axis=0))


def test_both_paths_agree_where_probabilities_underflow(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(3, 2, 40, 3, 3000, weights=True, prior_by_item=True)
    found = []
    for least in (0, 10**9):
        monkeypatch.setattr(tilt, "COMPILED_FROM", least)
        found.append(case.infer())
    for compiled, plain in zip(*found, strict=True):
        assert np.isfinite(plain).all()
        np.testing.assert_allclose(compiled, plain, rtol=1e-9, atol=1e-280)
    assert (found[0][2] < -800).all()


def test_tables_are_normalised_over_labels() -> None:
    log_table, log_norm = tilt_tables(np.log(np.random.default_rng(0).uniform(0.1, 5, (3, 4, 4))))
    probability = np.exp(log_table).reshape(3, 4, 4)
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    for i, f in enumerate(DISCRIMINATIONS):
        np.testing.assert_allclose(log_norm[:, i], np.log((probability**f).sum(axis=1)), atol=1e-12)
    # Where nobody can tell, all four labels are equally likely; at 1 the table is as the model has it.
    np.testing.assert_allclose(log_norm[:, 0], np.log(4))
    np.testing.assert_allclose(log_norm[:, 2], 0, atol=1e-12)


def test_discriminations_are_those_of_the_method_and_stay_so() -> None:
    assert DISCRIMINATIONS.tolist() == [0, 1 / 3, 1, 3]
    with pytest.raises(ValueError, match="read-only"):
        DISCRIMINATIONS[0] = 1


def test_votes_that_contradict_each_other_are_on_an_item_that_nobody_could_tell() -> None:
    case = Case(0, 2, 6, 2, 12)
    case.pi[:] = [[0.9, 0.1], [0.1, 0.9]]
    case.prior[:] = 0.5
    case.item, case.annotator = np.repeat([0, 1], 6), np.tile(np.arange(6), 2)
    case.label = np.array([0, 1] * 3 + [0] * 6)
    _, evidence, _ = case.infer()
    kinds = of_discriminations(evidence, np.full(4, 1 / 4))
    assert kinds[0].argmax() == 0
    assert kinds[1].argmax() == 3


# -- weights ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_em_of_the_weights_never_lowers_the_likelihood(seed: int) -> None:
    rng = np.random.default_rng(seed)
    evidence = rng.gamma(0.3, size=(40, 4)) + 1e-9
    seen: list[np.ndarray] = []

    def step(share: np.ndarray) -> np.ndarray:
        seen.append(share)
        return np.asarray((evidence * share / (evidence @ share)[:, None]).sum(axis=0))

    found = mixture_weights(step)
    # A tenth of an item of each kind beforehand: what EM climbs is the likelihood with these as a prior.
    climbed = [np.log(evidence @ share).sum() + 0.1 * np.log(share).sum() for share in seen]
    assert (np.diff(climbed) >= -1e-10).all()
    assert len(seen) <= 40
    assert seen[0].tolist() == [0.25] * 4
    assert found is seen[-1]
    assert found.sum() == pytest.approx(1)
    # It stops once no weight moves by a thousandth.
    mass = step(found) + 0.1
    assert len(seen) == 41 or np.abs(mass / mass.sum() - found).max() < 1e-3


def test_one_step_of_the_weights_by_hand() -> None:
    # One item, equally likely under all kinds: a quarter each, and there it stays.
    assert mixture_weights(lambda share: share).tolist() == [0.25] * 4
    # A thousand items of the last kind only: (1000 + .1) / 1000.4 at once, and there it stays.
    found = mixture_weights(lambda _: np.array([0.0, 0.0, 0.0, 1000.0]))
    np.testing.assert_allclose(found, np.array([0.1, 0.1, 0.1, 1000.1]) / 1000.4)
