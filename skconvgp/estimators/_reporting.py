"""The report of a fit, from its process, its record and its run."""

from __future__ import annotations

from typing import Any

from skconvgp.estimators._report import FitReport, peak_memory
from skconvgp.processes import FittedProcess, Record, Run


def report_of(
    process: FittedProcess, record: Record, run: Run, more: dict[str, Any]
) -> FitReport:
    """Return the report of a fit, with further fields by name."""
    basis = process.basis.report(run)
    n_read = sum(cache.n_pairs_read for cache in run.caches)
    return FitReport(
        n_samples=process.model.n_samples,
        n_rows=len(process.model.targets),
        n_pairs=record.n_pairs,
        n_pairs_read=min(record.n_pairs, n_read),
        gram_seconds=record.gram_seconds,
        solve_seconds=record.solve_seconds,
        backend=basis.backend,
        backend_reason=basis.backend_reason,
        device_reason=run.placement.reason,
        instruction_set=basis.instruction_set,
        device=str(run.placement.device),
        dtype=str(basis.dtype).removeprefix("torch."),
        peak_memory=peak_memory(),
        n_position_pairs=basis.n_position_pairs,
        **more,
    )
