"""What people call the columns of a table, by the role that a column plays."""

__all__ = ["ALIASES"]

# Spellings seen in crowd-kit, spark-crowd, peerannot, ActiveCrowd and platform exports. The
# comparison ignores case, spaces, dashes and underscores.
ALIASES: dict[str, tuple[str, ...]] = {
    "item": (
        "item", "task", "example", "subject", "unit", "hitid", "itemid", "taskid", "exampleid",
        "subjectid", "subjectids", "unitid", "question", "questionid", "document", "docid", "object",
    ),
    "annotator": (
        "annotator", "worker", "rater", "user", "coder", "performer", "judge", "annotatorid",
        "workerid", "raterid", "userid", "username", "coderid", "judgeid", "model", "labeler", "labeller",
    ),
    "label": (
        "label", "value", "answer", "response", "vote", "annotation", "rating", "workerlabel",
        "verdict", "choice",
    ),
    "weight": ("weight", "weights"),
    # The known class in a table of gold labels, which often calls it what votes call a label.
    "truth": (
        "truth", "gold", "goldlabel", "goldstandard", "groundtruth", "truelabel", "trueclass", "target",
        "class", "label", "value", "answer",
    ),
    # Two things side by side, and which was preferred or whether they are the same.
    "first": ("first", "itema", "left", "a", "item1", "option1", "optiona", "responsea", "modela", "object1", "id1"),
    "second": ("second", "itemb", "right", "b", "item2", "option2", "optionb", "responseb", "modelb", "object2", "id2"),
    "winner": ("winner", "preferred", "preference", "chosen", "better", "outcome", "label", "answer", "choice", "vote"),
    "same": ("same", "similar", "link", "match", "equal", "duplicate", "label", "answer", "response", "vote"),
    # A number instead of a class.
    "value": ("value", "score", "rating", "number", "label", "answer", "response", "vote"),
    # Whom an item is about, and where a token stands.
    "group": ("group", "attribute", "protected", "sensitive"),
    "sequence": ("sequence", "sentence", "sentenceid", "document", "docid", "line"),
    "position": ("position", "index", "tokenid", "offset"),
    "token": ("token", "word", "text"),
}  # fmt: skip
