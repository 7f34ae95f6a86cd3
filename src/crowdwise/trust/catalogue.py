"""The methods of this room, which choose among those of the rooms below or bind them to groups."""

from __future__ import annotations

from crowdwise.estimator.registry import Method, register

__all__ = ["CATALOGUE"]

CATALOGUE = (
    Method(
        "auto",
        "crowdwise.trust.choice.auto:Auto",
        "the method that predicts held-out votes best",
        "choice",
        "cross-validation, rule of one standard error",
        gold=True,
        history=True,
    ),
    Method(
        "auto-classifier",
        "crowdwise.trust.choice.auto_classifier:AutoClassifier",
        "the classifier that predicts held-out votes best",
        "choice",
        "cross-validation, rule of one standard error",
        features="any",
        gold=True,
    ),
    Method(
        "parity-classifier",
        "crowdwise.trust.fairness.parity_classifier:ParityClassifier",
        "ccem with a penalty on the difference between groups of items",
        "fairness",
        "after Ibrahim, Nguyen and Fu (2023)",
        features="any",
        extra="torch",
        groups=True,
        gold=True,
    ),
)

register(CATALOGUE)
