"""Modules: compiled models, and the sessions that run them here."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Optional, Union

from . import _native
from ._errors import InputError
from ._options import (
    Model,
    Shapes,
    Size,
    cpus_of,
    dims_of,
    inputs_of,
    model_of,
    names_of,
    path_of,
    paths_of,
    shapes_of,
    specializations_of,
    targets_of,
    tell,
    whole_number,
    word,
)


@dataclass(frozen=True)
class TensorInfo:
    """An input or output of a module."""

    name: str
    #: "f32", "f64", "f16", "bf16", "i8" … "i64", "u8" … "u64", "bool", "string", "i4", "u2", "f8e4m3fn" …
    dtype: str
    #: A size each; where it is only known when the module runs, the expression: ("N", 3, "2*H").
    shape: tuple[Union[int, str], ...]

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype} ({', '.join(map(str, self.shape))})"


@dataclass(frozen=True)
class StepTime:
    """What a step of a module's plan took in one run."""

    step: int
    #: The kernel's function; "" for a copy.
    symbol: str
    #: The ops that the kernel computes: "nn.conv+nn.relu".
    ops: str
    #: The user's ONNX nodes, separated by ", ".
    origin: str
    ms: float
    flops: float
    #: Compulsory memory traffic.
    bytes: float

    def to_dict(self) -> dict[str, Any]:
        """Its figures by their names."""
        return asdict(self)


@dataclass(frozen=True)
class Memory:
    """A session's memory in bytes; what is on a GPU is 0 for other devices."""

    workspace_bytes: int
    weights_bytes: int
    io_bytes: int
    device_workspace_bytes: int
    device_weights_bytes: int
    device_io_bytes: int


class Session:
    """Threads and memory to run a module on this machine.

    A call runs the module once::

        session = gantry.Session(module, threads=2)
        scores = session(image)                  # by place
        scores = session(input=image)            # by name

    Inputs are NumPy arrays, or whatever speaks DLPack and lies in the CPU's memory (PyTorch's tensors, say), of the
    module's dtypes and shapes. What is dense and begins at a multiple of 64 bytes is read where it is; other arrays
    are copied once. ``gantry.empty`` makes NumPy arrays that begin so; PyTorch's tensors do.
    Integers of less than 8 bits are bytes, int8 or uint8; arrays of ml_dtypes are taken too.

    One output is returned as it is, several as a tuple in the order of ``module.outputs``. They are NumPy arrays,
    PyTorch tensors if an input was one; bf16, which NumPy does not have, comes as a ``gantry.Tensor`` to be taken by
    DLPack. Outputs are the session's own memory, not copies: they belong to the caller, outlive the session, and later
    calls write elsewhere.

    Any thread may call it; calls at the same time take turns. While one runs, other threads of Python go on. After a
    fork the child's sessions start threads of their own at their first call.

    Args:
        module: What to run.
        threads: How many; default: one a physical core that this process may use.
        cpus: To pin thread i to the i-th of these CPUs, the first being the calling thread.
        device: "cpu", "cuda" ("cuda:1" is the second GPU) or "cuda-emulated".

    Raises:
        InputError: The module has no code for this machine or device; in a call: arrays that do not fit.
        BoardError: Memory ran out; in a call: a kernel failed.
    """

    def __init__(
        self,
        module: Module,
        *,
        threads: Optional[int] = None,
        cpus: Optional[Iterable[int]] = None,
        device: str = "cpu",
    ) -> None:
        if not isinstance(module, Module):
            raise InputError(f"an object of type {type(module).__name__} is no gantry.Module; gantry.load(…) reads one")
        self.module = module
        pinned = cpus_of(cpus)
        count = 0 if threads is None else whole_number("threads", threads, 1, 1024)
        if 0 < count < len(pinned):
            raise InputError(f"cpus={pinned}: names {len(pinned)} CPUs, but threads={count} leaves some of them without a thread")
        self._native = _native.Session(module._native, count, pinned, word("device", device))
        self._call = self._native.__call__

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Runs the module once; see the class."""
        return self._call(*args, **kwargs)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Runs once with inputs by name; the outputs by name. For names that are no words of Python."""
        outputs = self._call(**inputs_of(inputs))
        if not isinstance(outputs, tuple):
            outputs = (outputs,)
        return {info.name: output for info, output in zip(self.module.outputs, outputs)}

    def time_steps(self, /, *args: Any, **kwargs: Any) -> list[StepTime]:
        """Runs once with a clock around every step, in the plan's order."""
        return [StepTime(**row) for row in self._native.time_steps(*args, **kwargs)]

    def __repr__(self) -> str:
        return f"<gantry.Session of {self.module!r}>"

    @property
    def memory(self) -> Memory:
        """What the session holds for the shapes of its last run."""
        return Memory(**self._native.memory())


class Module:
    """A compiled model: one file with code for one or several targets, weights and memory plan.

    ``gantry.compile`` makes one, ``gantry.load`` reads one. Calling it runs it on this machine, as a Session's call
    does, in a session of its own that is made at the first call::

        module = gantry.compile("resnet18.onnx")
        scores = module(image)
    """

    def __init__(self, native: _native.Module, path: Optional[str] = None) -> None:
        self._native = native
        self._session: Optional[Session] = None
        about = native.describe()
        #: The file; None for one that is only in memory.
        self.path = path
        #: What the model calls itself.
        self.name: str = about["name"]
        #: The targets that it has code for; the best that a machine supports runs there.
        self.targets: tuple[str, ...] = tuple(about["targets"])
        self.inputs: tuple[TensorInfo, ...] = tuple(TensorInfo(*info) for info in about["inputs"])
        self.outputs: tuple[TensorInfo, ...] = tuple(TensorInfo(*info) for info in about["outputs"])
        #: How f32 is multiplied: "fp32", "fp32-split", …; "" where the module does not say.
        self.precision: str = about["precision"]
        #: "speed", "size" or "fast-math"; "" where the module does not say.
        self.optimize: str = about["optimize"]
        #: Which gantry made it.
        self.producer: str = about["producer"]
        #: Bytes of the file.
        self.size: int = about["size"]

    @property
    def target(self) -> str:
        """The first of the targets; of most modules the only one."""
        return self.targets[0]

    @property
    def digest(self) -> str:
        """SHA-256 of the file, hexadecimal."""
        return self._native.digest()

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Runs the module once on this machine; see Session."""
        session = self._session
        if session is None:
            session = self._session = Session(self)
        return session._call(*args, **kwargs)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Runs once with inputs by name; the outputs by name."""
        if self._session is None:
            self._session = Session(self)
        return self._session.run(inputs)

    def session(self, **options: Any) -> Session:
        """``Session(self, …)``."""
        return Session(self, **options)

    def save(self, path: Union[str, os.PathLike[str]], *, force: bool = False) -> None:
        """Writes the module's file; it appears whole or not at all.

        InputError where that fails, or where a file is there already that is no module and ``force`` is not given.
        """
        self._native.save(os.fspath(path), bool(force))
        self.path = os.fspath(path)

    def to_bytes(self) -> bytes:
        """The file's contents."""
        return self._native.to_bytes()

    __bytes__ = to_bytes

    def __reduce__(self) -> Any:
        return _from_bytes, (self.to_bytes(), self.path)

    def __repr__(self) -> str:
        inputs = ", ".join(map(str, self.inputs))
        outputs = ", ".join(map(str, self.outputs))
        return f"<gantry.Module {self.path or self.name} for {', '.join(self.targets)}: {inputs} -> {outputs}>"


def _from_bytes(contents: bytes, path: Optional[str] = None) -> Module:
    return Module(_native.Module.from_buffer(contents, os.fsencode(path or "module")), path)


def compile(
    model: Model,
    *,
    target: Union[str, Iterable[str]] = "native",
    precision: str = "auto",
    opt: int = 3,
    optimize: str = "speed",
    shapes: Optional[Shapes] = None,
    dims: Optional[Mapping[str, Size]] = None,
    specialize: Sequence[Mapping[str, int]] = (),
    output: Union[str, os.PathLike[str], None] = None,
    force: bool = False,
    cache: bool = True,
    verify: bool = False,
    custom_ops: Iterable[Union[str, os.PathLike[str]]] = (),
    keep_inputs: Iterable[str] = (),
    trace: Union[str, os.PathLike[str], None] = None,
) -> Module:
    """Compiles a model, as ``gantry compile`` does.

    Args:
        model: An ONNX file, its bytes, or an ``onnx.ModelProto``. External data of the latter two are looked for in
            the working folder.
        target: A name from ``gantry.targets()``, or several, for a module that runs on each.
        precision: Arithmetic of convolutions and matrix products: "auto" (the fastest within about 1e-5 of fp32),
            "fp32", "fp32-split", "fp32-split3", "bf16", "tf32", "fp16".
        opt: 0 what code needs, 1 + folding and simplification, 2 + fusion, 3 + algorithms, layouts, packed weights.
        optimize: "speed"; "size": weights no larger than the model's; or "fast-math": speed, with arithmetic rearranged as
            if numbers were exact.
        shapes: Fixes inputs' symbolic dimensions: ``{"input": (1, 3, 224, 224)}``; None leaves one open, (1, 8) limits it.
        dims: Fixes symbolic dimensions by their names, or limits them: ``{"batch": 1, "length": (1, 512)}``.
        specialize: Sizes of symbolic dimensions for which the module gets programs of their own beside the one for all
            sizes: ``[{"length": 1}, {"length": 128}]``.
        output: A file to write the module to as well; it is then mapped from there.
        force: Whether ``output`` may replace a file that is no module, and ``trace`` one that is no trace.
        cache: Whether kernels that were compiled before are used, and those compiled now kept.
        verify: Checks the program after every pass.
        custom_ops: Folders and libraries of ops that the model has and gantry has not, as ``--custom-ops`` takes them.
        keep_inputs: Inputs that have a default in the model (an initialiser of their name), which are constants otherwise:
            calls have to give them then.
        trace: A file to write over time what the compiler did, as ``--trace`` does: "compile.pftrace" for ui.perfetto.dev,
            "compile.json" for Chrome's viewer.

    Returns:
        The module. Modules for other machines can be described, saved and run on boards.

    Raises:
        InputError: The model, an option or the output is wrong; all unsupported ops are named at once.
        InternalError: A bug in gantry.

    Other threads of Python go on meanwhile; Ctrl-C ends it between two of its stages. The import's warnings are
    ``GantryWarning``.
    """
    file, contents = model_of(model)
    path = "" if output is None else os.fspath(output)
    native, messages = _native.compile(
        os.fsencode(file),
        contents,
        targets_of(target),
        shapes_of(shapes),
        dims_of(dims),
        specializations_of(specialize),
        word("precision", precision),
        word("optimize", optimize),
        whole_number("opt", opt, 0, 3),
        bool(verify),
        bool(cache),
        os.fsencode(path),
        bool(force),
        paths_of("custom_ops", custom_ops),
        names_of("keep_inputs", keep_inputs),
        path_of("trace", trace) or b"",
    )
    tell(messages)
    return Module(native, path or None)


def load(module: Union[str, os.PathLike[str], bytes, bytearray, memoryview]) -> Module:
    """Reads a module: a file, which is mapped and must not change meanwhile, or the bytes of one, which are copied.

    Raises:
        InputError: It is no module, damaged, or from a newer gantry.
    """
    if isinstance(module, (str, os.PathLike)):
        path = os.fspath(module)
        return Module(_native.Module.open(path), path)
    if isinstance(module, memoryview) and not module.c_contiguous:
        return _from_bytes(module.tobytes())
    if isinstance(module, (bytes, bytearray, memoryview)):
        return _from_bytes(module)  # type: ignore[arg-type]
    raise InputError(f"an object of type {type(module).__name__} is no module: give the path of a .gmod file, or its bytes")


def targets() -> dict[str, str]:
    """What can be compiled for: names, each with what it is. Every CPU name that LLVM knows is one too."""
    return dict(_native.targets())


def empty(shape: Union[int, Iterable[int]], dtype: Any = "float32") -> Any:
    """A NumPy array, not initialised, that begins at a multiple of 64 bytes: calls read it where it is.

    InputError where a size is no whole number, or negative.
    """
    import numpy

    element = numpy.dtype(dtype)
    sizes = [whole_number("shape", size, 0, 2**62) for size in (shape if isinstance(shape, Iterable) else (shape,))]
    count = math.prod(sizes)
    memory = numpy.empty(count * element.itemsize + 63, dtype=numpy.uint8)
    skip = -memory.ctypes.data % 64
    return memory[skip : skip + count * element.itemsize].view(element).reshape(sizes)
