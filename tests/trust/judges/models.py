"""Small models of judges, and their joint probabilities by enumeration."""

from __future__ import annotations

import numpy as np

from crowdwise.trust.judges.model import JudgeModel

FAMILY = np.array([0, 1, 0, 0])


def some_model(seed: int, n_classes: int, family: np.ndarray = FAMILY, hard: float = 0.3) -> JudgeModel:
    rng = np.random.default_rng(seed)
    prior = rng.dirichlet(np.full(n_classes, 5.0))
    lam = np.where(np.bincount(family)[family] > 1, rng.uniform(0.2, 0.9, len(family)), 0.0)
    tables = [rng.dirichlet(np.ones(n_classes), size=(n, 2 * n_classes)) for n in (family.max() + 1, len(family))]
    return JudgeModel(np.concatenate([(1 - hard) * prior, hard * prior]), family, lam, *tables)


def joint(model: JudgeModel, who: tuple[int, ...], said: tuple[int, ...]) -> np.ndarray:
    """P(k, answers) by sums over easy and hard and over every family's hidden answer, [K]."""
    k = model.n_classes
    total = np.zeros(k)
    for state in range(2 * k):
        p = model.prior_s[state]
        for f in set(model.family[list(who)].tolist()):
            inside = 0.0
            for c in range(k):
                term = model.shared_fsc[f, state, c]
                for a, v in zip(who, said, strict=True):
                    if model.family[a] == f:
                        term *= model.lam_a[a] * (v == c) + (1 - model.lam_a[a]) * model.own_asl[a, state, v]
                inside += term
            p *= inside
        total[state % k] += p
    return total
