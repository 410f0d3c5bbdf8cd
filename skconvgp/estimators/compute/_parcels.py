"""Jobs for other processes, with the tensors that they share passed separately."""

import pickle
from collections.abc import Callable
from io import BytesIO
from typing import Any

import torch
from cloudpickle import Pickler
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from skconvgp.engine import to_numpy

SMALLEST = 1000  # bytes; joblib sends larger arguments to a cluster separately


class Parcels:
    """Takes the tensors out of jobs: joblib sends an array once if it is an argument.

    To a cluster, an array that is an argument of several calls is sent once a worker.
    For processes of this machine joblib writes large ones to a file that all of them
    read. Arrays inside a job would be sent with each job.
    """

    def __init__(self) -> None:
        # Weak keys: tensors that nobody else holds, such as weights of one block, are
        # freed.
        self._arrays = WeakTensorKeyDictionary()

    def pack(self, job: Callable[[], Any]) -> tuple[bytes, list[NDArray[Any]]]:
        """Return a job without its larger tensors, and these tensors as arrays.

        A tensor that several jobs share becomes the same array each time.
        """
        file = BytesIO()
        packer = _Packer(file)
        packer.dump(job)
        arrays = []
        for tensor in packer.tensors:
            if tensor not in self._arrays:
                self._arrays[tensor] = to_numpy(tensor)
            arrays.append(self._arrays[tensor])
        return file.getvalue(), arrays


def open_parcel(packed: bytes, arrays: tuple[NDArray[Any], ...]) -> Any:
    """Return the job that was packed, with its tensors."""
    return _Unpacker(BytesIO(packed), arrays).load()


class _Packer(Pickler):
    """Replaces larger tensors by their indices."""

    def __init__(self, file: BytesIO) -> None:
        super().__init__(file)
        self.tensors: list[Tensor] = []

    def persistent_id(self, obj: Any) -> int | None:
        """Return the index of a tensor that is left out."""
        if not isinstance(obj, Tensor) or obj.nbytes < SMALLEST:
            return None
        self.tensors.append(obj)
        return len(self.tensors) - 1


class _Unpacker(pickle.Unpickler):
    """Puts the tensors back in the place of their indices."""

    def __init__(self, file: BytesIO, arrays: tuple[NDArray[Any], ...]) -> None:
        super().__init__(file)
        self._arrays = arrays

    def persistent_load(self, pid: int) -> Tensor:
        """Return the tensor of an index; joblib's read-only arrays are copied."""
        array = self._arrays[pid]
        return torch.from_numpy(array if array.flags.writeable else array.copy("K"))
