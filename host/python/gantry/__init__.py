"""gantry: compile trained networks (ONNX) for the machine that will run them, run them, measure them.

::

    import gantry

    module = gantry.compile("resnet18.onnx")           # or load("resnet18.gmod")
    scores = module(image)                             # NumPy arrays, PyTorch tensors: without copies
    print(gantry.Board("pi").bench("resnet18.onnx"))   # compiled for exactly that board, timed there

docs/python.md is the guide; every function and class here says its arguments and errors. ``gantry.te`` has tensor
expressions and schedules.
"""

import os as _os
import sys as _sys

from . import _native, te
from ._board import Board, BoardInfo, RunResult, boards
from ._errors import BoardError, Error, GantryWarning, InputError, InternalError
from ._measure import BenchResult, Comparison, KernelTime, Process, bench, compare
from ._module import Memory, Module, Session, StepTime, TensorInfo, compile, empty, load, targets
from ._native import Tensor
from ._report import report

__version__: str = _native.version()

# gantry-device comes with the package.
_native.use_own_folder(_os.path.join(_os.path.dirname(_os.path.abspath(__file__)), "bin"))
# What gantry starts of itself is Python with this package. Without a known interpreter (embedded), nothing can be.
if _sys.executable:
    _native.use_own_command([_os.fsencode(word) for word in (_sys.executable, "-m", "gantry")])

__all__ = [
    "BenchResult",
    "Board",
    "BoardError",
    "BoardInfo",
    "Comparison",
    "Error",
    "GantryWarning",
    "InputError",
    "InternalError",
    "KernelTime",
    "Memory",
    "Module",
    "Process",
    "RunResult",
    "Session",
    "StepTime",
    "Tensor",
    "TensorInfo",
    "bench",
    "boards",
    "compare",
    "compile",
    "empty",
    "load",
    "report",
    "targets",
    "te",
]
