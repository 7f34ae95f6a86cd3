"""Columns of a wide table that are no annotators by their names: questions, classes, items; read as votes they mean nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from crowdwise.errors import InputError, listed
from crowdwise.io.exports import Request
from crowdwise.io.question_grid import questions_of
from crowdwise.io.roles import words_of

__all__ = ["refuse_asked", "refuse_grid"]

# What is asked about texts, pictures and answers of language models, and what they are said to be.
_ASKED = {
    "toxic", "toxicity", "obscene", "obscenity", "insult", "insulting", "threat", "threatening", "hate", "hateful",
    "hatespeech", "offensive", "offensiveness", "abusive", "abuse", "profane", "profanity", "sexist", "sexism", "racist",
    "racism", "spam", "aggressive", "aggression", "violence", "violent", "harassment", "attack", "stereotype", "bias",
    "stance", "anger", "anticipation", "disgust", "fear", "joy", "love", "optimism", "pessimism", "sadness", "surprise",
    "trust", "happiness", "neutral", "admiration", "amusement", "annoyance", "approval", "caring", "confusion", "curiosity",
    "desire", "disappointment", "disapproval", "embarrassment", "excitement", "gratitude", "grief", "nervousness", "pride",
    "realization", "relief", "remorse", "valence", "arousal", "dominance", "emotion", "sentiment", "positive", "negative",
    "sarcasm", "irony", "humor", "humour", "politeness", "empathy", "fluency", "coherence", "consistency", "relevance",
    "adequacy", "informativeness", "grammar", "grammaticality", "readability", "clarity", "conciseness", "correctness",
    "completeness", "helpfulness", "helpful", "harmlessness", "harmful", "honesty", "verbosity", "complexity",
    "engagingness", "naturalness", "faithfulness", "factuality", "truthfulness", "safety", "creativity", "accuracy",
    "usefulness", "informative", "fluent", "coherent", "consistent", "relevant", "entailment", "contradiction",
}  # fmt: skip
_BESIDE = {
    "is", "has", "not", "severe", "identity", "sexual", "sexually", "explicit", "speech", "language", "target", "overall",
}  # fmt: skip
_ITEMS = {
    "item", "image", "photo", "picture", "video", "audio", "clip", "document", "doc", "text", "tweet", "post", "comment",
    "sentence", "example", "sample", "file", "article", "message", "utterance", "snippet", "passage", "question", "q",
    "stim", "stimulus", "trial", "scenario", "statement", "vignette", "task", "pair", "frage", "bild", "kommentar",
}  # fmt: skip
_MARKS = "._:- /"
# Of fewer, one annotator in two may have been the only one to say yes each time.
_LEAST_ROWS = 5


def refuse_asked(frame: pl.DataFrame, chosen: Sequence[str], source: str, request: Request) -> None:
    """Refuse columns, taken for annotators, that are questions, classes or items by their names, with the ways to read them."""
    _refuse_classes(frame, chosen, source, request)
    refuse_grid(chosen, source, request)
    if len(chosen) < 2:
        return
    people = replace(request, annotators=",".join(chosen)).command(source)
    items = [name for name in chosen if _is_item(name)]
    if len(items) > 2 and 2 * len(items) >= len(chosen):
        across = replace(request, transposed=True).command(source)
        raise InputError(
            f"{source}: {listed(map(repr, items), 3)} are called like items or questions. If each row is a person, and these "
            f"columns are items: {across}; if they are annotators: {people}"
        )
    asked = [name for name in chosen if _is_asked(name)]
    if len(asked) > 1 and 2 * len(asked) >= len(chosen):
        raise InputError(
            f"{source}: {listed(map(repr, asked), 4)} are called like questions or classes, and all of them together would be "
            f"votes on one question. If a row is what one annotator said, name who, and one of them: --annotator NAME --label "
            f"{asked[0]}; if nobody is named these are no votes; if they are annotators: {people}"
        )


def _is_asked(name: str) -> bool:
    words = words_of(name)
    return words[:1] in (["is"], ["has"]) or (bool(_ASKED & set(words)) and set(words) <= _ASKED | _BESIDE)


def _is_item(name: str) -> bool:
    """Whether a name is a question, or a word for items and a number."""
    words = [word.rstrip("0123456789") for word in words_of(name)]
    return name.strip().endswith("?") or (len(words) == 2 and words[0] in _ITEMS and not words[1])


def refuse_grid(chosen: Sequence[str], source: str, request: Request) -> None:
    """Refuse columns that cross questions with annotators: all of them together would be votes on one question."""
    found = questions_of(chosen)
    if found is None:
        return
    questions, others = found
    ways = [
        replace(request, annotators=",".join(names)).command(source)
        for names in (next(iter(questions.values())), next(iter(others.values())), chosen)
    ]
    raise InputError(
        f"{source}: columns look like several questions to each annotator: {listed(map(repr, questions), 4)} to "
        f"{listed(map(repr, others), 4)}. Read one question: {ways[0]}; if the other part of the names is the question: "
        f"{ways[1]}; if all of them are annotators: {ways[2]}"
    )


def _refuse_classes(frame: pl.DataFrame, chosen: Sequence[str], source: str, request: Request) -> None:
    """Refuse a column of 0 and 1 per annotator and class, of which each annotator has ticked one: ann1_cat, ann1_dog."""
    for mark in _MARKS:
        groups: dict[str, list[str]] = {}
        for name in chosen:
            groups.setdefault(name.rpartition(mark)[0], []).append(name)
        if "" in groups or len(groups) < 2 or any(len(group) < 2 for group in groups.values()):
            continue
        if all(_one_each(frame.select(group)) for group in groups.values()):
            first = next(iter(groups))
            raise InputError(
                f"{source}: {listed(map(repr, groups), 3)} each ticked one of several columns, such as "
                f"{listed(map(repr, groups[first]), 3)}: a class per column, and no annotator. Write one column per annotator "
                "with the class that was ticked"
            )


def _one_each(frame: pl.DataFrame) -> bool:
    """Whether exactly one column is 1 in every row that is not empty, and the others are 0."""
    numbers = frame.select(pl.all().cast(pl.Float64, strict=False))
    given = numbers.filter(~pl.all_horizontal(pl.all().is_null()))
    whole = given.height >= _LEAST_ROWS and sum(given.null_count().row(0)) == 0
    return whole and set(given.sum_horizontal()) == {1.0} and set(given.unpivot()["value"]) == {0.0, 1.0}
