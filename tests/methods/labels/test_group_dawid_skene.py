from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.methods.labels.helpers import crowd, diagonal_crowd, quiet, random_votes

from crowdwise.data.annotations import Annotations
from crowdwise.errors import SettingError
from crowdwise.estimator.registry import make

TEAMS = {0: "red", 1: "red", 2: "red", 3: "blue", 4: "blue"}


def fit(votes: Annotations, **settings: Any) -> Any:
    with quiet():
        return make("group-dawid-skene", **settings).fit(votes)


def enumerated(model: Any, n: int) -> tuple[np.ndarray, float]:
    """Posterior and log-evidence of item n, summing over the true class and what every group saw."""
    votes, part = model.result_.votes, model.result_.annotators
    n_classes = votes.n_classes
    index = range(int(votes.item_ptr[n]), int(votes.item_ptr[n + 1]))
    joint = np.zeros(n_classes)
    for z in range(n_classes):
        for seen in product(range(n_classes), repeat=part.n_groups):
            probability = model.prior_[z] * np.prod([part.xi_jkc[j, z, c] for j, c in enumerate(seen)])
            for e in index:
                a = votes.annotator[e]
                source = z if part.group_a[a] == part.n_groups else seen[part.group_a[a]]
                weight = 1.0 if votes.weight is None else votes.weight[e]
                probability *= part.pi_alc[a, votes.label[e], source] ** weight
            joint[z] += probability
    return joint / joint.sum(), float(np.log(joint.sum()))


@pytest.mark.parametrize("weighted", [False, True])
def test_posterior_and_bound_by_enumeration(weighted: bool) -> None:
    rng = np.random.default_rng(0)
    votes = random_votes(rng, 6, 6, 3, 40, **({"weight": rng.random(40) + 0.5} if weighted else {}))
    model = fit(votes, groups=TEAMS, max_iter=7, tol=1e-15, smoothing=0.1)
    expected = [enumerated(model, n) for n in range(6)]
    np.testing.assert_allclose(model.result_.model_posterior, [q for q, _ in expected], atol=1e-10)
    assert model.result_.trace["votes"][-1] == pytest.approx(sum(evidence for _, evidence in expected))


def test_one_step_of_em_by_enumeration() -> None:
    rng = np.random.default_rng(3)
    votes = random_votes(rng, 5, 5, 2, 30)
    before, after = (fit(votes, groups=TEAMS, max_iter=m, tol=1e-15, smoothing=0.0).result_.annotators for m in (4, 5))
    prior = fit(votes, groups=TEAMS, max_iter=4, tol=1e-15, smoothing=0.0).prior_
    xi_counts, pi_counts = np.zeros((2, 2, 2)), np.zeros((5, 2, 2))
    for n in range(5):
        index = range(int(votes.item_ptr[n]), int(votes.item_ptr[n + 1]))
        states = list(product(range(2), repeat=3))
        p = []
        for z, *seen in states:
            value = prior[z] * before.xi_jkc[0, z, seen[0]] * before.xi_jkc[1, z, seen[1]]
            for e in index:
                value *= before.pi_alc[votes.annotator[e], votes.label[e], seen[before.group_a[votes.annotator[e]]]]
            p.append(value)
        p = np.array(p) / np.sum(p)
        for (z, *seen), share in zip(states, p, strict=True):
            for j in range(2):
                # A group that did not vote on the item has nothing to count.
                if any(before.group_a[votes.annotator[e]] == j for e in index):
                    xi_counts[j, z, seen[j]] += share
            for e in index:
                a = votes.annotator[e]
                pi_counts[a, votes.label[e], seen[before.group_a[a]]] += share
    xi_counts += np.array([[4.0, 0.0], [0.0, 4.0]])  # Dirichlet(5, 1)
    np.testing.assert_allclose(after.xi_jkc[:2], xi_counts / xi_counts.sum(axis=2, keepdims=True), atol=1e-9)
    np.testing.assert_allclose(after.pi_alc, pi_counts / pi_counts.sum(axis=1, keepdims=True), atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_the_bound_never_falls(seed: int) -> None:
    rng = np.random.default_rng(seed)
    votes = random_votes(rng, 20, 6, 3, 90, weight=rng.random(90))
    trace = fit(votes, groups=TEAMS, max_iter=100, tol=1e-12).trace_
    assert (np.diff(trace) >= -1e-8 * np.abs(trace[:-1])).all()


def test_explanations_of_groups_add_up() -> None:
    votes = random_votes(np.random.default_rng(5), 8, 6, 3, 60)
    model = fit(votes, groups=TEAMS)
    for n in range(8):
        why = model.explain(n)
        label, against = int(why.label), int(why.against)
        assert why.rows["contribution"].sum() == pytest.approx(
            np.log(model.posterior_[n, label] / model.posterior_[n, against]), abs=1e-8
        )


def test_without_groups_it_is_dawid_skene() -> None:
    votes, _ = crowd(0, 60, diagonal_crowd(6, 3, 0.75))
    plain = make("dawid-skene", tol=1e-5, max_iter=200).fit(votes)
    for groups in ("auto", {}, {0: "alone", 1: "too"}):
        np.testing.assert_allclose(fit(votes, groups=groups).result_.model_posterior, plain.result_.model_posterior, atol=1e-8)


def test_identical_annotators_count_once() -> None:
    # Three copies of one annotator against two independent ones of the same quality.
    votes, _ = crowd(2, 300, diagonal_crowd(3, 2, 0.8))
    first = votes.annotator == 0
    copies = [
        Annotations.from_arrays(votes.item[first], [name] * int(first.sum()), votes.label[first]) for name in ("c1", "c2")
    ]
    both = Annotations.from_arrays(votes.item, [f"a{a}" for a in votes.annotator], votes.label).concat(*copies)
    aware = fit(both, groups={"a0": 1, "c1": 1, "c2": 1})
    against = [n for n in range(300) if (votes.label[votes.item == n] != votes.label[votes.item == n][0])[1:].all()]
    votes_of_others = [votes.label[votes.item == n][1] for n in against]
    assert against
    assert (aware.labels_[against] == votes_of_others).mean() > 0.9
    assert (make("dawid-skene").fit(both).labels_[against] == votes_of_others).mean() < 0.1


def test_a_group_with_most_votes_is_not_the_start() -> None:
    # Six of ten repeat one wrong answer; four know the truth. From vote shares EM would follow the six.
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=300)
    wrong = (truth + rng.integers(1, 3, size=300)) % 3
    labels = [np.where(rng.random(300) < 0.95, wrong, rng.integers(3, size=300)) for _ in range(6)]
    labels += [np.where(rng.random(300) < 0.8, truth, rng.integers(3, size=300)) for _ in range(4)]
    votes = Annotations.from_matrix(np.column_stack(labels), annotators=range(10))
    team = dict.fromkeys(range(6), "team")
    assert (fit(votes, groups=team).labels_ == truth).mean() > 0.85
    assert (fit(votes, groups=team, init=make("majority").fit(votes).posterior_).labels_ == truth).mean() < 0.2


def test_confusion_is_through_the_group() -> None:
    model = fit(random_votes(np.random.default_rng(1), 10, 6, 3, 80), groups=TEAMS)
    part = model.result_.annotators
    for a in range(6):
        np.testing.assert_allclose(model.confusion_[a], part.xi_jkc[part.group_a[a]] @ part.pi_alc[a].T)


def test_wrong_groups_are_refused() -> None:
    votes = random_votes(np.random.default_rng(1), 4, 3, 2, 10)
    for wrong in ("teams", 3, None, ["a"], {"stranger": 1, "other": 1}):
        with pytest.raises(SettingError, match="groups"):
            make("group-dawid-skene", groups=wrong).fit(votes)
