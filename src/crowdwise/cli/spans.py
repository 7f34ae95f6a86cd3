"""``crowdwise spans``: from tagged tokens to tags and spans with confidence."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import crowdwise
from crowdwise import io, report
from crowdwise.cli.answers import build_task, read_answers
from crowdwise.cli.declare import argument, column, group, option, table
from crowdwise.cli.job import Job, among
from crowdwise.cli.options import ANSWERS, MORE, AnswerOptions, FileOptions, TaskOptions

EXAMPLES = (
    "Example: crowdwise spans votes.conll -o spans.csv --tokens tags.conll --annotators annotators.csv\n\n"
    "A long table: crowdwise spans tags.csv --sequence sentence --position index --label tag\n\n"
    "Learn from the words too: crowdwise spans votes.conll --set features=words -o spans.csv"
)
_VOTES = "CoNLL with a column of tags per annotator, a long table, or the export of a tool that marks text; - reads stdin."
_FORMAT = "Format: conll, table, label-studio, prodigy, doccano, potato, webanno, offsets."
_NAMED = "format question sequence position token annotator label"


@group
class Options(AnswerOptions):
    """What is read and written."""

    votes: str = argument("VOTES", _VOTES)
    tokens: Path | None = table("--tokens", "Write the tag of every token: .conll, or a table.", MORE)
    format: str | None = option("--format", "FORMAT", _FORMAT, panel=ANSWERS, shown="recognised")
    question: str | None = option("--question", "NAME", "Which question, or layer, of an export to read.", panel=ANSWERS)
    sequence: str | None = column("--sequence", "sequence", ANSWERS)
    position: str | None = column("--position", "position", ANSWERS)
    token: str | None = column("--token", "token", ANSWERS)
    label: str | None = column("--label", "tag", ANSWERS)


def run(options: Options, method: TaskOptions, files: FileOptions) -> None:
    """Find the spans (names, places, ...) that several annotators marked in text, each with its probability.

    Tags are BIO: O outside, B-TYPE at the first token of a span, I-TYPE at the others. In CoNLL, a
    line has a token and a tag per annotator, ? where somebody did not label; an empty line ends a
    sequence. A first line that begins with "token" names the annotators. start and end are the
    positions of a span's first and last token; confidence is the probability that exactly these
    tokens are a span of this type. Methods are bsc (the default), hmm-crowd, token-dawid-skene and
    token-majority.
    """
    among("--format", options.format, io.kinds.TAG_FORMATS)
    conll = options.tokens is not None and io.conll.is_conll_name(options.tokens)
    job = Job(options, own=["--tokens"] if conll else [])
    estimator = build_task(method, "sequences", "bsc")
    tags = read_answers(options.votes, crowdwise.TokenVotes, files, options, _NAMED)
    result = estimator.fit(tags).result_
    spans = result.spans_frame()
    if conll:
        job.file("--tokens", partial(io.conll.write_conll, tags, result.labels))
    else:
        job.table("--tokens", result.items_frame, "token")
    job.table("--annotators", lambda: report.by_f1(result), "annotator")
    job.page(estimator, lambda: report.span_page(result, spans))
    job.main(spans, "span")
    job.say(report.span_lines(result, spans))
