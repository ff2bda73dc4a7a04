"""Measuring: what `gantry bench`, `gantry profile` and `gantry compare` do, with results as objects."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _native
from ._errors import InputError
from ._module import Module
from ._options import (
    BenchOptions,
    Model,
    RunOptions,
    check_names,
    mapping,
    measure_request,
    positive,
    raw,
    run_request,
    tell,
    whole_number,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack


def _frame(rows: list[dict[str, Any]]) -> Any:
    try:
        import pandas  # type: ignore[import-untyped,unused-ignore]
    except ImportError as error:
        raise InputError("to_frame needs pandas (pip install pandas); rows() has the same as dicts") from error
    return pandas.DataFrame(rows)


def _read(path: Union[str, os.PathLike[str]], schema: str, command: str) -> dict[str, Any]:
    name = os.fspath(path)
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{name}: is not JSON: {error}") from error
    if not isinstance(document, dict) or document.get("schema") != schema:
        raise InputError(f"{name}: is no result of `{command}`")
    return document


def _pair(interval: Any) -> Optional[tuple[float, float]]:
    return None if interval is None else (interval[0], interval[1])


def _known(value: float, unit: str, interval: Optional[tuple[float, float]]) -> str:
    """ "6.7 ms, 95 % confidence 6.6 to 6.8"; an interval wider than the value says nothing, and its figures would puzzle."""
    if interval is None:
        return f"{value:.4g} {unit}"
    vague = interval[1] - interval[0] > 2 * value
    return f"{value:.4g} {unit}, 95 % confidence " + (
        "no better than ±100 %" if vague else f"{interval[0]:.4g} to {interval[1]:.4g}"
    )


@dataclass(frozen=True)
class _Document:
    """What has a document of its own."""

    #: The whole document, as ``json.loads`` gives it.
    document: Mapping[str, Any] = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """The whole document."""
        return dict(self.document)

    def save(self, path: Union[str, os.PathLike[str]], *, force: bool = False) -> None:
        """Writes the document as JSON. InputError where that fails, or where a file is there already that is no such
        document and ``force`` is not given."""
        text = json.dumps(self.document, indent=2, ensure_ascii=False) + "\n"
        _native.write_document(os.fsencode(path), text, str(self.document.get("schema", "")), bool(force))


@dataclass(frozen=True)
class KernelTime(_Document):
    """What a step of the plan took in one run; all that is known of it is in ``to_dict()``."""

    #: The ops that the kernel computes: "nn.conv[winograd4]+nn.relu".
    name: str
    #: The user's ONNX nodes.
    nodes: tuple[str, ...]
    ms: float
    #: Of all kernels' time.
    share: float


@dataclass(frozen=True)
class Process:
    """One process that loaded the module, warmed up and ran it."""

    load_ms: Optional[float]
    first_inference_ms: float
    median_ms: float
    samples_ms: tuple[float, ...] = field(repr=False)


@dataclass(frozen=True)
class BenchResult(_Document):
    """What ``bench`` measured: the document of `gantry bench --json` (docs/bench-schema.md), and what most ask for as
    attributes. Times of a run in milliseconds; None is what was not measured or is not known.
    """

    model: str
    #: The code that ran: "x86-64-v4".
    target: str
    #: As it was asked for; "local" for this machine.
    board: str
    device: str
    threads: int
    precision: Optional[str]
    #: Over processes, with its 95 % confidence interval.
    median_ms: float
    interval_ms: Optional[tuple[float, float]]
    min_ms: float
    mean_ms: float
    p90_ms: Optional[float]
    p99_ms: Optional[float]
    stddev_ms: Optional[float]
    #: One run after another; with ``streams=``, of all streams together, with its 95 % confidence interval.
    runs_per_second: float
    runs_per_second_interval: Optional[tuple[float, float]]
    #: Medians over processes of what happens once in each.
    load_ms: Optional[float]
    first_inference_ms: float
    #: "workspace_bytes", "weights_bytes", "io_bytes", "peak_resident_bytes", …
    memory: Mapping[str, Optional[int]] = field(repr=False)
    processes: tuple[Process, ...] = field(repr=False)
    #: Worst first, by ``ms``; empty without ``profile=True``.
    kernels: tuple[KernelTime, ...] = field(repr=False)
    #: What the figures should be taken with care for.
    warnings: tuple[str, ...]

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> BenchResult:
        """Of a document of `gantry bench --json`."""
        simple = (
            "model target board device threads precision median_ms min_ms mean_ms p90_ms p99_ms stddev_ms "
            "runs_per_second load_ms first_inference_ms memory"
        ).split()
        values: dict[str, Any] = {name: document.get(name) for name in simple}
        values["board"] = document["board"]["name"]
        return cls(
            document=document,
            interval_ms=_pair(document.get("interval_ms")),
            runs_per_second_interval=_pair(document.get("runs_per_second_interval")),
            processes=tuple(
                Process(p.get("load_ms"), p["first_inference_ms"], p["median_ms"], tuple(p["samples_ms"]))
                for p in document["processes"]
            ),
            kernels=tuple(
                KernelTime(k, k["name"], tuple(k["nodes"]), k["total_ms"], k["share"])
                for k in document.get("kernels") or ()
            ),
            warnings=tuple(document.get("warnings", ())),
            **values,
        )

    @classmethod
    def load(cls, path: Union[str, os.PathLike[str]]) -> BenchResult:
        """Reads what ``save`` or `gantry bench --json` wrote. InputError where it is something else."""
        document = _read(path, "gantry-bench", "gantry bench --json")
        try:
            return cls.from_dict(document)
        except (KeyError, TypeError, IndexError, AttributeError) as error:
            missing = f"it has no field {error}" if isinstance(error, KeyError) else str(error)
            raise InputError(f"{os.fspath(path)}: is damaged: {missing}") from error

    def rows(self) -> list[dict[str, Any]]:
        """A dict a sample, for tables: model, target, board, process, sample, ms."""
        return [
            {"model": self.model, "target": self.target, "board": self.board, "process": p, "sample": s, "ms": ms}
            for p, process in enumerate(self.processes)
            for s, ms in enumerate(process.samples_ms)
        ]

    def kernel_rows(self) -> list[dict[str, Any]]:
        """A dict a kernel: all that the document says of it, its nodes as one text."""
        return [{**kernel.document, "nodes": ", ".join(kernel.nodes)} for kernel in self.kernels]

    def to_frame(self, what: str = "samples") -> Any:
        """rows(), or kernel_rows() for ``what="kernels"``, as a pandas.DataFrame. InputError without pandas."""
        if what not in ("samples", "kernels"):
            raise InputError(f"to_frame({what!r}): is neither 'samples' nor 'kernels'")
        return _frame(self.rows() if what == "samples" else self.kernel_rows())

    def __str__(self) -> str:
        place = f"{self.model} on {self.board} ({self.target})"
        if self.document.get("options", {}).get("streams"):
            rate = _known(self.runs_per_second, "runs/s", self.runs_per_second_interval)
            return f"{place}: {rate}, median latency {self.median_ms:.4g} ms"
        return f"{place}: {_known(self.median_ms, 'ms', self.interval_ms)}"


@dataclass(frozen=True)
class Comparison(_Document):
    """What ``compare`` found: the document of `gantry compare --json`, and what most ask for as attributes."""

    #: What the two are called.
    first: str
    second: str
    #: The second's time over the first's, with its 95 % confidence interval.
    ratio: float
    interval: tuple[float, float]
    #: Of the second: "faster", "slower", "same", or "not shown".
    verdict: str
    #: Medians of a run.
    first_ms: float
    second_ms: float
    warnings: tuple[str, ...]

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Comparison:
        """Of a document of `gantry compare --json`."""
        first, second = document["first"], document["second"]
        return cls(
            document=document,
            first=first["name"],
            second=second["name"],
            ratio=document["ratio"],
            interval=(document["interval"][0], document["interval"][1]),
            verdict=document["verdict"],
            first_ms=first["median_ms"],
            second_ms=second["median_ms"],
            warnings=tuple(document.get("warnings", ())),
        )

    def rows(self) -> list[dict[str, Any]]:
        """A dict a side, for tables."""
        return [dict(self.document[side], side=side) for side in ("first", "second")]

    def to_frame(self) -> Any:
        """rows() as a pandas.DataFrame. InputError without pandas."""
        return _frame(self.rows())

    def __str__(self) -> str:
        return (
            f"{self.second} is {self.verdict} beside {self.first}: {self.ratio:.4g} times "
            f"({self.interval[0]:.4g} to {self.interval[1]:.4g})"
        )


def _split(options: BenchOptions) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of how it is run, and of how it is measured."""
    known = {*RunOptions.__annotations__, "trace"}
    run = {name: value for name, value in options.items() if name in known}
    return run, {name: value for name, value in options.items() if name not in known}


def bench_on(board: str, key: str, model: Union[Module, Model], options: BenchOptions, function: str) -> BenchResult:
    """``bench`` on this machine (board "") or a board; what was called is ``function``."""
    check_names(function, options, BenchOptions.__annotations__)
    run, measure = _split(options)
    text, messages = _native.bench(run_request(model, board=board, key=key, **run), measure_request(**measure))
    tell(messages, stacklevel=4)
    return BenchResult.from_dict(json.loads(text))


def bench(model: Union[Module, Model], **options: Unpack[BenchOptions]) -> BenchResult:
    """Times a model or module on this machine, as `gantry bench` does: several processes, each of which loads it, runs
    it once, warms up until steady and is sampled, until the median is known.

    Args:
        model: A Module, or a model, which is compiled for this machine.
        device, threads, cpus: As of Session.
        precision, optimize, opt, shapes, dims, cache, custom_ops, keep_inputs: As of ``compile``, for models. shapes and dims
            also give made-up inputs of symbolic modules their sizes.
        inputs: Arrays by inputs' names; others are made up from ``seed`` (default 0). Of a model, inputs that have a default
            and are given here need no ``keep_inputs``.
        gpu_arch, gpu_checks: Of device "cuda-emulated": the GPU to compile for ("sm_90"), and whether races and
            accesses out of bounds are looked for.
        duration: Seconds to measure at most; default 60.
        precision_goal: Half the width of the median's interval at which measuring ends; default 0.01.
        processes, warmup, repeat, number: Exactly so many processes, runs before the first sample, samples a process,
            runs a sample; default: as the goal takes.
        min_repeat_ms, cooldown_ms: More runs a sample until it takes so long; the pause before every sample.
        cold: Empties the caches before every run.
        profile: Times every kernel too.
        streams: Throughput: so many sessions at once.
        trace: A file to write over time what gantry did, the samples, and with ``profile`` the kernels, as ``--trace`` does:
            "bench.pftrace" for ui.perfetto.dev, "bench.json" for Chrome's viewer. A file that is no trace is not replaced.

    Raises:
        InputError: The model, an input or an option is wrong.
        BoardError: What failed while it ran.
    """
    return bench_on("", "", model, options, "bench")


def _as_file(result: Any, folder: str, name: str) -> str:
    if not isinstance(result, BenchResult):
        return str(os.fspath(result))
    path = os.path.join(folder, name + ".json")
    result.save(path)
    return path


def _shown(name: str, value: Any) -> Any:
    """An option's value in what a side is called: of arrays their names alone."""
    return list(value) if name == "inputs" and value is not None else value


def _is_result(side: Any) -> bool:
    return isinstance(side, BenchResult) or (isinstance(side, (str, os.PathLike)) and os.fspath(side).endswith(".json"))


def _refuse_measuring(given: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """InputError, which names them, where something is given, and not None, that results do not take; ``options`` are by
    being there."""
    names = [*(name for name, value in given.items() if value is not None), *options]
    if names:
        raise InputError(
            f"results were measured already: options of measuring mean nothing here; leave out {', '.join(names)}"
        )


def compare(
    first: Union[Module, Model, BenchResult],
    second: Union[Module, Model, BenchResult],
    *,
    on: Union[str, Any, None] = None,
    key: Union[str, os.PathLike[str], None] = None,
    first_options: Optional[RunOptions] = None,
    second_options: Optional[RunOptions] = None,
    duration: Optional[float] = None,
    rounds: Optional[int] = None,
    warmup: Optional[int] = None,
    cold: bool = False,
    smallest_effect: float = 0.01,
    **options: Unpack[RunOptions],
) -> Comparison:
    """Compares two models or modules, measured in turns, as `gantry compare` does; or two results of ``bench``.

    Args:
        first, second: Models or modules, or two BenchResults or their .json files, which were measured apart: those
            take no other option than ``smallest_effect``.
        on: A Board, or what Board takes, with ``key``; default: this machine.
        first_options, second_options: Options of one side alone, as ``bench`` has for how a model is run:
            ``second_options={"precision": "bf16"}``.
        duration: Seconds to measure at most; default 30.
        rounds, warmup: Exactly so many rounds, of a process each, and runs before the first sample.
        cold: Empties the caches before every run.
        smallest_effect: The smallest difference worth claiming.
        options: Of both, as ``bench`` has for how a model is run.

    Raises:
        InputError, BoardError: As ``bench``.
    """
    example = 'options of one side, such as {"opt": 2}'
    for name, given in (("options", options), ("first_options", first_options), ("second_options", second_options)):
        check_names("compare", mapping(name, {} if given is None else given, example), RunOptions.__annotations__)
    effect = positive("smallest_effect", smallest_effect, 1)
    if _is_result(first) != _is_result(second):
        raise InputError("a result can only be compared with a result: give two results, or two models or modules")
    if _is_result(first):
        measuring: dict[str, Any] = {
            "on": on,
            "key": key,
            "first_options": first_options or None,
            "second_options": second_options or None,
            "duration": duration,
            "rounds": rounds,
            "warmup": warmup,
            "cold": cold or None,
        }
        _refuse_measuring(measuring, options)
        with tempfile.TemporaryDirectory(prefix="gantry-") as folder:
            sides = [_as_file(side, folder, name) for side, name in ((first, "first"), (second, "second"))]
            return Comparison.from_dict(json.loads(_native.compare_results(sides[0], sides[1], effect)))
    board, key_file = _place(on, key)
    requests = []
    models: tuple[Any, Any] = (first, second)
    for side, own in zip(models, (first_options, second_options)):
        both: dict[str, Any] = {**options, **(own or {})}
        request = run_request(side, board=board, key=key_file, **both)
        texts = "".join(f" {name}={_shown(name, value)}" for name, value in (own or {}).items())
        requests.append({**request, "name": request["file"] + raw(texts)})
    measure = {
        "smallest_effect": effect,
        "duration_s": positive("duration", 30.0 if duration is None else duration, 7 * 86400),
        "rounds": None if rounds is None else whole_number("rounds", rounds, 3, 1000),
        "warmup": None if warmup is None else whole_number("warmup", warmup, 0, 1_000_000),
        "cold": bool(cold),
        "order_seed": secrets.randbits(64),
    }
    text, messages = _native.compare(requests[0], requests[1], measure)
    tell(messages)
    return Comparison.from_dict(json.loads(text))


def _place(on: Any, key: Union[str, os.PathLike[str], None]) -> tuple[str, str]:
    from ._board import Board

    if isinstance(on, Board):
        return on.name, on.key
    if on is not None and not isinstance(on, (str, os.PathLike)):
        raise InputError(f"on={on!r}: is neither a gantry.Board nor what Board takes, a name or HOST:PORT")
    return ("" if on is None else os.fspath(on)), ("" if key is None else os.fspath(key))
