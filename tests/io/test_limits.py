"""What compressed files may unfold to: refused before memory is spent, by a limit that is said and can be moved."""

from __future__ import annotations

import gzip
import io
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from crowdwise.errors import InputError, SettingError
from crowdwise.io import read, read_features, read_gold
from crowdwise.io.declared import declared_size
from crowdwise.io.limits import DEFAULT, bytes_of, limited, unfolded

ROWS = b"item,annotator,label\n" + b"".join(b"i%d,a%d,cat\n" % (n % 100, n % 7) for n in range(2000))


@pytest.mark.parametrize(
    ("text", "size"),
    [("1000", 1000), ("4GB", 4 * 10**9), ("1.5 MiB", 3 * 2**19), ("2k", 2000), ("1tb", 10**12), ("1 GiB", DEFAULT)],
)
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert bytes_of(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1", "many", "1XB", "0.1", "1e9", "nan"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match="must be a size such as 4GB"):
        bytes_of(text)


@pytest.mark.parametrize("given", [0, -5, True, 1.5, "1GB"])
def test_the_limit_is_a_whole_number_of_bytes(given: object, tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_bytes(ROWS)
    with pytest.raises(SettingError, match="max_bytes must be a whole number"):
        read(tmp_path / "v.csv", max_bytes=given)  # type: ignore[call-overload]


def test_gzip_is_unfolded_up_to_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "v.csv.gz"
    path.write_bytes(gzip.compress(ROWS))
    assert read(path).n_votes == 2000
    assert read(path, max_bytes=len(ROWS)).n_votes == 2000
    with pytest.raises(InputError, match=rf"v\.csv\.gz: unzips to more than {len(ROWS) - 1:,} bytes.*--max-bytes 8GB or"):
        read(path, max_bytes=len(ROWS) - 1)
    with pytest.raises(InputError, match="more than 100 bytes"):
        read_gold(path, max_bytes=100)
    # A plain file is as large as it looks.
    (tmp_path / "v.csv").write_bytes(ROWS)
    assert read(tmp_path / "v.csv", max_bytes=1).n_votes == 2000


def test_members_and_padding_of_gzip_are_read_as_one() -> None:
    parts = [gzip.compress(b"a" * 300_000), gzip.compress(np.random.default_rng(0).bytes(200_000)), gzip.compress(b"")]
    whole = b"".join(gzip.decompress(part) for part in parts)
    assert unfolded(b"".join(parts), "x") == whole
    assert unfolded(b"".join(parts) + bytes(512), "x") == whole


@pytest.mark.parametrize("cut", [1, 2000, -1, -5, -9])
def test_damaged_gzip_is_said_to_be(cut: int) -> None:
    data = gzip.compress(np.random.default_rng(0).bytes(100_000))
    with pytest.raises(InputError, match="x: the gzip data are damaged"):
        unfolded(data[:cut], "x")
    broken = bytearray(data)
    broken[cut] ^= 255
    with pytest.raises(InputError, match="x: the gzip data are damaged"):
        unfolded(bytes(broken), "x")


# Memory is that of a process of its own; 300 MB of zeros are 300 kB.
MEASURE = """
import resource, sys
from crowdwise.errors import InputError
from crowdwise.io import read
import polars
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    read(sys.argv[1], max_bytes=200_000_000)
    print("read")
except InputError as problem:
    print(str(problem)[-140:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="measures as POSIX does")
@pytest.mark.parametrize("kind", ["honest", "lying"])
def test_memory_is_not_spent_on_what_is_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "v.csv.gz"
    content = gzip.compress(b"item,annotator,label\n" + bytes(300_000_000), 1)
    # The last four bytes say how much it is; those of a second member say less.
    path.write_bytes(content if kind == "honest" else content + gzip.compress(b"x"))
    done = subprocess.run([sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, check=True)
    said, spent = done.stdout.splitlines()
    assert "more with --max-bytes" in said
    assert int(spent) < 120_000, "kB"


def bomb(kind: str, folder: Path) -> Path:
    """A few kilobytes that unfold to 60 MB."""
    path = folder / f"v.{kind}"
    table = pl.DataFrame({"item": ["x" * 20_000_000 + str(n) for n in range(3)], "annotator": "a", "label": "b"})
    if kind == "parquet":
        table.write_parquet(path, compression="zstd")
    elif kind == "arrow":
        table.write_ipc(path, compression="zstd")
    else:
        # Rows of one value take no room at all.
        pl.select(pl.repeat("x", 3_000_000, dtype=pl.String).alias("item")).with_columns(
            annotator=pl.col("item"), label=pl.col("item")
        ).write_parquet(path := folder / "rows.parquet")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", "arrow", "rows"])
def test_binary_tables_are_refused_by_what_they_declare(kind: str, tmp_path: Path) -> None:
    path = bomb(kind, tmp_path)
    assert path.stat().st_size < 50_000
    with pytest.raises(InputError, match=r"rows unfold to more than 10,000,000 bytes"):
        read(path, max_bytes=10_000_000)
    assert read(path).n_votes >= 3


def varint(number: int, length: int = 0) -> bytes:
    """A signed number as Thrift writes it, perhaps with more bytes than it needs."""
    value, parts = number << 1, []
    while value or not parts or len(parts) < length:
        parts.append((value & 127) | 128)
        value >>= 7
    return bytes([*parts[:-1], parts[-1] & 127])


@pytest.mark.parametrize("page_size", [1_000, None])
def test_a_footer_that_says_less_than_its_pages_does_not_count(page_size: int | None, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "v.parquet"
    table = pl.DataFrame({"item": ["x" * 2_000_000 + str(n) for n in range(3)], "annotator": "a", "label": "b"})
    parquet.write_table(table.to_arrow(), path, compression="zstd", data_page_size=page_size, use_dictionary=False)
    with path.open("rb") as file:
        honest = declared_size(file, "parquet")
    data = path.read_bytes()
    size = int.from_bytes(data[-8:-4], "little")
    body, footer = data[: -8 - size], data[-8 - size :]
    # Every number of millions in the footer becomes 1, in as many bytes.
    said = [number for number in range(6_000_000, 6_001_000) if varint(number) in footer]
    assert said
    for number in said:
        footer = footer.replace(varint(number), varint(1, len(varint(number))))
    path.write_bytes(body + footer)
    with path.open("rb") as file:
        assert 6_000_000 < declared_size(file, "parquet") <= honest
    with pytest.raises(InputError, match="unfold to more than 1,000,000 bytes"):
        read(path, max_bytes=1_000_000)


@pytest.mark.parametrize("compression", ["zstd", "snappy", "uncompressed", "gzip", "lz4"])
def test_the_declared_size_is_that_of_another_library(compression: str, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pl.DataFrame({"item": [f"i{n}" for n in range(1000)], "weight": np.arange(1000) / 7, "odd": [None, "x"] * 500})
    table.write_parquet(tmp_path / "ours.parquet", compression=compression, row_group_size=300)  # type: ignore[arg-type]
    parquet.write_table(table.to_arrow(), tmp_path / "theirs.parquet", row_group_size=300)
    for path in (tmp_path / "ours.parquet", tmp_path / "theirs.parquet"):
        meta = parquet.read_metadata(path)
        with path.open("rb") as file:
            assert declared_size(file, "parquet") == sum(meta.row_group(k).total_byte_size for k in range(meta.num_row_groups))


def test_compressed_arrow_declares_what_uncompressed_takes() -> None:
    table = pl.DataFrame({"item": [f"i{n}" for n in range(1000)], "label": ["a", "b"] * 500})
    sizes = set()
    for compression in ("uncompressed", "lz4", "zstd"):
        file = io.BytesIO()
        table.write_ipc(file, compression=compression)  # type: ignore[arg-type]
        sizes.add(declared_size(file, "arrow"))
    assert len(sizes) == 1
    assert min(sizes) >= 1000 * 16 * 2
    assert declared_size(io.BytesIO(b"ARROW1 and nothing else"), "arrow") == 0
    assert declared_size(io.BytesIO(b"PAR1\xff\xff\xff\x7fPAR1"), "parquet") == 0


def test_archives_of_features_are_bounded(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "X.npz", X=np.zeros((1000, 1000)))
    assert read_features(tmp_path / "X.npz").X.shape == (1000, 1000)
    with pytest.raises(InputError, match="unzips to more than 1,000,000 bytes"):
        read_features(tmp_path / "X.npz", max_bytes=1_000_000)
    header = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118)
    header += b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000, 1000), }".ljust(117) + b"\n"
    with zipfile.ZipFile(tmp_path / "lie.npz", "w") as archive:
        archive.writestr("X.npy", header + bytes(80))
    with pytest.raises(InputError, match=r"an array of shape \(1000000000, 1000\) in 208 bytes"):
        read_features(tmp_path / "lie.npz")


def test_a_limit_holds_for_its_block_only() -> None:
    data = gzip.compress(b"abc")
    with limited(2), pytest.raises(InputError, match="more than 2 bytes"):
        unfolded(data, "x")
    assert unfolded(data, "x") == b"abc"


def test_a_page_of_fewer_than_no_values_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "v.parquet"
    pl.DataFrame({"item": ["a"] * 30, "annotator": ["x"] * 30, "label": [str(n % 3) for n in range(30)]}).write_parquet(path)
    data = path.read_bytes()
    # The header of a page says how many values it holds: 30, as the zigzag number 60, after the mark of a 32-bit field 1.
    at = data.rindex(b"\x15\x3c", 0, data.rindex(b"item"))
    path.write_bytes(data[: at + 1] + b"\x3b" + data[at + 2 :])
    with path.open("rb") as file:
        assert declared_size(file, "parquet") > 2**60
    with pytest.raises(InputError, match=r"v\.parquet"):
        read(path)
