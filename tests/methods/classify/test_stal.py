from __future__ import annotations

import numpy as np
from scipy.stats import multivariate_normal

from crowdwise.data.annotations import Annotations
from crowdwise.methods.classify.stal import STAL
from crowdwise.methods.classify.yan import Yan


def islands(seed: int, n_items: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, Annotations]:
    """Four islands at the corners of a square; one annotator knows two that lie across, another the two others."""
    rng = np.random.default_rng(seed)
    island = rng.integers(4, size=n_items)
    features = 4.0 * np.array([[1, 1], [-1, -1], [1, -1], [-1, 1]])[island] + rng.normal(size=(n_items, 2))
    features = np.column_stack([features, rng.normal(size=n_items)])
    truth = (features[:, 2] > 0).astype(int)
    right = np.where((island < 2)[:, None], [0.95, 0.55, 0.7], [0.55, 0.95, 0.7])
    label = np.where(rng.random(right.shape) < right, truth[:, None], 1 - truth[:, None])
    item, annotator = (index.ravel() for index in np.indices(right.shape))
    return features, island, truth, Annotations.from_arrays(item, np.array(["main", "anti", "even"])[annotator], label.ravel())


def test_islands_that_no_line_separates_are_told_apart() -> None:
    features, island, truth, votes = islands(0, 1200)
    model = STAL(concepts=4).fit(features, votes)
    main, anti = model.reliability(features, ["main", "anti"]).T
    for known, other in ((main[island < 2], main[island >= 2]), (anti[island >= 2], anti[island < 2])):
        assert known.mean() > 0.8
        assert other.mean() < 0.7
    straight = Yan().fit(features, votes).reliability(features, ["main"])[:, 0]
    assert abs(straight[island < 2].mean() - straight[island >= 2].mean()) < 0.1
    assert (model.labels_ == truth).mean() > 0.93


def test_memberships_are_those_of_the_mixture() -> None:
    features, _, _, votes = islands(1, 300)
    model = STAL(concepts=4).fit(features, votes).model_
    rows = features @ model.projection[:-1] + model.projection[-1]
    density = np.column_stack(
        [
            np.exp(share) * multivariate_normal(mean, np.diag(variance)).pdf(rows)
            for share, mean, variance in zip(model.log_shares, model.means, model.variances, strict=True)
        ]
    )
    np.testing.assert_allclose(model.memberships(features), density / density.sum(axis=1, keepdims=True), atol=1e-9)
    inputs = model.project(features)
    np.testing.assert_allclose(inputs.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(inputs.std(axis=0), 1, atol=1e-9)


def test_fewer_different_items_than_concepts() -> None:
    votes = Annotations.from_arrays([0, 0, 1, 1], ["a", "b", "a", "b"], [0, 0, 1, 1])
    for rows in (np.array([[0.0], [1.0]]), np.ones((2, 1))):
        model = STAL().fit(rows, votes)
        assert np.isfinite(model.reliability(rows)).all()
        assert model.labels_.tolist() == [0, 1]
