from __future__ import annotations

import numpy as np
import pytest

import crowdwise
from crowdwise.errors import CostWarning, DataWarning, InputError
from crowdwise.estimator import estimator as cost


def test_free_text_as_labels_is_refused_before_anything_is_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "_memory", lambda: 1e9)
    n = np.arange(3000)
    votes = crowdwise.Annotations.from_arrays(n % 500, n % 20, n)
    for name in ("majority", "one-coin", "dawid-skene"):
        with pytest.raises(InputError, match=r"3,000 different labels on 3,000 votes.*6 GB.*--label"):
            crowdwise.make(name).fit(votes)


def test_a_dear_fit_is_announced_and_an_impossible_one_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "_memory", lambda: 8e9)
    cost.announce("slow", operations=1e9, memory=1e9, advice="wait")
    with pytest.warns(CostWarning, match="slow may take up to 10 minutes.*use fast"):
        cost.announce("slow", operations=600 * 5e8, memory=1e9, advice="use fast")
    with pytest.raises(InputError, match="about 80 GB of memory; this machine has 8 GB; use fast"):
        cost.announce("slow", operations=1.0, memory=80e9, advice="use fast")


def test_update_names_new_classes() -> None:
    model = crowdwise.MajorityVote().fit({"item": [1, 1, 2], "annotator": ["x", "y", "x"], "label": ["cat", "cat", "dog"]})
    with pytest.warns(DataWarning, match="did not have: wow"):
        model.update({"item": [3, 3], "annotator": ["x", "y"], "label": ["wow", "dog"]})
    assert dict(zip(model.items_.tolist(), model.labels_.tolist(), strict=True))[1] == "cat"
