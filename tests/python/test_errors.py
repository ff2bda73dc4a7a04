"""Errors are exceptions of the kinds that exit codes have, with the messages of the program."""
import os
import subprocess

import numpy
import pytest

import gantry
import models


def test_kinds_are_those_of_exit_codes():
    assert [kind.exit_code for kind in (gantry.InputError, gantry.BoardError, gantry.InternalError)] == [1, 2, 3]
    for kind in (gantry.InputError, gantry.BoardError, gantry.InternalError):
        assert issubclass(kind, gantry.Error)
    assert issubclass(gantry.InputError, ValueError)
    assert gantry.InputError.__module__ == 'gantry'


@pytest.mark.parametrize('arguments, options', [
    (['missing.onnx'], {}),
    (['text.onnx'], {}),
    (['.'], {}),
    (['two.onnx', '--target', 'x86-64-v33'], {'target': 'x86-64-v33'}),
    (['two.onnx', '--precision', 'fp31'], {'precision': 'fp31'}),
    (['two.onnx', '--optimize', 'sise'], {'optimize': 'sise'}),
    (['two.onnx', '--shape', 'aa=3x4'], {'shapes': {'aa': (3, 4)}}),
    (['two.onnx', '--shape', 'a=3x5'], {'shapes': {'a': (3, 5)}}),
    (['two.onnx', '--dim', 'M=3'], {'dims': {'M': 3}}),
    (['unknown_op.onnx'], {}),
    (['two.onnx', '-o', 'no_such_folder/x.gmod'], {'output': 'no_such_folder/x.gmod'}),
])
def test_messages_are_the_programs(programs, tmp_path, monkeypatch, arguments, options):
    (tmp_path / 'two.onnx').write_bytes(models.two_outputs())
    (tmp_path / 'text.onnx').write_text('no model')
    (tmp_path / 'unknown_op.onnx').write_bytes(models.model(
        [models.node('Frobnicate', ['x'], ['y'], 'Frobnicate_0')], [('x', 1, (2,))], [('y', 1, (2,))]))
    monkeypatch.chdir(tmp_path)
    program = subprocess.run([*programs['gantry'], '--color', 'never', 'compile', *arguments], capture_output=True,
                             text=True)
    assert program.returncode == 1
    with pytest.raises(gantry.InputError) as raised:
        gantry.compile(arguments[0], **options)
    said = program.stderr.split('gantry: error: ', 1)[1].rstrip('\n') if 'error: ' in program.stderr else program.stderr
    option = arguments[1] + ' ' if len(arguments) > 1 and arguments[1] == '-o' else ''
    assert str(raised.value).removeprefix('output ') == said.removeprefix(option)


@pytest.mark.parametrize('call, message', [
    (lambda: gantry.compile(7), 'an object of type int is no model'),
    (lambda: gantry.compile(b'no model'), 'is not an ONNX file'),
    (lambda: gantry.compile(models.relu(), opt=4), 'opt=4: is not a whole number from 0 to 3'),
    (lambda: gantry.compile(models.relu(), shapes=[1, 2]), 'shapes: is of type list, not a dict'),
    (lambda: gantry.compile(models.relu(), shapes={'x': (2, 'three')}), "shapes\\['x'\\]='three'"),
    (lambda: gantry.compile(gantry.compile(models.relu()).to_bytes()), 'is a module already'),
    (lambda: gantry.load(models.relu()), 'not a gantry module|no gantry module|magic|not a module'),
    (lambda: gantry.load('missing.gmod'), 'missing.gmod'),
    (lambda: gantry.load(3), 'an object of type int is no module'),
    (lambda: gantry.Session(gantry.compile(models.relu()), threads=0), 'threads=0'),
    (lambda: gantry.Session(gantry.compile(models.relu()), cpus=[100000]), '100000'),
    (lambda: gantry.bench(models.relu(), repeat=0), 'repeat=0'),
    (lambda: gantry.bench(models.relu(), duration=-1), 'duration=-1'),
    (lambda: gantry.bench(models.relu(), streams=2, cold=True), 'streams'),
    (lambda: gantry.bench(models.relu(), inputs={'z': [1]}), 'a list is no array'),
    (lambda: gantry.bench(models.relu(), inputs=[numpy.ones((2, 3), 'float32')]), 'inputs: is of type list, not a dict'),
    (lambda: gantry.bench(models.relu(), inputs={'x': numpy.ones((2, 4), 'float32')}),
     r"inputs\['x'\]: has shape 2x4, but input 'x' takes 2x3"),
    (lambda: gantry.compile(models.relu()).run([numpy.ones((2, 3), 'float32')]), 'inputs: is of type list, not a dict'),
    (lambda: gantry.compile(models.relu(), target=[]), 'the list names none'),
    (lambda: gantry.compile(models.relu(), target=None), 'target=None: is neither'),
    (lambda: gantry.compile(models.relu(), precision=None), 'precision=None: is no text'),
    (lambda: gantry.compile(models.relu(), dims=[1]), 'dims: is of type list, not a dict'),
    (lambda: gantry.compile(models.relu(), shapes={'x': 3}), r"shapes\['x'\]=3: is no shape"),
    (lambda: gantry.compile(models.relu(), specialize={'N': 1}), 'specialize: is no list of dicts'),
    (lambda: gantry.Session('a.gmod'), 'an object of type str is no gantry.Module'),
    (lambda: gantry.Session(gantry.compile(models.relu()), cpus=0), 'cpus=0: is no list of CPUs'),
    (lambda: gantry.Board(None), 'name=None: is no text'),
    (lambda: gantry.empty((2, -3)), 'shape=-3: is not a whole number'),
])
def test_wrong_requests_are_input_errors(call, message):
    with pytest.raises(gantry.InputError, match=message):
        call()


def test_damaged_modules_are_refused(tmp_path):
    whole = gantry.compile(models.relu()).to_bytes()
    for damaged in (whole[:100], whole[:-1], whole[:300] + bytes(64) + whole[364:], b''):
        with pytest.raises(gantry.InputError):
            gantry.load(damaged)
    (tmp_path / 'cut.gmod').write_bytes(whole[:-1])
    with pytest.raises(gantry.InputError, match='cut.gmod'):
        gantry.load(tmp_path / 'cut.gmod')


def test_failed_compilations_leave_no_file(tmp_path):
    output = tmp_path / 'out.gmod'
    with pytest.raises(gantry.InputError):
        gantry.compile(models.two_outputs(), shapes={'a': (3, 5)}, output=output)
    assert os.listdir(tmp_path) == []
    output.write_text('mine')
    with pytest.raises(gantry.InputError, match='out.gmod'):
        gantry.compile(models.two_outputs(), output=output)
    assert output.read_text() == 'mine'
    assert gantry.compile(models.two_outputs(), output=output, force=True).digest == gantry.load(output).digest
