from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.trust.crowd.crowds import fit

from crowdwise.data.annotations import Annotations
from crowdwise.data.simulate import simulate
from crowdwise.trust.crowd import colluders
from crowdwise.trust.crowd.pairs import of_pairs

# The tutorial: N = 5,000, A = 60, K = 3, colluders give a common wrong label with probability 0.9.
OPTIONS = {"dirichlet": {"diagonal": 5.0, "off_diagonal": 1.0}, "colluder": {"accuracy": 0.1}}


@pytest.mark.parametrize("share", [0.1, 0.3])
@pytest.mark.parametrize("votes_per_item", [10, pytest.param(60, marks=pytest.mark.slow)])
def test_colluders_of_the_tutorials_recipe(share: float, votes_per_item: int) -> None:
    n_items = 5000 if votes_per_item == 10 else 1000
    crowd = simulate(
        n_items, 60, 3, votes_per_item, {"dirichlet": 1 - share, "colluder": share}, options=OPTIONS, random_state=0
    )
    guilty = crowd.kind == "colluder"
    flag = colluders.score(fit(crowd.votes)).frame["flag"].to_numpy()
    assert flag[guilty].all()
    assert flag[~guilty].sum() <= 2


def test_a_trusted_annotator_helps_where_the_fit_itself_follows_the_colluders() -> None:
    crowd = simulate(5000, 60, 3, 10, {"dirichlet": 0.6, "colluder": 0.4}, options=OPTIONS, random_state=1)
    result = fit(crowd.votes)
    assert (result.codes == crowd.truth).mean() < 0.5
    guilty = crowd.kind == "colluder"
    flag = colluders.score(result, trusted=["annotator-01"]).frame["flag"].to_numpy()
    assert flag[guilty].all()
    assert flag[~guilty].sum() <= 4


@pytest.mark.slow
def test_honest_crowds_are_left_alone() -> None:
    flagged = [
        len(colluders.score(fit(simulate(800, 30, 3, 10, "dirichlet", random_state=seed).votes)).flagged) for seed in range(10)
    ]
    assert np.mean(flagged) <= 0.5


def test_too_few_honest_annotators_are_named() -> None:
    report = colluders.score(fit(simulate(300, 12, 4, 6, "one-coin", random_state=0).votes))
    assert report.flagged == []
    assert "more than K^2 = 16 honest annotators" in report.notes[0]
    assert report.frame["p_value"].null_count() == 12


def test_large_crowds_are_searched_among_the_busiest_and_a_note_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = simulate(800, 30, 2, 12, {"dirichlet": 0.8, "colluder": 0.2}, options=OPTIONS, random_state=0).votes
    # Ten more who met hardly anybody.
    rng = np.random.default_rng(0)
    item, label = busy.items[rng.integers(800, size=60)], busy.classes[rng.integers(2, size=60)]
    votes = busy.concat(Annotations.from_arrays(item, [f"z{n % 10}" for n in range(60)], label))
    result = fit(votes)
    met = of_pairs(votes)
    pairs = met.pairs
    # Names are sorted, so the ten come last.
    among = (pairs.first < 30) & (pairs.second < 30)
    columns = {name: getattr(pairs, name)[among] for name in ("first", "second", "n", "agree", "beyond", "chance")}
    alone = colluders.score(result, met=replace(met, pairs=replace(pairs, **columns)))
    assert alone.notes == colluders.score(result).notes == ()
    # Work of a sweep over all pairs among thirty.
    monkeypatch.setattr(colluders, "_MOST_WORK", (30 * 29 // 2 + 30 * 4) * 16)
    part = colluders.score(result)
    assert part.notes == ("colluders were looked for among the 30 annotators with most votes: among all it takes too long",)
    assert part.frame.filter(part.frame["annotator"].str.starts_with("z"))["p_value"].null_count() == 10
    assert part.frame.equals(alone.frame)
    assert part.flagged
