"""Groups of options that several commands share, and words that they share; see `crowdwise.cli.declare`."""

from __future__ import annotations

from dataclasses import MISSING
from pathlib import Path
from typing import Any

from crowdwise.cli.declare import INPUT, TABLE, column, file, flag, group, option

__all__ = ["CampaignMethodOptions", "FeatureOptions", "FileOptions", "KeepOptions", "KnownOptions", "MaybeFeatures"]
__all__ += ["MethodOptions", "OutputOptions", "QuietOptions", "ReadOptions", "ScreenOptions", "TaskOptions", "TrainOptions"]

READ, METHOD, FEATURES, MORE = "Reading the votes", "Method", "Reading the features", "More results"
# The share of wrong flags by default.
FDR = 0.05
VOTES = "A table of votes or a platform's export; - reads stdin."
VOTES_OR_SAVED = "Votes (- reads stdin), or a folder written by --save."
TRUTH = "True labels of some items: item, label. The fit does not see them."
TRUTH_OR_GOLD = "True labels: item, label. May be left out if the votes carry gold."
_ROWS = "Features, one row per item (.npz .npy .csv .tsv .parquet .arrow)."
EDGES = "Items that tend to have the same class, as neighbours do: source, target and perhaps weight."
GROUPS = "Annotators who belong together and count as one, such as judges of one model family: annotator, group."
GIVE_TRUTH = "give them with --truth FILE (columns item and label)"
RAW = "Write CSV for programs: without the ' before cells that a spreadsheet would run as formulas."
ANNOTATORS = "Write a table of the annotators."


def method_option(default: str | None = None) -> Any:
    """Declare --method; the default in words."""
    return option("--method -m", "NAME", "Name of the method; crowdwise methods lists them.", panel=METHOD, shown=default)


@group
class QuietOptions:
    """How much is said on stderr."""

    quiet: bool = flag("--quiet -q", "Print no summary and no progress; warnings and errors only.")


@group
class ScreenOptions(QuietOptions):
    """What is printed."""

    as_json: bool = flag("--json", "Print JSON on stdout.")


@group
class OutputOptions(ScreenOptions):
    """Where the main table goes, and how."""

    output: Path | None = option(
        "-o --output",
        "FILE",
        "Write the table here (.csv .tsv .jsonl .parquet ...); - is stdout, as CSV.",
        shown="stdout",
        place=TABLE,
    )
    raw: bool = flag("--raw", RAW)


@group
class FileOptions:
    """How to open a file, where it does not say."""

    encoding: str | None = option("--encoding", "NAME", "Encoding of text: cp1252, utf-16, ...", panel=READ, shown="utf-8")
    sheet: str | None = option("--sheet", "NAME", "Sheet of a workbook (.xlsx, .ods).", panel=READ, shown="the only one")
    skip_rows: int | None = option("--skip-rows", "N", "Rows above the header.", panel=READ, shown="found")


@group
class ReadOptions(FileOptions):
    """How to read votes; the options of `crowdwise.io.read`."""

    item: str | None = column("--item", "item", READ)
    annotator: str | None = column("--annotator", "annotator", READ)
    label: str | None = column("--label", "label", READ)
    weight: str | None = option("--weight", "COLUMN", "Name of the weight column.", panel=READ, shown="every vote counts 1")
    probabilities: str | None = option(
        "--probabilities", "COLUMNS", "Columns of probabilities, one per class (p_*), or one of lists or mappings.", panel=READ
    )
    sure: str | None = option("--sure", "COLUMN", "Name of a column that says how sure a vote is (0.8 or 80%).", panel=READ)
    question: str | None = option("--question", "NAME", "Which question to read, where there are several.", panel=READ)
    format: str | None = option("--format", "FORMAT", "Format of the file.", panel=READ, shown="recognised")
    classes: str | None = option(
        "--classes", "A,B,C", "All classes in order, comma-separated or as a JSON list.", panel=READ, shown="those that occur"
    )
    missing: list[str] | None = option("--missing", "TEXT", 'A label that means "don\'t know"; may be repeated.', panel=READ)
    predictions: bool = flag("--predictions", "Let a platform's model predictions vote too.", READ)
    deduplicate: bool = flag("--deduplicate", "Count an annotator's repeated equal votes on an item once.", READ)
    repeats: str | None = option(
        "--repeats",
        "RULE",
        "Which of an annotator's votes on one item count: all, the last, the first, or all with the weight of one: weight.",
        panel=READ,
        shown="all",
    )
    time_column: str | None = option(
        "--time-column", "COLUMN", "When votes were given, for --repeats.", panel=READ, shown="found by its name"
    )
    one_label: bool = flag("--one-label", "Take every cell as one label, even if it looks like several.", READ)
    fold_case: bool = flag(
        "--fold-case", "Take labels, and annotators, that differ in case, as a_b and a.b, or as 1 and 1.0, as one.", READ
    )
    spelling: Path | None = file("--spelling", "Spellings to unify: a table of from, to and perhaps role.", READ)
    annotator_columns: list[str] | None = option(
        "--annotator-columns",
        "PATTERN",
        "Columns that vote, in a table with a column per annotator: names, or patterns such as 'label_*'. May be repeated.",
        panel=READ,
    )
    exclude: list[str] | None = option(
        "--not", "COLUMN", "Columns that do not vote, names or patterns. May be repeated.", panel=READ
    )
    no_header: bool = flag("--no-header", "The table has no row of column names.", READ)
    transposed: bool = flag("--transposed", "The table has a row per annotator and a column per item.", READ)
    workflow_version: str | None = option(
        "--workflow-version", "VERSION", "Zooniverse: read these versions only, such as 27 or 27.36.", panel=READ
    )


@group
class KeepOptions:
    """What travels along from the file of votes."""

    keep: str | None = option(
        "--keep", "A,B", "Columns of the votes that say what an item is, such as text or a link, to show beside it.", panel=READ
    )


@group
class TaskOptions:
    """Which method to run."""

    method: str | None = method_option()
    set: list[str] | None = option(
        "--set", "NAME=VALUE", "A setting of the method; crowdwise methods NAME lists them. May be repeated.", panel=METHOD
    )
    seed: int | None = option("--seed", "N", "Seed of everything random.", panel=METHOD, shown="0")


@group
class KnownOptions(TaskOptions):
    """Which method to run on votes, and what is known beside them."""

    annotator_prior: str | None = option(
        "--annotator-prior",
        "PRIOR",
        "What annotators are like before any vote: beta:2,1, dir:2,1 or spammer-hammer:0.5. Bayesian methods only.",
        panel=METHOD,
    )
    gold: Path | None = file("--gold", "Known labels of some items, which the fit keeps: item, label.", METHOD)
    gold_is: str | None = option(
        "--gold-is",
        "USE",
        "What gold is for: known (the fit keeps it) or truth (the fit does not see it; labels are compared with it).",
        panel=METHOD,
        shown="known",
    )


@group
class TrainOptions(KnownOptions):
    """Which classifier to train, and what is known beside the votes."""

    method: str | None = method_option("auto-classifier")


@group
class MethodOptions(KnownOptions):
    """The same, where votes are all there is."""

    method: str | None = method_option("consensus")
    class_prior: str | None = option(
        "--class-prior",
        "PRIOR",
        "Class shares: learn, anchored (near the votes), uniform, or one share per class such as 0.2,0.8.",
        panel=METHOD,
    )
    history: Path | None = file(
        "--history",
        "Annotators' earlier record: a table (annotator, accuracy, n_votes or right, wrong) or a folder written by --save.",
        METHOD,
    )
    trusted: list[str] | None = option(
        "--trusted", "NAME", "An annotator who shares no errors, where others seem to; may be repeated.", panel=METHOD
    )


@group
class CampaignMethodOptions(MethodOptions):
    """The same, for campaigns, with features or without."""

    method: str | None = method_option("dawid-skene; ccem with features")


@group
class MaybeFeatures:
    """Where the features are, if there are any; the options of `crowdwise.io.features.read_features`."""

    features: str | None = file("--features", _ROWS, FEATURES)
    features_item: str | None = option(
        "--features-item", "NAME", "Name of the column or array of item ids.", panel=FEATURES, shown="found by its name"
    )
    key: str | None = option("--key", "NAME", "Name of the array of features in an .npz file.", panel=FEATURES)


@group
class FeatureOptions(MaybeFeatures):
    """The same, where features are needed."""

    features: str = option("--features", "FILE", _ROWS, MISSING, FEATURES, place=INPUT)
