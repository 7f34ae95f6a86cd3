"""What a head reads of the network beside it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from crowdwise.errors import InputError
from crowdwise.parts.heads.tap import FeatureTap


def test_a_network_without_a_linear_layer_is_refused() -> None:
    with pytest.raises(InputError, match="the last linear layer of the network"):
        FeatureTap(nn.Sequential(nn.Conv2d(3, 3, 1), nn.Flatten()))


def test_the_tap_keeps_what_the_last_linear_layer_read() -> None:
    network = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
    tap = FeatureTap(network)
    rows = torch.randn(5, 4)
    network(rows)
    assert tap.width == 6
    np.testing.assert_array_equal(tap.features.detach(), network[1](network[0](rows)).detach())


def test_a_tap_that_is_closed_reads_no_more() -> None:
    network = nn.Sequential(nn.Linear(4, 3))
    tap = FeatureTap(network)
    first = torch.randn(2, 4)
    network(first)
    tap.handle.remove()
    network(torch.randn(7, 4))
    np.testing.assert_array_equal(tap.features, first)
