"""LabelledLeftOut: left-out predictions of labels whose noise follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skconvgp.processes._process import KeptLeftOut, Process
from skconvgp.processes._run import Resources
from skconvgp.processes.posterior._pool import Choice, choose_labelled, why_no_matrix


@dataclass(frozen=True)
class LabelledLeftOut(KeptLeftOut):
    """Left-out predictions that are kept, by the whole matrix."""

    def why_no_pool(self, process: Process) -> str:
        """Return why samples without labels have no covariances; empty if they do."""
        return why_no_matrix(process)

    def choose(
        self,
        process: Process,
        rows: NDArray[Any],
        resources: Resources,
        choice: Choice,
    ) -> NDArray[np.intp]:
        """Return which of rows (r, d) are chosen."""
        return choose_labelled(process, rows, resources, choice)
