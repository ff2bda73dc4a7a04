"""Type hints: complete, and clean by a checker where there is one."""
import ast
import importlib.util
import inspect
import os
import shutil
import subprocess
import sys

import pytest

import gantry
from gantry import te

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


def members(item):
    return {name: value for name, value in vars(item).items() if not name.startswith('_')} if inspect.isclass(item) else {}


def test_tensor_expressions_are_documented_and_have_the_types_that_the_stub_says():
    with open(os.path.join(PACKAGE, 'te.pyi'), encoding='utf-8') as file:
        stub = {node.name: node for node in ast.parse(file.read()).body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    assert {name for name in stub if not name.startswith('_')} == set(te.__all__)
    for name in te.__all__:
        item = getattr(te, name)
        assert inspect.getdoc(item), name
        assert all(inspect.getdoc(value) for value in members(item).values()), name
        if isinstance(stub[name], ast.ClassDef):
            typed = {node.name if isinstance(node, ast.FunctionDef) else node.target.id for node in stub[name].body
                     if isinstance(node, (ast.FunctionDef, ast.AnnAssign))}
            assert {member for member in typed if not member.startswith('_')} == set(members(item)), name


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
