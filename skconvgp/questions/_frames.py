"""Findings as data frames, or as records where pandas is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

__all__ = ["as_frame", "as_records"]


def as_frame(columns: Mapping[str, NDArray[Any]]) -> Any:
    """Return columns of equal lengths as a data frame; without pandas, as records."""
    try:
        import pandas as pd
    except ImportError:
        names, values = list(columns), [one.tolist() for one in columns.values()]
        return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]
    return pd.DataFrame(dict(columns))


def as_records(frame: Any) -> list[dict[str, Any]]:
    """Return what `as_frame` returned as records."""
    if isinstance(frame, list):
        return frame
    records: list[dict[str, Any]] = frame.to_dict("records")
    return records
