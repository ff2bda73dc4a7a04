"""What goes wrong, by who can mend it: the kinds are those of the program's exit codes."""

#: What tracebacks call the module of these kinds: where users find them.
_MODULE = "gantry"

__all__ = ["Error", "InputError", "BoardError", "InternalError", "GantryWarning"]


class Error(Exception):
    """Whatever gantry reports. The message says what failed, on which file, node or board, and what to do.

    ``exit_code`` is what the ``gantry`` program would have ended with.
    """

    __module__ = _MODULE
    exit_code = 1


class InputError(Error, ValueError):
    """The request, the model, an array or a file is wrong: change the input. Exit code 1."""

    __module__ = _MODULE
    exit_code = 1


class BoardError(Error, RuntimeError):
    """The board, the network or a kernel failed, or memory ran out: check it, then try again. Exit code 2."""

    __module__ = _MODULE
    exit_code = 2


class InternalError(Error, RuntimeError):
    """A bug in gantry: please report it. Exit code 3."""

    __module__ = _MODULE
    exit_code = 3


class GantryWarning(UserWarning):
    """What a model's import or a measurement should be taken with care for."""

    __module__ = _MODULE
