"""bayes-dgc, deep-mf and deep-bp: messages against a loop, the paper's special cases, and the estimators end to end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import digamma, gammaln

torch = pytest.importorskip("torch")

from tests.engines.gradient.helpers import batch_of, blobs, even, quiet, random_logits, small_crowd, some_votes, votes_on  # noqa: E402
from tests.methods.classify.crowds import clouds  # noqa: E402
from tests.methods.classify.loop_oracle import loop_round  # noqa: E402

import crowdwise  # noqa: E402
from crowdwise.data.annotations import Annotations  # noqa: E402
from crowdwise.errors import SettingError  # noqa: E402
from crowdwise.estimator.registry import make_classifier  # noqa: E402
from crowdwise.methods.classify.bayes_dgc import BayesDGC  # noqa: E402
from crowdwise.methods.classify.deep_bp import DeepBP  # noqa: E402
from crowdwise.methods.classify.deep_mf import DeepMF  # noqa: E402
from crowdwise.methods.labels.belief_propagation import BeliefPropagation  # noqa: E402
from crowdwise.parts.annotators.model import DirichletConfusion  # noqa: E402
from crowdwise.parts.heads.confusion import ConfusionHead  # noqa: E402
from crowdwise.parts.heads.penalties import Trace  # noqa: E402

ALL = [BayesDGC, DeepMF, DeepBP]
FAST: dict[str, Any] = {"epochs": 4, "warmup": 1, "batch_size": 16, "hidden": 8, "learning_rate": 0.01}
FEATURES, VOTES = small_crowd()


def fitted(cls: Any, features: Any = FEATURES, votes: Any = VOTES, *, fit: dict[str, Any] | None = None, **more: Any) -> Any:
    with quiet():
        return cls(**(FAST | more)).fit(features, votes, **(fit or {}))


def weights(model: Any) -> bytes:
    state = {**model.network_.state_dict(), **{f"head.{name}": value for name, value in model.head_.state_dict().items()}}
    return b"".join(value.numpy().tobytes() for value in state.values())


# -- messages against the loop ---------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_rounds_of_messages_are_those_of_a_loop_over_annotators(n_classes: int) -> None:
    rng = np.random.default_rng(n_classes)
    truth = rng.integers(0, n_classes, 25)
    votes = votes_on(truth, even(7, n_classes, 0.7), share=0.5)
    draws = rng.dirichlet(np.ones(n_classes), (30, n_classes))
    prior = rng.dirichlet(np.ones(n_classes), 25)
    model = BeliefPropagation(annotator_prior=draws)._annotators(votes, None)
    # The first round takes a posterior for what items say; with flat messages before, that is their prior.
    posterior = prior.copy()
    messages = np.full((votes.n_votes, n_classes), 1 / n_classes)
    for _ in range(4):
        model = model.update(votes, posterior)
        model.infer(votes, np.log(prior), np.empty(0, np.int16), posterior)
        messages, beliefs = loop_round(
            votes.item.tolist(), votes.annotator.tolist(), votes.label.tolist(), prior, draws, messages
        )
        np.testing.assert_allclose(posterior, beliefs, rtol=1e-9)
        got = np.exp(model.log_message_pj)
        np.testing.assert_allclose(got / got.sum(axis=1, keepdims=True), messages, rtol=1e-9)


def test_the_loop_is_exact_on_a_tree() -> None:
    """The oracle itself: two items and one annotator, all labelings summed out by hand."""
    rng = np.random.default_rng(0)
    draws, prior = rng.dirichlet(np.ones(2), (5, 2)), rng.dirichlet(np.ones(2), 2)
    messages = np.full((2, 2), 0.5)
    for _ in range(2):
        messages, beliefs = loop_round([0, 1], [0, 0], [0, 1], prior, draws, messages)
    joint = np.einsum("i,j,si,sj->ij", prior[0], prior[1], draws[:, :, 0], draws[:, :, 1])
    joint /= joint.sum()
    np.testing.assert_allclose(beliefs, [joint.sum(axis=1), joint.sum(axis=0)], rtol=1e-12)


@pytest.mark.slow
def test_beliefs_of_the_estimator_are_the_loops_under_the_clipped_network() -> None:
    draws = np.random.default_rng(0).dirichlet(np.ones(3), (12, 3)) * 0.5 + 0.5 * np.eye(3)
    model = fitted(DeepBP, annotator_prior=draws, ceiling=0.6, validation=0, epochs=15)
    prior = model.predict_proba(FEATURES)
    assert prior.max() > 0.6
    # Rows of three classes with one above 0.6: half of the excess for each of the others, which stay below.
    for row in prior:
        if row.max() > 0.6:
            excess, top = row.max() - 0.6, row.argmax()
            row += excess / 2
            row[top] = 0.6
    messages = np.full((VOTES.n_votes, 3), 1 / 3)
    for _ in range(60):
        messages, beliefs = loop_round(
            VOTES.item.tolist(), VOTES.annotator.tolist(), VOTES.label.tolist(), prior, draws, messages
        )
    np.testing.assert_allclose(model.result_.model_posterior, beliefs, atol=1e-4)


# -- special cases of deepMF (Kim et al., Table 1) ---------------------------------------------------
# With q(z) := f and a point for every matrix, the bound (31) becomes (32):
#     sum over votes of sum_k f_k log R[a, k, y]  +  log Dirichlet(R | alpha)


def point_objective(f: np.ndarray, confusion_akl: np.ndarray, votes: Annotations) -> float:
    """The first term, per vote."""
    weight = np.ones(votes.n_votes) if votes.weight is None else votes.weight
    total = sum(
        weight[e] * f[votes.item[e], k] * np.log(confusion_akl[votes.annotator[e], k, votes.label[e]])
        for e in range(votes.n_votes)
        for k in range(votes.n_classes)
    )
    return float(total / weight.sum())


def matrices(seed: int = 0, n_annotators: int = 3, n_classes: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    # Entries stay above the floor at which the head of the crowd layers starts.
    return 0.4 * rng.dirichlet(np.ones(n_classes), (n_annotators, n_classes)) + 0.4 * np.eye(n_classes) + 0.2 / n_classes


def test_crowd_layers_are_deep_mf_with_points_where_the_network_is_certain() -> None:
    votes, confusion = some_votes(), matrices()
    certain = 80 * torch.eye(3, dtype=torch.float64)[torch.tensor([0, 2, 1, 1, 0])]
    ccem = -ConfusionHead(torch.tensor(confusion)).loss(certain, batch_of(votes)).item()
    assert ccem == pytest.approx(point_objective(certain.softmax(1).numpy(), confusion, votes), rel=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_elsewhere_crowd_layers_exceed_it_by_jensens_inequality(seed: int) -> None:
    votes, confusion, logits = some_votes(), matrices(seed), random_logits(seed, 5, 3)
    ccem = -ConfusionHead(torch.tensor(confusion)).loss(logits, batch_of(votes)).item()
    objective = point_objective(logits.softmax(1).numpy(), confusion, votes)
    assert ccem > objective + 1e-3
    # Equal again, whatever the network says, where an annotator's answers do not depend on the truth.
    guess = np.repeat(matrices(seed)[:, :1], 3, axis=1)
    ccem = -ConfusionHead(torch.tensor(guess)).loss(logits, batch_of(votes)).item()
    assert ccem == pytest.approx(point_objective(logits.softmax(1).numpy(), guess, votes), rel=1e-10)


def test_dirichlets_that_narrow_to_points_leave_that_objective() -> None:
    """The evidence that deepMF's annotators give, as the mass of their rows grows."""
    votes, confusion, f = some_votes(), matrices(), random_logits(0, 5, 3).softmax(1).numpy()
    errors = []
    for mass in (1e2, 1e4, 1e6):
        beta_alk = np.ascontiguousarray(mass * confusion.transpose(0, 2, 1))
        evidence = DirichletConfusion(beta_alk, beta_alk).log_lik(votes, np.arange(votes.n_votes))
        # Evidence is weighted already.
        mean = (f[votes.item] * evidence).sum() / votes.weight.sum()
        errors.append(abs(mean - point_objective(f, confusion, votes)))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-5


def test_the_log_trace_is_a_dirichlet_prior_below_one_on_the_diagonal() -> None:
    """Equation (35): -log Dirichlet(alpha_kk = 1 - strength, 1 beside) = strength x trace(log R) + const."""
    strength, values = 0.2, []
    for seed in range(4):
        confusion = matrices(seed)
        rows = [
            stats.dirichlet.logpdf(confusion[a, k], np.where(np.arange(3) == k, 1 - strength, 1)) for a, k in np.ndindex(3, 3)
        ]
        values.append(-sum(rows) - strength * np.log(np.einsum("akk->ak", confusion)).sum())
    np.testing.assert_allclose(values, values[0], rtol=1e-10)


def gradient_of_trace(confusion_akl: np.ndarray, strength: float) -> np.ndarray:
    """By the logits of the matrices, from our head and penalty, [A, L, K]."""
    head = ConfusionHead(torch.tensor(confusion_akl))
    Trace(strength)(torch.zeros(5, 3), head.log_confusion(), batch_of(some_votes())).backward()
    assert head.logits.grad is not None
    return head.logits.grad.numpy()


def gradient_of_prior(confusion_akl: np.ndarray, alpha_akk: np.ndarray) -> np.ndarray:
    """Of -log Dirichlet with alpha on the diagonal, [A, K], and one beside it; by the same logits, [A, L, K].

    d log R_kk / d logit_kl = [k = l] - R_kl.
    """
    diagonal = np.eye(3) - confusion_akl
    return ((1 - alpha_akk)[:, :, None] * diagonal).transpose(0, 2, 1)


def test_the_trace_penalty_pulls_like_that_prior() -> None:
    """d trace(R) = sum R_kk d log R_kk: at any R it is the prior with 1 - alpha_kk = strength x R_kk."""
    strength, confusion = 0.3, matrices()
    alpha = 1 - strength * np.einsum("akk->ak", confusion)
    np.testing.assert_allclose(gradient_of_trace(confusion, strength), gradient_of_prior(confusion, alpha), rtol=1e-9)
    # Where all diagonals are alike, as at the start of Trace, one prior gives the direction for all.
    alike = even(3, 3, 0.8)
    trace, prior = gradient_of_trace(alike, strength), gradient_of_prior(alike, np.full((3, 3), 0.5))
    cosine = (trace * prior).sum() / np.linalg.norm(trace) / np.linalg.norm(prior)
    assert cosine == pytest.approx(1, abs=1e-12)
    assert np.abs(trace).max() > 0.01


def test_the_whole_objective_of_trace_is_deep_mf_with_points_and_that_prior() -> None:
    """Where the network is certain, the gradients of both by the matrices' logits agree."""
    votes, confusion, strength = some_votes(), matrices(), 0.1
    certain = 80 * torch.eye(3, dtype=torch.float64)[torch.tensor([0, 2, 1, 1, 0])]
    head = ConfusionHead(torch.tensor(confusion), [Trace(strength)])
    head.loss(certain, batch_of(votes)).backward()
    counts, weight = np.zeros((3, 3, 3)), votes.weight / votes.weight.sum()
    for e in range(votes.n_votes):
        counts[votes.annotator[e], certain[votes.item[e]].argmax().item(), votes.label[e]] += weight[e]
    # d (sum_l C_kl log R_kl) / d logit_kl = C_kl - R_kl sum_j C_kj.
    slope = counts - confusion * counts.sum(axis=2, keepdims=True)
    expected = -slope.transpose(0, 2, 1) + gradient_of_prior(confusion, 1 - strength * np.einsum("akk->ak", confusion))
    assert head.logits.grad is not None
    np.testing.assert_allclose(head.logits.grad, expected, atol=1e-10)


# -- what a fit leaves -----------------------------------------------------------------------------


def test_methods_are_exported_and_registered() -> None:
    assert (crowdwise.BayesDGC, crowdwise.DeepMF, crowdwise.DeepBP) == (BayesDGC, DeepMF, DeepBP)
    for cls in ALL:
        assert type(make_classifier(cls.name)) is cls


@pytest.mark.slow
@pytest.mark.parametrize("cls", ALL)
def test_the_seed_decides(cls: Any) -> None:
    one, two, other = fitted(cls), fitted(cls), fitted(cls, random_state=1)
    assert weights(one) == weights(two)
    assert one.posterior_.tobytes() == two.posterior_.tobytes()
    assert one.concentration_.tobytes() == two.concentration_.tobytes()
    assert np.abs(one.predict_proba(FEATURES) - other.predict_proba(FEATURES)).max() > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("cls", ALL)
def test_they_learn(cls: Any, n_classes: int) -> None:
    features, truth = clouds(1, 200, n_classes)
    votes = votes_on(truth, even(5, n_classes, 0.75), seed=2)
    model = fitted(cls, features, votes, epochs=25, batch_size=32)
    assert (model.labels_ == truth).mean() > 0.95
    assert (model.predict(features) == truth).mean() > 0.9
    assert model.confusion_.shape == (5, n_classes, n_classes)
    np.testing.assert_allclose(model.confusion_.sum(axis=2), 1, rtol=1e-9)
    np.testing.assert_allclose(np.einsum("akk->ak", model.confusion_).mean(), 0.75, atol=0.08)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"steps": "natural"}, {"steps": "natural", "rate": 0.2}, {"class_shares": True}])
def test_bayes_dgc_learns_by_all_its_steps(settings: dict[str, Any]) -> None:
    features, truth = clouds(1, 200, 3)
    votes = votes_on(truth, even(5, 3, 0.75), seed=2)
    model = fitted(BayesDGC, features, votes, epochs=25, batch_size=32, **settings)
    assert (model.labels_ == truth).mean() > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("cls", ALL)
def test_a_weak_crowd_does_not_make_a_class_take_in_the_other(cls: Any) -> None:
    """Three votes per item, two of them right: class shares that count twice, or a start that is sure, end at one class."""
    features, truth = clouds(0, 200, 2)
    votes = votes_on(truth, even(5, 2, 0.65), seed=100, share=0.6)
    model = cls(random_state=0).fit(features, votes)
    assert (model.predict(features) == truth).mean() > 0.85


def test_over_all_items_natural_steps_of_size_one_are_the_exact_ones() -> None:
    whole: dict[str, Any] = {"batch_size": 60, "validation": 0}
    exact, natural = fitted(BayesDGC, **whole), fitted(BayesDGC, steps="natural", rate=1.0, **whole)
    np.testing.assert_allclose(natural.class_concentration_, exact.class_concentration_, rtol=1e-9)
    np.testing.assert_allclose(natural.posterior_, exact.posterior_, atol=1e-9)
    small, falling = fitted(BayesDGC, steps="natural", rate=0.1, **whole), fitted(BayesDGC, steps="natural", **whole)
    parts = fitted(BayesDGC, steps="natural", rate=1.0, validation=0)
    for other in (small, falling, parts):
        assert np.abs(other.class_concentration_ - exact.class_concentration_).max() > 1e-4


def dirichlet_log_normaliser(parameters: np.ndarray) -> float:
    """Of rows, summed."""
    return float(gammaln(parameters).sum() - gammaln(parameters.sum(axis=-1)).sum())


def test_the_trace_of_bayes_dgc_is_its_bound() -> None:
    """Of a network that stands still, so that f is what it was at every visit.

    Where beta is prior plus counts under q, the bound is that of Dirichlet-multinomial counts, f under q, and the entropy of q.
    """
    model = fitted(BayesDGC, validation=0, learning_rate=1e-12)
    head, q = model.head_, model.head_.q_nk.numpy()
    with torch.no_grad():
        log_f = model.network_(torch.as_tensor(FEATURES)).log_softmax(1).numpy()
    prior, counts = (rows.view(-1, 3, 3).transpose(1, 2).numpy() for rows in (head.prior_rk, head.count_rk))
    expected = dirichlet_log_normaliser(prior + counts) - dirichlet_log_normaliser(prior)
    expected += (q * (log_f - np.log(q))).sum()
    assert model.trace_[-1] == pytest.approx(expected, rel=1e-9)
    assert len(model.trace_) == model.n_iter_ == 4
    # After the warm-up, whose labels are those of the start, no epoch lowers it.
    assert (np.diff(model.trace_[1:]) > -1e-9).all()
    assert model.result_.bound.keys() == {"votes", "labels", "class prior", "annotators"}
    assert fitted(DeepMF).result_.bound.keys() == {"votes"}


@pytest.mark.parametrize("cls", [DeepMF, DeepBP])
def test_rounds_before_an_epoch_are_as_many_as_said(cls: Any) -> None:
    one, five = fitted(cls, rounds=1, validation=0), fitted(cls, rounds=5, validation=0)
    assert (one.head_.rounds, five.head_.rounds) == (1, 5)
    assert np.abs((one.head_.target - five.head_.target).numpy()).max() > 1e-6


@pytest.mark.parametrize("cls", ALL)
def test_one_vote_per_item(cls: Any) -> None:
    features, truth = clouds(2, 240, 2)
    rng = np.random.default_rng(0)
    who = rng.integers(0, 4, 240)
    label = np.where(rng.random(240) < 0.75, truth, 1 - truth)
    votes = Annotations.from_arrays(np.arange(240), who, label, items=range(240))
    model = fitted(cls, features, votes, epochs=25, batch_size=32)
    given = (label == truth).mean()
    assert (model.predict(features) == truth).mean() > given + 0.1
    # Under a ceiling a vote may outweigh a network that is right.
    assert (model.labels_ == truth).mean() >= given


@pytest.mark.parametrize("cls", ALL)
def test_an_adversary_is_found_out(cls: Any) -> None:
    features, truth = clouds(3, 150, 2)
    confusion = even(5, 2, 0.8)
    confusion[4] = [[0.1, 0.9], [0.9, 0.1]]
    model = fitted(cls, features, votes_on(truth, confusion, seed=2), epochs=15, batch_size=32)
    assert (model.labels_ == truth).mean() > 0.95
    np.testing.assert_allclose(model.confusion_[4], confusion[4], atol=0.12)
    assert np.einsum("akk->ak", model.confusion_[:4]).min() > 0.6


@pytest.mark.parametrize("cls", ALL)
def test_ids_may_be_any_text(cls: Any, tmp_path: Path) -> None:
    items = [f"фото {n} 写真\N{CAT FACE}" for n in range(40)]
    features, truth = blobs(4, 40, 2)
    names = np.array(["ñandú", "\N{SNOWMAN}\u200b"], dtype=object)
    label = np.stack([truth, truth, 1 - truth], axis=1).ravel()
    who = np.tile(np.array(["Zoë", "李雷", "x y\t"], dtype=object), 40)
    votes = Annotations.from_arrays(np.repeat(np.array(items, dtype=object), 3), who, names[label], items=items)
    model = fitted(cls, features, votes, fit={"items": items})
    model.save(tmp_path / "модель")
    again = crowdwise.load(tmp_path / "модель")
    assert sorted(again.classes_.tolist()) == sorted(names.tolist())
    assert again.result_.items_frame().equals(model.result_.items_frame())
    assert again.predict_proba(features, votes).tolist() == model.predict_proba(features, votes).tolist()


# -- posteriors by hand ----------------------------------------------------------------------------


def expected_log(concentration: np.ndarray) -> np.ndarray:
    return digamma(concentration) - digamma(concentration.sum(axis=-1, keepdims=True))


def with_votes(log_prior: np.ndarray, log_confusion_akl: np.ndarray) -> np.ndarray:
    scores = log_prior.copy()
    for e in range(VOTES.n_votes):
        scores[VOTES.item[e]] += log_confusion_akl[VOTES.annotator[e], :, VOTES.label[e]]
    posterior = np.exp(scores - scores.max(axis=1, keepdims=True))
    return posterior / posterior.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("settings", [{}, {"class_shares": True}, {"steps": "natural"}, {"members": 2}])
def test_the_posterior_of_bayes_dgc_by_hand(settings: dict[str, Any]) -> None:
    model = fitted(BayesDGC, **settings)
    log_prior = np.log(model.predict_proba(FEATURES)) + model.log_shares_
    posterior = with_votes(log_prior, expected_log(model.concentration_))
    np.testing.assert_allclose(model.result_.model_posterior, posterior, rtol=1e-6)
    prior = np.where(np.eye(3, dtype=bool), 5.0, 1.0)
    counts = np.zeros((4, 3, 3))
    for e in range(VOTES.n_votes):
        counts[VOTES.annotator[e], :, VOTES.label[e]] += model.result_.model_posterior[VOTES.item[e]]
    np.testing.assert_allclose(model.concentration_, prior + counts, atol=1e-3)


def test_the_class_shares_of_bayes_dgc() -> None:
    model = fitted(BayesDGC, class_shares=True, alpha0=1.7)
    # Sixty items, the prior of each of three classes, and nothing else.
    assert model.class_concentration_.sum() == pytest.approx(60 + 3 * 1.7, rel=1e-6)
    np.testing.assert_allclose(model.log_shares_, expected_log(model.class_concentration_), rtol=1e-9)


@pytest.mark.parametrize("ceiling", [0.55, 1.0])
def test_the_posterior_of_deep_mf_by_hand(ceiling: float) -> None:
    model = fitted(DeepMF, family="confusion", annotator_prior="dir:3,1", ceiling=ceiling, epochs=15)
    prior = model.predict_proba(FEATURES)
    for row in prior:
        if row.max() > ceiling:
            excess, top = row.max() - ceiling, row.argmax()
            row += excess / 2
            row[top] = ceiling
    assert prior.max() <= ceiling
    posterior = with_votes(np.log(prior), expected_log(model.concentration_))
    np.testing.assert_allclose(model.result_.model_posterior, posterior, rtol=1e-6)
    expected = np.tile(np.where(np.eye(3, dtype=bool), 3.0, 0.5), (4, 1, 1))
    for e in range(VOTES.n_votes):
        expected[VOTES.annotator[e], :, VOTES.label[e]] += model.result_.model_posterior[VOTES.item[e]]
    np.testing.assert_allclose(model.concentration_, expected, atol=1e-3)


def test_the_accuracies_of_deep_mf_by_hand() -> None:
    """One coin: Beta(2 + expected right votes, 1 + expected wrong ones)."""
    model = fitted(DeepMF, annotator_prior="beta:2,1")
    right = np.zeros(4)
    for e in range(VOTES.n_votes):
        right[VOTES.annotator[e]] += model.result_.model_posterior[VOTES.item[e], VOTES.label[e]]
    expected = (2 + right) / (3 + VOTES.votes_per_annotator)
    np.testing.assert_allclose(np.einsum("akk->ak", model.confusion_), np.tile(expected[:, None], 3), atol=1e-4)


@pytest.mark.parametrize("cls", [BayesDGC, DeepMF])
@pytest.mark.parametrize("settings", [{}, {"members": 2}, {"dropout_passes": 4, "dropout": 0.4}, {"refit": False}])
def test_training_rows_with_their_votes_get_the_posterior_of_the_fit(cls: Any, settings: dict[str, Any]) -> None:
    model = fitted(cls, **settings)
    np.testing.assert_allclose(model.predict_proba(FEATURES, VOTES), model.posterior_, rtol=1e-9)
    assert (model.predict(FEATURES, VOTES) == model.labels_).all()


def test_new_rows_of_deep_bp_hear_all_that_is_known_of_their_annotators() -> None:
    """A vote of an annotator on a new item: E[R] under its posterior, as reported."""
    model = fitted(DeepBP, ceiling=0.8)
    new = Annotations.from_arrays([0, 1], VOTES.annotators[[1, 3]], [2, 0], items=[0, 1], classes=VOTES.classes.tolist())
    rows = FEATURES[:2] + 0.1
    prior = model.predict_proba(rows)
    for row in prior:
        if row.max() > 0.8:
            excess, top = row.max() - 0.8, row.argmax()
            row += excess / 2
            row[top] = 0.8
    expected = prior * np.stack([model.confusion_[1, :, 2], model.confusion_[3, :, 0]])
    np.testing.assert_allclose(model.predict_proba(rows, new), expected / expected.sum(axis=1, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize("cls", [DeepMF, DeepBP])
def test_an_item_without_votes_has_the_answer_of_the_network(cls: Any) -> None:
    votes = VOTES.take_votes(VOTES.item >= 20)
    model = fitted(cls, FEATURES, votes, ceiling=0.5, epochs=15)
    assert model.head_.target[:20].max() <= 0.5 + 1e-9, "in training no answer is above the ceiling"
    assert model.predict_proba(FEATURES)[:20].max() > 0.6
    np.testing.assert_allclose(model.posterior_[:20], model.predict_proba(FEATURES)[:20], rtol=1e-9)


@pytest.mark.parametrize("cls", [DeepMF, DeepBP])
def test_with_the_lowest_ceiling_the_labels_are_those_of_the_votes(cls: Any) -> None:
    model = fitted(cls, ceiling=1 / 3, validation=0)
    with quiet():
        reference = model._aggregator().set_params(tol=1e-12, max_iter=1000).fit(VOTES)
    np.testing.assert_allclose(model.result_.model_posterior, reference.result_.model_posterior, atol=1e-4)


@pytest.mark.parametrize("cls", ALL)
def test_gold_labels_are_kept_and_teach(cls: Any) -> None:
    features, truth = blobs(5, 60, 2)
    votes = votes_on(truth, even(3, 2, 0.6))
    gold = [int(1 - truth[n]) if n < 5 else None for n in range(60)]
    model = fitted(cls, features, votes, fit={"gold": gold})
    np.testing.assert_array_equal(model.posterior_[:5], np.eye(2)[1 - truth[:5]])


@pytest.mark.parametrize("cls", ALL)
def test_without_a_refit_the_first_run_is_kept_and_all_votes_are_used(cls: Any) -> None:
    model = fitted(cls, refit=False, validation=0.3, epochs=6)
    assert len(model.history_["held_out"]) == len(model.history_["loss"])
    everything = fitted(cls, refit=True, validation=0.3, epochs=6)
    assert model.history_ == everything.history_
    assert weights(model) != weights(everything)
    # The annotators are inferred from all votes at the end, held-out ones included.
    if cls is BayesDGC:
        per_annotator = model.concentration_.sum(axis=(1, 2)) - 3 * (5 + 2)
        np.testing.assert_allclose(per_annotator, VOTES.votes_per_annotator, rtol=1e-6)
    else:
        assert np.abs(model.posterior_ - everything.posterior_).max() < 0.5


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("init", ["identity", "majority", "dawid-skene", "array"])
def test_every_start(cls: Any, init: str) -> None:
    given: Any = np.random.default_rng(0).dirichlet(np.ones(3), 60) if init == "array" else init
    model = fitted(cls, init=given)
    assert np.isfinite(model.posterior_).all()
    np.testing.assert_allclose(model.posterior_.sum(axis=1), 1, rtol=1e-9)


@pytest.mark.parametrize("cls", ALL)
def test_class_weights_reach_the_network(cls: Any) -> None:
    plain, weighted = fitted(cls), fitted(cls, class_weight={0: 10.0, 1: 1.0, 2: 0.1})
    assert weighted.predict_proba(FEATURES)[:, 0].mean() > plain.predict_proba(FEATURES)[:, 0].mean() + 0.02


# -- saving, loading, going on ---------------------------------------------------------------------

DRAWS = (0.5 * np.random.default_rng(1).dirichlet(np.ones(3), (8, 3)) + 0.5 * np.eye(3)).round(6)
DRAWS /= DRAWS.sum(axis=2, keepdims=True)
SAVED: dict[str, tuple[Any, dict[str, Any]]] = {
    "bayes-dgc": (BayesDGC, {}),
    "bayes-dgc, natural, with shares": (BayesDGC, {"steps": "natural", "class_shares": True}),
    "deep-mf": (DeepMF, {}),
    "deep-mf, confusion": (DeepMF, {"family": "confusion", "annotator_prior": "dir:2,1"}),
    "deep-mf, draws": (DeepMF, {"annotator_prior": DRAWS}),
    "deep-bp": (DeepBP, {}),
    "deep-bp, draws with weights": (DeepBP, {"annotator_prior": DRAWS, "annotator_weights": np.arange(1.0, 9.0)}),
    "deep-bp, confusion": (DeepBP, {"family": "confusion", "samples": 32}),
    "deep-bp, ensemble": (DeepBP, {"members": 2}),
    "bayes-dgc, ensemble with dropout": (BayesDGC, {"members": 2, "dropout": 0.3, "dropout_passes": 3}),
    "deep-mf, dropout": (DeepMF, {"dropout": 0.3, "dropout_passes": 3}),
}


@pytest.mark.parametrize("case", SAVED)
def test_a_saved_model_answers_as_before(case: str, tmp_path: Path) -> None:
    cls, settings = SAVED[case]
    model = fitted(cls, **settings)
    model.save(tmp_path / "model")
    again = crowdwise.load(tmp_path / "model")
    assert type(again) is cls
    new = Annotations.from_arrays([0, 1, 1], [0, 1, "stranger"], [1, 2, 2], items=[0, 1], classes=[0, 1, 2])
    for one, two in (
        (model.predict_proba(FEATURES), again.predict_proba(FEATURES)),
        (model.predict_proba(FEATURES, VOTES), again.predict_proba(FEATURES, VOTES)),
        (model.predict_proba(FEATURES[:2], new), again.predict_proba(FEATURES[:2], new)),
        (model.posterior_, again.posterior_),
        (model.confusion_, again.confusion_),
        (model.concentration_, again.concentration_),
        *zip(model.confusion_interval(0.9), again.confusion_interval(0.9), strict=True),
    ):
        assert one.tobytes() == two.tobytes()
    assert model.score(FEATURES, VOTES) == again.score(FEATURES, VOTES)
    if cls is BayesDGC:
        assert model.class_concentration_.tolist() == again.class_concentration_.tolist()
        assert model.log_shares_.tolist() == again.log_shares_.tolist()
    if model.model_.n_draws > 1:
        one, two = model.uncertainty(FEATURES), again.uncertainty(FEATURES)
        for name in ("probability", "sd", "entropy", "disagreement"):
            assert getattr(one, name).tobytes() == getattr(two, name).tobytes()
    # A new fit of what was loaded is the same fit: no setting was lost.
    with quiet():
        assert again.fit(FEATURES, VOTES).posterior_.tobytes() == model.posterior_.tobytes()


class Stop:
    """Interrupts training after some epochs, as Ctrl-C would."""

    def __init__(self, after: int) -> None:
        self.left = after

    def __call__(self, number: int, objective: float, judged: float) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


RUNS: dict[str, tuple[Any, dict[str, Any]]] = {
    "bayes-dgc": (BayesDGC, {}),
    "bayes-dgc, natural": (BayesDGC, {"steps": "natural", "dropout": 0.3}),
    "deep-mf": (DeepMF, {"precision": "float32"}),
    "deep-bp": (DeepBP, {}),
    "deep-bp, confusion, damped": (DeepBP, {"family": "confusion", "samples": 32, "damping": 0.3, "rounds": 1}),
    "deep-bp, no refit": (DeepBP, {"refit": False, "patience": 1, "epochs": 12, "learning_rate": 0.05}),
    "bayes-dgc, ensemble": (BayesDGC, {"members": 2}),
    "deep-mf, draws": (DeepMF, {"annotator_prior": DRAWS}),
}


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS)
def test_an_interrupted_run_ends_in_the_same_bits(run: str, tmp_path: Path) -> None:
    cls, settings = RUNS[run]
    settings = {"validation": 0.2} | settings
    numbers: list[int] = []
    whole = fitted(cls, fit={"progress": lambda number, *_: numbers.append(number)}, **settings)
    path = tmp_path / "run.checkpoint"
    ends = {1, len(numbers)} if run in ("bayes-dgc", "deep-mf", "deep-bp") else set()
    for after in {len(numbers) // 2 + 1} | ends:
        with pytest.raises(KeyboardInterrupt):
            fitted(cls, fit={"progress": Stop(after)}, checkpoint=path, **settings)
        assert os.listdir(tmp_path) != []
        rest: list[int] = []
        resumed = fitted(cls, fit={"progress": lambda number, *_: rest.append(number)}, checkpoint=path, **settings)  # noqa: B023
        assert rest == numbers[after:]
        assert weights(resumed) == weights(whole)
        assert resumed.posterior_.tobytes() == whole.posterior_.tobytes()
        assert resumed.concentration_.tobytes() == whole.concentration_.tobytes()
        assert resumed.predict_proba(FEATURES).tobytes() == whole.predict_proba(FEATURES).tobytes()
        assert os.listdir(tmp_path) == []


# -- settings that are refused ---------------------------------------------------------------------

BAD: dict[str, tuple[list[Any], dict[str, Any], str]] = {
    "a prior of no kind": (ALL, {"annotator_prior": "normal:2,1"}, "annotator_prior must be like 'beta:2,1'"),
    "a prior without numbers": (ALL, {"annotator_prior": "dir:"}, "annotator_prior must be like"),
    "a prior with one number": (ALL, {"annotator_prior": "dir:2"}, "annotator_prior must be like"),
    "a prior of zero": (ALL, {"annotator_prior": "dir:2,0"}, "annotator_prior must be like"),
    "a prior below zero": (ALL, {"annotator_prior": "dir:-2,1"}, "annotator_prior must be like"),
    "a prior that is infinite": (ALL, {"annotator_prior": "dir:inf,1"}, "annotator_prior must be like"),
    "a prior that is NaN": (ALL, {"annotator_prior": "dir:nan,1"}, "annotator_prior must be like"),
    "a prior of words": (ALL, {"annotator_prior": "dir:many,few"}, "annotator_prior must be like"),
    "a prior that is a number": (ALL, {"annotator_prior": 3.0}, "annotator_prior"),
    "no prior": (ALL, {"annotator_prior": None}, "annotator_prior"),
    "draws of another number of classes": ([DeepMF, DeepBP], {"annotator_prior": np.full((5, 2, 2), 0.5)}, r"\[S, 3, 3\]; got"),
    "draws that are no probabilities": ([DeepMF, DeepBP], {"annotator_prior": [0.5, 1.5]}, "holds probabilities"),
    "rows that do not sum to one": ([DeepMF, DeepBP], {"annotator_prior": np.full((5, 3, 3), 0.5)}, "sum to one"),
    "weights for text": ([DeepMF, DeepBP], {"annotator_weights": [1, 2]}, "annotator_weights belong to draws"),
    "too few weights": (
        [DeepMF, DeepBP],
        {"annotator_prior": [0.5, 0.9], "annotator_weights": [1]},
        "annotator_weights needs 2 numbers",
    ),
    "a Beta prior of Dirichlet rows": (
        [BayesDGC],
        {"annotator_prior": "beta:2,1"},
        "annotator_prior must be like 'dir:5,2'; got 'beta:2,1'",
    ),
    "spammers in Dirichlet rows": (
        [BayesDGC],
        {"annotator_prior": "spammer-hammer:0.5"},
        "has Dirichlet rows: annotator_prior must be like 'dir:5,2'",
    ),
    "draws for Dirichlet rows": (
        [BayesDGC],
        {"annotator_prior": DRAWS},
        "has Dirichlet rows: annotator_prior must be like 'dir:5,2'",
    ),
    "a ceiling below 1 / K": ([DeepMF, DeepBP], {"ceiling": 0.3}, "ceiling must be between 1 / K = 0.333"),
    "a ceiling above one": ([DeepMF, DeepBP], {"ceiling": 1.1}, "ceiling must be between 1 / K = 0.333.* and 1; got 1.1"),
    "a ceiling of zero": ([DeepMF, DeepBP], {"ceiling": 0.0}, "ceiling must be above 0"),
    "a ceiling of NaN": ([DeepMF, DeepBP], {"ceiling": float("nan")}, "ceiling must be"),
    "a rate above one": ([BayesDGC], {"rate": 1.5, "steps": "natural"}, "rate must be at most 1"),
    "a rate of zero": ([BayesDGC], {"rate": 0.0, "steps": "natural"}, "rate must be above 0"),
    "unknown steps": ([BayesDGC], {"steps": "memoized"}, "did you mean 'memoised'"),
    "no rounds": ([DeepMF, DeepBP], {"rounds": 0}, "rounds must be at least 1"),
    "full damping": ([DeepBP], {"damping": 1.0}, "damping must be below 1"),
    "no quadrature": ([DeepBP], {"family": "confusion", "integral": "quadrature"}, "no quadrature for 3 classes"),
    "half a draw": ([DeepBP], {"family": "confusion", "samples": 0.5}, "samples must be a whole number"),
    "no members": (ALL, {"members": 0}, "members must be at least 1"),
    "passes below zero": (ALL, {"dropout_passes": -1}, "dropout_passes must be at least 0"),
    "no hidden units": (ALL, {"hidden": 0}, "hidden must be at least 1"),
    "an unknown start": (ALL, {"init": "owm"}, "init: no start 'owm'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_settings_are_clear_errors_before_any_epoch(case: str) -> None:
    classes, settings, message = BAD[case]
    for cls in classes:
        epochs: list[int] = []
        with pytest.raises(SettingError, match=message):
            fitted(cls, fit={"progress": lambda *_: epochs.append(1)}, **settings)  # noqa: B023
        assert epochs == []


def test_bayes_dgc_takes_both_spellings_of_its_prior() -> None:
    one, two = fitted(BayesDGC, annotator_prior="dir:4,1"), fitted(BayesDGC, annotator_prior="dirichlet:4,1")
    assert one.posterior_.tobytes() == two.posterior_.tobytes()
    assert np.abs(one.concentration_ - fitted(BayesDGC).concentration_).max() > 0.1
