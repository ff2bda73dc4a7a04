"""`python3 -m gantry` is the gantry program."""

from ._command import gantry

if __name__ == "__main__":
    gantry()
