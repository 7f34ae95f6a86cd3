"""How many bytes Parquet and Arrow files say that they unfold to, read from their own tables of contents.

A page of zeros takes next to nothing in Zstandard, so the size of a file says little. Both formats declare sizes: Parquet in
its footer (Thrift's compact protocol: the row groups, field 4, each with its `total_byte_size`, field 2) and again in the
header of every page (`uncompressed_page_size`, field 2), of which the larger counts; Arrow before every
compressed buffer, found through the footer (flatbuffers) and the record batches that it lists. What cannot be followed is
damaged, which polars says better.
"""

from __future__ import annotations

import struct
from typing import IO, Any

__all__ = ["declared_size"]

# Enough for thousands of row groups or batches.
_MOST_PARTS = 200_000
_LARGEST_FOOTER = 2**26
# Pages of a megabyte each, as is usual, make files of a hundred gigabytes; the header of one is a few hundred bytes.
_MOST_PAGES, _HEADER = 100_000, 2**14
# Bytes that a value takes in memory, however often it is repeated in the file.
_CELL = 16
_NO_SIZE = 2**62


class _Absurd(Exception):
    """A number of values below zero: read without its sign it asks for more memory than there is, and the process ends."""


def declared_size(file: IO[bytes], kind: str) -> int:
    """Bytes that a file, "parquet" or "arrow", says it unfolds to; 0 where it does not say, or cannot be followed."""
    try:
        return _parquet(file) if kind == "parquet" else _arrow(file)
    except _Absurd:
        return _NO_SIZE
    except (OSError, ValueError, IndexError, struct.error, RecursionError, OverflowError, AttributeError, TypeError):
        return 0


def _footer(file: IO[bytes], tail: int) -> bytes:
    """What lies before the last bytes: the length of the footer, and a mark."""
    file.seek(-tail, 2)
    (size,) = struct.unpack("<i", file.read(4))
    if not 0 < size <= _LARGEST_FOOTER:
        raise ValueError("no footer")
    file.seek(-tail - size, 2)
    return file.read(size)


def _parquet(file: IO[bytes]) -> int:
    groups = _Thrift(_footer(file, 8)).struct().get(4, [])
    said = sum(max(int(group.get(2, 0)), 0) for group in groups)
    # A footer may say less than its pages hold, and it is the pages that are unfolded.
    left = _MOST_PAGES
    held = 0
    for group in groups:
        n_rows = max(int(group.get(3, 0)), 0)
        for chunk in group.get(1, []):
            n_bytes, n_values, n_pages = _pages(file, chunk.get(3) or {}, left)
            # Up to as many again stand in a dictionary; more than that is not counted with the rows.
            held += max(n_bytes, n_values * _CELL if n_values > 2 * n_rows else 0)
            left -= n_pages
    return max(said, held)


def _pages(file: IO[bytes], column: dict[int, Any], most: int) -> tuple[int, int, int]:
    """Bytes and values that the pages of a column say they hold, and how many pages were looked at."""
    starts = [int(start) for start in (column.get(9), column.get(11)) if start]
    if not starts:
        return 0, 0, 0
    at, end = min(starts), min(starts) + int(column.get(7, 0))
    n_bytes = n_values = n_pages = 0
    while at < end and n_pages < most:
        file.seek(at)
        reader = _Thrift(file.read(_HEADER))
        page = reader.struct()
        n_bytes += max(int(page.get(2, 0)), 0)
        # Data pages of both versions, and dictionaries, say first how many values they hold.
        told = int((page.get(5) or page.get(7) or page.get(8) or {}).get(1, 0))
        if told < 0:
            raise _Absurd
        n_values += told
        at += reader.at + max(int(page.get(3, 0)), 0)
        n_pages += 1
    return n_bytes, n_values, n_pages


class _Thrift:
    """As much of the compact protocol as a footer takes: structs as mappings from field numbers."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at, self.left = data, 0, _MOST_PARTS

    def struct(self) -> dict[int, Any]:
        found: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._integer()
            found[number] = self._value(head & 15)
        return found

    def _value(self, kind: int) -> Any:
        self.left -= 1
        if self.left < 0:
            raise ValueError("a footer of too many parts")
        if kind in (1, 2):
            return kind == 1
        if kind in (4, 5, 6):
            return self._integer()
        if kind in (3, 7, 8):
            length = {3: 1, 7: 8}.get(kind) or self._varint()
            self.at += length
            return None
        if kind in (9, 10):
            head = self._byte()
            size = head >> 4 if head >> 4 < 15 else self._varint()
            return [self._byte() if head & 15 in (1, 2) else self._value(head & 15) for _ in range(min(size, self.left + 1))]
        if kind == 12:
            return self.struct()
        raise ValueError("an unknown type")

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    def _integer(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)


def _arrow(file: IO[bytes]) -> int:
    footer = _footer(file, 10)
    root = _table(footer, 0)
    total = 0
    # Dictionaries are field 2, record batches field 3, both vectors of blocks: offset, lengths of the message and of the body.
    for field in (2, 3):
        for block in _vector(footer, root, field, 24):
            start, length = struct.unpack_from("<qi", footer, block)
            file.seek(start)
            total += _batch(file, start + length, file.read(length))
    return total


def _batch(file: IO[bytes], body: int, message: bytes) -> int:
    """Bytes of the buffers of a record batch; of compressed ones as many as each says at its beginning."""
    data = message[8:] if message[:4] == b"\xff\xff\xff\xff" else message[4:]
    # A dictionary (type 2) wraps a batch as its field 1.
    root = _table(data, 0)
    batch = _inner(data, root, 2)
    (kind,) = struct.unpack_from("<B", data, _slot(data, root, 1))
    batch = _inner(data, batch, 1) if kind == 2 else batch
    compressed = _slot(data, batch, 3) > 0
    total = 0
    for buffer in _vector(data, batch, 2, 16):
        start, length = struct.unpack_from("<qq", data, buffer)
        if compressed and length >= 8:
            file.seek(body + start)
            (said,) = struct.unpack("<q", file.read(8))
            length = said if said >= 0 else length
        total += max(length, 0)
    return total


# -- flatbuffers: a table knows where its fields are by a list of offsets ------------------------


def _table(data: bytes, at: int) -> int:
    return at + int(struct.unpack_from("<I", data, at)[0])


def _slot(data: bytes, table: int, field: int) -> int:
    """Where a field of a table is; 0 if it is left out."""
    offsets = table - struct.unpack_from("<i", data, table)[0]
    (size,) = struct.unpack_from("<H", data, offsets)
    if 4 + 2 * field >= size:
        return 0
    (offset,) = struct.unpack_from("<H", data, offsets + 4 + 2 * field)
    return table + int(offset) if offset else 0


def _inner(data: bytes, table: int, field: int) -> int:
    return _table(data, _slot(data, table, field))


def _vector(data: bytes, table: int, field: int, size: int) -> range:
    slot = _slot(data, table, field)
    if not slot:
        return range(0)
    start = _table(data, slot)
    (n,) = struct.unpack_from("<I", data, start)
    return range(start + 4, start + 4 + size * min(n, _MOST_PARTS), size)
