from __future__ import annotations

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from crowdwise.data.simulate.similarities import simulate_pairs  # noqa: E402
from crowdwise.errors import DataWarning, InputError  # noqa: E402
from crowdwise.methods.clusters.agreement import hungarian_accuracy  # noqa: E402
from crowdwise.methods.clusters.crowd_clustering import CrowdClustering, pair_loss  # noqa: E402


def batch(seed=0):
    rng = np.random.default_rng(seed)
    tensors = [torch.tensor(rng.normal(size=shape), requires_grad=True) for shape in ((3, 4), (3, 4), (2, 2))]
    answers = [torch.tensor([0, 0, 1, 2]), torch.tensor([0, 1, 1, 0]), torch.tensor([True, False, True, False])]
    return tensors, [*answers, torch.tensor([1.0, 2.0, 1.0, 0.5], dtype=torch.float64)]


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def test_the_loss_is_the_enumerated_likelihood_with_priors_and_volume():
    (first, second, rates), answers = batch()
    f, g = softmax(first.detach().numpy()), softmax(second.detach().numpy())
    hit, alarm = 1 / (1 + np.exp(-rates.detach().numpy()))
    total = 0.0
    for p in range(3):
        z = 0.0
        for k in range(4):
            for m in range(4):
                weight = f[p, k] * g[p, m]
                for pair, who, same, w in zip(*(part.tolist() for part in answers), strict=True):
                    rate = (hit if k == m else alarm)[who]
                    weight *= (rate if same else 1 - rate) ** (w if pair == p else 0)
                z += weight
        total -= np.log(z) / 3
    total -= 0.2 * (np.log(hit) + np.log(1 - alarm)).sum() + 0.1 * (np.log(1 - hit) + np.log(alarm)).sum()
    both = np.concatenate([f, g])
    total -= 0.3 * np.log(np.linalg.det(both.T @ both / 6 + 1e-4 * np.eye(4)))
    got = pair_loss(first, second, rates, *answers, prior=(0.2, 0.1), volume=0.3)
    assert float(got.detach()) == pytest.approx(total, rel=1e-10)


def test_gradients_equal_finite_differences():
    tensors, answers = batch(1)
    assert torch.autograd.gradcheck(
        lambda a, b, r: pair_loss(a, b, r, *answers, prior=(0.2, 0.1), volume=0.1), tensors, eps=1e-6, atol=1e-6
    )


def test_certain_networks_keep_finite_losses_and_gradients():
    logits = torch.tensor([[80.0, -80.0], [80.0, -80.0]], requires_grad=True)
    said = torch.tensor([False, True])
    loss = pair_loss(
        logits, logits.detach(), torch.zeros(2, 1), torch.tensor([0, 1]), torch.tensor([0, 0]), said, torch.ones(2),
        prior=(0.0, 0.0), volume=0.0,
    )  # fmt: skip
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(logits.grad).all()


def heaps(seed, n_items=150):
    rng = np.random.default_rng(seed)
    truth = np.arange(n_items) % 3
    return truth, np.array([[2.0, 0], [-2, 0], [0, 3]])[truth] + 0.6 * rng.normal(size=(n_items, 2))


@pytest.mark.slow
def test_clusters_rates_and_new_items_are_recovered():
    truth, features = heaps(0)
    votes, hit, alarm = simulate_pairs(truth, 2500, 5, balanced=True, random_state=1)
    model = CrowdClustering(clusters=3, epochs=20, batch_size=256, learning_rate=0.01, restarts=2).fit(features, votes)
    assert hungarian_accuracy(model.clusters_, truth) > 0.97
    assert np.abs(model.result_.hit - hit).max() < 0.1
    assert np.abs(model.result_.false_alarm - alarm).max() < 0.1
    new, rows = heaps(7)
    assert hungarian_accuracy(model.predict_proba(rows).argmax(axis=1), new) > 0.97
    np.testing.assert_allclose(model.predict_proba(features), model.membership_, atol=1e-6)
    with pytest.raises(InputError, match="rows of 3 features"):
        model.predict_proba(np.zeros((1, 3)))


def test_the_same_seed_gives_the_same_bits():
    truth, features = heaps(0, 30)
    votes, _, _ = simulate_pairs(truth, 100, 3, random_state=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        one, two = (CrowdClustering(clusters=3, epochs=2, restarts=2).fit(features, votes) for _ in range(2))
    assert (one.membership_ == two.membership_).all()
    assert (one.result_.hit == two.result_.hit).all()


def test_features_are_checked():
    truth, features = heaps(0, 6)
    votes, _, _ = simulate_pairs(truth, 20, 2)
    model = CrowdClustering(clusters=2, epochs=1, restarts=1, hidden=0)
    with pytest.raises(InputError, match="needs features"):
        model.fit(None, votes)
    with pytest.raises(InputError, match="5 rows of features and 6 items"):
        model.fit(features[:5], votes)
    features[2, 0] = np.nan
    with pytest.raises(InputError, match="row 2"):
        model.fit(features, votes)
    with pytest.warns(DataWarning, match="only 1 of 2 clusters"):
        assert model.fit(np.ones((6, 2)), votes).membership_.shape == (6, 2)
