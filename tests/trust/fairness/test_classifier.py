from __future__ import annotations

import numpy as np
import pytest
from tests.trust.fairness.crowds import biased_crowd

from crowdwise.errors import SettingError

torch = pytest.importorskip("torch")

from crowdwise.parts.heads.batch import Batch  # noqa: E402
from crowdwise.scale import Torchrun  # noqa: E402
from crowdwise.trust.fairness import ParityClassifier  # noqa: E402
from crowdwise.trust.fairness.penalty import ParityPenalty  # noqa: E402


def batch_of(rows: object) -> Batch:
    index = torch.as_tensor(rows)
    none = torch.zeros(0, dtype=torch.int64)
    return Batch(index, none, none, none, none.double(), torch.ones(len(index)), 2)


@pytest.mark.slow
def test_the_penalty_is_the_squared_difference_on_average_over_batches() -> None:
    rng = np.random.default_rng(0)
    f, group = rng.random(200), (rng.random(200) < 0.3).astype(int)
    log_f = torch.log(torch.tensor(np.stack([1 - f, f], 1)))
    penalty = ParityPenalty(3.0, torch.tensor(group), 2, (1,))
    expected = 3.0 * (f[group == 0].mean() - f[group == 1].mean()) ** 2
    orders = (rng.choice(200, 60, replace=True) for _ in range(1000))
    drawn = [float(penalty(log_f[order], torch.zeros(1, 2, 2), batch_of(order))) for order in orders]
    assert np.mean(drawn) == pytest.approx(expected, abs=4 * np.std(drawn) / np.sqrt(1000))


def test_the_penalty_of_halves_is_what_it_says_and_its_gradient_too() -> None:
    logits = torch.randn(8, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    group = torch.tensor([0, 1, 0, 1, 1, 0, 0, 1])
    penalty = ParityPenalty(2.0, group, 2, (1,))

    def value(x: torch.Tensor) -> torch.Tensor:
        return penalty(x.log_softmax(1), torch.zeros(1, 2, 2), batch_of(np.arange(8)))

    f = logits.softmax(1)[:, 1].detach().numpy()
    first, second = (f[s][group[s].numpy() == 0].mean() - f[s][group[s].numpy() == 1].mean() for s in (slice(4), slice(4, 8)))
    assert float(value(logits).detach()) == pytest.approx(2 * first * second)
    assert torch.autograd.gradcheck(value, (logits,))


def test_a_batch_of_one_group_has_no_penalty() -> None:
    penalty = ParityPenalty(2.0, torch.tensor([0, 0, 0, 1]), 2, (0, 1))
    assert float(penalty(torch.zeros(3, 2), torch.zeros(1, 2, 2), batch_of([0, 1, 2]))) == 0
    assert float(penalty(torch.zeros(1, 2), torch.zeros(1, 2, 2), batch_of([3]))) == 0


@pytest.mark.slow
def test_the_penalty_brings_groups_together_and_costs_accuracy() -> None:
    crowd = biased_crowd(0, n_items=500, shares=(0.7, 0.3), small=0.5)
    rng = np.random.default_rng(0)
    X = np.column_stack([crowd.truth + 0.7 * rng.normal(size=500), crowd.group + 0.5 * rng.normal(size=500)])
    gap = {}
    for strength, reweigh in ((0.0, False), (20.0, False), (0.0, True)):
        model = ParityClassifier(strength=strength, reweigh=reweigh, network="linear", epochs=15, learning_rate=0.04)
        f = model.fit(X, crowd.votes.with_groups(crowd.group)).predict_proba(X)[:, 1]
        gap[strength, reweigh] = f[crowd.group == 0].mean() - f[crowd.group == 1].mean()
    assert abs(gap[20.0, False]) < 0.3 * gap[0.0, False]
    assert gap[0.0, True] < gap[0.0, False]


def test_groups_are_needed_and_settings_checked() -> None:
    crowd = biased_crowd(0, n_items=20)
    X = np.zeros((20, 2))
    with pytest.raises(SettingError, match=r"needs the group of every row's item: fit\(X, votes.with_groups"):
        ParityClassifier().fit(X, crowd.votes)
    with pytest.raises(SettingError, match="no class 'maybe'"):
        ParityClassifier(positive="maybe", epochs=1).fit(X, crowd.votes.with_groups(crowd.group))
    with pytest.raises(SettingError, match="trains in this process alone"):
        ParityClassifier().fit(X, crowd.votes.with_groups(crowd.group), engine=Torchrun())
    model = ParityClassifier(epochs=1, network="linear").fit(X, crowd.votes.with_groups(crowd.group))
    assert model.predict_proba(X).shape == (20, 2)


def test_groups_follow_the_rows() -> None:
    crowd = biased_crowd(0, n_items=30)
    X = np.random.default_rng(0).normal(size=(30, 2))
    votes, turned = crowd.votes.with_groups(crowd.group), np.arange(30)[::-1]
    model = ParityClassifier(epochs=1, network="linear").fit(X[turned], votes, items=votes.items[turned])
    np.testing.assert_array_equal(model.result_.votes.groups.codes, votes.groups.codes[turned])
    some = votes.take_items(np.arange(20))
    with pytest.raises(SettingError, match="needs the group of every row's item"):
        ParityClassifier(epochs=1).fit(X, some, items=votes.items)
