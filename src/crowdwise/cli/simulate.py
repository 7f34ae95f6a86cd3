"""``crowdwise simulate``: votes of annotators whose confusion matrices are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crowdwise import data
from crowdwise.cli.declare import group, option, table
from crowdwise.cli.fitting import parse_list
from crowdwise.cli.job import Job
from crowdwise.cli.options import OutputOptions

EXAMPLES = (
    "Example: crowdwise simulate -o votes.csv --truth truth.csv --items 500 --annotators 20\n\n"
    "A mix: crowdwise simulate --kind one-coin=0.8,uniform-spammer=0.2 -o votes.csv"
)


@group
class Options(OutputOptions):
    """What is drawn and written."""

    truth: Path | None = table("--truth", "Write the true labels here.")
    items: int = option("--items", "N", "Number of items.", 1000, least=1)
    annotators: int = option("--annotators", "N", "Number of annotators.", 50, least=1)
    classes: str = option("--classes", "N|A,B,C", "Number of classes, or their names.", "3")
    votes_per_item: str = option("--votes-per-item", "N|LOW-HIGH", "Votes on every item, or their range.", "5")
    kind: str = option("--kind", "KIND", "A family of annotators, or a mix such as one-coin=0.8,colluder=0.2.", "dirichlet")
    activity: str = option("--activity", "NAME", "Who votes how often: uniform, power-law or regular.", "uniform")
    difficulty: float = option("--difficulty", "X", "Standard deviation of the items' difficulty.", 0)
    seed: int = option("--seed", "N", "The same seed gives the same votes.", 0)


def run(options: Options) -> None:
    """Draw true labels, annotators and their votes.

    Families: one-coin, two-coin, dirichlet, hammer-spammer, cyclic-adversary, uniform-spammer,
    constant-spammer, extreme-spammer, colluder.
    """
    import polars as pl

    job = Job(options)
    more: dict[str, Any] = {"activity": options.activity, "difficulty": options.difficulty, "random_state": options.seed}
    more["votes_per_item"] = data.simulate.range_of(options.votes_per_item)
    found = drawn(options.classes, options.kind, n_items=options.items, n_annotators=options.annotators, **more)
    job.table("--truth", lambda: pl.DataFrame(list(found.gold.items()), schema=["item", "label"], orient="row"), "item")
    job.main(found.votes.to_frame(), "vote")


def drawn(classes: str, kind: str, **more: Any) -> Any:
    """A simulated campaign; `classes` are their number or their names, `kind` is a family or FAMILY=SHARE pairs."""
    names = None if classes.strip().isdigit() else parse_list(classes, "--classes")
    n_classes = int(classes) if names is None else len(names)
    return data.simulate.simulate(n_classes=n_classes, classes=names, annotators=data.simulate.mix_of(kind), **more)
