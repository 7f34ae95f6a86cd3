"""``crowdwise spans``: from tagged tokens to tags and spans with confidence."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crowdwise.cli.options import Json, Output, Page, Quiet, SpreadsheetSafe, TaskOptions, column

if TYPE_CHECKING:
    import polars as pl

    from crowdwise.methods.tags.result import SequenceResult

EXAMPLES = (
    "Example: crowdwise spans votes.conll -o spans.csv --tokens tags.conll --annotators annotators.csv\n\n"
    "A long table: crowdwise spans tags.csv --sequence sentence --position index --label tag"
)
_READ = "Reading the tags"


def run(
    votes: Annotated[
        str,
        typer.Argument(metavar="VOTES", help="CoNLL with a column of tags per annotator, or a long table; - reads stdin."),
    ],
    method: TaskOptions,
    output: Output = None,
    tokens: Annotated[
        Path | None, typer.Option("--tokens", metavar="FILE", help="Write the tag of every token: .conll, or a table.")
    ] = None,
    annotators: Annotated[
        Path | None, typer.Option("--annotators", metavar="FILE", help="Write a table of the annotators.")
    ] = None,
    page: Page = None,
    format: Annotated[
        str | None,
        typer.Option("--format", metavar="FORMAT", rich_help_panel=_READ, help="conll or table, if it is not recognised."),
    ] = None,
    sequence: Annotated[str | None, column("--sequence", "the sequences", _READ)] = None,
    position: Annotated[str | None, column("--position", "the positions", _READ)] = None,
    token: Annotated[str | None, column("--token", "the words", _READ)] = None,
    annotator: Annotated[str | None, column("--annotator", "the annotators", _READ)] = None,
    label: Annotated[str | None, column("--label", "the tags", _READ)] = None,
    spreadsheet_safe: SpreadsheetSafe = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the spans (names, places, ...) that several annotators marked in text, each with its probability.

    Tags are BIO: O outside, B-TYPE at the first token of a span, I-TYPE at the others. In CoNLL, a
    line has a token and a tag per annotator, ? where somebody did not label; an empty line ends a
    sequence. A first line that begins with "token" names the annotators. start and end are the
    positions of a span's first and last token; confidence is the probability that exactly these
    tokens are a span of this type. Methods are bsc (the default), hmm-crowd, token-dawid-skene and
    token-majority.
    """
    from crowdwise.cli.inputs import build_task, from_path
    from crowdwise.cli.outputs import check_outputs, emit, print_json, to_stdout, write
    from crowdwise.cli.pages import write_answers_page
    from crowdwise.data.token_votes import TokenVotes
    from crowdwise.errors import SettingError
    from crowdwise.io import read

    if format not in (None, "conll", "table"):
        raise SettingError(f"--format must be conll or table; got {format!r}")
    if to_stdout(tokens) or to_stdout(annotators):
        raise SettingError("only -o can go to stdout")
    if as_json and to_stdout(output):
        raise SettingError("--json and -o - both ask for stdout; choose one")
    conll = tokens is not None and tokens.suffix.lower() in (".conll", ".bio", ".iob", ".txt")
    outputs = {"-o": output, "--annotators": annotators, "--tokens": None if conll else tokens, "--page": page}
    check_outputs(outputs, (votes,))
    check_outputs({"--tokens": tokens if conll else None}, (votes, output, annotators, page), tables=False)
    estimator = build_task(method, "sequences", "bsc")
    named = {"sequence": sequence, "position": position, "token": token, "annotator": annotator, "label": label}
    tags = from_path(votes, lambda path: read(path, TokenVotes, format=format, **named))
    result = estimator.fit(tags).result_
    spans = result.spans_frame()
    if not as_json or output is not None:
        emit(spans, output, "span", quiet=quiet, safe=spreadsheet_safe)
    if tokens is not None:
        if conll:
            _write_conll(result, tokens, quiet)
        else:
            write(result.items_frame(), tokens, "token", quiet, spreadsheet_safe)
    if annotators is not None:
        write(
            result.annotators_frame().sort("f1", "accuracy", descending=True, nulls_last=True, maintain_order=True),
            annotators,
            "annotator",
            quiet,
            spreadsheet_safe,
        )
    write_answers_page(
        page,
        quiet,
        title="Spans from tagged tokens",
        estimator=estimator,
        facts={
            "Spans": spans.height,
            "Below one half": spans.filter(spans["confidence"] < 0.5).height,
            "Tokens": tags.n_tokens,
            "Sequences": tags.n_sequences,
            "Annotators": tags.votes.n_annotators,
        },
        tables={
            "Spans, the least certain first": spans.sort("confidence"),
            "Annotators": result.annotators_frame().sort(
                "f1", "accuracy", descending=True, nulls_last=True, maintain_order=True
            ),
        },
        notes=["Confidence is the probability that exactly these tokens are a span of this type."],
    )
    if as_json:
        print_json(spans.to_dicts())
    if not quiet:
        _tell(result, spans)


def _write_conll(result: SequenceResult, path: Path, quiet: bool) -> None:
    """A token and its tag per line, an empty line after every sequence."""
    from crowdwise.cli.outputs import wrote
    from crowdwise.io.writer import open_replacing

    tags = result.votes
    words = [str(n) for n in tags.position.tolist()] if tags.tokens is None else _words(tags.tokens.tolist())
    lines = [f"{word}\t{tag}\n" for word, tag in zip(words, result.labels.tolist(), strict=True)]
    bounds = tags.sequence_ptr.tolist()
    text = "\n".join("".join(lines[start:stop]) for start, stop in pairwise(bounds))
    with open_replacing(path) as file:
        file.write(text.encode())
    wrote(path, quiet)


def _words(tokens: list[str | None]) -> list[str]:
    """Tokens without blanks at the ends or anything that ends a cell or a line; _ where one is not known."""
    return ["_" if word is None else " ".join(word.split()) or "_" for word in tokens]


def _tell(result: SequenceResult, spans: pl.DataFrame) -> None:
    from crowdwise.cli.text import count, number, one_line, say

    tags = result.votes
    size = f"{count(tags.n_tokens, 'token')} of {count(tags.n_sequences, 'sequence')}"
    say(f"{result.method}: {count(spans.height, 'span')} in {size}, by {count(tags.votes.n_annotators, 'annotator')}")
    if spans.height:
        sizes = spans.group_by("type").len().sort("len", "type", descending=[True, False])
        kinds = ", ".join(f"{one_line(kind)} {size:,}" for kind, size in sizes.rows()[:10])
        doubtful = spans.filter(spans["confidence"] < 0.5).height
        say(f"{kinds}; mean confidence {number(float(result.confidence.mean()))}, {doubtful:,} below one half")
