"""Arguments of Python as the options of gantry's commands."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, Protocol, Union

from ._errors import GantryWarning, InputError

if TYPE_CHECKING:
    from ._module import Module


class _Serializable(Protocol):
    def SerializeToString(self) -> bytes: ...


#: A model: a file, the bytes of one, or an ``onnx.ModelProto``.
Model = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, _Serializable]
#: A size of a dimension, or the lowest and the highest that it may have.
Size = Union[int, tuple[int, int]]
#: Dimensions of inputs, by name; None, -1 and "?" leave one open.
Shapes = Mapping[str, Union[str, Sequence[Union[Size, str, None]]]]

#: What models that are no files are called in messages and reports.
IN_MEMORY = "model"

_logger = logging.getLogger("gantry")


def tell(messages: Iterable[tuple[str, bool]], stacklevel: int = 3) -> None:
    """Warnings become GantryWarning, notes go to the logger "gantry"."""
    for message, is_warning in messages:
        if is_warning:
            warnings.warn(message, GantryWarning, stacklevel=stacklevel)
        else:
            _logger.info(message)


def model_of(model: Model) -> tuple[str, Optional[bytes]]:
    """The file of a model and None, or what to call it and its bytes."""
    if isinstance(model, (str, os.PathLike)):
        return os.fspath(model), None
    if isinstance(model, (bytes, bytearray, memoryview)):
        return IN_MEMORY, bytes(model)
    if hasattr(model, "SerializeToString"):
        return IN_MEMORY, model.SerializeToString()
    raise InputError(
        f"an object of type {type(model).__name__} is no model: give the path of an .onnx file, its bytes, or an onnx.ModelProto"
    )


def whole_number(name: str, value: Any, least: int, most: int) -> int:
    """``value`` as an int, if it is one within the bounds."""
    try:
        number = value.__index__()
    except AttributeError:
        number = least - 1
    if isinstance(value, bool) or not least <= number <= most:
        raise InputError(f"{name}={value!r}: is not a whole number from {least} to {most}")
    return int(number)


def positive(name: str, value: Any, most: float = float("inf")) -> float:
    """``value`` as a float, if it is above 0 and at most ``most``."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = 0.0
    if not 0 < number <= most:
        bound = "" if most == float("inf") else f" and at most {most:g}"
        raise InputError(f"{name}={value!r}: is not a number above 0{bound}")
    return number


def _limits(name: str, size: Any) -> Union[int, tuple[int, int]]:
    if not isinstance(size, (tuple, list)):
        return whole_number(name, size, 0, 2**62)
    if len(size) != 2:
        raise InputError(f"{name}={size!r}: is no range of sizes, which is (lowest, highest)")
    low = whole_number(name, size[0], 0, 2**62)
    return low, whole_number(name, size[1], low, 2**62)


def _size(name: str, size: Union[Size, str, None]) -> Union[int, tuple[int, int]]:
    if size is None or size in (-1, "?"):
        return -1
    if isinstance(size, str):
        low, dots, high = size.partition("..")
        size = (_number(low), _number(high) if high else 2**62) if dots else _number(low)
    return _limits(f"shapes[{name!r}]", size)


def _number(text: str) -> Union[int, str]:
    return int(text) if text.isdigit() else text


def shapes_of(shapes: Optional[Shapes]) -> dict[str, list[Union[int, tuple[int, int]]]]:
    """Shapes as gantry takes them: -1 where a dimension is left open. Texts are read as --shape's are."""
    if shapes is None:
        return {}
    if not isinstance(shapes, Mapping):
        raise InputError('shapes: is not a dict of shapes by inputs, such as {"input": (1, 3, 224, 224)}')
    result = {}
    for name, shape in shapes.items():
        sizes = shape.replace(",", "x").split("x") if isinstance(shape, str) else list(shape)
        result[name] = [_size(name, size) for size in sizes]
    return result


def dims_of(dims: Optional[Mapping[str, Size]]) -> dict[str, Union[int, tuple[int, int]]]:
    """Sizes and ranges of symbolic dimensions, by their names."""
    return {name: _limits(f"dims[{name!r}]", size) for name, size in (dims or {}).items()}


def cpus_of(cpus: Optional[Iterable[int]]) -> list[int]:
    """CPUs to pin threads to."""
    return [whole_number("cpus", cpu, 0, 2**20) for cpu in cpus or ()]


def paths_of(name: str, paths: Iterable[Union[str, "os.PathLike[str]"]]) -> list[str]:
    """Files and folders as gantry takes them."""
    if isinstance(paths, (str, bytes, os.PathLike)):
        raise InputError(f"{name}: is no list of paths; write [{paths!r}]")
    return [os.fspath(path) for path in paths]


def run_request(
    model: Union[Module, Model],
    *,
    board: str = "",
    key: str = "",
    device: Optional[str] = None,
    threads: Optional[int] = None,
    cpus: Optional[Iterable[int]] = None,
    precision: Optional[str] = None,
    optimize: Optional[str] = None,
    opt: Optional[int] = None,
    shapes: Optional[Shapes] = None,
    dims: Optional[Mapping[str, Size]] = None,
    inputs: Optional[Mapping[str, Any]] = None,
    seed: Optional[int] = None,
    gpu_arch: Optional[str] = None,
    gpu_checks: Optional[bool] = None,
    cache: bool = True,
    custom_ops: Iterable[Union[str, "os.PathLike[str]"]] = (),
) -> dict[str, Any]:
    """The model and how it is run, as _native takes them; what is None stays away."""
    from ._module import Module

    request: dict[str, Any] = {"board": board, "key": key, "no_cache": not cache}
    if isinstance(model, Module):
        request.update(file=model.path or model.name or IN_MEMORY, module=model._native)
    else:
        file, contents = model_of(model)
        request["file"] = file
        if contents is not None:
            request["contents"] = contents
    request.update(
        device=device,
        threads=None if threads is None else whole_number("threads", threads, 1, 1024),
        cpus=cpus_of(cpus) or None,
        precision=precision,
        optimize=optimize,
        opt=None if opt is None else whole_number("opt", opt, 0, 3),
        shapes=shapes_of(shapes),
        dims=dims_of(dims),
        seed=None if seed is None else whole_number("seed", seed, 0, 2**64 - 1),
        gpu_arch=gpu_arch,
        gpu_checks=gpu_checks,
        custom_ops=paths_of("custom_ops", custom_ops) or None,
    )
    if inputs:
        request["tensors"] = dict(inputs)
    return {name: value for name, value in request.items() if value is not None}


def measure_request(
    *,
    duration: float = 20.0,
    precision_goal: float = 0.01,
    processes: Optional[int] = None,
    warmup: Optional[int] = None,
    repeat: Optional[int] = None,
    number: Optional[int] = None,
    min_repeat_ms: float = 0.0,
    cooldown_ms: float = 0.0,
    cold: bool = False,
    profile: bool = False,
    streams: Optional[int] = None,
) -> dict[str, Any]:
    """How to measure, as _native takes it."""
    if streams is not None and (repeat or number or min_repeat_ms or cooldown_ms or cold):
        raise InputError("streams: says nothing of single runs; leave out repeat, number, min_repeat_ms, cooldown_ms, cold")

    def count(name: str, value: Optional[int], least: int, most: int = 1_000_000) -> Optional[int]:
        return None if value is None else whole_number(name, value, least, most)

    return {
        "duration_s": positive("duration", duration, 7 * 86400),
        "precision_goal": positive("precision_goal", precision_goal, 1),
        "processes": count("processes", processes, 1, 1000),
        "warmup": count("warmup", warmup, 0),
        "repeat": count("repeat", repeat, 1),
        "number": count("number", number, 1),
        "min_repeat_ms": positive("min_repeat_ms", min_repeat_ms, 3.6e6) if min_repeat_ms else 0.0,
        "cooldown_ms": positive("cooldown_ms", cooldown_ms, 3.6e6) if cooldown_ms else 0.0,
        "cold": bool(cold),
        "profile": bool(profile),
        "streams": count("streams", streams, 1, 1024) or 0,
    }
