"""Arguments of Python as the options of gantry's commands."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Optional, Protocol, TypedDict, Union

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



class ModelOptions(TypedDict, total=False):
    """How a model is compiled and run, in the calls that do both; ``gantry.bench`` says what each means."""

    device: str
    threads: Optional[int]
    cpus: Optional[Iterable[int]]
    precision: Optional[str]
    optimize: Optional[str]
    opt: Optional[int]
    shapes: Optional[Shapes]
    dims: Optional[Mapping[str, Size]]
    seed: Optional[int]
    gpu_arch: Optional[str]
    gpu_checks: Optional[bool]
    cache: bool
    custom_ops: Iterable[Union[str, "os.PathLike[str]"]]
    keep_inputs: Iterable[str]


class RunOptions(ModelOptions, total=False):
    """The same with the data."""

    inputs: Optional[Mapping[str, Any]]


class BenchOptions(RunOptions, total=False):
    """The same with how it is measured."""

    duration: float
    precision_goal: float
    processes: Optional[int]
    warmup: Optional[int]
    repeat: Optional[int]
    number: Optional[int]
    min_repeat_ms: float
    cooldown_ms: float
    cold: bool
    profile: bool
    streams: Optional[int]
    trace: Union[str, "os.PathLike[str]", None]


def check_names(function: str, options: Mapping[str, Any], known: Collection[str]) -> None:
    """TypeError for an option that the function has not, with the nearest that it has."""
    for name in options:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{hint}")


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


def raw(name: Any) -> bytes:
    """A name, of an input say, as gantry takes it: its bytes. Those that are no UTF-8 are in a str as the os module has them."""
    try:
        return str(name).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise InputError(f"{name!r}: is no name: it has half a character") from error


def word(name: str, value: Any) -> str:
    """``value``, if it is a text."""
    if not isinstance(value, str):
        raise InputError(f"{name}={value!r}: is no text")
    return value


def mapping(name: str, value: Any, what: str) -> Mapping[str, Any]:
    """``value``, if it is a dict or like one; ``what`` says of what, with an example."""
    if not isinstance(value, Mapping):
        raise InputError(f"{name}: is of type {type(value).__name__}, not a dict of {what}")
    return value


def inputs_of(value: Any) -> Mapping[str, Any]:
    """Arrays by inputs' names."""
    return mapping("inputs", value, 'arrays by inputs, such as {"input": array}')


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
    return _limits(f"shapes[{name!r}]", _sizes_of_text(size) if isinstance(size, str) else size)


def _sizes_of_text(text: str) -> Any:
    """What "8", "1..8" and "1.." stand for; _limits refuses what is none of these."""
    low, dots, high = text.partition("..")
    return (_number(low), _number(high) if high else 2**62) if dots else _number(low)


def _number(text: str) -> Union[int, str]:
    return int(text) if text.isdigit() else text


def shapes_of(shapes: Optional[Shapes]) -> dict[bytes, list[Union[int, tuple[int, int]]]]:
    """Shapes as gantry takes them: -1 where a dimension is left open. Texts are read as --shape's are."""
    if shapes is None:
        return {}
    result = {}
    for name, shape in mapping("shapes", shapes, 'shapes by inputs, such as {"input": (1, 3, 224, 224)}').items():
        if not isinstance(shape, (str, Iterable)):
            raise InputError(f"shapes[{name!r}]={shape!r}: is no shape, such as (1, 3, 224, 224)")
        sizes = shape.replace(",", "x").split("x") if isinstance(shape, str) else list(shape)
        result[raw(name)] = [_size(name, size) for size in sizes]
    return result


def dims_of(dims: Optional[Mapping[str, Size]]) -> dict[bytes, Union[int, tuple[int, int]]]:
    """Sizes and ranges of symbolic dimensions, by their names."""
    given = mapping("dims", {} if dims is None else dims, 'sizes by dimensions, such as {"batch": 1}')
    return {raw(name): _limits(f"dims[{name!r}]", size) for name, size in given.items()}


def specializations_of(specialize: Sequence[Mapping[str, int]]) -> list[dict[bytes, int]]:
    """Sizes of symbolic dimensions, by their names, of each specialised program."""
    if isinstance(specialize, (str, Mapping)) or not isinstance(specialize, Iterable):
        raise InputError('specialize: is no list of dicts, such as [{"length": 1}, {"length": 128}]')
    return [
        {
            raw(name): whole_number(f"specialize: {name!r}", size, 0, 2**62)
            for name, size in mapping("specialize", sizes, 'sizes by dimensions, such as {"length": 1}').items()
        }
        for sizes in specialize
    ]


def targets_of(target: Union[str, Iterable[str]]) -> list[str]:
    """A target, or several."""
    if isinstance(target, str):
        return [target]
    if not isinstance(target, Iterable):
        raise InputError(f"target={target!r}: is neither a target's name nor a list of them; gantry.targets() has the usual ones")
    targets = [word("target", name) for name in target]
    if not targets:
        raise InputError("target: the list names none; gantry.targets() has the usual ones")
    return targets


def cpus_of(cpus: Optional[Iterable[int]]) -> list[int]:
    """CPUs to pin threads to."""
    if cpus is None:
        return []
    if isinstance(cpus, str) or not isinstance(cpus, Iterable):
        raise InputError(f"cpus={cpus!r}: is no list of CPUs, such as [0, 1]")
    return [whole_number("cpus", cpu, 0, 2**20) for cpu in cpus]


def names_of(name: str, names: Iterable[str]) -> list[bytes]:
    """Names as gantry takes them."""
    if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
        raise InputError(f"{name}: is no list of names; write [{names!r}]")
    return [raw(each) for each in names]


def paths_of(name: str, paths: Iterable[Union[str, "os.PathLike[str]"]]) -> list[bytes]:
    """Files and folders as gantry takes them."""
    if isinstance(paths, (str, bytes, os.PathLike)) or not isinstance(paths, Iterable):
        raise InputError(f"{name}: is no list of paths; write [{paths!r}]")
    return [os.fsencode(path) for path in paths]


def path_of(name: str, path: Union[str, "os.PathLike[str]", None]) -> Optional[bytes]:
    """A file as gantry takes it; None: none is asked for."""
    if path is None:
        return None
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
        raise InputError(f"{name}={path!r}: is no path of a file")
    return os.fsencode(path)


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
    keep_inputs: Iterable[str] = (),
    trace: Union[str, "os.PathLike[str]", None] = None,
) -> dict[str, Any]:
    """The model and how it is run, as _native takes them; what is None stays away."""
    from ._module import Module

    request: dict[str, Any] = {"board": board, "key": os.fsencode(key), "no_cache": not cache}
    if isinstance(model, Module):
        file_name = os.fsencode(model.path) if model.path else raw(model.name or IN_MEMORY)
        request.update(file=file_name, module=model._native)
    else:
        file, contents = model_of(model)
        request["file"] = os.fsencode(file)
        if contents is not None:
            request["contents"] = contents
    request.update(
        device=None if device is None else word("device", device),
        threads=None if threads is None else whole_number("threads", threads, 1, 1024),
        cpus=cpus_of(cpus) or None,
        precision=None if precision is None else word("precision", precision),
        optimize=None if optimize is None else word("optimize", optimize),
        opt=None if opt is None else whole_number("opt", opt, 0, 3),
        shapes=shapes_of(shapes),
        dims=dims_of(dims),
        seed=None if seed is None else whole_number("seed", seed, 0, 2**64 - 1),
        gpu_arch=None if gpu_arch is None else word("gpu_arch", gpu_arch),
        gpu_checks=None if gpu_checks is None else bool(gpu_checks),
        custom_ops=paths_of("custom_ops", custom_ops) or None,
        keep_inputs=names_of("keep_inputs", keep_inputs) or None,
        trace=path_of("trace", trace),
    )
    if inputs is not None:
        request["tensors"] = dict(inputs_of(inputs))
    return {name: value for name, value in request.items() if value is not None}


def measure_request(
    *,
    duration: float = 60.0,
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
