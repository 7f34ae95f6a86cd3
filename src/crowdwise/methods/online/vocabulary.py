"""Ids in the order of their arrival, found by a hash table: a thousand are looked up at the cost of a thousand."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from crowdwise.kernels.types import Array, Integers

__all__ = ["Vocabulary"]


class Vocabulary:
    """Ids with their codes 0, 1, ...; new ones are appended.

    Ids are whole numbers, truth values or text, as `Annotations` has them; where two kinds meet, all become text.
    """

    def __init__(self) -> None:
        self._ids: list[Any] = []
        self._codes: dict[Any, int] = {}
        self._kind = ""
        #: How many ids came first: their order was the caller's.
        self.n_first: int | None = None

    def __len__(self) -> int:
        return len(self._ids)

    def find(self, ids: Array) -> Integers:
        """Code of every id, -1 where it is not known yet."""
        get = self._codes.get
        return np.fromiter((get(key, -1) for key in self._keys(ids)), np.int64, len(ids))

    def add(self, ids: Array) -> Integers:
        """Code of every id; new ones are appended.

        A bootstrap sample repeats ids: every row stays an item of its own, and an id finds the first of them.
        """
        if len(ids) and not self._ids:
            self._kind = ids.dtype.kind
        elif len(ids) and self._kind not in ("O", ids.dtype.kind):
            self._become_text()
        keys, codes = self._keys(ids), self.find(ids)
        for position in np.flatnonzero(codes < 0).tolist():
            codes[position] = len(self._ids)
            self._codes.setdefault(keys[position], len(self._ids))
            self._ids.append(keys[position])
        if self.n_first is None:
            self.n_first = len(self._ids)
        return codes

    def array(self) -> Array:
        """The ids in the order of their codes, as `Annotations` holds them."""
        if self._kind in ("O", ""):
            return np.array([*self._ids, None], dtype=object)[:-1]
        return np.array(self._ids, dtype=bool if self._kind == "b" else np.int64)

    def order(self) -> Integers:
        """Codes in the order in which results list them: the caller's if all came at once, else sorted."""
        if len(self) == self.n_first:
            return np.arange(len(self))
        if self._kind != "O":
            return np.argsort(self.array(), kind="stable")
        return pl.Series(self._ids, dtype=pl.String).arg_sort().to_numpy().astype(np.int64)

    def _keys(self, ids: Array) -> list[Any]:
        """The ids as keys of the table; text stands for the number or truth value that it spells."""
        keys = ids.tolist()
        if ids.dtype.kind == self._kind:
            return list(keys)
        texts = [str(key) for key in keys]
        if self._kind == "b":
            spelt: dict[str, Any] = {"True": True, "False": False}
            return [spelt.get(text) for text in texts]
        if self._kind == "i":
            return [int(text) if text.removeprefix("-").isdecimal() and str(int(text)) == text else None for text in texts]
        return texts

    def _become_text(self) -> None:
        self._ids = [str(key) for key in self._ids]
        self._codes = {}
        for code, key in enumerate(self._ids):
            self._codes.setdefault(key, code)
        self._kind = "O"
