"""Boards: a gantry-device on loopback, with a key."""
import subprocess

import numpy
import pytest

import gantry
import models

X = numpy.array([[1, -2, 3], [-4, 5, -6]], 'float32')


@pytest.fixture(scope='module')
def board(server):
    address, key = server
    return gantry.Board(address, key=key)


def test_a_board_says_what_it_is(board, server):
    info = board.info()
    assert server[0] in info.label and info.to_dict()['address'] == server[0]
    assert info.target == gantry.compile(models.relu()).target
    assert info.logical_cpus >= info.physical_cores >= 1
    assert info.session_memory_bytes > 0


def test_it_runs_models_and_modules(board):
    for model in (models.relu(), gantry.compile(models.relu())):
        result = board.run(model, {'x': X})
        numpy.testing.assert_array_equal(result['y'], numpy.maximum(X, 0))
        assert result.milliseconds > 0
    named = board.run(models.two_outputs(), {'a': numpy.ones((3, 4), 'float32'), 'b': numpy.zeros((3, 4), 'float32')})
    assert list(named.outputs) == ['total', 'product']


def test_texts_travel(board):
    shape = (2,)
    model = models.model([models.node('StringConcat', ['a', 'a'], ['y'])], [('a', 8, shape)], [('y', 8, shape)], opset=20)
    assert board.run(model, {'a': numpy.array(['ö', 'b'])})['y'].tolist() == ['öö', 'bb']


def test_integers_of_less_than_8_bits_travel(board):
    int4, shape = 22, (3,)
    nodes = [models.node('Cast', ['x'], ['f'], to=models.FLOAT), models.node('Neg', ['f'], ['n']),
             models.node('Cast', ['n'], ['y'], to=int4)]
    model = models.model(nodes, [('x', int4, shape)], [('y', int4, shape)], opset=21)
    assert board.run(model, {'x': numpy.array([-7, 0, 5], 'int8')})['y'].tolist() == [7, 0, -5]
    with pytest.raises(gantry.InputError, match=r"inputs\['x'\]: an element is -9; i4 has -8 to 7"):
        board.run(model, {'x': numpy.array([-9, 0, 5], 'int8')})
    with pytest.raises(gantry.InputError, match="holds u8, but input 'x' takes i4"):
        board.run(model, {'x': numpy.array([7, 0, 5], 'uint8')})


def test_it_gives_torch_tensors_to_who_gives_them(board):
    torch = pytest.importorskip('torch')
    x = torch.from_numpy(X)
    assert torch.equal(board.run(models.relu(), {'x': x})['y'], torch.relu(x))


def test_it_benches(board, server):
    result = board.bench(models.relu(), processes=2, repeat=12, warmup=1)
    assert result.board == server[0] and result.to_dict()['board']['address'] == server[0]
    found = gantry.compare(models.relu(), gantry.compile(models.relu()), on=board, rounds=3, warmup=1)
    assert found.to_dict()['first']['board'] == board.info().hostname


def test_inputs_that_have_a_default_can_be_kept(board):
    model, x = models.default_input(), numpy.array([1, 2, 3], 'float32')
    numpy.testing.assert_array_equal(board.run(model, {'x': x})['y'], [11, 22, 33])
    with pytest.raises(gantry.InputError, match="'w'"):
        board.run(model, {'x': x}, keep_inputs=['w'])
    made_up = board.run(model, {'x': x}, keep_inputs=['w'], seed=1)['y']
    numpy.testing.assert_array_equal(made_up, board.run(gantry.compile(model, keep_inputs=['w']), {'x': x}, seed=1)['y'])
    assert not numpy.array_equal(made_up, [11, 22, 33])
    measured = board.bench(model, keep_inputs=['w'], processes=2, repeat=12, warmup=1)
    assert [entry['name'] for entry in measured.to_dict()['inputs']] == ['x', 'w']


def test_missing_and_wrong_inputs_are_input_errors(board):
    with pytest.raises(gantry.InputError, match="'x'"):
        board.run(models.relu(), {})
    with pytest.raises(gantry.InputError, match="'x'"):
        board.run(models.relu(), {'x': X[:1]})
    with pytest.raises(gantry.InputError, match="no input 'z'"):
        board.run(models.relu(), {'z': X})
    assert board.run(models.relu(), seed=1)['y'].shape == (2, 3)


def test_names_are_those_of_gantry_boards(server, programs):
    address, key = server
    subprocess.run([*programs['gantry'], 'boards', 'add', 'bench_board', address, '--key', key], check=True,
                   capture_output=True)
    assert gantry.boards()['bench_board'].address == address
    numpy.testing.assert_array_equal(gantry.Board('bench_board').run(models.relu(), {'x': X})['y'], numpy.maximum(X, 0))
    with pytest.raises(gantry.InputError, match="bench_board"):
        gantry.Board('bench_bord')


def test_wrong_keys_and_absent_boards_are_board_errors(server, programs, tmp_path):
    subprocess.run([*programs['gantry'], 'keygen', '-o', str(tmp_path / 'other.key')], check=True, capture_output=True)
    with pytest.raises(gantry.BoardError, match='key'):
        gantry.Board(server[0], key=tmp_path / 'other.key').info()
    with pytest.raises(gantry.BoardError, match='127.0.0.1:1'):
        gantry.Board('127.0.0.1:1').info()
    with pytest.raises(gantry.InputError, match='missing.key'):
        gantry.Board(server[0], key=tmp_path / 'missing.key').info()
