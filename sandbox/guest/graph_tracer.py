"""Trace a reference on meta tensors into a functional graph of canonical aten operators.

Nothing is computed: a reference whose Python looks at a tensor's values cannot be traced.
Mutations of its own tensors are rewritten without them (`torch.func.functionalize`); mutating an
input is an error. Copies and conversions that change no value are left out, dimensions are given
from the front, and tensors that the reference makes itself from Python values are nodes
`constant`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from sandbox.guest.decompositions import attention, causal_share, decomposition_of
from sandbox.guest.graph import Graph, Node, literal_of
from sandbox.guest.operation_counts import arithmetic_of
from sandbox.guest.reference_errors import UnfitReferenceError

aten = torch.ops.aten

_SAME_VALUE = {aten.detach, aten.alias, aten.lift_fresh, aten.lift_fresh_copy, aten.clone,
               aten.lift, aten.contiguous}  # fmt: skip
_UNNAMED = {
    "device", "layout", "pin_memory", "memory_format", "non_blocking", "generator", "alpha",
    "sparse_grad", "copy", "implicit",
}  # fmt: skip
"""Arguments that change no value; `alpha` became a multiplication."""
_AXIS_NAMES = {"dim", "dim0", "dim1", "dims"}
_MAX_CONSTANT_VALUES = 64


class UntraceableError(UnfitReferenceError):
    """The reference cannot be traced; the message is one line."""


def trace(run: Callable[..., Any], names: Sequence[str], inputs: Sequence[Any]) -> Graph:
    """The graph of `run(*inputs)`, inputs first; tensors among `inputs` are meta tensors.

    Raises:
        UntraceableError: it mutates an input, or returns what is no tensor.
    """
    mode = _GraphMode()
    for name, value in zip(names, inputs, strict=True):
        mode.add_input(name, value)
    functional = torch.func.functionalize(lambda *values: _as_tuple(run(*values)))
    with torch.no_grad(), mode, MetaDevice(mode.attention):
        results = functional(*inputs)
    mode.graph.outputs = [mode.id_of(result) for result in results]
    mode.graph.prune()
    return mode.graph


def _as_tuple(result: Any) -> tuple[torch.Tensor, ...]:
    items = tuple(result) if isinstance(result, (tuple, list)) else (result,)
    for item in items:
        if not isinstance(item, torch.Tensor):
            raise UntraceableError(f"it returns a {type(item).__name__}, not a tensor")
    return items


class MetaDevice(TorchFunctionMode):
    """Whatever device the reference names, tensors are meta tensors; and the attention call."""

    def __init__(self, attend: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self._attend = attend

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.nn.functional.scaled_dot_product_attention:
            return self._attend(*args, **kwargs)
        if func in (torch.Tensor.cuda, torch.Tensor.cpu):
            return args[0]
        if func is torch.Tensor.to:
            args = tuple("meta" if _is_device(a) else a for a in args)
        if func is torch.tensor or func is torch.as_tensor:
            kwargs.pop("device", None)
        elif "device" in kwargs or func in _device_constructors():
            kwargs["device"] = "meta"
        return func(*args, **kwargs)


def _is_device(value: Any) -> bool:
    return isinstance(value, (str, torch.device))


class _GraphMode(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.graph = Graph()
        self._known: dict[int, tuple[torch.Tensor, int]] = {}
        self._inputs: dict[int, str] = {}
        self._constants: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._share = 1.0

    def add_input(self, name: str, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            self._inputs[id(value)] = name
            self._add(Node(0, f"input:{name}", [], {}, value))
        else:
            scalar = torch.empty((), dtype=torch.tensor(value).dtype, device="meta")
            self._add(Node(0, f"input:{name}", [], {"value": literal_of(value)}, scalar))

    def id_of(self, tensor: torch.Tensor) -> int:
        if id(tensor) not in self._known:
            tensor = self._constant(tensor)
        return self._known[id(tensor)][1]

    def attention(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Of a causal one, only the half that the mask leaves counts as operations."""
        causal = kwargs.get("is_causal", args[5] if len(args) > 5 else False)
        share = causal_share(args[0].shape[-2], args[1].shape[-2]) if causal else 1.0
        with self._counting(share):
            return attention(*args, **kwargs)

    @contextmanager
    def _counting(self, share: float) -> Iterator[None]:
        before, self._share = self._share, share
        try:
            yield
        finally:
            self._share = before

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        args = tree_map(self._on_meta, args)
        kwargs = tree_map(self._on_meta, dict(kwargs or {}))
        if "device" in kwargs:
            kwargs["device"] = torch.device("meta")
        if func._schema.is_mutable:
            return self._mutate(func, args, kwargs)
        if self._changes_nothing(func, args, kwargs):
            return self._as(args[0], func(*args, **kwargs))
        simpler = decomposition_of(func)
        if simpler is None and func._can_decompose():
            simpler = func.decompose
        if simpler is not None:
            with self:
                result = simpler(*args, **kwargs)
            if result is not NotImplemented:
                return result
        return self._record(func, args, kwargs)

    def _mutate(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """`add_(x, y)` within an operator's own code: the name x now means `add(x, y)`."""
        target = args[0]
        if isinstance(target, torch.Tensor) and id(target) in self._inputs:
            raise UntraceableError(f"it mutates its input {self._inputs[id(target)]}")
        name = func.overloadpacket.__name__
        packet = getattr(aten, name.removesuffix("_"), None)
        if not name.endswith("_") or packet is None:
            raise UntraceableError(f"{func} is not supported")
        with self:
            result = getattr(packet, func._overloadname)(*args, **kwargs)
        return self._as(result, target)

    def _changes_nothing(self, func: Any, args: Any, kwargs: dict[str, Any]) -> bool:
        packet = func.overloadpacket
        if packet in _SAME_VALUE:
            return True
        if packet is aten._to_copy:
            return kwargs.get("dtype") in (None, args[0].dtype)
        if packet in (aten.expand, aten.view) or func is aten.slice.Tensor:
            return bool(func(*args, **kwargs).shape == args[0].shape)
        return False

    def _as(self, known: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
        self._known[id(tensor)] = (tensor, self.id_of(known))
        return tensor

    def _on_meta(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.device.type != "meta":
            return self._constant(value)
        return value

    def _constant(self, tensor: torch.Tensor) -> torch.Tensor:
        """A meta tensor for one that the reference made from Python values."""
        if id(tensor) not in self._constants:
            attributes = {}
            if tensor.device.type != "meta" and tensor.numel() <= _MAX_CONSTANT_VALUES:
                attributes["value"] = literal_of(tensor.tolist())
            twin = torch.empty_like(tensor, device="meta")
            self._constants[id(tensor)] = (tensor, twin)
            self._add(Node(0, "constant", [], attributes, twin))
        return self._constants[id(tensor)][1]

    def _record(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        result = func(*args, **kwargs)
        outputs = [result] if isinstance(result, torch.Tensor) else list(result)
        inputs, attributes = self._arguments(func, args, kwargs)
        node = Node(0, str(func), inputs, attributes, outputs[0])
        operations, matrix = arithmetic_of(func, args, kwargs, result)
        node.operations = int(operations * self._share)
        node.matrix_operations = int(matrix * self._share)
        node.full_matrix_operations = matrix
        self._add(node)
        if not isinstance(result, torch.Tensor):
            for index, output in enumerate(outputs):
                if isinstance(output, torch.Tensor):
                    self._add(Node(0, "getitem", [node.id], {"index": str(index)}, output))
        return result

    def _add(self, node: Node) -> None:
        node.id = len(self.graph.nodes)
        self.graph.nodes.append(node)
        self._known[id(node.output)] = (node.output, node.id)

    def _arguments(
        self, func: Any, args: Any, kwargs: dict[str, Any]
    ) -> tuple[list[int], dict[str, str]]:
        inputs: list[int] = []
        attributes: dict[str, str] = {}
        schema = func._schema.arguments
        given = {a.name: value for a, value in zip(schema, args, strict=False)} | kwargs
        rank = _rank_for_axes(func, given)
        for argument in schema:
            value = given.get(argument.name, argument.default_value)
            if isinstance(value, torch.Tensor):
                inputs.append(self.id_of(value))
                continue
            if isinstance(value, (list, tuple)) and any(
                isinstance(item, torch.Tensor) for item in value
            ):
                inputs += [self.id_of(t) for t in value if isinstance(t, torch.Tensor)]
                if any(item is None for item in value):
                    places = [None if item is None else "tensor" for item in value]
                    attributes[argument.name] = repr(places)
                continue
            if value is None or argument.name in _UNNAMED:
                continue
            if argument.name in _AXIS_NAMES:
                value = _from_the_front(value, rank)
            if func is aten.slice.Tensor and argument.name == "end":
                value = min(value, args[0].shape[given.get("dim", 0)])
            attributes[argument.name] = literal_of(value)
        return inputs, attributes


def _rank_for_axes(func: Any, given: dict[str, Any]) -> int:
    first = next(iter(given.values()), None)
    if isinstance(first, (list, tuple)) and first:
        first = first[0]
    rank = first.dim() if isinstance(first, torch.Tensor) else 0
    return rank + 1 if func.overloadpacket is aten.unsqueeze else rank


def _from_the_front(value: Any, rank: int) -> Any:
    if isinstance(value, (list, tuple)):
        return [_from_the_front(item, rank) for item in value]
    return value % rank if isinstance(value, int) and rank else value
