"""Pages of results, as `gantry report` makes them."""

from __future__ import annotations

import os
import tempfile
from typing import Optional, Union

from . import _native
from ._errors import InputError
from ._measure import BenchResult, Comparison
from ._options import path_of, raw

Result = Union[BenchResult, Comparison, str, "os.PathLike[str]"]


def _name(result: Result, number: Optional[int]) -> str:
    """What the page calls it."""
    if isinstance(result, Comparison):
        return "comparison"
    if not isinstance(result, BenchResult):
        return os.fspath(result)
    return result.model if number is None else f"{result.model}, result {number}"


def report(*results: Result, output: Union[str, os.PathLike[str]], force: bool = False) -> None:
    """Makes a page for the browser of what was measured, as `gantry report` does: one HTML file that needs no network. Of
    several results it also shows the differences; of a comparison the verdict, its rounds, and both sides over time.

    ::

        gantry.report(gantry.bench("resnet18.onnx", profile=True), output="report.html")

    Args:
        results: BenchResults or their .json files, 20 at most; or one Comparison, or its file, alone.
        output: The page to write.
        force: Whether it may replace a file that is no report.

    Raises:
        InputError: A file is no result, or damaged; the page cannot be written.
    """
    if not results:
        raise InputError("report: no results are given")
    for result in results:
        if not isinstance(result, (BenchResult, Comparison, str, os.PathLike)):
            raise InputError(
                f"report: an object of type {type(result).__name__} is no result: give what bench or compare returned, or its file"
            )
    page = path_of("output", output) or b""
    with tempfile.TemporaryDirectory(prefix="gantry-") as folder:
        files: list[bytes] = []
        names: list[bytes] = []
        for number, result in enumerate(results, 1):
            names.append(raw(_name(result, number if len(results) > 1 else None)))
            if isinstance(result, (BenchResult, Comparison)):
                file = os.path.join(folder, f"{number}.json")
                result.save(file)
            else:
                file = os.fspath(result)
            files.append(os.fsencode(file))
        _native.report(files, names, page, bool(force))
