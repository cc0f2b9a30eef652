"""PyTorch source, called on tensors over the shared buffers.

A source that uses torch.compile is run once per call at build time, so that the compiler's
cache travels in the artifact and no compilation falls into a measurement.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
import tarfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox.guest.builder import BuildError, Function

if TYPE_CHECKING:
    import torch

_COMPILE_CACHE = Path("/tmp/inductor")
"""The same at build and at call time: the cache's entries name their own paths."""
_UNPACKED = Path("/tmp/candidate")
_WARM_FILE = ".warm_calls.json"
_WARM_CALLS = 3
"""A session makes so many calls of different sizes before its first timed one, so that
torch.compile's sizes are symbolic, and other sizes too are found in its cache."""


class PytorchBuilder:
    def build(self, plan: dict[str, Any], sources: Path, artifact: Path) -> str:
        for path in plan["sources"]:
            if path.endswith(".py"):
                text = (sources / path).read_text()
                try:
                    compile(text, path, "exec")
                except SyntaxError as error:
                    raise BuildError(f"{path}:{error.lineno}: error: {error.msg}") from None
        report, warm_calls = "", []
        if any("torch.compile" in (sources / path).read_text() for path in plan["sources"]):
            report = self._warm_compiler(plan, sources)
            warm_calls = plan["calls"][:_WARM_CALLS]
        (sources / _WARM_FILE).write_text(json.dumps(warm_calls))
        with tarfile.open(artifact, "w") as packed:
            packed.add(sources, "sources")
            if _COMPILE_CACHE.is_dir():
                packed.add(_COMPILE_CACHE, "inductor", filter=_without_headers)
        return report

    def _warm_compiler(self, plan: dict[str, Any], sources: Path) -> str:
        function = _import_entry(plan, sources)
        for call in plan["calls"]:
            _call_on_zeros(function, call)
        return f"compiled for {len(plan['calls'])} calls"

    def prepare(self, plan: dict[str, Any], artifact: Path) -> None:
        """Unpack, and let inductor find out what this processor can do: 1.2 s in each process."""
        with tarfile.open(artifact) as packed:
            packed.extractall(_UNPACKED, filter="data")
        if (_UNPACKED / "inductor").is_dir():
            shutil.copytree(_UNPACKED / "inductor", _COMPILE_CACHE, dirs_exist_ok=True)
        if "torch._inductor" in sys.modules:
            from torch._inductor.cpu_vec_isa import pick_vec_isa

            pick_vec_isa()

    def load(self, plan: dict[str, Any], artifact: Path) -> Function:
        sources = _UNPACKED / "sources"
        function = _import_entry(plan, sources)
        for call in json.loads((sources / _WARM_FILE).read_text()):
            _call_on_zeros(function, call)
        return function

    def bind(
        self, plan: dict[str, Any], function: Function, call: dict[str, Any], tensors: Sequence[Any]
    ) -> Callable[[], None]:
        """`tensors` are torch tensors; a returned result is copied into the outputs."""
        import torch

        count = len(call["inputs"])
        inputs, outputs = list(tensors[:count]), list(tensors[count:])
        specs = call["outputs"]

        def invoke_destination() -> None:
            with torch.no_grad():
                function(*inputs, *outputs)

        def invoke_returning() -> None:
            with torch.no_grad():
                returned: Any = function(*inputs)
                results = returned if isinstance(returned, (tuple, list)) else (returned,)
                for result, output, spec in zip(results, outputs, specs, strict=True):
                    _check_result(result, output, spec["name"])
                    output.copy_(result)

        return invoke_destination if plan["destination_passing_style"] else invoke_returning


def _call_on_zeros(function: Function, call: dict[str, Any]) -> None:
    import torch

    from sandbox.guest.inputs import dtype_of

    inputs = [
        torch.zeros(spec["shape"], dtype=dtype_of(spec["dtype"]))
        if spec["shape"] is not None
        else spec.get("value", 1)
        for spec in call["inputs"]
    ]
    with torch.no_grad():
        function(*inputs)


def _without_headers(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Precompiled headers are of no use at call time, and 100 MB."""
    return None if member.name.endswith(".gch") else member


class ShapeError(Exception):
    """The returned shape is not the declared one."""


class DTypeError(Exception):
    """The returned type or dtype is not the declared one."""


def _check_result(result: Any, output: torch.Tensor, name: str) -> None:
    import torch

    if type(result) is not torch.Tensor:
        raise DTypeError(f"{name} is a {type(result).__name__}, not a torch.Tensor")
    if result.shape != output.shape:
        raise ShapeError(f"{name} has shape {tuple(result.shape)}, not {tuple(output.shape)}")
    if result.dtype != output.dtype:
        raise DTypeError(f"{name} is {result.dtype}, not {output.dtype}")


def _import_entry(plan: dict[str, Any], folder: Path) -> Function:
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(_COMPILE_CACHE)
    warnings.simplefilter("ignore")
    sys.path.insert(0, str(folder))
    path = folder / plan["entry_path"]
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise BuildError(f"{plan['entry_path']}: cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    if not hasattr(module, plan["entry_symbol"]):
        raise BuildError(f"{plan['entry_path']}: no function {plan['entry_symbol']}")
    function: Function = getattr(module, plan["entry_symbol"])
    return function
