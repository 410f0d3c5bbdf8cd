"""One network on one kind of image: all codes in turn, so that all see one machine."""

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import load_images
from benchmarks.measure import difference
from benchmarks.peers.networks import MAIN
from benchmarks.peers.pipe import Worker

SEARCH = {"neural-tangents": (10, 20, 50, 100, 200), "cnn-gp": (5, 10, 20, 40)}
SEARCH_SECONDS = 1.5
CNN_GP_DEFAULT = 200  # of its script that saves a matrix
N_IMAGES, N_BLOCK_IMAGES = 5000, 400
FEW = 64
N_COMPARED, N_COMPARED_WITH_PEERS = 200, 24
# Float32 with an arccos near the diagonal. A convolution of neural-tangents with
# stride pads the other side: its resnet32 is as much work, but another network.
AGREEMENT, OTHER_PADDING = 1e-4, 0.1

Figures = dict[str, Any]


class Case:
    """Measures every code on one network and one kind of image."""

    def __init__(self, network: str, data: str, folder: Path, options: Any) -> None:
        self._network, self._data, self._folder = network, data, folder
        self._is_main = (network, data) == MAIN
        self._options = options
        self._images, self._source = write_images(data, N_IMAGES, folder)
        blocks = np.load(self._images)[:N_BLOCK_IMAGES]
        self._blocks = folder / f"{data}_blocks.npy"
        np.save(self._blocks, blocks)
        self._shape = blocks.shape[1:]
        self._rows: list[Figures] = []
        self._workers: list[Worker] = []
        self._floors: list[Figures] = []
        self.versions: dict[str, str] = {}

    def measure(self) -> Figures:
        """Return the raw figures of all codes, and the errors of ours."""
        try:
            self._start_ours()
            self._start_peers()
            errors = self._errors()
            for _ in range(self._options.repeat):
                self._measure_floor()
                self._round()
        finally:
            for worker in self._workers:
                worker.close()
        return {
            "network": self._network,
            "data": self._data,
            "source": self._source,
            "image_shape": self._shape,
            "rows": self._rows,
            "errors": errors,
            "floors": self._floors,
        }

    def _measure_floor(self) -> None:
        """Add what the processor reaches at this moment, where there is a compiler."""
        name = self._options.instruction_set
        worker = Worker("floor", {"instruction_set": name})
        try:
            self._floors.append(worker.ask("measure"))
        except RuntimeError as error:
            print(f"The floor is left out: {error}")
        finally:
            worker.close()

    def _round(self) -> None:
        for i, row in enumerate(self._rows):
            if row["code"] == "cnn-gp, default" and row["runs"]:
                continue  # a block of it takes long; its best size is what counts
            is_ours = row["code"].startswith("ours")
            if is_ours and row["runs"]:
                # Where the pages of a process lie decides what stays in the L2 cache.
                self._workers[i] = self._workers[i].restarted()
                self._workers[i].ask("measure", n=FEW)  # libraries are loaded
            # The first matrix of a process pays for its pages: peers have theirs.
            for _ in range(2 if is_ours else 1):
                run = self._workers[i].ask("measure", **row["arguments"])
                row["runs"].append(run)

    def _add(self, worker: Worker, arguments: Figures, **row: Any) -> Figures:
        row |= {"n_threads": row.get("n_threads", 1), "runs": []}
        row["arguments"] = arguments
        self._rows.append(row)
        self._workers.append(worker)
        self.versions |= worker.ask("versions")
        told = f"{row['code']}, {row['dtype']}, {row['n_threads']} threads"
        print(f"  {told}: {arguments}", file=sys.stderr, flush=True)
        return row

    def _start_ours(self) -> None:
        backend, widest = self._options.backend, self._options.instruction_set
        narrower = self._options.narrower if self._is_main else None
        self._add_ours("ours", backend, widest, self._options.threads)
        if narrower:
            self._add_ours(f"ours, {narrower}", backend, narrower, (1,))
        if backend != "torch":
            self._add_ours("torch", "torch", widest, (1,))

    def _add_ours(self, code: str, backend: str, name: str, threads: Any) -> None:
        for dtype in ("float32", "float64"):
            n = None
            for n_threads in threads:
                worker = self._ours(backend, name, dtype, n_threads)
                n = n or fitting_n(worker, self._options.seconds)
                told = {"code": code, "dtype": dtype, "n_threads": n_threads}
                self._add(worker, {"n": n}, **told)

    def _ours(
        self, backend: str, instruction_set: str, dtype: str, n_threads: int
    ) -> Worker:
        settings = {"network": self._network, "images": str(self._images)}
        settings |= {"backend": backend, "dtype": dtype}
        settings["instruction_set"] = instruction_set
        return Worker("ours", settings, n_threads=n_threads)

    def _start_peers(self) -> None:
        settings = {"network": self._network, "images": str(self._blocks)}
        if self._options.cnn_gp:
            settings["checkout"] = str(self._options.cnn_gp.resolve())
            worker = Worker("cnn_gp", settings)
            self._add_peer(worker, "cnn-gp", "float32")
            if self._is_main:
                size = {"batch": CNN_GP_DEFAULT}
                told = {"code": "cnn-gp, default", "dtype": "float32"} | size
                self._add(Worker("cnn_gp", settings), size | {"seconds": 0}, **told)
        for dtype in ("float32", "float64"):
            if self._options.python:
                python, told = self._options.python, settings | {"dtype": dtype}
                worker = Worker("neural_tangents", told, python=python)
                self._add_peer(worker, "neural-tangents", dtype)

    def _add_peer(self, worker: Worker, code: str, dtype: str) -> None:
        """Add a peer at the size of blocks that suits it best on this machine."""
        found = {}
        for batch in SEARCH[code]:
            run = worker.ask("measure", batch=batch, seconds=SEARCH_SECONDS)
            found[batch] = run["pairs"] / run[self._options.clock]
        batch = max(found, key=lambda size: found[size])
        told = {"code": code, "dtype": dtype, "batch": batch, "search": found}
        self._add(worker, {"batch": batch, "seconds": self._options.seconds}, **told)

    def _errors(self) -> dict[str, float]:
        """Return our largest errors; peers that compute something else are refused."""
        reference = self._ours("torch", self._options.instruction_set, "float64", 1)
        exact = self._values(reference, N_COMPARED)
        reference.close()
        errors = {}
        for row, worker in zip(self._rows, self._workers, strict=True):
            if row["code"].startswith("ours") and row["n_threads"] == 1:
                values = self._values(worker, N_COMPARED)
                told = row["dtype"] + row["code"].removeprefix("ours")
                errors[told] = difference(values, exact)
            elif "batch" in row:
                few = N_COMPARED_WITH_PEERS
                values = self._values(worker, few)
                row["difference"] = difference(values, exact[:few, :few])
                require_agreement(row, self._network)
        return errors

    def _values(self, worker: Worker, n: int) -> Any:
        path = self._folder / "values.npy"
        worker.ask("values", n=n, path=str(path))
        return np.load(path)


def fitting_n(worker: Worker, seconds: float) -> int:
    """Return how many images make a matrix that takes about these seconds."""
    n = FEW
    for part in (0.05, 0.2, 1.0):
        run = worker.ask("measure", n=n)
        pairs = run["pairs"] / run["seconds"] * seconds * part
        n = min(max(FEW, math.isqrt(int(2 * pairs))), N_IMAGES)
    return n


def require_agreement(row: Figures, network: str) -> None:
    """Refuse a peer whose values are not ours: the comparison would mean nothing."""
    is_other = (row["code"], network) == ("neural-tangents", "resnet32")
    limit = OTHER_PADDING if is_other else AGREEMENT
    if not row["difference"] <= limit:
        raise RuntimeError(
            f"{row['code']} differs from the reference by {row['difference']:.1e} on "
            f"{network}: it does not compute the same network."
        )


def write_images(name: str, n_images: int, folder: Path) -> tuple[Path, str]:
    """Write float32 images (n, c, h, w) in [0, 1]; return the file and their source."""
    images, told = load_images(name, n_images)
    path = folder / f"{name}.npy"
    np.save(path, images)
    return path, told
