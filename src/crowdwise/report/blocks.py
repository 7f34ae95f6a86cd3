"""Parts that the short page and the full report share."""

from __future__ import annotations

import base64
import hashlib
import reprlib
from typing import Any

import numpy as np

from crowdwise.estimator.judgement import GRADES, Crowd
from crowdwise.estimator.outcome import Result
from crowdwise.estimator.registry import METHODS
from crowdwise.report.charts import MOST_CLASSES, confidence_picture, confusion_picture, scatter_picture, shares_picture
from crowdwise.report.markup import counted, percent, plain, table, text, whole
from crowdwise.report.picture import MOST, annotators_picture
from crowdwise.report.uncertainty import Uncertainty

__all__ = ["NOBODY", "annotators_figures", "annotators_table", "document", "item_figures", "lead", "settings_table", "tiles"]

MOST_ANNOTATORS = 200


def document(heading: str, style: str, body: str, *, data: str = "", script: str = "") -> str:
    """Return a whole page from safe parts; `heading` is escaped, `data` JSON without `<`, `script` code of our own.

    The policy is a second lock: even markup that slipped through could load and run nothing.
    """
    allowed = f"; script-src {_hash(script)}" if script else ""
    policy = f"default-src 'none'; style-src {_hash(style)}{allowed}; base-uri 'none'; form-action 'none'"
    extra = f'<script type="application/json" id="table-data">{data}</script>\n<script>{script}</script>\n' if script else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{heading}</title>\n<style>{style}</style>\n</head>\n<body>\n{body}\n{extra}</body>\n</html>\n"
    )


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def lead(result: Result) -> str:
    """Return the method, where it is from and how it ended."""
    # A choice says what it chose: "auto: dawid-skene".
    method = METHODS.get(result.method.rpartition(": ")[2])
    about = f": {plain(method.summary)}. Reference: {plain(method.reference)}" if method else ""
    if result.n_iter <= 1:
        run = "Computed directly, without iterating"
    else:
        run = f"{'Converged after' if result.converged else 'Did not converge within'} {whole(result.n_iter)} iterations"
    return f'<p class="lead">Method: <strong>{text(result.method)}</strong>{about}. {run}.</p>'


#: In the place of what is said of annotators.
NOBODY = "<p>Votes are anonymous: nobody knows who gave them, so nothing can be said of annotators.</p>"


def tiles(result: Result, facts: dict[str, Any], uncertainty: Uncertainty) -> str:
    """Return the numbers that everybody asks for first."""
    per_item = facts["votes_per_item"]
    items = f"{per_item['mean']:.1f} votes each" if per_item else ""
    items += f"; class of {whole(result.votes.n_gold)} given" if result.votes.n_gold else ""
    idle = facts["annotators_without_votes"]
    agreement = [facts[name] for name in ("krippendorff_alpha", "pairwise_agreement")]
    tiles = [
        ("Votes", whole(facts["n_votes"]), f"{whole(facts['n_missing'])} missing, dropped" if facts["n_missing"] else ""),
        ("Items", whole(facts["n_items"]), items),
        ("Annotators", "&ndash;", "votes are anonymous")
        if result.votes.anonymous
        else ("Annotators", whole(facts["n_annotators"]), f"{whole(idle)} without votes" if idle else ""),
        ("Classes", whole(facts["n_classes"]), ""),
        ("Uncertain labels", whole(uncertainty.n_low), f"under 80 %; {whole(uncertainty.n_unsure)} under 95 %"),
        ("Krippendorff&rsquo;s &alpha;", "&ndash;" if agreement[0] is None else f"{agreement[0]:.3f}", "1: perfect, 0: chance"),
        ("Pairs that agree", "&ndash;" if agreement[1] is None else percent(agreement[1]), "two votes on one item"),
    ]
    return (
        '<dl class="tiles">'
        + "".join(
            f"<div><dt>{name}</dt><dd>{value}{f'<small>{note}</small>' if note else ''}</dd></div>"
            for name, value, note in tiles
        )
        + "</dl>"
    )


def annotators_figures(result: Result, crowd: Crowd) -> str:
    """Return the picture of annotators and, of a large crowd, accuracy against votes."""
    figures = f'<figure class="card broad">{annotators_picture(result)}</figure>'
    if len(crowd.order) > MOST:
        figures += f'<figure class="card narrow">{scatter_picture(result.votes, crowd)}</figure>'
    return figures


def annotators_table(result: Result, crowd: Crowd, most: int = MOST_ANNOTATORS) -> str:
    """Return annotators, worst first, with accuracy, agreement and habits."""
    votes, frame = result.votes, result.annotators_frame()
    agreement, errors = frame["agreement"].to_list(), frame["common_error"].to_list()
    rows = []
    for a in crowd.order[:most].tolist():
        name, paint = GRADES[crowd.grade[a]]
        rows.append(
            (
                text(votes.annotators[a]),
                whole(votes.answers_per_annotator[a]),
                f"{100 * crowd.accuracy[a]:.1f} %",
                f"{100 * crowd.low[a]:.0f}&ndash;{100 * crowd.high[a]:.0f} %",
                percent(agreement[a]),
                text(errors[a]).replace("-&gt;", "→") if errors[a] else "&ndash;",
                f"{text(votes.classes[crowd.top_label[a]], 30)} ({percent(float(crowd.top_share[a]))})",
                f'<span class="mark mark-{paint}">{name}</span>' if paint in ("bad", "weak") else name,
            )
        )
    hidden = len(crowd.order) - len(rows)
    caption = "Annotators, worst first" + (f"; {whole(hidden)} more are not shown" if hidden else "")
    columns = (
        "Annotator",
        "Votes",
        "Accuracy",
        "Interval (± 2 sd)",
        "Agrees with consensus",
        "Common error",
        "Most used label",
        "Judgement",
    )
    return table(caption, columns, rows, numeric=(1, 2, 3, 4))


def item_figures(result: Result, uncertainty: Uncertainty, *, shares: bool = True) -> str:
    """Return confidence of items, shares of classes (unless they are shown elsewhere) and the pooled confusion."""
    votes = result.votes
    consensus_k = np.bincount(result.codes, minlength=votes.n_classes) / max(votes.n_items, 1)
    votes_k = votes.label_shares
    shown, some = np.arange(votes.n_classes), ""
    if votes.n_classes > MOST_CLASSES:
        shown = np.argsort(-consensus_k, kind="stable")[:MOST_CLASSES]
        some = f" The {MOST_CLASSES} most common classes of {whole(votes.n_classes)} are shown."
    # Votes for l on items that are k, counted by the probability that they are.
    count_kl = result.model_posterior.T @ uncertainty.tally_nk
    total_k = count_kl.sum(axis=1, keepdims=True)
    # Less than a thousandth of a vote is smoothing, not an observation.
    share_kl = np.divide(count_kl, total_k, out=np.full_like(count_kl, np.nan), where=total_k > 1e-3)
    n_open = int(uncertainty.counts.sum())
    under = (
        f"Of {counted(n_open, 'item')}, {whole(uncertainty.n_low)} are under 80 % and {whole(uncertainty.n_unsure)} under 95 %."
    )
    figures = [
        (
            confidence_picture(uncertainty.counts),
            under + (" Items whose class was given are left out." if n_open < votes.n_items else ""),
        ),
        (shares_picture(votes.classes, consensus_k, votes_k, shown), "Share of items by consensus label, and of votes." + some),
        (
            confusion_picture(votes.classes, share_kl, shown),
            "All annotators together; the true class is the consensus, weighted by its probability." + some,
        ),
    ]
    cards = [f'<figure class="card">{picture}<figcaption>{words}</figcaption></figure>' for picture, words in figures]
    return f'<div class="pair"><div>{cards[0]}{cards[1] if shares else ""}</div><div>{cards[2]}</div></div>'


def settings_table(result: Result) -> str:
    """Return the settings of the method, folded."""
    rows = [(plain(name), text(reprlib.repr(value), 120)) for name, value in result.settings.items()]
    return f"<details><summary>Settings of the method</summary>{table('Settings', ('Setting', 'Value'), rows)}</details>"
