"""Runs a file of tests with pytest on the package in a folder: run_tests.py FOLDER FILE. Exit code 77: skipped."""
import importlib.util
import os
import sys


def main(folder, *files):
    for module in ('pytest', 'numpy'):
        if importlib.util.find_spec(module) is None:
            print(f'Skipped: {sys.executable} has no {module}')
            return 77
    os.environ['PYTHONPATH'] = folder
    sys.path.insert(0, folder)
    sys.dont_write_bytecode = True
    import pytest
    return pytest.main(['-q', '-rs', '-p', 'no:cacheprovider', *files])


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
