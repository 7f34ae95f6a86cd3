"""How the benchmark with two classes keeps its runs: methods that were stopped are not tried on more items."""

from __future__ import annotations

import pytest


@pytest.fixture
def gp_binary(monkeypatch, tmp_path):
    from benchmarks.gp import gp_binary

    monkeypatch.setattr(gp_binary, "RUNS", gp_binary.Records("gp_binary", tmp_path))
    return gp_binary


def test_a_stopped_method_is_not_tried_on_more_items_and_an_interrupted_command_goes_on(gp_binary, monkeypatch):
    tried = []

    def attempt(name, size, seed, scale, limit, memory):
        tried.append((name, size, seed))
        if len(tried) == 5:
            raise KeyboardInterrupt
        if name == "vgpcr" and size > 10:
            return {"stopped": "more than 1 s"}
        return dict.fromkeys(("auc", "nll", "accuracy", "mean probability", "processor"), 0.5)

    monkeypatch.setattr(gp_binary, "attempt", attempt)
    asked = (["svgpcr", "vgpcr"], [10, 20, 30], [0, 1])
    with pytest.raises(KeyboardInterrupt):
        gp_binary.measure(*asked, 1.0, 1.0, 1.0)
    gp_binary.measure(*asked, 1.0, 1.0, 1.0)
    small = [(name, 10, seed) for seed in (0, 1) for name in ("svgpcr", "vgpcr")]
    # The one that was interrupted is tried again; vgpcr is stopped at 20 with the first seed and never seen again.
    rest = [("svgpcr", 20, 0), ("svgpcr", 20, 0), ("vgpcr", 20, 0), ("svgpcr", 20, 1), ("svgpcr", 30, 0), ("svgpcr", 30, 1)]
    assert tried == small + rest
    text = gp_binary.text_of(*asked, 1.0)
    assert "Stopped: vgpcr at N = 20 (more than 1 s)." in text
    assert text.count("| vgpcr |") == 1
    assert text.count("| svgpcr |") == 3
    gp_binary.draw(gp_binary.collected(*asked, 1.0), gp_binary.RUNS.path.with_suffix(".png"))
    assert gp_binary.RUNS.path.with_suffix(".png").stat().st_size > 0
