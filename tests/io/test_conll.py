"""Tags of tokens from CoNLL files and long tables."""

from __future__ import annotations

import gzip

import pytest

import crowdwise
from crowdwise.data.token_votes import TokenVotes
from crowdwise.errors import InputError

CONLL = "token\tann\tbob\nAda\tB-PER\tB-PER\nLovelace\tI-PER\tO\n\nHi\tO\t?\nBonn\tB-LOC\t\n"


def test_conll_with_a_header(tmp_path):
    (tmp_path / "a.conll").write_text(CONLL)
    tags = crowdwise.read(tmp_path / "a.conll", TokenVotes)
    assert repr(tags) == "TokenVotes(6 tags: 2 sequences, 4 tokens, 2 annotators, 4 classes)"
    assert tags.votes.classes.tolist() == ["O", "B-LOC", "B-PER", "I-PER"]
    assert tags.votes.annotators.tolist() == ["ann", "bob"]
    assert tags.tokens.tolist() == ["Ada", "Lovelace", "Hi", "Bonn"]
    assert tags.sequence_ptr.tolist() == [0, 2, 4]
    assert tags.position.tolist() == [1, 2, 1, 2]
    assert tags.votes.votes_per_item.tolist() == [2, 2, 1, 1]


def test_conll_without_a_header_between_blanks_zipped_and_with_document_marks(tmp_path):
    text = "-DOCSTART- O O\n\n\nAda B-PER ?\n, O -\n\n\nBonn B-LOC O\n"
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(text.encode()))
    tags = crowdwise.read(tmp_path / "a.txt.gz", TokenVotes)
    assert tags.votes.annotators.tolist() == ["annotator-1", "annotator-2"]
    assert tags.to_frame().rows() == [
        (1, 1, "Ada", "annotator-1", "B-PER"),
        (1, 2, ",", "annotator-1", "O"),
        (2, 1, "Bonn", "annotator-1", "B-LOC"),
        (2, 1, "Bonn", "annotator-2", "O"),
    ]


def test_a_long_table_is_the_same(tmp_path):
    (tmp_path / "a.conll").write_text(CONLL)
    first = crowdwise.read(tmp_path / "a.conll", TokenVotes)
    first.to_frame().sample(fraction=1.0, shuffle=True, seed=0).write_csv(tmp_path / "a.csv")
    again = crowdwise.read(tmp_path / "a.csv", TokenVotes)
    assert again.to_frame().equals(first.to_frame())
    first.to_frame().drop("token").rename({"sequence": "s", "label": "tag"}).write_csv(tmp_path / "b.tsv", separator="\t")
    bare = crowdwise.read(tmp_path / "b.tsv", TokenVotes, sequence="s", label="tag")
    assert bare.tokens is None
    assert bare.votes.label.tolist() == first.votes.label.tolist()


def test_content_decides_where_the_suffix_does_not(tmp_path):
    (tmp_path / "stdin").write_text(CONLL)
    assert crowdwise.read(tmp_path / "stdin", TokenVotes).n_tokens == 4
    (tmp_path / "stdin").write_text("sequence,position,annotator,label\n1,1,a,O\n")
    assert crowdwise.read(tmp_path / "stdin", TokenVotes).n_tokens == 1
    (tmp_path / "stdin").write_text("Ada B-PER O\nLovelace I-PER O\n")
    assert crowdwise.read(tmp_path / "stdin", TokenVotes).n_tokens == 2


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.conll", "Ada\tO\tO\nwrote\tO\n", r"a.conll line 2: 1 tags where the first line has 2 annotators; write \?"),
        ("a.conll", "Ada\n", "a.conll line 1: a token and no tag"),
        ("a.conll", "token\tx\tx\nAda\tO\tO\n", "a.conll line 1: the name 'x' stands twice"),
        ("a.conll", "token\tx\t\nAda\tO\tO\n", "a.conll line 1: an annotator has no name"),
        ("a.conll", "-DOCSTART- O\n\n", "a.conll: no tokens"),
        ("a.conll", "Ada\t?\t-\n", "a.conll: nobody labelled a token"),
        (
            "a.csv",
            "sequence,position,annotator,label\n1,1,a,O\n1,one,a,O\n",
            "a.csv row 3: position 'one' is not a whole number",
        ),
        (
            "a.csv",
            "sequence,position,annotator,label\n1,1,a,O\n1,1,a,O\n",
            "a.csv row 3: annotator 'a' has tagged this token before",
        ),
        (
            "a.csv",
            "sequence,position,token,annotator,label\n1,1,Ada,a,O\n1,1,Bob,b,O\n",
            "a.csv row 3: the token is 'Bob' here and 'Ada' in an earlier row",
        ),
        ("a.csv", "position,annotator,label\n1,a,O\n", "no sequence column"),
        ("a.csv", "sequence,position,annotator,label\n", "a header and no rows"),
    ],
)
def test_errors_name_the_file_the_place_and_the_fix(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        crowdwise.read(tmp_path / name, TokenVotes)


def test_no_such_format():
    with pytest.raises(InputError, match="format must be"):
        crowdwise.read("x", TokenVotes, format="bio")
