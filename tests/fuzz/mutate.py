"""Damage to files: bytes of any, cells of tables, values of JSON, members and arrays of archives, from one generator."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import zipfile
from typing import Any

import numpy as np

HOSTILE = [
    b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\r\n", b"\n\n\n", b'"', b'""', b"'", b",", b"\t", b";", b"|", b"NaN",
    b"nan", b"inf", b"-inf", b"1e308", b"1e300", b"1e999", b"-1", b"007", b"0x10", b"1_000", b"2020-01-01T00:00:00Z", b"null",
    b"None", b"true", b"\xc3", b"\xed\xa0\x80", b"\\ud800", b"\\ud83d\\ude00", b"\\u0000", b"\xe2\x80\xa8", b"\xe2\x80\xae",
    b"{", b"}", b"[", b"]", b"{}", b"[]", b'{"a":1}', b"99999999999999999999", b"9223372036854775808",
    b"-9223372036854775809", b"1.5", b" ", b"=1+1", b"<script>", b"<!", b"\x1b[31m", b"\x1a", b"\xc2\x85",
    b"\xf0\x9f\x98\x80" * 3, b"[A] [B]", b"a;b", b'["a", "b"]', b"sep=;\n", b"#",
]  # fmt: skip
_CELLS = [each.decode("utf-8", "surrogateescape") for each in HOSTILE] + ["x" * 100_000, ""]
_TEXT = (".csv", ".tsv")
_JSON = (".json", ".jsonl", ".ndjson", ".manifest")


def mutate(name: str, content: bytes, rng: random.Random) -> bytes:
    """A damaged copy of a seed."""
    if name.endswith(".gz") and rng.random() < 0.6:
        return gzip.compress(mutate(name.removesuffix(".gz"), gzip.decompress(content), rng), 1, mtime=0)
    structural = rng.random() < 0.6
    try:
        if name.endswith((".zip", ".npz")) and rng.random() < 0.85:
            return _archive(content, rng)
        if structural and name.endswith(_JSON):
            return _json(content, rng, not name.endswith(".json"))
        if structural and name.endswith(_TEXT):
            return _table(name, content, rng)
    except Exception:  # a second damage to what the first has left no parser for
        pass
    return _bytes(content, rng)


def _bytes(content: bytes, rng: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(rng.choice([1, 1, 1, 2, 3, 8])):
        if not data:
            data += rng.choice(HOSTILE)
            continue
        at, how = rng.randrange(len(data)), rng.randrange(10)
        if how == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            data[at] = rng.randrange(256)
        elif how == 2:
            del data[at : at + rng.choice([1, 2, 5, 50, 500])]
        elif how == 3:
            data[at:at] = rng.choice(HOSTILE)
        elif how == 4:
            data[at : at + rng.choice([0, 1, 3, 10])] = rng.choice(HOSTILE)
        elif how == 5:
            data = data[:at]
        elif how == 6:
            start = rng.randrange(len(data))
            data[at:at] = data[start : start + rng.choice([1, 10, 100, 1000])]
        elif how == 7:
            data = data[at:]
        elif how == 8:
            data[:0] = rng.choice(HOSTILE)
        else:
            data[at:at] = data[at : at + 1] * rng.choice([2, 100, 5000])
    return bytes(data)


# -- tables ------------------------------------------------------------------------------------


def _table(name: str, content: bytes, rng: random.Random) -> bytes:
    separator = "\t" if name.endswith("tsv") else ";" if "semicolon" in name else "|" if "pipe" in name else ","
    rows = list(csv.reader(io.StringIO(content.decode()), delimiter=separator))
    for _ in range(rng.choice([1, 1, 2, 5, 20])):
        at, how = rng.randrange(len(rows)), rng.randrange(8)
        row = rows[at]
        if not row:
            continue
        column = rng.randrange(len(row))
        if how <= 1:
            row[column] = rng.choice(_CELLS)
        elif how == 2:
            row.append(rng.choice(_CELLS))
        elif how == 3:
            del row[column]
        elif how == 4:
            rows.insert(at, list(row))
        elif how == 5:
            other = rng.randrange(len(row))
            row[column], row[other] = row[other], row[column]
        elif how == 6:
            other = rng.randrange(len(rows))
            rows[at], rows[other] = rows[other], rows[at]
        else:
            # Not long ones: files stay small.
            cell = rng.choice(_CELLS)[:100]
            for each in rows[1:]:
                if column < len(each):
                    each[column] = cell
    out = io.StringIO()
    quoting = rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    csv.writer(out, delimiter=separator, lineterminator=rng.choice(["\n", "\r\n", "\r"]), quoting=quoting).writerows(rows)
    return out.getvalue().encode("utf-8", "surrogateescape")


# -- JSON --------------------------------------------------------------------------------------


def _json(content: bytes, rng: random.Random, lines: bool) -> bytes:
    share = rng.choice([0.002, 0.01, 0.05])
    documents = [line for line in content.split(b"\n") if line.strip()] if lines else [content]
    return "\n".join(json.dumps(_tree(json.loads(each), share, rng)) for each in documents).encode("utf-8", "surrogatepass")


def _tree(value: Any, share: float, rng: random.Random) -> Any:
    if rng.random() < share:
        return _value(rng)
    if isinstance(value, dict):
        made = {}
        for key, each in value.items():
            drawn = rng.random()
            if drawn >= share / 2:
                name = rng.choice([key.upper(), f"{key} ", "", key * 2, "id", "label", "\ud800"]) if drawn < share else key
                made[name] = _tree(each, share, rng)
        return made
    if isinstance(value, list):
        parts = [_tree(each, share, rng) for each in value if rng.random() > share / 2]
        if parts and rng.random() < share:
            parts.append(rng.choice(parts))
        if rng.random() < share:
            rng.shuffle(parts)
        return parts
    return value


def _value(rng: random.Random, depth: int = 0) -> Any:
    if depth <= 2 and rng.random() < 0.2:
        if rng.random() < 0.5:
            return [_value(rng, depth + 1) for _ in range(rng.randrange(3))]
        return {
            rng.choice(["id", "label", "value", "choices", "x", ""]): _value(rng, depth + 1) for _ in range(rng.randrange(3))
        }
    long = "x" * rng.choice([1, 1000, 100_000])
    numbers = [0, -1, 1, 2**31, 2**63, 2**64, -(2**63) - 1, 10**12, 10**400, 1.5, 1e300, float("nan"), float("inf")]
    return rng.choice([None, True, False, *numbers, "", long, "\ud800", "\u0000", [], {}])


# -- archives of arrays and JSON ---------------------------------------------------------------


def _archive(content: bytes, rng: random.Random) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        name = rng.choice(list(members))
        drawn = rng.random()
        if drawn < 0.05:
            del members[name]
            if not members:
                break
        elif drawn < 0.1:
            members[name] = rng.choice(list(members.values()))
        elif drawn < 0.25:
            members[name] = _bytes(members[name], rng)
        elif name.endswith(".npy"):
            members[name] = _array(members[name], rng)
        elif name.endswith(".json"):
            members[name] = _json(members[name], rng, lines=False)
        else:
            members[name] = _bytes(members[name], rng)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED if rng.random() < 0.05 else zipfile.ZIP_STORED) as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    return out.getvalue()


def _array(content: bytes, rng: random.Random) -> bytes:
    array = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    how = rng.randrange(7)
    if how <= 2 and array.size and array.dtype.kind in "fiub":
        kind = array.dtype.kind
        values: list[Any] = [np.nan, np.inf, -np.inf, -1, 0, 2, 1e300] if kind == "f" else [0, -1, 1, 100, 2**31 - 1]
        array = array.copy()
        array.flat[rng.randrange(array.size)] = np.asarray(rng.choice(values)).astype(array.dtype)
        if rng.random() < 0.2:
            array[...] = array.flat[0]
    elif how == 3:
        array = array.astype(rng.choice(["f8", "f4", "i8", "i2", "u1", "?", "U5", "S3", "c16", "f2", ">f8"]))
    elif how == 4:
        array = rng.choice([array[:-1], np.concatenate([array, array[-1:]])]) if array.ndim and len(array) else array[..., None]
    elif how == 5:
        array = rng.choice(
            [array[None], array.ravel(), array.T, array[..., None], np.zeros((0, *array.shape[1:]), array.dtype)]
        )
    else:
        array = np.zeros(rng.choice([(), (1,), (0,), (3, 3), (2, 2, 2)]), array.dtype)
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asarray(array, order="C"), allow_pickle=False)
    return out.getvalue()
