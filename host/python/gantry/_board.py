"""Boards: machines that run gantry-device."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _native
from ._measure import BenchResult, bench_on
from ._module import Module
from ._options import BenchOptions, Model, ModelOptions, check_names, inputs_of, run_request, tell, word

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class BoardInfo:
    """What a board says of itself; all of it is in ``to_dict()``."""

    #: "pi (192.168.1.20:7453)"
    label: str
    hostname: Optional[str]
    #: "Linux 6.1.0 aarch64"
    system: Optional[str]
    architecture: str
    cpu: Optional[str]
    #: CPU features by LLVM's names.
    features: tuple[str, ...] = field(repr=False)
    #: What models are compiled for there.
    target: str
    physical_cores: int
    logical_cpus: int
    memory_bytes: int
    session_memory_bytes: int
    #: Of its gantry-device.
    device_version: str
    gpus: tuple[Mapping[str, Any], ...]
    document: Mapping[str, Any] = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """All that the board says, as `gantry boards info --json` does."""
        return dict(self.document)


@dataclass(frozen=True)
class RunResult:
    """One run on a board or in a process of its own."""

    #: By names, in the module's order: arrays as a Session's call returns them.
    outputs: Mapping[str, Any]
    #: The run alone, on the board's clock; ``bench`` times properly.
    milliseconds: float

    def __getitem__(self, name: str) -> Any:
        return self.outputs[name]


def _info(board: str, key: str) -> BoardInfo:
    document = json.loads(_native.board_info(board, os.fsencode(key)))
    names = (
        "label hostname system architecture cpu target physical_cores logical_cpus memory_bytes "
        "session_memory_bytes device_version"
    ).split()
    return BoardInfo(
        features=tuple(document["features"]),
        gpus=tuple(document.get("gpus", ())),
        document=document,
        **{name: document[name] for name in names},
    )


def _run(
    board: str,
    key: str,
    model: Union[Module, Model],
    inputs: Mapping[str, Any],
    options: ModelOptions,
    trace: Union[str, os.PathLike[str], None],
) -> RunResult:
    request = run_request(model, board=board, key=key, inputs=inputs, trace=trace, **options)
    request["torch"] = any(type(value).__module__.partition(".")[0] == "torch" for value in inputs.values())
    arrays, names, milliseconds, messages = _native.run(request)
    tell(messages, stacklevel=4)
    return RunResult(dict(zip(names, arrays)), milliseconds)


class Board:
    """A board by its name (`gantry boards`) or address.

    ::

        pi = gantry.Board("pi")
        print(pi.info().cpu)
        print(pi.bench("resnet18.onnx").median_ms)

    Each method connects anew, so a Board costs nothing and may be shared between threads.

    Args:
        name: A name from `gantry boards`, or "HOST:PORT".
        key: The key file (`gantry keygen`); default: the one that the board was added with.

    Raises:
        InputError: There is no board of that name; the nearest ones are named.
    """

    def __init__(self, name: str, *, key: Union[str, os.PathLike[str], None] = None) -> None:
        self.name = name
        self.key = "" if key is None else os.fspath(key)
        #: "HOST:PORT"
        self.address: str = _native.resolve_board(word("name", name), os.fsencode(self.key))[1]

    def info(self) -> BoardInfo:
        """What the board is. BoardError where it cannot be reached."""
        return _info(self.name, self.key)

    def bench(self, model: Union[Module, Model], **options: Unpack[BenchOptions]) -> BenchResult:
        """Times a model, compiled for exactly this board, or a module there. Options and errors: ``gantry.bench``."""
        return bench_on(self.name, self.key, model, options, "Board.bench")

    def run(
        self,
        model: Union[Module, Model],
        inputs: Optional[Mapping[str, Any]] = None,
        *,
        trace: Union[str, os.PathLike[str], None] = None,
        **options: Unpack[ModelOptions],
    ) -> RunResult:
        """Runs a model, compiled for exactly this board, or a module there once.

        Args:
            model: A Module or a model.
            inputs: Arrays by the inputs' names. Inputs without one are made up where ``seed`` is given.
            trace: A file to write over time what gantry did, and the kernels of a further run: "run.pftrace" for
                ui.perfetto.dev, "run.json" for Chrome's viewer. A file that is no trace is not replaced.
            options: As ``gantry.bench`` has for how a model is run.

        Raises:
            InputError: The model, an input or an option is wrong.
            BoardError: The board cannot be reached; the module crashed there.
        """
        check_names("Board.run", options, ModelOptions.__annotations__)
        return _run(self.name, self.key, model, {} if inputs is None else inputs_of(inputs), options, trace)

    def __repr__(self) -> str:
        return f"gantry.Board({self.name!r})"


def boards() -> dict[str, Board]:
    """The boards that were named with `gantry boards add`, by their names."""
    return {name: Board(name) for name in _native.boards()}
