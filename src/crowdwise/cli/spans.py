"""``crowdwise spans``: from tagged tokens to tags and spans with confidence."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from crowdwise.cli.declare import argument, column, file, option
from crowdwise.cli.fitting import build_task, read_answers
from crowdwise.cli.job import Job, among
from crowdwise.cli.options import ANNOTATORS, MORE, PAGE, FileOptions, OutputOptions, TaskOptions

if TYPE_CHECKING:
    from crowdwise.methods.tags.result import SequenceResult

EXAMPLES = (
    "Example: crowdwise spans votes.conll -o spans.csv --tokens tags.conll --annotators annotators.csv\n\n"
    "A long table: crowdwise spans tags.csv --sequence sentence --position index --label tag"
)
_READ = "Reading the tags"
_VOTES = "CoNLL with a column of tags per annotator, a long table, or the export of a tool that marks text; - reads stdin."
_FORMAT = "Format: conll, table, label-studio, prodigy, doccano, potato, webanno, offsets."
_NAMED = ("format", "question", "sequence", "position", "token", "annotator", "label")
_CONLL = (".conll", ".bio", ".iob", ".txt")


@dataclass(frozen=True, kw_only=True)
class Options(OutputOptions):
    """What is read and written."""

    votes: str = argument("VOTES", _VOTES)
    tokens: Path | None = file("--tokens", "Write the tag of every token: .conll, or a table.", MORE)
    annotators: Path | None = file("--annotators", ANNOTATORS, MORE)
    page: Path | None = file("--page", PAGE, MORE)
    format: str | None = option("--format", "FORMAT", _FORMAT, panel=_READ, shown="recognised")
    question: str | None = option("--question", "NAME", "Which question, or layer, of an export to read.", panel=_READ)
    sequence: str | None = column("--sequence", "sequence", _READ)
    position: str | None = column("--position", "position", _READ)
    token: str | None = column("--token", "token", _READ)
    annotator: str | None = column("--annotator", "annotator", _READ)
    label: str | None = column("--label", "tag", _READ)


def run(options: Options, method: TaskOptions, files: FileOptions) -> None:
    """Find the spans (names, places, ...) that several annotators marked in text, each with its probability.

    Tags are BIO: O outside, B-TYPE at the first token of a span, I-TYPE at the others. In CoNLL, a
    line has a token and a tag per annotator, ? where somebody did not label; an empty line ends a
    sequence. A first line that begins with "token" names the annotators. start and end are the
    positions of a span's first and last token; confidence is the probability that exactly these
    tokens are a span of this type. Methods are bsc (the default), hmm-crowd, token-dawid-skene and
    token-majority.
    """
    from crowdwise.data.token_votes import TokenVotes
    from crowdwise.io.kinds import TAG_FORMATS
    from crowdwise.report.answer_pages import span_page
    from crowdwise.report.answer_text import by_f1, span_lines

    among("--format", options.format, TAG_FORMATS)
    conll = options.tokens is not None and options.tokens.suffix.lower() in _CONLL
    tokens = {"--tokens": options.tokens}
    tables = {"--annotators": options.annotators} | ({} if conll else tokens)
    job = Job(options, (options.votes,), tables=tables, files=tokens if conll else {}, page=options.page)
    estimator = build_task(method, "sequences", "bsc")
    named = {role: getattr(options, role) for role in _NAMED}
    tags = read_answers(options.votes, TokenVotes, files, **named)
    result = estimator.fit(tags).result_
    spans = result.spans_frame()
    if conll:
        job.file("--tokens", partial(_write_conll, result))
    else:
        job.table("--tokens", result.items_frame, "token")
    job.table("--annotators", lambda: by_f1(result), "annotator")
    job.page(estimator, lambda: span_page(result, spans))
    job.main(spans, "span")
    job.say(span_lines(result, spans))


def _write_conll(result: SequenceResult, path: Path) -> None:
    """A token and its tag per line, an empty line after every sequence."""
    from crowdwise.io.writer import open_replacing

    tags = result.votes
    words = [str(n) for n in tags.position.tolist()] if tags.tokens is None else _words(tags.tokens.tolist())
    lines = [f"{word}\t{tag}\n" for word, tag in zip(words, result.labels.tolist(), strict=True)]
    bounds = tags.sequence_ptr.tolist()
    text = "\n".join("".join(lines[start:stop]) for start, stop in pairwise(bounds))
    with open_replacing(path) as file:
        file.write(text.encode())


def _words(tokens: list[str | None]) -> list[str]:
    """Tokens without blanks at the ends or anything that ends a cell or a line; _ where one is not known."""
    return ["_" if word is None else " ".join(word.split()) or "_" for word in tokens]
