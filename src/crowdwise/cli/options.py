"""Options that several commands share: how to read votes, which method to run, where to write."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = [
    "FLAG",
    "CampaignMethodOptions",
    "DropSpammers",
    "FalseDiscovery",
    "FeatureOptions",
    "Json",
    "MethodOptions",
    "Output",
    "Page",
    "Quiet",
    "ReadOptions",
    "SpreadsheetSafe",
    "SteadyMethodOptions",
    "TaskOptions",
    "VotesOrSaved",
    "VotesPath",
    "column",
]

_READ, _METHOD, _FEATURES = "Reading the votes", "Method", "Reading the features"
# A flag takes no value; typer would show it as <bool>.
FLAG = ""


def _read(*names: str, **more: Any) -> Any:
    return typer.Option(*names, rich_help_panel=_READ, **more)


def _features(*names: str, **more: Any) -> Any:
    return typer.Option(*names, rich_help_panel=_FEATURES, **more)


def column(option: str, what: str, panel: str) -> Any:
    """Declare the option that names a column of the input."""
    return typer.Option(option, metavar="COLUMN", rich_help_panel=panel, help=f"Column of {what}.")


def _method(*names: str, **more: Any) -> Any:
    return typer.Option(*names, rich_help_panel=_METHOD, **more)


VotesPath = Annotated[str, typer.Argument(metavar="VOTES", help="A table of votes or a platform's export; - reads stdin.")]
VotesOrSaved = Annotated[str, typer.Argument(metavar="VOTES", help="Votes (- reads stdin), or a folder written by --save.")]
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FILE", help="Write here (.csv .tsv .jsonl .parquet ...); - is stdout, as CSV."),
]
SpreadsheetSafe = Annotated[
    bool, typer.Option("--spreadsheet-safe", metavar=FLAG, help="Disarm cells that a spreadsheet would run as formulas.")
]
Json = Annotated[bool, typer.Option("--json", metavar=FLAG, help="Print JSON on stdout.")]
DropSpammers = Annotated[
    bool, typer.Option("--drop-spammers", metavar=FLAG, help="Fit again without the votes of spammers, who are listed.")
]
FalseDiscovery = Annotated[
    float, typer.Option("--fdr", metavar="SHARE", help="Share of wrong flags to expect among an annotator check's flags.")
]
Page = Annotated[Path | None, typer.Option("--page", metavar="FILE", help="Write a page to open in a browser (.html).")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", metavar=FLAG, help="No summary and no progress; warnings and errors only.")
]


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How to read votes; the options of `crowdwise.io.read`."""

    item: Annotated[str | None, _read("--item", metavar="COLUMN", help="Column of the items.")] = None
    annotator: Annotated[str | None, _read("--annotator", metavar="COLUMN", help="Column of the annotators.")] = None
    label: Annotated[str | None, _read("--label", metavar="COLUMN", help="Column of the labels.")] = None
    weight: Annotated[str | None, _read("--weight", metavar="COLUMN", help="Column of the votes' weights.")] = None
    question: Annotated[str | None, _read("--question", metavar="NAME", help="Which question, where there are several.")] = None
    format: Annotated[str | None, _read("--format", metavar="FORMAT", help="Format, where it is not recognised.")] = None
    classes: Annotated[
        str | None, _read("--classes", metavar="A,B,C", help="All classes in order, between commas or as a JSON list.")
    ] = None
    missing: Annotated[
        list[str] | None, _read("--missing", metavar="TEXT", help='A label that means "don\'t know"; may be repeated.')
    ] = None
    predictions: Annotated[bool, _read("--predictions", metavar=FLAG, help="Let a platform's model predictions vote too.")] = (
        False
    )
    deduplicate: Annotated[
        bool, _read("--deduplicate", metavar=FLAG, help="Count an annotator's repeated equal votes on an item once.")
    ] = False


WORKER_PRIOR = "What annotators are like before any vote: beta:2,1, dir:2,1 or spammer-hammer:0.5. Bayesian methods only."


@dataclass(frozen=True, kw_only=True)
class MethodOptions:
    """Which method to run, and what is known beside the votes."""

    method: Annotated[
        str | None, _method("--method", "-m", metavar="NAME", help="See crowdwise methods.", show_default="auto")
    ] = None
    set: Annotated[
        list[str] | None,
        _method("--set", metavar="NAME=VALUE", help="A setting of the method; see crowdwise methods NAME. May be repeated."),
    ] = None
    seed: Annotated[int | None, _method("--seed", metavar="N", help="Seed of random starts.", show_default="0")] = None
    class_prior: Annotated[
        str | None,
        _method("--class-prior", metavar="PRIOR", help="learn, uniform, or one share per class such as 0.2,0.8."),
    ] = None
    worker_prior: Annotated[str | None, _method("--worker-prior", metavar="PRIOR", help=WORKER_PRIOR)] = None
    gold: Annotated[Path | None, _method("--gold", metavar="FILE", help="Known labels of some items: item, label.")] = None
    history: Annotated[
        Path | None,
        _method(
            "--history",
            metavar="FILE",
            help="Annotators' earlier record: a table (annotator, accuracy, n_votes or right, wrong) or a saved folder.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class SteadyMethodOptions(MethodOptions):
    """The same, for commands whose method does not depend on how many votes there are yet."""

    method: Annotated[
        str | None, _method("--method", "-m", metavar="NAME", help="See crowdwise methods.", show_default="dawid-skene")
    ] = None


@dataclass(frozen=True, kw_only=True)
class CampaignMethodOptions(MethodOptions):
    """The same, for campaigns, with features or without."""

    method: Annotated[
        str | None,
        _method(
            "--method", "-m", metavar="NAME", help="See crowdwise methods.", show_default="dawid-skene; ccem with features"
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """Which method to run on annotations that are no class votes."""

    method: Annotated[str | None, _method("--method", "-m", metavar="NAME", help="See crowdwise methods.")] = None
    set: Annotated[
        list[str] | None,
        _method("--set", metavar="NAME=VALUE", help="A setting of the method; see crowdwise methods NAME. May be repeated."),
    ] = None
    seed: Annotated[int | None, _method("--seed", metavar="N", help="Seed of random starts.", show_default="0")] = None


@dataclass(frozen=True, kw_only=True)
class FeatureOptions:
    """Where the features are; the options of `crowdwise.io.features.read_features`."""

    features: Annotated[
        str, _features("--features", metavar="FILE", help="One row per item: .npz .npy .csv .tsv .parquet .arrow")
    ]
    features_item: Annotated[
        str | None,
        _features("--features-item", metavar="NAME", help="Column or array of the items' ids, if it is not found."),
    ] = None
    key: Annotated[str | None, _features("--key", metavar="NAME", help="Array of an .npz file that holds the features.")] = None
