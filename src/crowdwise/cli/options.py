"""Groups of options that several commands share, and words that they share; see `crowdwise.cli.declare`."""

from __future__ import annotations

from dataclasses import MISSING
from pathlib import Path

from crowdwise.cli.declare import INPUT, column, file, flag, group, option, output, page, panel, table

__all__ = ["AnswerOptions", "CampaignMethodOptions", "FeatureOptions", "FileOptions", "KeepOptions", "KnownOptions"]
__all__ += ["MaybeFeatures", "MethodOptions", "OutputOptions", "QuietOptions", "ReadOptions", "ScreenOptions", "TaskOptions"]
__all__ += ["TrainOptions", "WeightOptions"]

READ, METHOD, FEATURES, MORE = "Reading the votes", "Method", "Reading the features", "More results"
ANSWERS = "Reading the answers"
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
_NAME = "Name of the method; crowdwise methods lists them."
ANNOTATORS = "Write a table of the annotators."


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

    output: Path | None = output()
    raw: bool = flag("--raw", RAW)


@panel(READ)
class FileOptions:
    """How to open a file, where it does not say."""

    encoding: str | None = option("--encoding", "NAME", "Encoding of text: cp1252, utf-16, ...", shown="utf-8")
    sheet: str | None = option("--sheet", "NAME", "Sheet of a workbook (.xlsx, .ods).", shown="the only one")
    skip_rows: int | None = option("--skip-rows", "N", "Rows above the header.", shown="found", least=0)


@panel(READ)
class ReadOptions(FileOptions):
    """How to read votes; the options of `crowdwise.io.read`."""

    item: str | None = column("--item", "item")
    annotator: str | None = column("--annotator", "annotator")
    label: str | None = column("--label", "label")
    weight: str | None = option("--weight", "COLUMN", "Name of the weight column.", shown="every vote counts 1")
    probabilities: str | None = option(
        "--probabilities", "COLUMNS", "Columns of probabilities, one per class (p_*), or one of lists or mappings."
    )
    sure: str | None = option("--sure", "COLUMN", "Name of a column that says how sure a vote is (0.8 or 80%).")
    question: str | None = option("--question", "NAME", "Which question to read, where there are several.")
    format: str | None = option("--format", "FORMAT", "Format of the file.", shown="recognised")
    classes: str | None = option(
        "--classes", "A,B,C", "All classes in order, comma-separated or as a JSON list.", shown="those that occur"
    )
    missing: list[str] | None = option("--missing", "TEXT", 'A label that means "don\'t know"; may be repeated.')
    predictions: bool = flag("--predictions", "Let a platform's model predictions vote too.")
    deduplicate: bool = flag("--deduplicate", "Count an annotator's repeated equal votes on an item once.")
    repeats: str | None = option(
        "--repeats",
        "RULE",
        "Which of an annotator's votes on one item count: all, the last, the first, or all with the weight of one: weight.",
        shown="all",
    )
    time_column: str | None = option(
        "--time-column", "COLUMN", "When votes were given, for --repeats.", shown="found by its name"
    )
    one_label: bool = flag("--one-label", "Take every cell as one label, even if it looks like several.")
    fold_case: bool = flag(
        "--fold-case", "Take labels, and annotators, that differ in case, as a_b and a.b, or as 1 and 1.0, as one."
    )
    spelling: Path | None = file("--spelling", "Spellings to unify: a table of from, to and perhaps role.")
    annotator_columns: list[str] | None = option(
        "--annotator-columns",
        "PATTERN",
        "Columns that vote, in a table with a column per annotator: names, or patterns such as 'label_*'. May be repeated.",
    )
    exclude: list[str] | None = option("--not", "COLUMN", "Columns that do not vote, names or patterns. May be repeated.")
    no_header: bool = flag("--no-header", "The table has no row of column names.")
    transposed: bool = flag("--transposed", "The table has a row per annotator and a column per item.")
    workflow_version: str | None = option(
        "--workflow-version", "VERSION", "Zooniverse: read these versions only, such as 27 or 27.36."
    )


@panel(READ)
class KeepOptions:
    """What travels along from the file of votes."""

    keep: str | None = option(
        "--keep", "A,B", "Columns of the votes that say what an item is, such as text or a link, to show beside it."
    )


@panel(METHOD)
class TaskOptions:
    """Which method to run."""

    method: str | None = option("--method -m", "NAME", _NAME)
    set: list[str] | None = option(
        "--set", "NAME=VALUE", "A setting of the method; crowdwise methods NAME lists them. May be repeated."
    )
    seed: int | None = option("--seed", "N", "Seed of everything random.", shown="0")


@panel(METHOD)
class KnownOptions(TaskOptions):
    """Which method to run on votes, and what is known beside them."""

    annotator_prior: str | None = option(
        "--annotator-prior",
        "PRIOR",
        "What annotators are like before any vote: beta:2,1, dir:2,1 or spammer-hammer:0.5. Bayesian methods only.",
    )
    gold: Path | None = file("--gold", "Known labels of some items, which the fit keeps: item, label.")
    gold_is: str | None = option(
        "--gold-is",
        "USE",
        "What gold is for: known (the fit keeps it) or truth (the fit does not see it; labels are compared with it).",
        shown="known",
    )


@panel(METHOD)
class TrainOptions(KnownOptions):
    """Which classifier to train, and what is known beside the votes."""

    method: str | None = option("--method -m", "NAME", _NAME, shown="auto-classifier")


@panel(METHOD)
class MethodOptions(KnownOptions):
    """The same, where votes are all there is."""

    method: str | None = option("--method -m", "NAME", _NAME, shown="consensus")
    class_prior: str | None = option(
        "--class-prior",
        "PRIOR",
        "Class shares: learn, anchored (near the votes), uniform, or one share per class such as 0.2,0.8.",
    )
    history: Path | None = file(
        "--history",
        "Annotators' earlier record: a table (annotator, accuracy, n_votes or right, wrong) or a folder written by --save.",
    )
    trusted: list[str] | None = option(
        "--trusted", "NAME", "An annotator who shares no errors, where others seem to; may be repeated."
    )


@panel(METHOD)
class CampaignMethodOptions(MethodOptions):
    """The same, for campaigns, with features or without."""

    method: str | None = option("--method -m", "NAME", _NAME, shown="dawid-skene; raykar with features")


@panel(FEATURES)
class MaybeFeatures:
    """Where the features are, if there are any; the options of `crowdwise.io.features.read_features`."""

    features: str | None = file("--features", _ROWS)
    features_item: str | None = option(
        "--features-item", "NAME", "Name of the column or array of item ids.", shown="found by its name"
    )
    key: str | None = option("--key", "NAME", "Name of the array of features in an .npz file.")


@panel(FEATURES)
class FeatureOptions(MaybeFeatures):
    """The same, where features are needed."""

    features: str = option("--features", "FILE", _ROWS, MISSING, place=INPUT)


@group
class AnswerOptions(OutputOptions):
    """Where the tables and the page go, and who answered."""

    annotators: Path | None = table("--annotators", ANNOTATORS, MORE)
    page: Path | None = page(panel=MORE)
    annotator: str | None = column("--annotator", "annotator", ANSWERS)


@panel(ANSWERS)
class WeightOptions:
    """Which answers of an export count, and how much."""

    question: str | None = option("--question", "NAME", "Which question of a platform's export to read.")
    weight: str | None = option("--weight", "COLUMN", "Name of the weight column.", shown="every answer counts 1")
