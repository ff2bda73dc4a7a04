"""Type hints: complete, and clean by a checker where there is one."""
import importlib.util
import inspect
import os
import shutil
import subprocess
import sys

import pytest

import gantry

PACKAGE = os.path.dirname(gantry.__file__)


def test_the_package_says_that_it_is_typed():
    assert os.path.exists(os.path.join(PACKAGE, 'py.typed'))


def test_everything_public_has_a_docstring():
    lacking = []
    for name in gantry.__all__:
        item = getattr(gantry, name)
        if not inspect.getdoc(item) and name != 'Tensor':
            lacking.append(name)
        for member, value in vars(item).items() if inspect.isclass(item) else ():
            if not member.startswith('_') and inspect.isfunction(value) and not value.__doc__:
                lacking.append(f'{name}.{member}')
    assert lacking == []


@pytest.mark.parametrize('checker', ['mypy', 'pyright'])
def test_a_type_checker_finds_nothing(checker, tmp_path):
    command = [sys.executable, '-m', 'mypy', '--strict', '--cache-dir', str(tmp_path)]
    if checker == 'pyright':
        command = ['pyright']
    if (checker == 'mypy' and importlib.util.find_spec('mypy') is None) or \
            (checker == 'pyright' and shutil.which('pyright') is None):
        pytest.skip(f'{checker} is not installed')
    done = subprocess.run([*command, PACKAGE], capture_output=True, text=True, cwd=os.path.dirname(PACKAGE))
    assert done.returncode == 0, done.stdout
