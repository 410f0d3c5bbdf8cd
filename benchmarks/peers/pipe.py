"""A measured code runs in a process of its own and is asked for figures over a pipe.

Both ends are here. The module needs nothing but the standard library, because the
peers run in environments of their own.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2]
ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


class Worker:
    """One measured code with its own threads, asleep between two questions."""

    def __init__(
        self,
        module: str,
        settings: dict[str, Any],
        *,
        python: str = sys.executable,
        n_threads: int = 1,
    ) -> None:
        self.module = module
        self._told: dict[str, Any] = {
            "settings": settings,
            "python": python,
            "n_threads": n_threads,
        }
        given = settings | {"n_threads": n_threads}
        self._process = subprocess.Popen(
            [python, "-m", f"benchmarks.peers.{module}", json.dumps(given)],
            cwd=FOLDER,
            env=_environment(n_threads),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: _stay_on_cores(n_threads),  # noqa: PLW1509
        )

    def ask(self, task: str, **arguments: Any) -> dict[str, Any]:
        """Return the answer to one question; an error of the other side is raised."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            print(
                json.dumps({"task": task} | arguments),
                file=self._process.stdin,
                flush=True,
            )
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise RuntimeError(
                f"{self.module} ended with code {self._process.wait()}; its messages "
                "are above."
            )
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"{self.module}, {task}: {answer['error']}")
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.communicate()

    def restarted(self) -> "Worker":
        """End the process and start another like it."""
        self.close()
        return Worker(self.module, **self._told)


class Stopwatch:
    """Seconds gone and seconds computed: they differ where a core was shared."""

    def __init__(self) -> None:
        self._start = time.perf_counter(), time.process_time()

    def read(self, prefix: str = "") -> dict[str, float]:
        """Return both since the start."""
        return {
            f"{prefix}seconds": time.perf_counter() - self._start[0],
            f"{prefix}cpu_seconds": time.process_time() - self._start[1],
        }


def serve(tasks: dict[str, Callable[..., dict[str, Any]]]) -> None:
    """Answer the questions that arrive on standard input until it is closed."""
    # Libraries print: what they say must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = tasks[request.pop("task")](**request)
        except Exception as error:  # told to the other side, which decides
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


def settings() -> Any:
    """Return what the worker was started with."""
    return json.loads(sys.argv[1])


def serve_blocks(
    compute: Callable[[slice, slice], Any],
    save: Callable[[str, Any], None],
    n_images: int,
    versions: dict[str, str],
) -> None:
    """Answer for a code that computes a matrix in square blocks of `batch` images."""

    def measure(batch: int, seconds: float) -> dict[str, Any]:
        blocks = [slice(i, i + batch) for i in range(0, n_images - batch + 1, batch)]
        if len(blocks) == 1:
            raise ValueError(f"{n_images} images are too few for blocks of {batch}.")
        compute(blocks[0], blocks[1])  # compiles, where the code compiles
        n_blocks, watch = 0, Stopwatch()
        while n_blocks == 0 or watch.read()["seconds"] < seconds:
            one = n_blocks % (len(blocks) - 1)
            compute(blocks[one], blocks[one + 1])
            n_blocks += 1
        return {"pairs": n_blocks * batch**2} | watch.read()

    def values(n: int, path: str) -> dict[str, Any]:
        save(path, compute(slice(0, n), slice(0, n)))
        return {}

    serve({"measure": measure, "values": values, "versions": lambda: versions})


def rate(row: dict[str, Any], clock: str) -> float:
    """Return the best pairs per second of one code; of several threads by the wall."""
    key = "seconds" if row["n_threads"] > 1 else clock
    return max(run["pairs"] / run[key] for run in row["runs"])


def _environment(n_threads: int) -> dict[str, str]:
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    changes = dict.fromkeys(names, str(n_threads)) | {
        "JAX_PLATFORMS": "cpu",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    if n_threads == 1:
        changes["XLA_FLAGS"] = ONE_THREAD
    return os.environ | changes


def _stay_on_cores(n_threads: int) -> None:
    """Keep this process on as many cores as it may use: the surest limit."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[:n_threads])
