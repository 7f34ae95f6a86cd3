from __future__ import annotations

import pytest

from crowdwise.report.markup import counted, percent, plain, whole


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("<b>", "&lt;b&gt;"),
        ("\"'&", "&quot;&#x27;&amp;"),
        ("a\nb\tc", "a b c"),
        ("a\x00b\ud800c\u202ed", "a\ufffdb\ufffdc\ufffdd"),
        (7, "7"),
        ("", ""),
    ],
)
def test_plain(value: object, shown: str) -> None:
    assert plain(value) == shown


def test_plain_is_cut_by_width() -> None:
    assert plain("abcdefghij", 10) == "abcdefghij"
    assert plain("abcdefghijk", 10) == "abcdefghi…"
    assert plain("猫" * 5, 10) == "猫" * 5
    assert plain("猫" * 6, 10) == "猫" * 4 + "…"
    # A mark that stacks has no width, but a thousand of them are no name either.
    assert len(plain("a" + "\u0301" * 1000, 10)) <= 41
    # Cut before escaping, never inside an entity.
    assert plain("&" * 20, 10) == "&amp;" * 9 + "…"


def test_percent_never_rounds_to_certainty() -> None:
    shares = [0, 0.0004, 0.123, 0.9996, 1]
    assert [percent(share).replace("\u00a0", " ") for share in shares] == ["0 %", "&lt;0.1 %", "12.3 %", "&gt;99.9 %", "100 %"]


def test_counts() -> None:
    assert whole(1234567) == "1\u202f234\u202f567"
    assert (counted(1, "item"), counted(2, "class", "es")) == ("1 item", "2 classes")
