"""compile, load and what modules say of themselves."""
import os
import pickle
import subprocess

import numpy
import pytest

import gantry
import models

X = numpy.array([[1, -2, 3], [-4, 5, -6]], 'float32')


def test_a_path_its_bytes_and_a_proto_make_the_same_module(tmp_path):
    data = models.relu()
    path = tmp_path / 'relu.onnx'
    path.write_bytes(data)

    class Proto:
        def SerializeToString(self):
            return data

    made = [gantry.compile(model) for model in (path, str(path), data, bytearray(data), Proto())]
    assert len({module.digest for module in made}) == 1
    onnx = pytest.importorskip('onnx')  # of libonnx-testdata there is a folder of that name, without the package
    if not hasattr(onnx, 'load'):
        pytest.skip('Python has no onnx')
    assert gantry.compile(onnx.load(str(path))).digest == made[0].digest


def test_it_is_what_the_program_makes(programs, tmp_path):
    (tmp_path / 'net.onnx').write_bytes(models.classifier()[0])
    subprocess.run([*programs['gantry'], 'compile', 'net.onnx', '-o', 'by_program.gmod', '-t', 'x86-64-v3', '-t',
                    'aarch64', '--dim', 'N=4'], cwd=tmp_path, check=True, capture_output=True)
    module = gantry.compile(tmp_path / 'net.onnx', target=['x86-64-v3', 'aarch64'], dims={'N': 4})
    assert module.to_bytes() == (tmp_path / 'by_program.gmod').read_bytes()
    assert module.targets == ('x86-64-v3', 'aarch64')


def test_modules_describe_themselves():
    module = gantry.compile(models.two_outputs())
    assert module.inputs == (gantry.TensorInfo('a', 'f32', ('N', 4)), gantry.TensorInfo('b', 'f32', ('N', 4)))
    assert [output.name for output in module.outputs] == ['total', 'product']
    assert module.name == 'tests' and module.path is None
    assert module.optimize == 'speed' and module.size == len(module.to_bytes())
    assert 'a: f32 (N, 4)' in repr(module)


def test_shapes_and_dims_fix_sizes():
    assert gantry.compile(models.two_outputs(), shapes={'a': (7, 4)}).outputs[0].shape == (7, 4)
    assert gantry.compile(models.two_outputs(), shapes={'a': '7x?'}).outputs[0].shape == (7, 4)
    assert gantry.compile(models.two_outputs(), shapes={'a': (None, 4)}).outputs[0].shape == ('N', 4)
    assert gantry.compile(models.two_outputs(), dims={'N': 2}).outputs[0].shape == (2, 4)


def test_ranges_and_specializations():
    module = gantry.compile(models.two_outputs(), dims={'N': (1, 8)}, specialize=[{'N': 2}])
    for rows in (1, 2, 8):
        a = numpy.arange(rows * 4, dtype=numpy.float32).reshape(rows, 4)
        assert numpy.array_equal(module(a, a)[0], a + a)
    with pytest.raises(gantry.InputError, match=r'1\.\.8'):
        module(numpy.zeros((9, 4), numpy.float32), numpy.zeros((9, 4), numpy.float32))
    assert gantry.compile(models.two_outputs(), shapes={'a': '1..8x4'}).to_bytes() == gantry.compile(
        models.two_outputs(), shapes={'a': ((1, 8), 4)}).to_bytes()
    with pytest.raises(gantry.InputError, match='dims'):
        gantry.compile(models.two_outputs(), dims={'N': (8, 1)})


def test_inputs_that_have_a_default_can_be_kept():
    model = models.default_input()
    x, w = numpy.array([1, 2, 3], numpy.float32), numpy.array([4, 5, 6], numpy.float32)
    constant = gantry.compile(model)
    assert numpy.array_equal(constant(x), [11, 22, 33])
    with pytest.raises(gantry.InputError, match='keep_inputs'):
        constant(x=x, w=w)
    assert numpy.array_equal(gantry.compile(model, keep_inputs=['w'])(x, w), [5, 7, 9])
    with pytest.raises(gantry.InputError, match="has no input 'v'"):
        gantry.compile(model, keep_inputs=['v'])
    with pytest.raises(gantry.InputError, match='is no list of names'):
        gantry.compile(model, keep_inputs='w')


def test_options_do_what_they_do_for_the_program():
    data = models.classifier(rows=4)[0]
    assert gantry.compile(data, optimize='size').optimize == 'size'
    assert gantry.compile(data, precision='fp32').precision == 'fp32'
    assert gantry.compile(data, opt=0, verify=True, cache=False).digest != gantry.compile(data).digest


def test_save_load_bytes_and_pickle_keep_the_module(tmp_path):
    module = gantry.compile(models.relu(), output=tmp_path / 'relu.gmod')
    assert module.path == str(tmp_path / 'relu.gmod')
    copies = [gantry.load(tmp_path / 'relu.gmod'), gantry.load(module.to_bytes()), pickle.loads(pickle.dumps(module))]
    copies[0].save(tmp_path / 'copy.gmod')
    copies.append(gantry.load(str(tmp_path / 'copy.gmod')))
    for copy in copies:
        assert copy.digest == module.digest
        numpy.testing.assert_array_equal(copy(X), numpy.maximum(X, 0))


def test_bytes_that_do_not_lie_one_behind_the_other_are_read_as_they_are_seen():
    module = gantry.compile(models.relu())
    data = module.to_bytes()
    twice = memoryview(bytes(byte for byte in data for _ in range(2)))
    backwards = memoryview(data[::-1])
    for view in (twice[::2], backwards[::-1]):
        assert not view.c_contiguous
        copy = gantry.load(view)
        assert copy.digest == module.digest and copy.to_bytes() == data
        with pytest.raises(gantry.InputError, match='do not lie one behind the other'):
            gantry._native.Module.from_buffer(view, b'view')


def test_names_of_files_need_not_be_utf8(tmp_path):
    def at(name):
        return os.fsdecode(os.path.join(os.fsencode(tmp_path), name))

    with open(at(b'caf\xe9.onnx'), 'wb') as file:
        file.write(models.relu())
    module = gantry.compile(at(b'caf\xe9.onnx'), output=at(b'caf\xe9.gmod'), trace=at(b'caf\xe9.json'))
    assert module.path == at(b'caf\xe9.gmod') and os.path.exists(at(b'caf\xe9.json'))
    assert gantry.load(at(b'caf\xe9.gmod')).digest == pickle.loads(pickle.dumps(module)).digest == module.digest
    module.save(at(b'copi\xe9.gmod'))
    result = gantry.bench(at(b'caf\xe9.onnx'), duration=0.5, repeat=2, number=1, processes=1)
    result.save(at(b'r\xe9sultat.json'))
    gantry.report(at(b'r\xe9sultat.json'), output=at(b'r\xe9sultat.html'))
    assert os.path.exists(at(b'r\xe9sultat.html'))
    for call in (gantry.compile, gantry.load, gantry.bench):
        with pytest.raises(gantry.InputError) as raised:
            call(at(b'th\xe9.onnx'))
        assert 'th\udce9.onnx' in str(raised.value)
    with pytest.raises(gantry.InputError, match='mani\udce8re'):
        gantry.compile(models.relu(), custom_ops=[at(b'mani\xe8re')])


def test_names_of_inputs_and_outputs_need_not_be_utf8():
    x, y = 'x\udce9', 'y\udce9'
    shape = (2, 'n\u00e9e')
    data = models.model([models.node('Relu', [b'x\xe9'], [b'y\xe9'], 'Relu_0')], [(b'x\xe9', models.FLOAT, shape)],
                        [(b'y\xe9', models.FLOAT, shape)])
    module = gantry.compile(data, shapes={x: (2, 3)})
    assert module.inputs == (gantry.TensorInfo(x, 'f32', (2, 3)),) and module.outputs[0].name == y
    numpy.testing.assert_array_equal(module(**{x: X}), numpy.maximum(X, 0))
    numpy.testing.assert_array_equal(module.run({x: X})[y], numpy.maximum(X, 0))
    with pytest.raises(gantry.InputError, match="has no input 'z\udce9'; it takes x\udce9"):
        module(**{'z\udce9': X})
    assert gantry.compile(data, dims={'n\u00e9e': 3}).inputs[0].shape == (2, 3)
    assert gantry.bench(data, inputs={x: X}, duration=0.5, repeat=2, number=1, processes=1).median_ms > 0
    with pytest.raises(gantry.InputError, match='is no name'):
        gantry.compile(data, dims={'\ud800': 3})


def test_save_replaces_modules_alone_unless_forced(tmp_path):
    module = gantry.compile(models.relu())
    (tmp_path / 'relu.onnx').write_bytes(models.relu())
    with pytest.raises(gantry.InputError, match='relu.onnx: is there already and is a model, not a module'):
        module.save(tmp_path / 'relu.onnx')
    assert (tmp_path / 'relu.onnx').read_bytes() == models.relu()
    module.save(tmp_path / 'relu.gmod')
    module.save(tmp_path / 'relu.gmod')
    module.save(tmp_path / 'relu.onnx', force=True)
    assert gantry.load(tmp_path / 'relu.onnx').digest == module.digest


def test_modules_for_other_machines_are_described_but_not_run(tmp_path):
    module = gantry.compile(models.relu(), target='aarch64')
    assert module.target == 'aarch64' and module.inputs[0].name == 'x'
    with pytest.raises(gantry.InputError, match='aarch64'):
        module(X)


def test_targets_lists_names_with_what_they_are():
    targets = gantry.targets()
    assert targets['native'].startswith('this machine')
    assert {'x86-64-v3', 'aarch64'} <= set(targets)


def test_custom_ops_are_brought_along(tmp_path):
    (tmp_path / 'ops.toml').write_text('''[[op]]
domain = "mine"
name = "Twice"
inputs = ["x"]
outputs = ["y"]
composition = "twice.gir"
''')
    (tmp_path / 'twice.gir').write_text('fn @main(%x: $x.type) -> $x.type {\n  %y = add(%x, %x)\n  return %y\n}\n')
    node = models.node('Twice', ['x'], ['y'], 'Twice_0') + models.chunk(7, 'mine')
    data = models.model([node], [('x', models.FLOAT, (2, 3))], [('y', models.FLOAT, (2, 3))])
    data += models.chunk(8, models.chunk(1, 'mine') + models.number(2, 1))
    assert numpy.array_equal(gantry.compile(data, custom_ops=[tmp_path])(X), X + X)
    with pytest.raises(gantry.InputError, match='mine::Twice'):
        gantry.compile(data)
    with pytest.raises(gantry.InputError, match='is no list of paths'):
        gantry.compile(data, custom_ops=str(tmp_path))
    result = gantry.bench(data, custom_ops=[tmp_path], duration=0.5, repeat=2, number=1, processes=1)
    assert result.median_ms > 0
