"""Bytes that are no UTF-8 text: where the first of them stands, and the way out."""

from __future__ import annotations

from pathlib import Path

from crowdwise.errors import InputError

__all__ = ["NEVER_READ", "UTF8_ADVICE", "UTF16_MARKS", "check_utf8", "refuse_known_binary", "refuse_other_text"]

# What opening could run, or is no table of text.
NEVER_READ = (".numbers", ".pkl", ".pickle", ".joblib", ".npy", ".npz", ".pt")
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")

UTF8_ADVICE = "re-save it as UTF-8 (in a spreadsheet: save as, CSV UTF-8), or name its encoding: --encoding cp1252, utf-16, ..."


def refuse_other_text(data: bytes, name: str) -> None:
    """Refuse UTF-16 without a mark at its beginning, and anything with a NUL byte, which no text has, wherever it stands."""
    if data.startswith(UTF16_MARKS) or b"\x00" in data[:1024]:
        raise InputError(
            f"{name}: not UTF-8 text; it looks like UTF-16 or a binary file: "
            "re-save it as UTF-8 (in a spreadsheet: save as, CSV UTF-8), or name its encoding: --encoding utf-16 (utf-16-le, "
            "utf-16-be where no mark says which)"
        )
    at = data.find(b"\x00")
    if at >= 0:
        row = data.count(b"\n", 0, at) + 1
        raise InputError(f"{name} row {row}: a NUL byte, which text does not have; the file is damaged: export it again")


def check_utf8(data: bytes, name: str) -> None:
    """Refuse bytes that no UTF-8 text has."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        row = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{name} row {row}: byte 0x{data[error.start]:02x} is not UTF-8; {UTF8_ADVICE}") from None


def refuse_known_binary(path: Path, name: str) -> None:
    """Stop at files that are no table of text, with the way out."""
    if path.suffix.lower() == ".numbers":
        raise InputError(f"{name}: a spreadsheet file; open it and save as CSV UTF-8, then read that")
    if path.suffix.lower() in (".npy", ".npz"):
        raise InputError(f"{name}: arrays, such as the features of train --features; export the votes as CSV or Parquet")
    if path.suffix.lower() in NEVER_READ:
        raise InputError(
            f"{name}: opening a {path.suffix} file could run code, so it is never read; export the votes as CSV or Parquet"
        )
