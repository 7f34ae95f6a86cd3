"""What is done with a damaged file: read it as a user would, look at what came out, and use it a little."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import crowdwise
from crowdwise.campaign.loop import ActiveLoop
from crowdwise.data.annotations import Annotations
from crowdwise.errors import CrowdwiseError
from crowdwise.io import FORMATS, convert, detect, read, read_features, read_gold, read_groups
from tests.fuzz.seeds import votes_and_rows

# The limit of a message, and room for the dots.
LONGEST = 1010
_SUFFIXES = ["csv", "tsv", "json", "jsonl", "txt", "parquet", "arrow", "csv.gz", "manifest", "ndjson", "", "dat"]
_KINDS: dict[str, Any] = {
    "comparisons": crowdwise.Comparisons, "similarities": crowdwise.Similarities, "ratings": crowdwise.Ratings,
    "sets": crowdwise.LabelSets, "tags": crowdwise.TokenVotes,
}  # fmt: skip
# Two fits of these are quick, whatever the votes.
_COMMANDS = (
    ["aggregate", "-m", "majority"],
    ["annotators", "-m", "majority"],
    ["convert", "-o", "out.jsonl"],
    ["aggregate", "-m", "mace"],
)


class Finding(Exception):
    """What should not have happened, in a word or two."""


def renamed(name: str, rng: random.Random) -> str:
    """Sometimes a file comes under a suffix of another format."""
    return f"{name.split('.')[0]}.{rng.choice(_SUFFIXES)}" if "/" not in name and rng.random() < 0.05 else name


def attack(path: Path, name: str, rng: random.Random) -> str:
    """Use the file at `path`, made of the seed `name`; "read" or "refused", or an exception that is a finding."""
    try:
        _target(name)(path, name, rng)
    except CrowdwiseError as problem:
        if len(str(problem)) > LONGEST:
            raise Finding(f"a message of {len(str(problem)):,} characters") from problem
        return "refused"
    return "read"


def _target(name: str) -> Callable[[Path, str, random.Random], None]:
    word = name.partition("/")[0].partition(".")[0].partition("-")[0]
    if word in _KINDS:
        return _kind
    return {"model": _model, "classifier": _model, "campaign": _campaign, "features": _features}.get(word, _votes)


def _votes(path: Path, name: str, rng: random.Random) -> None:
    drawn = rng.random()
    options: dict[str, Any] = {}
    if drawn < 0.05:
        options["format"] = rng.choice(list(FORMATS))
    elif drawn < 0.08:
        options["missing"] = ["?", "nan"]
    elif drawn < 0.11:
        options["classes"] = ["cat", "dog", "fox"]
    elif drawn < 0.15:
        options["weight"] = rng.choice(["weight", "label", "item", "_trust"])
    elif drawn < 0.18:
        options["predictions"] = True
    elif drawn < 0.21:
        options["question"] = rng.choice(["label", "x", "mood"])
    elif drawn < 0.24:
        _command(path, rng)
        return
    elif drawn < 0.27:
        detect(path)
        read_gold(path)
        return
    elif drawn < 0.30:
        read(path, rng.choice(list(_KINDS.values())))
        return
    votes = read(path, **options)
    check(votes)
    drawn = rng.random()
    if drawn < 0.05 and votes.n_items * max(votes.n_classes, 1) < 1_000_000:
        result = crowdwise.MajorityVote().fit(votes).result_
        result.annotators_frame()
        _finite(result.items_frame())
    elif drawn < 0.08:
        read_gold(path, votes)
    elif drawn < 0.10:
        read_groups(path, votes)
    elif drawn < 0.15:
        _again(votes, path.parent / f"again.{rng.choice(['csv', 'jsonl', 'parquet', 'json', 'arrow', 'tsv', 'csv.gz'])}")


def check(votes: Annotations) -> None:
    """Codes within their vocabularies, and no name twice."""
    if (votes.item_ptr[0], votes.item_ptr[-1]) != (0, len(votes.label)) or (np.diff(votes.item_ptr) < 0).any():
        raise Finding("pointers that do not cut the votes")
    for codes, n in ((votes.label, votes.n_classes), (votes.annotator, votes.n_annotators)):
        if len(codes) and not (codes.min() >= 0 and codes.max() < n):
            raise Finding("codes outside their vocabulary")
    if votes.weight is not None and not (np.isfinite(votes.weight) & (votes.weight >= 0)).all():
        raise Finding("weights that are no weights")
    for names in (votes.items, votes.annotators, votes.classes):
        if len(set(map(str, names.tolist()))) != len(names):
            raise Finding("two ids or classes of one name")
    if votes.to_frame().height != len(votes.label):
        raise Finding("a frame that lacks votes")


def _finite(frame: Any) -> None:
    for column in frame.iter_columns():
        if column.dtype.is_float() and not column.drop_nulls().is_finite().all():
            raise Finding(f"a column {column.name!r} that is not finite")


def _again(votes: Annotations, path: Path) -> None:
    """Votes that were read come back equal from what is written of them."""
    convert(votes, path)
    same = read(path, item="item", annotator="annotator", label="label", format="tidy")

    def rows(of: Annotations) -> list[tuple[str, ...]]:
        return sorted(tuple(map(str, row)) for row in of.to_frame().select("item", "annotator", "label").rows())

    if rows(same) != rows(votes):
        raise Finding(f"votes that do not come back from {path.suffix}")


def _command(path: Path, rng: random.Random) -> None:
    verb, *options = rng.choice(_COMMANDS)
    options = [str(path.parent / each) if each.startswith("out.") else each for each in options]
    out, err = TextIOWrapper(BytesIO(), "utf-8"), TextIOWrapper(BytesIO(), "utf-8", errors="backslashreplace")
    with redirect_stdout(out), redirect_stderr(err):
        code = _app()([verb, str(path), *options], prog_name="crowdwise", standalone_mode=False)
    out.flush()
    if code not in (0, 1, 2, None):
        raise Finding(f"exit code {code}")
    content = out.buffer.getvalue()  # type: ignore[attr-defined]
    if code in (0, None) and content:
        table = pl.read_csv(content, infer_schema=False)
        for name in (name for name in table.columns if name.startswith(("p(", "confidence", "accuracy"))):
            if table[name].str.to_lowercase().is_in(["nan", "inf", "-inf"]).any():
                raise Finding(f"{name!r} is not finite, and the exit code is 0")


@cache
def _app() -> Any:
    """The command line, built once."""
    from typer.main import get_command

    from crowdwise.cli.app import app

    return get_command(app)


def _kind(path: Path, name: str, rng: random.Random) -> None:
    read(path, _KINDS[name.partition("-")[0]] if rng.random() < 0.9 else rng.choice(list(_KINDS.values())))


def _features(path: Path, name: str, rng: random.Random) -> None:
    X = read_features(path).X
    if not np.isfinite(X.data if hasattr(X, "indptr") else np.asarray(X)).all():
        raise Finding("features that are not finite")


def _model(path: Path, name: str, rng: random.Random) -> None:
    estimator: Any = crowdwise.load(path.parent)
    result = estimator.result_
    _finite(result.items_frame())
    result.annotators_frame()
    result.confusion_frame()
    repr(result)
    drawn = rng.random()
    if name.startswith("classifier"):
        # What one row was: a model may have been fitted to any number of features, and to rows that are no table.
        estimator.predict_proba(np.zeros((2, *estimator.row_shape_)))
    elif drawn < 0.2:
        estimator.update({"item": ["i1", "new"], "annotator": ["ann", "zoé"], "label": ["cat", "cat"]})
    elif drawn < 0.3:
        estimator.fit(votes_and_rows()[0])
    elif drawn < 0.5:
        result.explain(result.votes.items[0])


def _campaign(path: Path, name: str, rng: random.Random) -> None:
    loop = ActiveLoop.load(path.parent, model=crowdwise.make("majority"))
    check(loop.votes)
    if rng.random() < 0.3:
        loop.ask(3)
