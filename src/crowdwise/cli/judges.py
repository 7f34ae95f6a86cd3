"""``crowdwise judges``: models and people as a crowd of judges: who shares errors, who adds what, which panel to ask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import crowdwise
from crowdwise import io, report, trust
from crowdwise.cli import fitting
from crowdwise.cli.declare import argument, file, group, option, panel, share, table
from crowdwise.cli.job import Job, naming, progress_of, refuse
from crowdwise.cli.options import MORE, MethodOptions, OutputOptions, ReadOptions
from crowdwise.errors import InputError, SettingError

EXAMPLES = (
    "Example: crowdwise judges verdicts.jsonl --families families.csv --prices prices.csv --target 0.9 -o judges.csv\n\n"
    "Families by name, model/prompt/temperature: crowdwise judges verdicts.jsonl --by-name /\n\n"
    "The same in columns: crowdwise judges verdicts.jsonl --parts model,prompt,temperature\n\n"
    "Models within families: crowdwise judges verdicts.jsonl --parts maker,model,prompt --levels 2\n\n"
    "Log-probabilities as soft votes: crowdwise judges verdicts.jsonl --probabilities logprobs --classes good,bad\n\n"
    "Pairs in both orders (question, model_a, model_b, judge, winner): crowdwise judges battles.jsonl"
)
_FAMILIES, _PANELS = "Who belongs together", "Panels"


@panel(_FAMILIES)
class FamilyOptions:
    """Who shares errors with whom, and who is a person."""

    families: Path | None = file(
        "--families", "Judges that share errors: annotator, family (or group), and model and prompt within families."
    )
    by_name: str | None = option(
        "--by-name", "MARK", "Judges whose names are alike up to this mark are a family: / of model/prompt/0.7."
    )
    parts: str | None = option(
        "--parts", "A,B", "Columns that name a judge together, such as model,prompt,temperature; the first is the family."
    )  # fmt: skip
    levels: int = option(
        "--levels", "N", "Parts of a name that are groups, with --by-name or --parts: 2 for models within families.", 1, least=1
    )
    people: list[str] | None = option(
        "--people", "NAME", "A family of people, or a person; may be repeated.", shown="people, human"
    )


@panel(_PANELS)
class PanelOptions:
    """What panels cost, and what they are measured by."""

    prices: Path | None = file("--prices", "Price of a vote: annotator (or family), price. Else from a column price_per_vote.")
    target: float = share("--target", "Expected accuracy that the cheapest panel is to reach.", 0.9)
    human_accuracy: float | None = share("--human-accuracy", "How often a person is right, where none is in the file.", None)


@group
class Options(OutputOptions):
    """What is read and written."""

    votes: str = argument("VOTES", "A table of votes, a platform's export, or verdicts between two answers.")
    labels: Path | None = table("--labels", "Write the labels, with each family counted as one.", MORE)
    panels: Path | None = table("--panels", "Write a table of panels: judges, price, accuracy, human votes.", MORE)


def run(options: Options, families: FamilyOptions, panels: PanelOptions, read: ReadOptions, method: MethodOptions) -> None:
    """Treat judges as a crowd: families that share errors, what each judge adds to the others, and what panels are worth.

    Families are given (--families, --by-name, --parts) or found in the votes; members count as one, and where models within
    families are given, prompts of a model before models of a family. Per judge: accuracy with its interval, bits alone and
    bits added given all others, price. Per panel: expected accuracy, price of a label, and how many human votes it is worth.
    Repeated votes of a judge on an item are one soft vote.

    Files of pairs say more. With question, two names (model_a, model_b; first, second), judge and winner, or with a winner
    (a or b) and a column swapped: whether a judge favours a place. With length_a and length_b, or texts such as output_1 and
    output_2: whether it prefers the longer, and beside the truth where a column truth names the better one.
    """
    job = Job(options, families, panels, method)
    given = _check(options, families, read, method)
    estimator = fitting.build(method)
    pairs = _verdicts(options.votes, read) if families.parts is None else None
    votes = trust.judges.one_vote_each(pairs.votes() if pairs is not None else _votes(options.votes, families, read))
    if votes.anonymous:
        raise SettingError(fitting.ANONYMOUS.format("crowdwise judges"))
    who, source = _given(votes, families, given), "given"
    votes, gold, truth = fitting.gold_by_use(votes, fitting.read_gold(method.gold, votes), method.gold_is)
    votes = votes if gold is None else votes.with_gold(gold)
    result = None
    if not given:
        (who, result), source = _found(votes, who, estimator, method), "found"
    result = result or _fitted(who.fused(votes), estimator)
    price = _prices(votes, who, options.votes, panels, read, families.parts is not None)
    found = trust.judges.examine(
        votes, who, result.model_posterior, price=price, human_accuracy=panels.human_accuracy, target=panels.target, truth=truth
    )
    frame = found.table
    if pairs is not None:
        frame = trust.judges.with_biases(
            frame, pairs.judge, pairs.pair, pairs.in_order, pairs.chose_first, doublings=pairs.doublings, truth=pairs.truth
        )
    job.table("--labels", result.items_frame, "item")
    job.table("--panels", lambda: found.panels, "panel")
    document = {"families": who.fused_names, "families_are": source, "panels": found.panels.to_dicts(), "method": result.method}
    job.main(frame, "judge", document=lambda: document, key="judges", screen=report.judges_text.narrow, limit=40)
    job.say(report.judges_text.family_lines(who, source))
    job.say(report.judges_text.bias_lines(frame))
    job.say(report.judges_text.panel_lines(found, panels.target, votes.n_classes))


def _check(options: Options, families: FamilyOptions, read: ReadOptions, method: MethodOptions) -> bool:
    """Refuse options that do not go together; whether families are given."""
    refuse("{} is a record of single annotators, and families make several of them one; leave it out", (method, ["history"]))
    ways = [name for name in ("families", "by_name", "parts") if getattr(families, name) is not None]
    if len(ways) > 1:
        raise SettingError("--families, --by-name and --parts are three ways to say who belongs together; give one of them")
    if families.levels > 1 and (not ways or families.families is not None):
        raise SettingError("--levels goes with --by-name or --parts; in a table of --families, add a column model")
    if families.by_name == "":
        raise SettingError("--by-name needs a mark, such as / in model/prompt/0.7")
    if options.votes == fitting.STDIN or fitting.is_saved(options.votes):
        raise InputError(
            "crowdwise judges reads a file of votes more than once; name that file instead of stdin or a saved model"
        )
    if families.parts is not None:
        words = "{} does not go with --parts; join the columns in the file instead, and use --by-name"
        refuse(words, (read, ["annotator", "probabilities", "sure", "weight", "format", "question"]))
    return bool(ways)


def _verdicts(path: str, read: ReadOptions) -> io.verdicts.Verdicts | None:
    """Verdicts between two, where the file holds such and nothing says that they are votes of another kind."""
    if read.format is not None or read.probabilities is not None or read.sure is not None or read.annotator_columns:
        return None
    with fitting.opened(read), fitting.noted() as notes:
        if not io.verdicts.are_verdicts(path, label=read.label):
            return None
        pairs = io.verdicts.read_verdicts(path, question=read.item, judge=read.annotator, label=read.label)
        notes += report.verdict_lines(pairs)
        return pairs


def _votes(path: str, families: FamilyOptions, read: ReadOptions) -> crowdwise.Annotations:
    if families.parts is None:
        # What becomes of repeated votes here is said below, and not that all of them count.
        votes = fitting.read_votes(path, replace(read, repeats=read.repeats or "weight"))
        with fitting.noted() as notes:
            notes += report.place_lines(votes) or report.repeat_lines(votes)
        return votes
    parts = [str(part) for part in fitting.parse_list(families.parts, "--parts")]
    classes = read.classes and fitting.parse_list(read.classes, "--classes")
    with fitting.opened(read):
        return io.judge_parts.read_parts(
            path, parts, item=read.item, label=read.label, classes=classes or None, missing=read.missing or ()
        )


def _given(votes: crowdwise.Annotations, options: FamilyOptions, given: bool) -> trust.judges.Families:
    """Families that are named; without any, everybody stands alone."""
    known: Mapping[str, tuple[str, ...]] = {}
    with fitting.noted() as notes:
        if options.families is not None:
            with naming("--families"):
                table = io.annotator_tables.read_family_tree(options.families)
            known = report.families_by_table(votes, table, options.families, notes)
        elif given:
            known = report.families_by_name(votes, options.by_name or io.judge_parts.MARK, options.levels, notes)
        return report.with_people(votes, known, options.people, notes)


def _found(
    votes: crowdwise.Annotations, who: trust.judges.Families, estimator: crowdwise.estimator.Aggregator, method: MethodOptions
) -> tuple[trust.judges.Families, crowdwise.Result | None]:
    """Families as the votes show them, with people to rely on, and the labels by them; None where votes are soft."""
    result, people = _fitted(trust.judges.decided(votes), estimator), who.people(votes)
    heeded = fitting.cautious(result, [*(method.trusted or ()), *people], fuse=True)
    labels = None if heeded is None or votes.soft else heeded.result
    if heeded is None or not heeded.found:
        return who, labels
    return trust.judges.Families.of(
        votes, trust.judges.families.by_code(votes.annotators, heeded.found.readings[0].code), people
    ), labels


def _fitted(votes: crowdwise.Annotations, estimator: crowdwise.estimator.Aggregator) -> crowdwise.Result:
    with progress_of(estimator) as progress:
        return estimator.fit(votes, progress=progress).result_


def _prices(
    votes: crowdwise.Annotations, who: trust.judges.Families, path: str, panels: PanelOptions, read: ReadOptions, parts: bool
) -> Any:
    """The price of a vote of everybody, [A], from a table or from the votes, whose judges several columns may name."""
    known: Mapping[str, float] = {}
    if panels.prices is not None:
        with naming("--prices"):
            known = io.judge_parts.read_prices(panels.prices)
    elif not parts:
        with fitting.opened(read):
            known = io.judge_parts.prices_in(path, read.annotator)
    with fitting.noted() as notes:
        return report.prices_of(votes, who, known, panels.prices, notes)
