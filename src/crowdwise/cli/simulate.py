"""``crowdwise simulate``: votes of annotators whose confusion matrices are known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from crowdwise.cli.options import Output, Quiet
from crowdwise.errors import SettingError

EXAMPLES = (
    "Example: crowdwise simulate -o votes.csv --truth truth.csv --items 500 --annotators 20\n\n"
    "A mix: crowdwise simulate --kind one-coin=0.8,uniform-spammer=0.2 -o votes.csv"
)


def run(
    output: Output = None,
    truth: Annotated[Path | None, typer.Option("--truth", metavar="FILE", help="Write the true labels here.")] = None,
    items: Annotated[int, typer.Option("--items", metavar="N", help="Number of items.")] = 1000,
    annotators: Annotated[int, typer.Option("--annotators", metavar="N", help="Number of annotators.")] = 50,
    classes: Annotated[str, typer.Option("--classes", metavar="N|A,B,C", help="Number of classes, or their names.")] = "3",
    votes_per_item: Annotated[
        str, typer.Option("--votes-per-item", metavar="N|LOW-HIGH", help="Votes on every item, or their range.")
    ] = "5",
    kind: Annotated[
        str, typer.Option("--kind", metavar="KIND", help="A family of annotators, or a mix such as one-coin=0.8,colluder=0.2.")
    ] = "dirichlet",
    activity: Annotated[
        str, typer.Option("--activity", metavar="NAME", help="uniform, power-law or regular: who votes how often.")
    ] = "uniform",
    difficulty: Annotated[float, typer.Option("--difficulty", metavar="X", help="Spread of the items' difficulty.")] = 0.0,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="The same seed gives the same votes.")] = 0,
    quiet: Quiet = False,
) -> None:
    """Draw true labels, annotators and their votes.

    Families: one-coin, two-coin, dirichlet, hammer-spammer, cyclic-adversary, uniform-spammer,
    constant-spammer, extreme-spammer, colluder.
    """
    import polars as pl

    from crowdwise.cli.crowd import parse_classes, parse_mix
    from crowdwise.cli.outputs import check_outputs, emit, to_stdout, write
    from crowdwise.data.simulate import simulate

    check_outputs({"-o": output, "--truth": truth})
    if to_stdout(truth):
        raise SettingError("--truth needs a file: stdout is for the votes")
    drawn = simulate(
        n_items=items,
        n_annotators=annotators,
        **parse_classes(classes),
        votes_per_item=_range(votes_per_item),
        annotators=parse_mix(kind),
        activity=activity,
        difficulty=difficulty,
        random_state=seed,
    )
    if truth is not None:
        known = drawn.gold
        write(pl.DataFrame({"item": list(known), "label": list(known.values())}), truth, "item", quiet)
    emit(drawn.votes.to_frame(), output, "vote", quiet=quiet)


def _range(text: str) -> int | tuple[int, int]:
    low, dash, high = text.partition("-")
    if not low.strip().isdigit() or (dash and not high.strip().isdigit()):
        raise SettingError(f"--votes-per-item must be a number such as 5 or a range such as 3-7; got {text!r}")
    return (int(low), int(high)) if dash else int(low)
