"""``crowdwise simulate``: votes of annotators whose confusion matrices are known."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crowdwise.cli.declare import TABLE, flag, option, table
from crowdwise.cli.fitting import parse_list
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

    output: Path | None = option(
        "-o --output", "FILE", "Write the votes here (.csv .tsv .parquet ...).", shown="stdout", place=TABLE
    )
    truth: Path | None = table("--truth", "Write the true labels here.")
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

    job = Job(options)
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


def drawn(items: int, annotators: int, classes: str, kind: str, votes_per_item: Any, seed: int, **more: Any) -> Any:
    """A simulated campaign; `classes` are their number or their names, `kind` is a family or FAMILY=SHARE pairs."""
    from crowdwise.data.simulate import simulate

    named = None if classes.strip().isdigit() else parse_list(classes, "--classes")
    return simulate(
        n_items=items,
        n_annotators=annotators,
        n_classes=int(classes) if named is None else len(named),
        classes=named,
        votes_per_item=votes_per_item,
        annotators=_mix(kind),
        random_state=seed,
        **more,
    )


def _mix(text: str) -> Any:
    """A family as it is, or comma-separated FAMILY=SHARE pairs."""
    if "=" not in text:
        return text
    try:
        pairs = [part.split("=") for part in text.split(",")]
        return {name.strip(): float(share) for name, share in pairs}
    except ValueError:
        raise SettingError(f"--kind must be a family or a mix such as one-coin=0.8,colluder=0.2; got {text!r}") from None
