"""Small models of judges, and their joint probabilities by enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np

from crowdwise.trust.judges.model import JudgeModel, Level

FAMILY = np.array([0, 1, 0, 0])
# Two models in one family, of two prompts and of one, and a judge alone: the smallest groups first.
NESTED = np.array([[0, 0, 1, 2], [0, 0, 0, 1]])


def some_model(seed: int, n_classes: int, family: np.ndarray = FAMILY, hard: float = 0.3) -> JudgeModel:
    rng = np.random.default_rng(seed)
    prior = rng.dirichlet(np.full(n_classes, 5.0))
    lam = np.where(np.bincount(family)[family] > 1, rng.uniform(0.2, 0.9, len(family)), 0.0)
    tables = [rng.dirichlet(np.ones(n_classes), size=(n, 2 * n_classes)) for n in (family.max() + 1, len(family))]
    return JudgeModel.in_families(np.concatenate([(1 - hard) * prior, hard * prior]), family, lam, *tables)


def nested_model(seed: int, n_classes: int, codes: np.ndarray = NESTED) -> JudgeModel:
    """Groups within families; a group of one member answers as the member does."""
    rng = np.random.default_rng(seed)
    prior = rng.dirichlet(np.full(n_classes, 5.0))
    sizes = [codes.shape[1], *(int(code.max()) + 1 for code in codes)]
    tables = [rng.dirichlet(np.ones(n_classes), size=(n, 2 * n_classes)) for n in sizes]
    lams = [rng.uniform(0.2, 0.9, n) for n in sizes[:-1]] + [np.zeros(sizes[-1])]
    levels = tuple(Level(lam, table) for lam, table in zip(lams, tables, strict=True))
    return JudgeModel(np.concatenate([0.7 * prior, 0.3 * prior]), codes, levels)


def joint(model: JudgeModel, who: tuple[int, ...], said: tuple[int, ...]) -> np.ndarray:
    """P(k, answers) by a sum over every state and every hidden answer of every group and family, [K]."""
    k, chain = model.n_classes, np.vstack([np.arange(model.n_judges), model.codes])
    # Every group that has one of these judges, with the group above it.
    hidden = sorted({(d, int(chain[d, a])) for a in who for d in range(1, len(chain))})
    above = {(d, int(chain[d, a])): (d + 1, int(chain[d + 1, a])) for a in who for d in range(len(chain) - 1)}
    total = np.zeros(k)
    for state in range(2 * k):
        for answers in product(range(k), repeat=len(hidden)):
            known = dict(zip(hidden, answers, strict=True)) | {(0, a): v for a, v in zip(who, said, strict=True)}
            p = model.prior_s[state]
            for (d, j), answer in known.items():
                level = model.levels[d]
                copied = level.lam[j] * (known[above[d, j]] == answer) if (d, j) in above else 0.0
                p *= copied + (1 - level.lam[j]) * level.own[j, state, answer]
            total[state % k] += p
    return total
