"""The main job on data that come with the library."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from crowdwise.data.datasets import demo
from crowdwise.estimator.registry import make
from crowdwise.io.writer import rounded, write_table
from crowdwise.report import write_page
from crowdwise.report.text import by_accuracy, some
from crowdwise.trust.metrics import accuracy

__all__ = ["write_demo"]


def write_demo(output: Path) -> str:
    """Write votes, truth, labels, annotators and a page into a folder, and return what to say of them."""
    campaign = demo()
    votes, truth = campaign.votes, campaign.truth
    majority, fitted = make("majority").fit(votes), make("consensus").fit(votes)
    result = fitted.result_
    people = by_accuracy(result)

    output.mkdir(parents=True, exist_ok=True)
    write_page(result, output / "page.html", truth=truth)
    known = pl.DataFrame({"item": list(campaign.gold), "label": list(campaign.gold.values())})
    for name, frame in {
        "votes": votes.to_frame(), "truth": known, "labels": result.items_frame(), "annotators": people
    }.items():  # fmt: skip
        write_table(rounded(frame), output / f"{name}.csv")
    return (
        f"{votes.n_annotators} annotators gave {votes.n_votes} votes on {votes.n_items} photos of animals.\n"
        f"Against the true labels, majority vote is right on {accuracy(majority.posterior_, truth):.1%} of them,\n"
        f"and consensus, which learns which annotators to trust, on {accuracy(fitted.posterior_, truth):.1%}.\n"
        f"It finds the least reliable annotators without seeing the truth: {some(people['annotator'].tail(3).reverse(), 3)}.\n"
        "\n"
        f"Open    {output / 'page.html'}\n"
        f"See     {output / 'labels.csv'}, {output / 'annotators.csv'}\n"
        f"Redo    crowdwise aggregate {output / 'votes.csv'} -o labels.csv\n"
        f"Compare crowdwise compare {output / 'votes.csv'} --truth {output / 'truth.csv'}"
    )
