"""``crowdwise demo``: the main job on data that come with the library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = "Example: crowdwise demo -o demo-output"


def run(
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Folder to write into.")] = Path("demo-output"),
) -> None:
    """Aggregate the votes of a small simulated campaign and write all results into a folder.

    Nine honest annotators, one who answers at random, one who always gives the same answer and one
    adversary label 120 photos of animals. Nothing is downloaded.
    """
    import polars as pl

    from crowdwise.cli.account import rank_annotators
    from crowdwise.cli.text import one_line
    from crowdwise.data.datasets import demo
    from crowdwise.estimator.registry import make
    from crowdwise.io import write_table
    from crowdwise.report import write_page
    from crowdwise.trust.metrics import accuracy

    campaign = demo()
    votes, truth = campaign.votes, campaign.truth
    majority, fitted = make("majority").fit(votes), make("dawid-skene").fit(votes)
    result = fitted.result_
    people = rank_annotators(result)

    output.mkdir(parents=True, exist_ok=True)
    write_page(result, output / "page.html", truth=truth)
    write_table(votes.to_frame(), output / "votes.csv")
    write_table(pl.DataFrame({"item": list(campaign.gold), "label": list(campaign.gold.values())}), output / "truth.csv")
    write_table(result.items_frame(), output / "labels.csv")
    write_table(people, output / "annotators.csv")

    worst = ", ".join(one_line(name) for name in people["annotator"].tail(3).reverse())
    print(
        f"{votes.n_annotators} annotators gave {votes.n_votes} votes on {votes.n_items} photos of animals.\n"
        f"Against the true labels, majority vote is right on {accuracy(majority.posterior_, truth):.1%} of them,\n"
        f"and Dawid-Skene, which learns whom to trust, on {accuracy(fitted.posterior_, truth):.1%}.\n"
        f"It finds the least reliable annotators without seeing the truth: {worst}.\n"
        "\n"
        f"Open    {output / 'page.html'}\n"
        f"See     {output / 'labels.csv'}, {output / 'annotators.csv'}\n"
        f"Redo    crowdwise aggregate {output / 'votes.csv'} -o labels.csv\n"
        f"Compare crowdwise compare {output / 'votes.csv'} --truth {output / 'truth.csv'}"
    )
