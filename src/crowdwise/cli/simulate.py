"""``crowdwise simulate``: votes of annotators whose confusion matrices are known."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from crowdwise.cli.crowd import drawn
from crowdwise.cli.declare import file, flag, option
from crowdwise.cli.job import Job
from crowdwise.cli.options import RAW, QuietOptions
from crowdwise.errors import SettingError

EXAMPLES = (
    "Example: crowdwise simulate -o votes.csv --truth truth.csv --items 500 --annotators 20\n\n"
    "A mix: crowdwise simulate --kind one-coin=0.8,uniform-spammer=0.2 -o votes.csv"
)


@dataclass(frozen=True, kw_only=True)
class Options(QuietOptions):
    """What is drawn and written."""

    output: Path | None = option("-o --output", "FILE", "Write the votes here (.csv .tsv .parquet ...).", shown="stdout")
    truth: Path | None = file("--truth", "Write the true labels here.")
    items: int = option("--items", "N", "Number of items.", 1000)
    annotators: int = option("--annotators", "N", "Number of annotators.", 50)
    classes: str = option("--classes", "N|A,B,C", "Number of classes, or their names.", "3")
    votes_per_item: str = option("--votes-per-item", "N|LOW-HIGH", "Votes on every item, or their range.", "5")
    kind: str = option("--kind", "KIND", "A family of annotators, or a mix such as one-coin=0.8,colluder=0.2.", "dirichlet")
    activity: str = option("--activity", "NAME", "Who votes how often: uniform, power-law or regular.", "uniform")
    difficulty: float = option("--difficulty", "X", "Standard deviation of the items' difficulty.", 0.0)
    raw: bool = flag("--raw", RAW)
    seed: int = option("--seed", "N", "The same seed gives the same votes.", 0)


def run(options: Options) -> None:
    """Draw true labels, annotators and their votes.

    Families: one-coin, two-coin, dirichlet, hammer-spammer, cyclic-adversary, uniform-spammer,
    constant-spammer, extreme-spammer, colluder.
    """
    import polars as pl

    job = Job(options, tables={"--truth": options.truth})
    more = {"activity": options.activity, "difficulty": options.difficulty}
    votes_per_item, seed = _range(options.votes_per_item), options.seed
    found = drawn(options.items, options.annotators, options.classes, options.kind, votes_per_item, seed, **more)
    known = found.gold
    job.table("--truth", lambda: pl.DataFrame({"item": list(known), "label": list(known.values())}), "item")
    job.main(found.votes.to_frame(), "vote")


def _range(text: str) -> int | tuple[int, int]:
    low, dash, high = text.partition("-")
    if not low.strip().isdigit() or (dash and not high.strip().isdigit()):
        raise SettingError(f"--votes-per-item must be a number such as 5 or a range such as 3-7; got {text!r}")
    return (int(low), int(high)) if dash else int(low)
