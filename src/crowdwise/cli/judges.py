"""``crowdwise judges``: models and people as a crowd of judges: who shares errors, who adds what, which panel to ask."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.cli.declare import argument, file, group, option, share, table
from crowdwise.cli.fitting import (
    ANONYMOUS,
    STDIN,
    build,
    cautious,
    gold_by_use,
    is_saved,
    opening_of,
    parse_list,
    read_gold,
    read_votes,
)
from crowdwise.cli.job import Job, count, naming, note, progress_of, refuse, some
from crowdwise.cli.options import MORE, MethodOptions, OutputOptions, ReadOptions
from crowdwise.errors import InputError, SettingError

if TYPE_CHECKING:
    from crowdwise.data.annotations import Annotations
    from crowdwise.estimator.aggregator import Aggregator
    from crowdwise.estimator.outcome import Result
    from crowdwise.io.verdicts import Verdicts
    from crowdwise.trust.judges import Families

EXAMPLES = (
    "Example: crowdwise judges verdicts.jsonl --families families.csv --prices prices.csv --target 0.9 -o judges.csv\n\n"
    "Families by name, model/prompt/temperature: crowdwise judges verdicts.jsonl --by-name /\n\n"
    "The same in columns: crowdwise judges verdicts.jsonl --parts model,prompt,temperature\n\n"
    "Log-probabilities as soft votes: crowdwise judges verdicts.jsonl --probabilities logprobs --classes good,bad\n\n"
    "Pairs in both orders (question, model_a, model_b, judge, winner): crowdwise judges battles.jsonl"
)
_FAMILIES, _PANELS = "Who belongs together", "Panels"


@group
class FamilyOptions:
    """Who shares errors with whom, and who is a person."""

    families: Path | None = file("--families", "Judges that share errors: annotator, family (or group).", _FAMILIES)
    by_name: str | None = option(
        "--by-name",
        "MARK",
        "Judges whose names are alike up to this mark are a family: / of model/prompt/0.7.",
        panel=_FAMILIES,
    )
    parts: str | None = option(
        "--parts", "A,B", "Columns that name a judge together, such as model,prompt,temperature; the first is the family.",
        panel=_FAMILIES,
    )  # fmt: skip
    people: list[str] | None = option(
        "--people", "NAME", "A family of people, or a person; may be repeated.", panel=_FAMILIES, shown="people, human"
    )


@group
class PanelOptions:
    """What panels cost, and what they are measured by."""

    prices: Path | None = file(
        "--prices", "Price of a vote: annotator (or family), price. Else from a column price_per_vote.", _PANELS
    )
    target: float = share("--target", "Expected accuracy that the cheapest panel is to reach.", 0.9, _PANELS)
    human_accuracy: float | None = share(
        "--human-accuracy", "How often a person is right, where none is in the file.", None, _PANELS
    )


@group
class Options(OutputOptions):
    """What is read and written."""

    votes: str = argument("VOTES", "A table of votes, a platform's export, or verdicts between two answers.")
    labels: Path | None = table("--labels", "Write the labels, with each family counted as one.", MORE)
    panels: Path | None = table("--panels", "Write a table of panels: judges, price, accuracy, human votes.", MORE)


def run(options: Options, families: FamilyOptions, panels: PanelOptions, read: ReadOptions, method: MethodOptions) -> None:
    """Treat judges as a crowd: families that share errors, what each judge adds to the others, and what panels are worth.

    Families are given (--families, --by-name, --parts) or found in the votes; members count as one. Per judge: accuracy with
    its interval, bits alone and bits added given all others, price. Per panel: expected accuracy, price of a label, and how
    many human votes it is worth. Repeated votes of a judge on an item are one soft vote.

    Files of pairs say more. With question, two names (model_a, model_b; first, second), judge and winner, or with a winner
    (a or b) and a column swapped: whether a judge favours a place. With length_a and length_b, or texts such as output_1 and
    output_2: whether it prefers the longer, and beside the truth where a column truth names the better one.
    """
    from crowdwise.report.judges_text import bias_lines, family_lines, narrow, panel_lines
    from crowdwise.trust.judges import examine, one_vote_each, with_biases

    job = Job(options, families, panels, method)
    given = _check(options, families, read, method)
    estimator = build(method)
    pairs = _verdicts(options.votes, read) if families.parts is None else None
    votes = one_vote_each(pairs.votes() if pairs is not None else _votes(options.votes, families, read))
    if votes.anonymous:
        raise SettingError(ANONYMOUS.format("crowdwise judges"))
    who, source = _given(votes, families, given), "given"
    votes, gold, truth = gold_by_use(votes, read_gold(method.gold, votes), method.gold_is)
    votes = votes if gold is None else votes.with_gold(gold)
    result = None
    if not given:
        (who, result), source = _found(votes, who, estimator, method), "found"
    result = result or _labelled(votes, who, estimator)
    price = _prices(votes, who, options.votes, panels, read, families)
    found = examine(
        votes, who, result.model_posterior, price=price, human_accuracy=panels.human_accuracy, target=panels.target, truth=truth
    )
    frame = found.table
    if pairs is not None:
        frame = with_biases(
            frame, pairs.judge, pairs.pair, pairs.in_order, pairs.chose_first, doublings=pairs.doublings, truth=pairs.truth
        )
    job.table("--labels", result.items_frame, "item")
    job.table("--panels", lambda: found.panels, "panel")
    document = {"families": who.fused_names, "families_are": source, "panels": found.panels.to_dicts(), "method": result.method}
    job.main(frame, "judge", document=lambda: document, key="judges", screen=narrow, limit=40)
    job.say(family_lines(who, source))
    job.say(bias_lines(frame))
    job.say(panel_lines(found, panels.target))


def _check(options: Options, families: FamilyOptions, read: ReadOptions, method: MethodOptions) -> bool:
    """Refuse options that do not go together; whether families are given."""
    refuse("{} is a record of single annotators, and families make several of them one; leave it out", (method, ["history"]))
    ways = [name for name in ("families", "by_name", "parts") if getattr(families, name) is not None]
    if len(ways) > 1:
        raise SettingError("--families, --by-name and --parts are three ways to say who belongs together; give one of them")
    if families.by_name == "":
        raise SettingError("--by-name needs a mark, such as / in model/prompt/0.7")
    if options.votes == STDIN or is_saved(options.votes):
        raise InputError(
            "crowdwise judges reads a file of votes more than once; name that file instead of stdin or a saved model"
        )
    if families.parts is not None:
        words = "{} does not go with --parts; join the columns in the file instead, and use --by-name"
        refuse(words, (read, ["annotator", "probabilities", "sure", "weight", "format", "question"]))
    return bool(ways)


def _verdicts(path: str, read: ReadOptions) -> Verdicts | None:
    """Verdicts between two, where the file holds such and nothing says that they are votes of another kind."""
    from crowdwise.io.opening import opening
    from crowdwise.io.verdicts import are_verdicts, read_verdicts

    if read.format is not None or read.probabilities is not None or read.sure is not None or read.annotator_columns:
        return None
    with opening(**opening_of(read)):
        if not are_verdicts(path):
            return None
        pairs = read_verdicts(path, question=read.item, judge=read.annotator, label=read.label)
    if pairs.n_missing:
        note(f"dropped {count(pairs.n_missing, 'row')} without a verdict")
    if pairs.question is None:
        note("no column names the question, so that pairs are compared over all of them")
    return pairs


def _votes(path: str, families: FamilyOptions, read: ReadOptions) -> Annotations:
    if families.parts is None:
        return read_votes(path, read)
    from crowdwise.io.judge_parts import read_parts
    from crowdwise.io.opening import opening

    parts = [str(part) for part in parse_list(families.parts, "--parts")]
    with opening(**opening_of(read)):
        classes = read.classes and parse_list(read.classes, "--classes")
        return read_parts(path, parts, item=read.item, label=read.label, classes=classes or None, missing=read.missing or ())


def _given(votes: Annotations, options: FamilyOptions, given: bool) -> Families:
    """Families that are named; without any, everybody stands alone."""
    from crowdwise.io.annotator_tables import read_families
    from crowdwise.io.judge_parts import MARK
    from crowdwise.trust.judges import Families, by_name
    from crowdwise.trust.judges.families import PEOPLE

    known: dict[str, str] = {}
    if options.families is not None:
        with naming("--families"):
            known = read_families(options.families)
        present = {str(name) for name in votes.annotators}
        if not present & set(known):
            raise SettingError(
                f"--families: {options.families} names no annotator of these votes, such as {some(sorted(present), 3)}"
            )
        absent = sorted(set(known) - present)
        if absent:
            note(f"{count(len(absent), 'name')} of {options.families} gave no votes: {some(absent, 5)}")
    elif given:
        known = by_name(votes.annotators, options.by_name or MARK)
        if not known:
            note(f"no name of a judge has a {options.by_name!r}, so everybody stands alone")
    people = options.people or PEOPLE
    lost = [
        name for name in options.people or () if name not in known.values() and name not in {str(a) for a in votes.annotators}
    ]
    if lost:
        raise SettingError(f"--people: nobody, and no family, is called {lost[0]!r}")
    return Families.of(votes, known, people)


def _found(votes: Annotations, who: Families, estimator: Aggregator, method: MethodOptions) -> tuple[Families, Result | None]:
    """Families as the votes show them, with people to rely on, and the labels by them; None where votes are soft."""
    from crowdwise.trust.judges import Families, decided

    hard = decided(votes)
    with progress_of(estimator) as progress:
        estimator.fit(hard, progress=progress)
    people = [str(name) for name, is_person in zip(votes.annotators, who.person, strict=True) if is_person]
    heeded = cautious(estimator.result_, [*(method.trusted or ()), *people], fuse=True)
    labels = None if heeded is None or votes.soft else heeded.result
    if heeded is None or not heeded.found:
        return who, labels
    code = heeded.found.readings[0].code
    names = {str(name): f"family {int(j) + 1}" for name, j in zip(votes.annotators, code, strict=True) if j >= 0}
    return Families.of(votes, names, people), labels


def _labelled(votes: Annotations, who: Families, estimator: Aggregator) -> Result:
    """The method fitted to votes in which every family is one annotator."""
    from crowdwise.trust.crowd.fusion import fused

    code = who.fused_code
    one = votes if code.max(initial=-1) < 0 else replace(fused(votes, code, who.fused_names), gold=votes.gold)
    with progress_of(estimator) as progress:
        return estimator.fit(one, progress=progress).result_


def _prices(
    votes: Annotations, who: Families, path: str, panels: PanelOptions, read: ReadOptions, families: FamilyOptions
) -> Any:
    """The price of a vote of everybody, [A], by name or by family; None where there are no prices."""
    import numpy as np

    from crowdwise.io.judge_parts import prices_in, read_prices
    from crowdwise.io.opening import opening

    if panels.prices is not None:
        with naming("--prices"):
            known = read_prices(panels.prices)
    elif families.parts is None:
        with opening(**opening_of(read)):
            known = dict(prices_in(path, read.annotator))
    else:
        known = {}
    names = [str(name) for name in votes.annotators]
    price = np.array([known.get(name, known.get(family, np.nan)) for name, family in zip(names, who.name, strict=True)])
    lost = [name for name, one, person in zip(names, price, who.person, strict=True) if np.isnan(one) and not person]
    if panels.prices is not None and len(lost) == len(names):
        raise SettingError(f"--prices: {panels.prices} names no annotator of these votes, such as {some(names, 3)}")
    if known and lost:
        note(f"no price is known of {some(lost, 5)}: panels are compared without prices")
    return price if np.isfinite(price).any() else None
