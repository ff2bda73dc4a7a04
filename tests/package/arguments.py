"""Where the tests of packages find what they test: --build BUILD --packages FOLDER, before unittest's own arguments."""
import argparse
import sys
import unittest

build = packages = None


def main():
    global build, packages  # pylint: disable=global-statement
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument('--build', required=True)
    parser.add_argument('--packages', required=True)
    known, rest = parser.parse_known_args()
    build, packages = known.build, known.packages
    unittest.main(module='__main__', argv=[sys.argv[0], *rest], verbosity=2)
