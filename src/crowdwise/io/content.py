"""From a file to checked UTF-8 bytes, and a guess of its kind from its suffix and first bytes."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path

from crowdwise.errors import InputError

__all__ = ["KINDS", "read_text_bytes", "refuse_known_binary", "sniff_kind"]

KINDS: dict[str, str] = {
    ".csv": "delimited", ".tsv": "delimited", ".tab": "delimited",
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".manifest": "jsonl", ".json": "json",
    ".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow", ".ipc": "arrow", ".feather": "arrow",
}  # fmt: skip
_MATRIX = re.compile(rb"\A[ \t]*-?\d+([ \t]+-?\d+)+[ \t]*\r?(\n|\Z)")
UTF8_ADVICE = "re-save it as UTF-8 (in a spreadsheet: save as, CSV UTF-8)"


def refuse_known_binary(path: Path, name: str) -> None:
    """Stop at files that are no table of text, with the way out."""
    head = _head(path, name)
    if path.suffix.lower() in (".xlsx", ".xls", ".xlsm", ".ods", ".numbers") or head.startswith(b"\xd0\xcf\x11\xe0"):
        raise InputError(f"{name}: a spreadsheet file; open it and save as CSV UTF-8, then read that")
    if path.suffix.lower() in (".pkl", ".pickle", ".joblib", ".npy", ".npz", ".pt"):
        raise InputError(
            f"{name}: opening a {path.suffix} file could run code, so it is never read; export the votes as CSV or Parquet"
        )
    if head.startswith(b"PK\x03\x04"):
        raise InputError(f"{name}: a zip archive; unpack it and read the file or folder inside")


def read_text_bytes(path: Path, name: str) -> bytes:
    """Return the content, unzipped, as UTF-8 without byte-order mark and with line feeds."""
    try:
        data = path.read_bytes()
        if data.startswith(b"\x1f\x8b"):
            data = gzip.decompress(data)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{name}: the gzip data are damaged ({error}); download or compress it again") from None
    except OSError as error:
        raise _unreadable(name, error) from None
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\x00" in data[:1024]:
        raise InputError(f"{name}: not UTF-8 text; it looks like UTF-16 or a binary file: {UTF8_ADVICE}")
    data = data.removeprefix(b"\xef\xbb\xbf")
    if not data.strip():
        raise InputError(f"{name}: the file is empty; expected a header and rows below it")
    if not data.isascii():
        check_utf8(data, name)
    # Old Macintosh files end lines with a carriage return alone.
    return data if b"\n" in data or b"\r" not in data.rstrip() else data.replace(b"\r", b"\n")


def sniff_kind(path: Path, content: Callable[[], bytes], name: str) -> str:
    """Name the kind of a file: by its first bytes where they decide, else by its suffix."""
    head = _head(path, name)
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith(b"ARROW1"):
        return "arrow"
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    kind = KINDS.get(suffix)
    if kind in ("parquet", "arrow"):
        raise InputError(f"{name}: named {suffix} but the content is not {kind}; export it again or correct the suffix")
    start = content().lstrip()[:1]
    if kind in ("json", "jsonl") or (kind is None and start in (b"{", b"[")):
        # Many tools name JSON lines .json and the other way round; the content decides.
        return "jsonl" if start != b"[" and (kind == "jsonl" or _is_lines(content())) else "json"
    if kind == "delimited":
        return kind
    if _MATRIX.match(content()):
        return "matrix"
    first_line = content().split(b"\n", 1)[0]
    if any(separator in first_line for separator in (b",", b"\t", b";", b"|")):
        return "delimited"
    raise InputError(f"{name}: cannot tell what {suffix or 'this file'} holds; known are {', '.join(sorted(KINDS))}; rename it")


def _is_lines(data: bytes) -> bool:
    """True unless the first line opens an object that later lines continue."""
    first, _, rest = data.strip().partition(b"\n")
    try:
        json.loads(first)
    except (ValueError, RecursionError):
        # A broken first line of many is still a line: the second decides.
        return rest.lstrip(b"\r\n").startswith(b"{")
    return bool(rest.strip())


def _head(path: Path, name: str) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(8)
    except OSError as error:
        raise _unreadable(name, error) from None


def _unreadable(name: str, error: OSError) -> InputError:
    return InputError(f"{name}: cannot be read ({error.strerror or error}); check that it is a file and that you may read it")


def check_utf8(data: bytes, name: str) -> None:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        row = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{name} row {row}: byte 0x{data[error.start]:02x} is not UTF-8; {UTF8_ADVICE}") from None
