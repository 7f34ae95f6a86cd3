"""Hostile tables, written correctly by other libraries in nine ways, read back and compared with what was written.

White space around a name and its Unicode form do not count: "cat ", "cat" and decomposed forms are one name for the reader.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import re
import unicodedata
import warnings
from collections import Counter
from pathlib import Path

import polars as pl

from crowdwise.errors import CrowdwiseError
from crowdwise.io import read

COLUMNS = ("item", "annotator", "label")
WAYS = ("csv", "quoted.csv", "semicolon.csv", "tsv", "csv.gz", "jsonl", "json", "parquet", "arrow")
_NAMES = [
    "a", "b", "cat", "dog", " x", "x ", "1", "01", "1.0", "-1", "1e5", "true", "NaN", "null", "None", "é", "e\u0301",
    "x,y", "x;y", "x|y", "x\ty", 'q"q', '"', '""', "'", "=1", "'=1", "2020-01-01", "9223372036854775807", "9223372036854775808",
    "18446744073709551615", "99999999999999999999", "-0", "+1", "0x1F", "1_000", "\U0001d7cf", "\u0661", "a\nb", "\u2028", "A",
    "a\u200b", "\ufeffa", "x" * 300, "inf", "-inf", "0", "00", "1e308", "a\rb", "a\r\nb", "\x1f", "\x1a", "#", "# x",
    "sep=;", "{}",
]  # fmt: skip

# Unicode's own; Python also strips some control characters.
_WHITE = " \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0\u2028\u2029\u202f\u3000\u200b\ufeff"


def write(way: str, rows: list[tuple[str, ...]], path: Path, rng: random.Random) -> None:
    """Write the rows below a header, as other programs do."""
    objects = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    if way in ("jsonl", "json"):
        plain = rng.random() < 0.5
        text = "\n".join(json.dumps(each, ensure_ascii=plain) for each in objects) if way == "jsonl" else json.dumps(objects)
        path.write_bytes(text.encode())
    elif way in ("parquet", "arrow"):
        frame = pl.DataFrame(rows, schema=dict.fromkeys(COLUMNS, pl.String), orient="row")
        (frame.write_parquet if way == "parquet" else frame.write_ipc)(path)
    else:
        out = io.StringIO()
        separator = {"tsv": "\t", "semicolon.csv": ";"}.get(way, ",")
        quoting = csv.QUOTE_ALL if way == "quoted.csv" else csv.QUOTE_MINIMAL
        writer = csv.writer(out, delimiter=separator, lineterminator=rng.choice(["\n", "\r\n"]), quoting=quoting)
        writer.writerows([COLUMNS, *rows])
        content = out.getvalue().encode()
        path.write_bytes(gzip.compress(content, 1, mtime=0) if way == "csv.gz" else content)


def one_name(name: object) -> str:
    """What the reader takes for the same name."""
    return unicodedata.normalize("NFC", str(name)).strip(_WHITE)


def one_vote(row: tuple[object, ...]) -> tuple[str, ...]:
    """What the reader takes for the same vote: in labels, white space within a line is one space."""
    item, annotator, label = map(one_name, row)
    return item, annotator, re.sub(r"[^\S\n]+", " ", label)


def compare(seed: int, index: int, folder: Path) -> tuple[str, str]:
    """Write and read one table; the way, and "equal", "refused: ..." or "differs: ..."."""
    rng = random.Random(f"{seed}/{index}")
    names = [rng.sample(_NAMES, rng.choice([2, 4, 8])) for _ in COLUMNS]
    rows = [tuple(rng.choice(each) for each in names) for _ in range(rng.choice([3, 6, 40]))]
    way = WAYS[index % len(WAYS)]
    path = folder / f"table.{way}"
    write(way, rows, path, rng)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            votes = read(path, format="tidy")
    except CrowdwiseError as problem:
        return way, f"refused: {problem}"
    found = Counter(map(one_vote, votes.to_frame().select(COLUMNS).rows()))
    # A label of nothing but white space is no answer.
    wanted = Counter(map(one_vote, (row for row in rows if one_name(row[2]))))
    if found == wanted:
        return way, "equal"
    return way, f"differs: wrote {list(wanted - found)[:2]!r}, read {list(found - wanted)[:2]!r}"
