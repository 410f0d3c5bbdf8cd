"""A pretended GPU: tensors of the host that say that they lie on another device.

The host does all that a program asks of it. What a real GPU would copy from or to the
host, or would have to wait for, is counted, and tensors of both places are not mixed.
"""

import sys
from collections import Counter

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from skconvgp.engine import Placement
from skconvgp.estimators.settings._compute import Compute

# A type of device that torch knows and has no code for. With "cuda", torch would look
# for a driver.
HOST, CARD = torch.device("cpu"), torch.device("lazy", 0)
TO_CARD, TO_HOST, READ = "copies to the card", "copies to the host", "numbers read"
PACKAGE = "skconvgp/"
aten = torch.ops.aten

INDEXING = {aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_}
MASKS = (torch.bool, torch.uint8)
# What waits for a number: a value, the shape of a result, or whether all went well.
READING = {
    aten._linalg_check_errors,
    aten._linalg_eigh,
    aten._linalg_svd,
    aten._local_scalar_dense,
    aten._unique2,
    aten.bincount,
    aten.equal,
    aten.is_nonzero,
    aten.masked_select,
    aten.nonzero,
    aten.unique_consecutive,
    aten.unique_dim,
}


class OnCard(torch.Tensor):
    """A tensor that says that it lies on the card."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=CARD,
            requires_grad=inner.requires_grad,
        )

    def __init__(self, inner):
        self.inner = inner

    def __repr__(self):
        return f"OnCard({self.inner!r})"

    def tolist(self):
        return self.to(HOST).tolist()

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return Card.current.run(func, args, kwargs or {})


class Card(TorchDispatchMode):
    """Estimators of any `device` use the card in this context, which counts.

    `places` has how often each thing was counted, with the `depth` innermost lines of
    the package that have asked for it.
    """

    current = None

    def __init__(self, monkeypatch, depth=1):
        super().__init__()
        self.places, self.depth = Counter(), depth
        Card.current = self
        monkeypatch.setattr(Compute, "placement", lambda *_, **__: Placement(CARD))

    def __enter__(self):
        # `torch.tensor` makes a tensor on the host first, and copies it.
        self._before = torch._C._only_lift_cpu_tensors()
        torch._C._set_only_lift_cpu_tensors(True)
        return super().__enter__()

    def __exit__(self, *error):
        torch._C._set_only_lift_cpu_tensors(self._before)
        return super().__exit__(*error)

    @property
    def counts(self):
        found = Counter()
        for (what, _), n in self.places.items():
            found[what] += n
        return found

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return self.run(func, args, kwargs or {})

    def run(self, func, args, kwargs):
        """Return what a function of torch returns, and count."""
        packet, flat = func.overloadpacket, [*_flat((*args, *kwargs.values()))]
        is_ours = any(isinstance(one, OnCard) for one in flat)
        in_args, in_kwargs = _each(_inner, args), _each(_inner, kwargs)
        place = kwargs.get("device")
        if packet is aten.copy_:
            ours = [isinstance(one, OnCard) for one in args[:2]]
            if ours[0] != ours[1]:
                self._count(TO_CARD if ours[0] else TO_HOST)
            func(*in_args, **in_kwargs)
            return args[0]
        if place is not None:
            to_card = torch.device(place).type == CARD.type
            if packet is aten._to_copy and to_card != is_ours:
                self._count(TO_CARD if to_card else TO_HOST)
            if not to_card:
                return func(*in_args, **in_kwargs)
            return OnCard(func(*in_args, **in_kwargs | {"device": HOST}))
        if not is_ours:
            return func(*args, **kwargs)
        self._count_waits(packet, args, kwargs, flat)
        result = func(*in_args, **in_kwargs)
        if torch.Tag.inplace_view in func.tags:
            inner = args[0].inner
            form = inner.size(), inner.stride(), inner.storage_offset()
            key = torch._C.DispatchKey.CompositeExplicitAutogradNonFunctional
            aten.as_strided_.default._op_dk(key, args[0], *form)
        return _wrapped(func, args, kwargs, result)

    def _count_waits(self, packet, args, kwargs, flat):
        if packet in INDEXING:
            for one in args[1]:
                if one is not None and not isinstance(one, OnCard):
                    self._count(TO_CARD)
                if one is not None and one.dtype in MASKS:
                    self._count(READ)
            flat = [args[0]]
        if any(not isinstance(one, OnCard) and one.ndim for one in flat):
            raise RuntimeError(f"{packet}: some tensors are on the host, some are not")
        is_repeated = packet is aten.repeat_interleave
        if packet in READING or (is_repeated and kwargs.get("output_size") is None):
            self._count(READ)

    def _count(self, what):
        frame, lines = sys._getframe(), []
        while frame is not None and len(lines) < self.depth:
            code = frame.f_code
            if PACKAGE in code.co_filename:
                file = "/".join(code.co_filename.split("/")[-2:])
                lines.append(f"{file}:{frame.f_lineno} ({code.co_name})")
            frame = frame.f_back
        self.places[what, " < ".join(lines)] += 1


def _flat(values):
    """Yield the tensors among values."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _flat(value)


def _each(change, value):
    """Return values whose tensors are changed."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        return {name: _each(change, one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_each(change, one) for one in value)
    return value


def _inner(tensor):
    return tensor.inner if isinstance(tensor, OnCard) else tensor


def _wrapped(func, args, kwargs, result):
    """Return results on the card; those that are written to are the arguments."""
    schema = func._schema
    is_one = len(schema.returns) == 1
    found = [
        _written(schema, args, kwargs, of_return.alias_info)
        if of_return.alias_info is not None and of_return.alias_info.is_write
        else _each(OnCard, value)
        for of_return, value in zip(
            schema.returns, [result] if is_one else result or [], strict=True
        )
    ]
    return found[0] if is_one else tuple(found)


def _written(schema, args, kwargs, alias):
    for i, argument in enumerate(schema.arguments):
        own = argument.alias_info
        if own is not None and own.before_set & alias.before_set:
            return kwargs[argument.name] if argument.name in kwargs else args[i]
    raise AssertionError(schema)
