"""A round of messages in compiled loops is the round in arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from crowdwise.data.annotations import Annotations
from crowdwise.parts.annotators import messages
from crowdwise.parts.annotators.messages import BeliefMessages
from crowdwise.parts.priors.abilities import ability_prior, node_rules


def crowd(seed: int, n_items: int, n_annotators: int, n_classes: int, n_votes: int, weighted: bool) -> Annotations:
    """Few votes for most, many for annotator 0; some annotators have none, some pairs several votes."""
    rng = np.random.default_rng(seed)
    annotator = np.where(rng.random(n_votes) < 0.3, 0, rng.integers(n_annotators - 2, size=n_votes))
    weight = rng.integers(1, 3, n_votes).astype(float) if weighted else None
    return Annotations.from_arrays(
        rng.integers(n_items, size=n_votes),
        annotator,
        rng.integers(n_classes, size=n_votes),
        weight,
        items=range(n_items),
        annotators=range(n_annotators),
        classes=range(n_classes),
    )


CASES: dict[str, dict[str, Any]] = {
    "one-coin": {"family": "one-coin", "n_classes": 2},
    "one-coin, five classes": {"family": "one-coin", "n_classes": 5},
    "two rows exactly": {"family": "confusion", "n_classes": 2},
    "rows by draws": {"family": "confusion", "n_classes": 3},
    "weights": {"family": "one-coin", "n_classes": 3, "weighted": True},
    "a strong prior": {"family": "one-coin", "n_classes": 2, "prior": "beta:90,10"},
    "few certain atoms": {"family": "one-coin", "n_classes": 2, "prior": "spammer-hammer:0.5,1"},
}


def rounds(votes: Annotations, family: str, prior: str, threshold: float, monkeypatch: pytest.MonkeyPatch) -> BeliefMessages:
    monkeypatch.setattr(messages, "_COMPILED_FROM", threshold)
    degree = np.bincount(votes.annotator, minlength=votes.n_annotators)
    rng = np.random.default_rng(0)
    rules, rule_a = node_rules(ability_prior(prior, None, votes.n_classes), family, votes.n_classes, degree, "auto", 32, rng)
    model = BeliefMessages.start(votes, rules, rule_a, None, 0.1)
    posterior = np.full((votes.n_items, votes.n_classes), 1 / votes.n_classes)
    prior_nk = np.log(np.random.default_rng(1).dirichlet(np.ones(votes.n_classes), votes.n_items))
    for _ in range(4):
        model = model.update(votes, posterior)
        model.infer(votes, prior_nk, np.empty(0, np.int16), posterior)
    return model


@pytest.mark.parametrize("case", CASES)
def test_compiled_rounds_are_those_in_arrays(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"prior": "beta:2,1", "weighted": False} | CASES[case]
    votes = crowd(3, 40, 12, settings["n_classes"], 150, settings["weighted"])
    plain = rounds(votes, settings["family"], settings["prior"], np.inf, monkeypatch)
    compiled = rounds(votes, settings["family"], settings["prior"], 0, monkeypatch)
    np.testing.assert_allclose(compiled.log_message_pj, plain.log_message_pj, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(np.exp(compiled.log_post), np.exp(plain.log_post), rtol=1e-8, atol=1e-12)
    assert compiled.penalty() == pytest.approx(plain.penalty(), rel=1e-9)
    np.testing.assert_allclose(compiled.confusion(), plain.confusion(), rtol=1e-9)


def test_most_of_the_cases_take_the_compiled_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the test above would compare the arrays with themselves."""
    used: list[bool] = []
    ask = BeliefMessages._round_compiled

    def counted(self: BeliefMessages, *given: Any) -> Any:
        answer = ask(self, *given)
        used.append(answer is not None)
        return answer

    monkeypatch.setattr(BeliefMessages, "_round_compiled", counted)
    for settings in CASES.values():
        votes = crowd(3, 40, 12, settings["n_classes"], 150, settings.get("weighted", False))
        rounds(votes, settings["family"], settings.get("prior", "beta:2,1"), 0, monkeypatch)
    assert np.mean(used) > 0.5
