"""PyTorch candidates that must not pass, with the status each must get."""

from __future__ import annotations

from problems.evaluation import Status
from scheduler.job import Stage

PYTORCH_CHEATS: dict[str, tuple[Stage, Status, str]] = {
    "syntax_error": (Stage.CHECK, Status.COMPILE_ERROR, "def run(x, bias, scale:\n    return x\n"),
    "has_no_entry_point": (Stage.CHECK, Status.COMPILE_ERROR, "def walk():\n    return 1\n"),
    "raises": (
        Stage.CHECK,
        Status.RUNTIME_ERROR,
        "def run(x, bias, scale):\n    raise ValueError('no')\n",
    ),
    "returns_another_shape": (
        Stage.CHECK,
        Status.INCORRECT_SHAPE,
        "def run(x, bias, scale):\n    return (x * scale + bias)[:1]\n",
    ),
    "returns_another_dtype": (
        Stage.CHECK,
        Status.INCORRECT_DTYPE,
        "def run(x, bias, scale):\n    return (x * scale + bias).double()\n",
    ),
    "t03_lazy_subclass": (
        Stage.CHECK,
        Status.INCORRECT_DTYPE,
        "import torch\nclass Lazy(torch.Tensor):\n    pass\n"
        "def run(x, bias, scale):\n    return (x * scale + bias).as_subclass(Lazy)\n",
    ),
    "t05_duck_typed": (
        Stage.CHECK,
        Status.INCORRECT_DTYPE,
        "class Duck:\n    shape = (1,)\n    @classmethod\n"
        "    def __torch_function__(cls, *a, **k):\n        return True\n"
        "def run(x, bias, scale):\n    return Duck()\n",
    ),
    "n01_uninitialised_memory": (
        Stage.CHECK,
        Status.INCORRECT_NUMERICAL,
        "import torch\ndef run(x, bias, scale):\n    return torch.empty_like(x)\n",
    ),
    "x08_patched_comparator": (
        Stage.CHECK,
        Status.INCORRECT_NUMERICAL,
        "import torch\ntorch.allclose = lambda *a, **k: True\n"
        "torch.equal = lambda *a, **k: True\n"
        "def run(x, bias, scale):\n    return torch.zeros_like(x)\n",
    ),
    "x12_reads_the_seed": (
        Stage.CHECK,
        Status.INCORRECT_NUMERICAL,
        "import os, torch\ndef run(x, bias, scale):\n"
        "    torch.manual_seed(torch.initial_seed())\n"
        "    environ = open(f'/proc/{os.getppid()}/environ', 'rb').read()\n"
        "    assert b'SEED' not in environ\n"
        "    return torch.randn_like(x) * scale + bias\n",
    ),
    "x17_looks_for_the_reference": (
        Stage.CHECK,
        Status.RUNTIME_ERROR,
        "import os\ndef run(x, bias, scale):\n    found = [os.path.join(d, f) for d in ('/work',"
        " '/tmp', '/out') for d, _, fs in os.walk(d) for f in fs]\n"
        "    hits = [f for f in found if 'reference' in f]\n"
        "    raise RuntimeError(f'found {hits}')\n",
    ),
    "t06_patched_clock": (
        Stage.SCREEN,
        Status.PASSED,
        "import time\nfrom sandbox.guest import worker\n"
        "time.perf_counter = lambda: 0.0\ntime.monotonic = lambda: 0.0\n"
        "def run(x, bias, scale):\n"
        "    for _ in range(300):\n        y = x * scale + bias\n    return y\n",
    ),
    "t07_answers_from_its_own_shim": (
        Stage.SCREEN,
        Status.REWARD_HACK,
        "from sandbox.guest import worker\n"
        "def lie(session, link):\n"
        "    while link.recv(1)[0] != worker.LEAVE:\n        link.sendall(b'k')\n"
        "calls = 0\n"
        "def run(x, bias, scale):\n"
        "    global calls\n    calls += 1\n"
        "    if calls > 3:\n        worker._run_when_told = lie\n"
        "    return x * scale + bias\n",
    ),
}
"""A patched clock is harmless: the candidate passes, with its honest and slow time."""
