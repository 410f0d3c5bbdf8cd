"""State of a process before further samples are added to its sums."""

from __future__ import annotations

from skconvgp.processes._process import CodedLabels, Growth, KeptLeftOut, Process


def growth_of(process: Process) -> Growth:
    """Return the sums to which further samples are added."""
    assert process.growth is not None
    return process.growth


def kept_before(process: Process) -> KeptLeftOut:
    """Return the left-out predictions that were kept."""
    assert isinstance(process.left_out, KeptLeftOut)
    return process.left_out


def coded_labels(process: Process) -> CodedLabels:
    """Return labels that each give targets and noise."""
    assert isinstance(process.labels, CodedLabels)
    return process.labels
