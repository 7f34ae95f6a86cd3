"""``crowdwise annotators``: how reliable is everyone."""

from __future__ import annotations

from crowdwise.cli.options import Json, MethodOptions, Output, Quiet, ReadOptions, VotesOrSaved

EXAMPLES = "Example: crowdwise annotators votes.csv -o annotators.csv\n\nOf a saved model: crowdwise annotators model"


def run(
    votes: VotesOrSaved,
    read: ReadOptions,
    method: MethodOptions,
    output: Output = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Rank the annotators by accuracy, with its uncertainty and each one's most common error."""
    from crowdwise.cli.account import rank_annotators
    from crowdwise.cli.inputs import result_of
    from crowdwise.cli.outputs import check_outputs, emit, print_json

    check_outputs({"-o": output}, (votes, method.gold, method.history))
    frame = rank_annotators(result_of(votes, read, method, quiet))
    if not as_json or output is not None:
        emit(frame, output, "annotator", limit=200, quiet=quiet)
    if as_json:
        print_json(frame.to_dicts())
