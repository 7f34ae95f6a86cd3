"""The campaign in Prometheus' text format."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crowdwise.serve.service import Service

__all__ = ["Timings", "metrics_text"]

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class Timings:
    """Seconds that requests took, in buckets, by route and status."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, int], list[int]] = {}
        self._sums: dict[tuple[str, int], float] = {}

    def add(self, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        key = route, status
        self._counts.setdefault(key, [0] * (len(_BUCKETS) + 1))[bisect_left(_BUCKETS, seconds)] += 1
        self._sums[key] = self._sums.get(key, 0.0) + seconds

    def lines(self) -> Iterable[str]:
        """A histogram."""
        yield "# HELP crowdwise_request_seconds Time that requests took."
        yield "# TYPE crowdwise_request_seconds histogram"
        for (route, status), counts in sorted(self._counts.items()):
            labels, total = f'route="{route}",status="{status}"', 0
            for bound, count in zip((*_BUCKETS, "+Inf"), counts, strict=True):
                total += count
                yield f'crowdwise_request_seconds_bucket{{{labels},le="{bound}"}} {total}'
            yield f"crowdwise_request_seconds_sum{{{labels}}} {self._sums[route, status]:.6f}"
            yield f"crowdwise_request_seconds_count{{{labels}}} {total}"


def _finite(value: float | None) -> float | None:
    return value if value is not None and value < float("inf") else None


def metrics_text(service: Service, timings: Timings) -> str:
    """Everything that is counted."""
    progress, brain = service.progress(), service.brain
    expected: dict[str, Any] = progress["expected_accuracy"] or {}
    audit: dict[str, Any] = progress["audit"] or {}
    plan: dict[str, Any] = progress["votes_to_go"] or {}
    gauges = {
        "items": ("Items of the campaign.", progress["items"]),
        "labelled_items": ("Items with a label.", progress["labelled"]),
        "votes": ("Votes that count.", progress["votes"]),
        "votes_last_hour": ("Deliveries in the last hour.", progress["votes_last_hour"]),
        "mean_confidence": ("Mean confidence of the labels.", progress["mean_confidence"]),
        "expected_accuracy": ("Expected share of right labels.", expected.get("expected")),
        "expected_accuracy_low": ("Lower end of its range.", expected.get("low")),
        "certified_accuracy": ("Share of labels that checks prove right.", audit.get("certified")),
        "checked_labels": ("Labels checked in the audit.", audit.get("checked")),
        "target_accuracy": ("Share of right labels to get.", progress["target"]),
        "target_reached": ("Whether no more questions are handed out because of it.", float(bool(progress["stop"]))),
        "votes_to_go": ("Votes until the target is expected.", _finite(plan.get("votes"))),
        "spent": ("What the votes have cost.", progress["spent"]),
        "budget_left": ("What may still be spent.", progress["left"]),
        "open_questions": ("Questions that are handed out.", sum(map(len, brain.desk.held.values()))),
        "listeners": ("Streams of events.", len(service.events)),
        "inference_lag_seconds": ("Age of the oldest delivery that labels do not have yet.", service.lag()),
    }
    lines = []
    for name, (about, value) in gauges.items():
        if value is not None:
            lines += [f"# HELP crowdwise_{name} {about}", f"# TYPE crowdwise_{name} gauge", f"crowdwise_{name} {value:.10g}"]
    lines += [
        "# HELP crowdwise_deliveries_total Deliveries since the start, by outcome.",
        "# TYPE crowdwise_deliveries_total counter",
    ]
    lines += [f'crowdwise_deliveries_total{{outcome="{kind}"}} {n}' for kind, n in sorted(service.counts.items())]
    lines += ["# HELP crowdwise_fits_total Full fits since the start.", "# TYPE crowdwise_fits_total counter"]
    lines += [f"crowdwise_fits_total {brain.n_fits}", *timings.lines()]
    return "\n".join(lines) + "\n"
