"""Labels by what mistakes cost: ``--costs`` and ``--abstain``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.cli.declare import file, group, option
from crowdwise.cli.job import count, naming, note

if TYPE_CHECKING:
    import polars as pl

    from crowdwise.estimator.costs import Costs

__all__ = ["CostOptions", "read_costs", "said_of_costs"]


@group
class CostOptions:
    """What labels are chosen by."""

    costs: Path | None = file(
        "--costs", "What mistakes cost: true, label, cost, or a square table. Labels are those expected to cost least."
    )
    abstain: float | None = option(
        "--abstain", "COST", "Cost of giving no label: items whose label is expected to cost more get none."
    )


def read_costs(options: CostOptions, classes: Any) -> Costs | None:
    """Read what mistakes cost, and what no label costs; None without either."""
    if options.costs is None and options.abstain is None:
        return None
    from crowdwise.estimator.costs import Costs
    from crowdwise.io.file_columns import FileColumns

    with naming("--abstain" if options.costs is None else f"--costs: {options.costs}"):
        return Costs.of(None if options.costs is None else FileColumns(options.costs), classes, options.abstain)


def said_of_costs(costs: Costs, items: pl.DataFrame) -> dict[str, Any]:
    """Say what labels are expected to cost, which mistake is the dearest, and how many items have none by choice."""
    total, without = float(items["expected_cost"].sum()), int((items["note"] == "abstained").sum())
    left = "" if costs.abstain is None else f"; {count(without, 'item')} without a label by --abstain"
    note(f"labels that cost least: {total:,.4g} expected in all{left}")
    true, label, cost = costs.dearest()
    if not costs.are_alike:
        note(f"the dearest mistake is to label an item {label} that is {true}: {cost:g}")
    return {"expected_cost": total, "n_abstained": without}
