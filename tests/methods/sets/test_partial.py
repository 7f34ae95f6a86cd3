"""Votes for classes, against classes, and abstentions."""

from __future__ import annotations

import numpy as np
import pytest

from crowdwise.data.annotations import Annotations
from crowdwise.errors import InputError
from crowdwise.estimator.registry import make
from crowdwise.methods.sets.partial import PartialDawidSkene, Symbols


def partial_crowd(seed: int, n_items: int = 200, n_classes: int = 4, against: float = 0.4) -> tuple[Annotations, np.ndarray]:
    """Twelve annotators, four votes per item; of one's votes some are against a class, and a tenth are abstentions."""
    rng = np.random.default_rng(seed)
    truth, ability = rng.integers(0, n_classes, n_items), rng.uniform(0.4, 0.9, 12)
    rows = []
    for n in range(n_items):
        for a in rng.choice(12, 4, replace=False):
            seen = truth[n] if rng.random() < ability[a] else rng.integers(n_classes)
            kind = rng.random()
            other = rng.choice([k for k in range(n_classes) if k != seen])
            label = "abstain" if kind < 0.1 else f"!c{other}" if kind < 0.1 + against else f"c{seen}"
            rows.append((n, a, label))
    return Annotations.from_arrays(*zip(*rows, strict=True), items=range(n_items)), truth


def test_symbols_are_read_from_labels() -> None:
    symbols = Symbols.of(np.array(["!b", "a", "abstain", "not:c"], dtype=object), ("!", "not:"), ("abstain",))
    assert symbols.classes.tolist() == ["a", "b", "c"]
    assert symbols.silent.tolist() == [False, False, True, False]
    assert symbols.agrees.tolist() == [[True, False, True], [True, False, False], [True] * 3, [True, True, False]]


@pytest.mark.parametrize("abstain", ["ignore", "count"])
def test_every_step_is_that_of_a_plain_loop(abstain: str) -> None:
    votes, _ = partial_crowd(0, 12, 3)
    model = PartialDawidSkene(abstain=abstain, max_iter=3, tol=1e-15)
    with pytest.warns(match="iterations"):
        model.fit(votes)
    names = [str(name) for name in votes.classes]
    kept = [e for e in range(votes.n_votes) if abstain == "count" or names[votes.label[e]] != "abstain"]
    agrees = np.array(
        [[name in (f"c{k}", "abstain") or (name[0] == "!" and name != f"!c{k}") for k in range(3)] for name in names]
    )
    q = np.zeros((12, 3))
    for e in kept:
        q[votes.item[e]] += agrees[votes.label[e]] / agrees[votes.label[e]].sum()
    q /= q.sum(axis=1, keepdims=True)
    used = np.full((12, len(names)), 2.0)
    for e in kept:
        used[votes.annotator[e], votes.label[e]] += 1
    quiet = np.array([name == "abstain" for name in names])
    if abstain == "ignore":
        used[:, quiet] = 0
    weight = used[:, None, :] * np.where(agrees.T & ~quiet, 4, 1)
    pseudo = 2.0 * len(names) * weight / weight.sum(axis=2, keepdims=True)
    for _ in range(3):
        table = pseudo.copy()
        for e in kept:
            table[votes.annotator[e], :, votes.label[e]] += q[votes.item[e]]
        table /= table.sum(axis=2, keepdims=True)
        q = np.repeat(q.mean(axis=0)[None], 12, axis=0)
        for e in kept:
            q[votes.item[e]] *= table[votes.annotator[e], :, votes.label[e]]
        q /= q.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.result_.posterior, q, atol=1e-10)
    np.testing.assert_allclose(model.result_.symbol_probability, table, atol=1e-10)
    assert (np.diff(model.trace_) > -1e-9).all()


def test_votes_against_classes_help() -> None:
    gains = []
    for seed in range(4):
        votes, truth = partial_crowd(seed)
        outright = np.array([str(name)[0] == "c" for name in votes.classes])[votes.label]
        some = Annotations.from_arrays(
            votes.item[outright], votes.annotator[outright], votes.classes[votes.label[outright]], items=range(200)
        )
        names = np.array([f"c{k}" for k in truth])
        with_all = (PartialDawidSkene(tol=1e-4).fit(votes).result_.labels == names).mean()
        gains.append(with_all - (make("dawid-skene", tol=1e-4).fit(some).labels_ == names).mean())
    assert np.mean(gains) > 0.01


def test_votes_against_alone_rule_classes_out() -> None:
    votes = Annotations.from_arrays([0, 0, 1, 1], ["x", "y"] * 2, ["!a", "!b", "!c", "!b"])
    model = PartialDawidSkene().fit(votes)
    assert model.result_.labels.tolist() == ["c", "a"]
    assert model.items_frame().columns == ["item", "label", "confidence", "n_votes", "note", "p(a)", "p(b)", "p(c)"]
    assert model.annotators_frame()["n_against"].to_list() == [2, 2]


def test_two_classes_read_not_one_as_the_other() -> None:
    votes = Annotations.from_arrays([0, 0, 0, 1, 1, 1], ["x", "y", "z"] * 2, ["a", "!b", "a", "b", "!a", "b"])
    assert PartialDawidSkene().fit(votes).result_.labels.tolist() == ["a", "b"]


def test_abstentions_alone_are_refused() -> None:
    with pytest.raises(InputError, match="no vote names a class"):
        PartialDawidSkene().fit(Annotations.from_arrays([0], ["x"], ["abstain"]))
