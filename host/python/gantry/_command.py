"""The programs that come with the package: `gantry`, which is in the extension module, and `gantry-device`."""

import os
import sys


def gantry() -> None:
    """The gantry program, as `build/bin/gantry` is."""
    from . import _native

    # The bytes as they were given: names of files need not be UTF-8.
    sys.exit(_native.run_program([os.fsencode(argument) for argument in ("gantry", *sys.argv[1:])]))


def gantry_device() -> None:
    """The board program."""
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "gantry-device")
    os.execv(program, ["gantry-device", *sys.argv[1:]])


if __name__ == "__main__":
    gantry()
