"""Belief propagation against enumeration, quadrature against scipy.integrate, messages against their definition."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import betaln
from tests.methods.labels.helpers import crowd, diagonal_crowd, quiet
from tests.methods.labels.regular import accuracy_with_ties, regular_crowd

import crowdwise
from crowdwise.data.annotations import Annotations
from crowdwise.errors import DataWarning, SettingError
from crowdwise.estimator.registry import make
from crowdwise.methods.labels.belief_propagation import BeliefPropagation
from crowdwise.parts.priors.abilities import ability_prior, node_rules

RIGHT, WRONG = 2.3, 0.8
# Items and annotators without a loop: a chain with a branch, one annotator with two votes on one item.
TREE_ITEM = [0, 0, 1, 2, 2, 3, 4, 4, 5]
TREE_ANNOTATOR = [0, 0, 0, 0, 1, 1, 1, 2, 3]
LOOP_ITEM = [0, 0, 0, 1, 1, 2, 2, 2, 3]
LOOP_ANNOTATOR = [0, 1, 2, 0, 1, 1, 2, 0, 2]


def votes_on(item: list[int], annotator: list[int], n_classes: int, seed: int, weight: Any = None) -> Annotations:
    label = np.random.default_rng(seed).integers(0, n_classes, len(item))
    return Annotations.from_arrays(
        item, annotator, label, weight, items=range(7), annotators=range(5), classes=range(n_classes)
    )


# -- log of the integral over one annotator, written out from the definition ---------------------------


def one_coin_factor(right: float, wrong: float, n_classes: int) -> float:
    """E[w^right ((1 - w) / (K - 1))^wrong] under Beta(RIGHT, WRONG), in closed form."""
    return float(betaln(RIGHT + right, WRONG + wrong) - betaln(RIGHT, WRONG) - wrong * np.log(max(n_classes - 1, 1)))


def log_factor(family: str, counts_kl: np.ndarray) -> float:
    """Log-likelihood of answers counted by true class and label, the annotator integrated out."""
    n_classes = len(counts_kl)
    right = np.diag(counts_kl)
    wrong = counts_kl.sum(axis=1) - right
    if family == "one-coin":
        return one_coin_factor(right.sum(), wrong.sum(), n_classes)
    return sum(one_coin_factor(r, w, n_classes) for r, w in zip(right, wrong, strict=True))


def atoms_factor(atoms_skl: np.ndarray, weight_s: np.ndarray, counts_kl: np.ndarray) -> float:
    return float(np.log(weight_s @ np.prod(atoms_skl**counts_kl, axis=(1, 2))))


def enumerated(votes: Annotations, prior_k: np.ndarray, factor: Any, history: dict[int, np.ndarray] | None = None) -> Any:
    """Marginals, log p(votes | history) and mean confusion counts, summed over all labelings that agree with gold."""
    n_items, n_classes = votes.n_items, votes.n_classes
    weight = np.ones(votes.n_votes) if votes.weight is None else votes.weight
    allowed = [range(n_classes) if votes.gold is None or votes.gold[n] < 0 else [int(votes.gold[n])] for n in range(n_items)]
    before = [(history or {}).get(a, np.zeros((n_classes, n_classes))) for a in range(votes.n_annotators)]
    marginals, total = np.zeros((n_items, n_classes)), 0.0
    for z in itertools.product(*allowed):
        log_p = float(np.log(prior_k[list(z)]).sum())
        for a in range(votes.n_annotators):
            counts = np.array(before[a], float)
            for e in np.flatnonzero(votes.annotator == a):
                counts[z[votes.item[e]], votes.label[e]] += weight[e]
            log_p += factor(counts) - factor(before[a])
        marginals[np.arange(n_items), list(z)] += np.exp(log_p)
        total += np.exp(log_p)
    return marginals / total, np.log(total)


def tightly(**settings: Any) -> BeliefPropagation:
    return BeliefPropagation(tol=1e-13, max_iter=2000, annotator_prior=f"beta:{RIGHT},{WRONG}").set_params(**settings)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("family", "n_classes"), [("one-coin", 2), ("one-coin", 3), ("two-coin", 2), ("confusion", 2)])
def test_exact_on_trees(family: str, n_classes: int, seed: int) -> None:
    votes = votes_on(TREE_ITEM, TREE_ANNOTATOR, n_classes, seed)
    prior = np.random.default_rng(seed).dirichlet(np.full(n_classes, 5.0))
    model = tightly(family=family, class_prior=prior.tolist()).fit(votes)
    marginals, evidence = enumerated(votes, prior, lambda counts: log_factor(family, counts))
    np.testing.assert_allclose(model.result_.model_posterior, marginals, atol=1e-12)
    assert model.trace_[-1] == pytest.approx(evidence, abs=1e-11)


@pytest.mark.parametrize("family", ["one-coin", "two-coin"])
def test_exact_on_trees_with_weights_gold_and_history(family: str) -> None:
    weight = [1, 2, 1, 3, 1, 1, 2, 1, 1]
    votes = votes_on(TREE_ITEM, TREE_ANNOTATOR, 2, 4, weight).with_gold({2: 1, 5: 0})
    history = {0: np.array([[3, 1], [0, 2]]), 2: np.array([[0, 2], [1, 0]])}
    model = tightly(family=family).fit(votes, history=history)
    marginals, evidence = enumerated(votes, np.full(2, 0.5), lambda counts: log_factor(family, counts), history)
    np.testing.assert_allclose(model.result_.model_posterior, marginals, atol=1e-12)
    assert model.trace_[-1] == pytest.approx(evidence, abs=1e-11)


@pytest.mark.parametrize("shape", ["accuracies", "by class", "matrices"])
def test_exact_on_trees_under_given_draws(shape: str) -> None:
    rng = np.random.default_rng(8)
    weight = np.array([1.0, 3.0, 2.0, 0.0])
    if shape == "matrices":
        atoms = rng.dirichlet(np.ones(3), size=(4, 3))
        given: Any = atoms
    else:
        given = rng.random(4) if shape == "accuracies" else rng.random((4, 3))
        right = given[:, None, None] if shape == "accuracies" else given[:, :, None]
        atoms = np.where(np.eye(3, dtype=bool), right, (1 - right) / 2)
    votes = votes_on(TREE_ITEM, TREE_ANNOTATOR, 3, 5)
    with quiet():
        model = tightly(annotator_prior=given.tolist(), annotator_weights=weight.tolist()).fit(votes)
    marginals, evidence = enumerated(votes, np.full(3, 1 / 3), lambda counts: atoms_factor(atoms, weight / 6, counts))
    np.testing.assert_allclose(model.result_.model_posterior, marginals, atol=1e-12)
    assert model.trace_[-1] == pytest.approx(evidence, abs=1e-11)


def test_spammer_hammer_is_two_atoms() -> None:
    votes = votes_on(TREE_ITEM, TREE_ANNOTATOR, 3, 6)
    named = tightly(annotator_prior="spammer-hammer:0.25,0.8").fit(votes)
    given = tightly(annotator_prior=[0.8, 1 / 3], annotator_weights=[1, 3]).fit(votes)
    np.testing.assert_allclose(named.result_.model_posterior, given.result_.model_posterior, atol=1e-13)


def test_certain_atoms_and_contradicting_gold_stay_finite() -> None:
    # Somebody who is never wrong is wrong about a known label, twice.
    votes = votes_on(TREE_ITEM, TREE_ANNOTATOR, 2, 0)
    wrong = {n: int(1 - votes.label[np.flatnonzero(votes.item == n)[0]]) for n in (1, 2)}
    for atoms in ([1.0], [1.0, 0.0], [1.0, 0.6]):
        with quiet():
            model = tightly(annotator_prior=atoms, max_iter=50).fit(votes, gold=wrong)
        assert np.isfinite(model.result_.model_posterior).all()
        assert np.isfinite(model.confusion_).all()
    # With another atom to explain it, that atom is taken.
    assert model.result_.accuracy[0] == pytest.approx(0.6)


@pytest.mark.parametrize("seed", range(4))
def test_close_to_enumeration_on_small_loops(seed: int) -> None:
    votes = votes_on(LOOP_ITEM, LOOP_ANNOTATOR, 2, seed)
    model = tightly().fit(votes)
    marginals, evidence = enumerated(votes, np.full(2, 0.5), lambda counts: log_factor("one-coin", counts))
    np.testing.assert_allclose(model.result_.model_posterior, marginals, atol=0.1)
    assert model.trace_[-1] == pytest.approx(evidence, abs=0.15)
    field = make("mean-field", annotator_prior=f"beta:{RIGHT},{WRONG}", tol=1e-12, max_iter=5000).fit(votes)
    assert np.abs(model.result_.model_posterior - marginals).max() < np.abs(field.result_.model_posterior - marginals).max()


def direct_round(votes: Annotations, nodes: np.ndarray, weight: np.ndarray, prior: np.ndarray, rounds: int) -> np.ndarray:
    """Messages of single votes by their definition, with explicit products and no division."""
    n_votes, n_classes = votes.n_votes, votes.n_classes
    to_annotator = make("majority").fit(votes).result_.model_posterior[votes.item]
    for _ in range(rounds):
        to_item = np.zeros((n_votes, n_classes))
        for e in range(n_votes):
            others = [o for o in np.flatnonzero(votes.annotator == votes.annotator[e]) if o != e]
            rest = weight * np.prod([nodes[:, :, votes.label[o]] @ to_annotator[o] for o in others], axis=0)
            to_item[e] = rest @ nodes[:, :, votes.label[e]] / rest.sum()
        for e in range(n_votes):
            others = [o for o in np.flatnonzero(votes.item == votes.item[e]) if o != e]
            to_annotator[e] = prior * np.prod(to_item[others], axis=0)
        to_annotator /= to_annotator.sum(axis=1, keepdims=True)
    belief = np.stack([prior * np.prod(to_item[votes.item == n], axis=0) for n in range(votes.n_items)])
    return np.asarray(belief / belief.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("rounds", [1, 3])
def test_rounds_follow_the_definition_of_the_messages(rounds: int) -> None:
    rng = np.random.default_rng(2)
    nodes, weight = rng.dirichlet(np.ones(3), size=(5, 3)), rng.dirichlet(np.ones(5))
    votes, _ = crowd(2, 8, diagonal_crowd(4, 3, 0.7), votes_per_item=3)
    prior = np.array([0.5, 0.2, 0.3])
    with quiet():
        model = tightly(
            annotator_prior=nodes, annotator_weights=weight, max_iter=rounds, class_prior=prior
        ).fit(votes)  # fmt: skip
    np.testing.assert_allclose(model.result_.model_posterior, direct_round(votes, nodes, weight, prior, rounds), atol=1e-12)


# -- the integral ---------------------------------------------------------------------------------


def rules(family: str, n_classes: int, degree: Any, integral: str = "auto", samples: int | None = None) -> Any:
    prior = ability_prior(f"beta:{RIGHT},{WRONG}", None, n_classes)
    return node_rules(prior, family, n_classes, np.asarray(degree), integral, samples, np.random.default_rng(0))


@pytest.mark.parametrize("n_votes", [1, 4, 7, 30])
def test_quadrature_is_exact_with_half_as_many_nodes_as_votes(n_votes: int) -> None:
    (rule,), _ = rules("one-coin", 2, [n_votes])
    assert len(rule.node) >= n_votes // 2 + 1
    mass = np.random.default_rng(n_votes).random(n_votes)

    def likelihood(w: Any) -> Any:
        return np.prod([w * p + (1 - w) * (1 - p) for p in mass], axis=0)

    expected, _ = integrate.quad(lambda w: likelihood(w) * stats.beta.pdf(w, RIGHT, WRONG), 0, 1, epsabs=1e-14, limit=200)
    assert np.exp(rule.log_weight) @ likelihood(rule.node) == pytest.approx(expected, rel=1e-7)
    # The reference itself stops at 1e-8; against moments in closed form the rule is exact.
    for power in range(n_votes + 1):
        moment = np.exp(betaln(RIGHT + power, WRONG) - betaln(RIGHT, WRONG))
        assert np.exp(rule.log_weight) @ rule.node**power == pytest.approx(moment, rel=1e-12)


def test_product_rule_is_exact_for_two_accuracies() -> None:
    (rule,), _ = rules("two-coin", 2, [6])
    first, second = rule.node[:, 0, 0], rule.node[:, 1, 1]
    moment = np.exp(betaln(RIGHT + 4, WRONG) + betaln(RIGHT + 2, WRONG + 3) - 2 * betaln(RIGHT, WRONG))
    assert np.exp(rule.log_weight) @ (first**4 * second**2 * (1 - second) ** 3) == pytest.approx(moment, rel=1e-12)


def test_node_counts_follow_the_votes_of_each_annotator() -> None:
    found, rule = rules("one-coin", 3, [0, 1, 4, 4, 9, 5000])
    assert [len(r.node) for r in found] == [2, 4, 6, 64]
    assert rule.tolist() == [0, 0, 1, 1, 2, 3]
    assert [len(r.node) for r in rules("two-coin", 2, [4, 5000])[0]] == [16, 576]
    for r in found:
        assert np.exp(r.log_weight).sum() == pytest.approx(1)


def test_a_thousand_votes_need_no_more_than_64_nodes() -> None:
    (rule,), _ = rules("one-coin", 2, [1000])
    right, wrong = 780, 220
    log_found = np.log(np.exp(rule.log_weight + right * np.log(rule.node) + wrong * np.log(1 - rule.node)).sum())
    exact = betaln(RIGHT + right, WRONG + wrong) - betaln(RIGHT, WRONG)
    # The hardest integrand of all, 1000 known answers; it is 40 times narrower than the prior.
    assert log_found == pytest.approx(exact, abs=0.05)


@pytest.mark.parametrize(("integral", "tolerance"), [("sobol", 2e-3), ("monte-carlo", 0.05)])
def test_draws_come_close_to_quadrature(integral: str, tolerance: float) -> None:
    votes, _ = crowd(3, 30, diagonal_crowd(10, 2, 0.7), votes_per_item=3)
    exact = tightly().fit(votes)
    drawn = tightly(integral=integral, tol=1e-11).fit(votes)
    np.testing.assert_allclose(drawn.result_.model_posterior, exact.result_.model_posterior, atol=tolerance)


@pytest.mark.slow
def test_quadrature_is_the_limit_of_a_fine_grid_of_quantiles() -> None:
    votes, _ = crowd(3, 20, diagonal_crowd(10, 2, 0.7), votes_per_item=3)
    grid = stats.beta.ppf((np.arange(4000) + 0.5) / 4000, RIGHT, WRONG)
    exact, fine = tightly(tol=1e-10).fit(votes), tightly(annotator_prior=grid, tol=1e-10).fit(votes)
    np.testing.assert_allclose(fine.result_.model_posterior, exact.result_.model_posterior, atol=1e-4)


@pytest.mark.parametrize("family", ["two-coin", "confusion"])
def test_draws_of_tables_have_the_priors_moments(family: str) -> None:
    (rule,), _ = rules(family, 3, [5], samples=4096)
    assert rule.node.shape == (4096, 3, 3)
    np.testing.assert_allclose(rule.node.sum(axis=1), 1)
    right = np.einsum("skk->sk", rule.node)
    mean, variance = stats.beta.stats(RIGHT, WRONG)
    np.testing.assert_allclose(right.mean(axis=0), mean, atol=2e-3)
    np.testing.assert_allclose(right.var(axis=0), variance, atol=2e-3)
    np.testing.assert_allclose(np.corrcoef(right.T), np.eye(3), atol=0.05)


# -- what a fit is used for -----------------------------------------------------------------------


def test_a_new_item_takes_what_all_votes_say_of_its_annotators() -> None:
    # E[R | votes of a] on a tree, from the ratio of two enumerated evidences.
    votes = votes_on(TREE_ITEM, TREE_ANNOTATOR, 2, 3)
    model = tightly().set_params(confidence="model").fit(votes)
    new = Annotations.from_arrays(["new"], [0], [1], annotators=range(5), classes=[0, 1])
    _, before = enumerated(votes, np.full(2, 0.5), lambda counts: log_factor("one-coin", counts))
    more = Annotations.from_arrays(
        [*TREE_ITEM, 6], [*TREE_ANNOTATOR, 0], [*votes.label, 1], items=range(7), annotators=range(5), classes=range(2)
    )
    joint = [
        enumerated(more.with_gold({6: k}), np.full(2, 0.5), lambda counts: log_factor("one-coin", counts))[1] for k in (0, 1)
    ]
    likelihood = np.exp(np.array(joint) - before)
    np.testing.assert_allclose(model.predict_proba(new)[0], likelihood / likelihood.sum(), atol=1e-12)
    accuracy = model.result_.accuracy[0]
    assert accuracy == pytest.approx(likelihood[1] / likelihood.sum(), abs=1e-12)
    stranger = Annotations.from_arrays(["new"], ["someone"], [1], classes=[0, 1])
    assert model.predict_proba(stranger)[0, 1] == pytest.approx(RIGHT / (RIGHT + WRONG))


def test_an_item_of_the_fit_is_judged_without_its_own_votes() -> None:
    votes = votes_on(TREE_ITEM, TREE_ANNOTATOR, 2, 3)
    model = tightly().fit(votes)
    # Another answer of annotator 1 on item 3, of which the fit knows annotator 1's answer only.
    changed = Annotations.from_arrays([3], [1], [1 - votes.label[votes.item == 3][0]], annotators=range(5), classes=[0, 1])
    rest = votes_on(TREE_ITEM, TREE_ANNOTATOR, 2, 3).drop(items=[3])
    np.testing.assert_allclose(model.predict_proba(changed), tightly().fit(rest).predict_proba(changed), atol=1e-12)


def test_confusion_and_its_spread_are_posterior_moments() -> None:
    votes = Annotations.from_arrays(range(6), [0] * 6, [0, 1, 0, 1, 1, 0], classes=[0, 1]).with_gold(
        dict(zip(range(6), [0, 1, 0, 1, 0, 1], strict=True))
    )
    model = tightly().fit(votes)
    mean, variance = stats.beta.stats(RIGHT + 4, WRONG + 2)
    assert model.confusion_[0, 0, 0] == pytest.approx(mean)
    assert model.result_.confusion_sd[0, 0, 0] == pytest.approx(np.sqrt(variance))


def test_repeated_votes_share_their_message_exactly() -> None:
    votes = Annotations.from_arrays([0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 0, 1], [0, 0, 1, 1, 0, 0], classes=[0, 1, 2])
    model = tightly().fit(votes)
    rows = model.result_.annotators.log_lik(votes, np.arange(4))
    total = np.exp(rows.sum(axis=0))
    np.testing.assert_allclose(total / total.sum(), model.result_.model_posterior[0], atol=1e-12)
    # Equal votes say equal things, and a vote speaks for its label more than the others do.
    np.testing.assert_allclose(rows[0], rows[1])
    assert rows[2, 1] - rows[2, 0] > rows[0, 1] - rows[0, 0]


def test_damping_ends_at_the_same_point() -> None:
    votes, _ = crowd(5, 40, diagonal_crowd(8, 3, 0.7), votes_per_item=4)
    plain, damped = tightly().fit(votes), tightly(damping=0.4).fit(votes)
    np.testing.assert_allclose(damped.result_.model_posterior, plain.result_.model_posterior, atol=1e-9)
    assert damped.n_iter_ > plain.n_iter_


def test_blocks_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    votes, _ = crowd(6, 30, diagonal_crowd(5, 3, 0.7))
    for settings in ({}, {"family": "confusion", "samples": 16}):
        whole = BeliefPropagation(**settings, max_iter=3)
        cut = BeliefPropagation(**settings, max_iter=3)
        with quiet():
            whole.fit(votes)
            with monkeypatch.context() as patch:
                for module in ("parts.annotators.messages", "kernels.nodes", "kernels.pairs"):
                    patch.setattr(f"crowdwise.{module}._BLOCK", 100)
                cut.fit(votes)
        np.testing.assert_allclose(cut.result_.model_posterior, whole.result_.model_posterior, atol=1e-12)


@pytest.mark.parametrize("name", ["belief-propagation", "mean-field"])
@pytest.mark.parametrize(
    "settings",
    [
        {"family": "two-coin"},
        {"family": "confusion", "annotator_prior": "dirichlet:3,1"},
        {"annotator_prior": "spammer-hammer:0.5"},
        {"annotator_prior": [[0.9, 0.6, 0.7], [0.4, 0.5, 0.3]], "annotator_weights": [2, 1]},
    ],
)
def test_every_family_predicts_explains_weighs_and_saves(name: str, settings: dict[str, Any], tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    item, annotator, label = (rng.integers(0, top, 40) for top in (8, 5, 3))
    weight = rng.integers(0, 4, 40)
    names = {"items": range(9), "annotators": range(6), "classes": range(3)}
    weighted = Annotations.from_arrays(item, annotator, label, weight, **names)
    repeated = Annotations.from_arrays(*(np.repeat(column, weight) for column in (item, annotator, label)), **names)
    with quiet():
        model, same = (make(name, **settings, max_iter=5).fit(votes, gold={0: 1}) for votes in (weighted, repeated))
    np.testing.assert_allclose(model.result_.model_posterior, same.result_.model_posterior, atol=1e-9)
    np.testing.assert_allclose(model.confusion_, same.confusion_, atol=1e-9)
    np.testing.assert_allclose(model.trace_, same.trace_, rtol=1e-9)
    np.testing.assert_allclose(model.predict_proba(weighted)[1:], model.posterior_[1:], atol=1e-12)
    alone = np.concatenate([model.predict_proba(weighted[[n]]) for n in range(9)])
    np.testing.assert_allclose(alone, model.predict_proba(weighted), atol=1e-12)
    for n in range(1, 8):
        why = model.explain(n)
        p = model.posterior_[n, [why.label, why.against]]
        assert why.total == pytest.approx(np.log(p[0] / p[1]), abs=1e-9)
    model.result_.save(tmp_path)
    loaded = crowdwise.load(tmp_path)
    assert loaded.predict_proba(repeated).tobytes() == model.predict_proba(repeated).tobytes()
    assert loaded.result_.confusion_sd.tobytes() == model.result_.confusion_sd.tobytes()


def test_coarse_draws_are_named() -> None:
    votes, _ = crowd(7, 150, diagonal_crowd(3, 4, 0.8))
    with pytest.warns(DataWarning, match="too coarse"):
        BeliefPropagation(family="confusion", samples=64, tol=0.1).fit(votes)
    few, _ = crowd(7, 20, diagonal_crowd(20, 3, 0.8), votes_per_item=3)
    BeliefPropagation(family="confusion").fit(few)


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"annotator_prior": "gamma:2,1"}, "annotator_prior"),
        ({"annotator_prior": "beta:2"}, "annotator_prior"),
        ({"annotator_prior": "beta:0,1"}, "annotator_prior"),
        ({"annotator_prior": "spammer-hammer:1.5"}, "annotator_prior"),
        ({"annotator_prior": [1.2]}, "annotator_prior"),
        ({"annotator_prior": np.ones((2, 5))}, "annotator_prior"),
        ({"annotator_prior": np.ones((2, 3, 3))}, "annotator_prior"),
        ({"annotator_prior": None}, "annotator_prior"),
        ({"annotator_prior": [0.5, 0.7], "annotator_weights": [1.0]}, "annotator_weights"),
        ({"annotator_weights": [1.0]}, "annotator_weights"),
        ({"integral": "quadrature", "family": "confusion"}, "integral"),
        ({"damping": 1.0}, "damping"),
        ({"samples": 0}, "samples"),
        ({"samples": 2.5}, "samples"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], word: str) -> None:
    votes, _ = crowd(1, 5, diagonal_crowd(3, 3, 0.8))
    with pytest.raises(SettingError, match=word):
        BeliefPropagation(**settings).fit(votes)


# -- recovery: the inference settings of Kim et al. (2022) ------------------------------------------


@pytest.mark.slow
def test_belief_propagation_beats_mean_field_beats_majority_under_the_true_prior() -> None:
    found = np.array([_accuracies(seed, (2, 1), 0) for seed in range(8)])
    majority, field, belief = found.mean(axis=0)
    # Recorded over 15 seeds: 74.3, 75.5 and 76.3 %.
    assert majority < field < belief
    assert belief == pytest.approx(0.763, abs=0.012)


@pytest.mark.slow
def test_belief_propagation_survives_a_spammer_and_a_wrong_prior() -> None:
    found = np.array([_accuracies(seed, (2, 1.6), 1) for seed in range(6)])
    _, field, belief = found.mean(axis=0)
    assert belief > 0.70
    assert belief > field + 0.1


def _accuracies(seed: int, model_prior: tuple[float, float], n_spammers: int) -> list[float]:
    votes, truth = regular_crowd(seed, 1000, 3, 4, (2, 1), n_spammers)
    prior = {"annotator_prior": f"beta:{model_prior[0]},{model_prior[1]}"}
    with quiet():
        models = [make("majority"), make("mean-field", **prior), make("belief-propagation", **prior)]
        return [accuracy_with_ties(model.fit(votes).result_.model_posterior, truth) for model in models]
