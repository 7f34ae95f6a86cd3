from __future__ import annotations

import pytest


@pytest.fixture
def model_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fit once and leave intervals as the model has them, where a test looks at nothing else."""
    monkeypatch.setattr("crowdwise.methods.ratings.base.covering", lambda found, *_, **__: found)
