"""Sums over every path of a short sequence, written without the code under test."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np


def paths_of(initial, transition, emission):
    """Every path with its weight."""
    length, n_states = emission.shape
    for path in product(range(n_states), repeat=length):
        weight = initial[path[0]] * emission[0, path[0]]
        for t in range(1, length):
            weight *= transition[path[t - 1], path[t]] * emission[t, path[t]]
        yield path, weight


def enumerate_chain(initial, transition, emission):
    """Evidence, token posteriors, expected pairs and the heaviest path."""
    length, n_states = emission.shape
    posterior, pairs = np.zeros((length, n_states)), np.zeros((n_states, n_states))
    total, best, heaviest = 0.0, None, -1.0
    for path, weight in paths_of(initial, transition, emission):
        total += weight
        for t, state in enumerate(path):
            posterior[t, state] += weight
        for before, after in pairwise(path):
            pairs[before, after] += weight
        if weight > heaviest:
            best, heaviest = path, weight
    return total, posterior / total, pairs / total, best


def spans_by_hand(names):
    """Spans (start, end, type) of tags by name, reading from left to right."""
    spans, open_at, kind = [], None, None
    for t, name in enumerate([*names, "O"]):
        if open_at is not None and name != f"I-{kind}":
            spans.append((open_at, t - 1, kind))
            open_at = None
        if name.startswith("B-") or (name.startswith("I-") and open_at is None):
            open_at, kind = t, name[2:]
    return spans


def span_weight(initial, transition, emission, names, span):
    """Share of the paths' weight whose spans contain exactly this one."""
    total = inside = 0.0
    for path, weight in paths_of(initial, transition, emission):
        total += weight
        if span in spans_by_hand([names[state] for state in path]):
            inside += weight
    return inside / total
