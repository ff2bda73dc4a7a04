"""What calls take and return: NumPy's arrays and what speaks DLPack."""
import ctypes

import numpy
import pytest

import gantry
import models


@pytest.fixture(scope='module')
def relu():
    return gantry.compile(models.relu())


@pytest.fixture(scope='module')
def total():
    return gantry.compile(models.add())


X = numpy.array([[1, -2, 3], [-4, 5, -6]], 'float32')


def test_results_are_those_of_numpy(total):
    numpy.testing.assert_array_equal(total(X, 2 * X), X + 2 * X)
    numpy.testing.assert_array_equal(total(b=X, a=2 * X), 3 * X)
    numpy.testing.assert_array_equal(total(X, b=-X), numpy.zeros_like(X))


def test_a_network_agrees_with_numpy_for_every_number_of_rows():
    data, reference = models.classifier()
    module = gantry.compile(data)
    assert module.inputs[0].shape == ('N', 64)
    for rows in (1, 5, 17):
        x = numpy.random.default_rng(rows).standard_normal((rows, 64)).astype('float32')
        numpy.testing.assert_allclose(module(x), reference(x), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize('dtype, code', [('float32', models.FLOAT), ('float64', models.DOUBLE),
                                         ('int64', models.INT64)])
def test_dtypes_are_kept(dtype, code):
    x = numpy.arange(6).reshape(2, 3).astype(dtype)
    result = gantry.compile(models.add(dtype=code))(x, x)
    assert result.dtype == dtype
    numpy.testing.assert_array_equal(result, 2 * x)


STRING = 8


def joining(shape=('N',)):
    return models.model([models.node('StringConcat', ['a', 'b'], ['y'])], [('a', STRING, shape), ('b', STRING, shape)],
                        [('y', STRING, shape)], opset=20)


@pytest.mark.parametrize('kind', [str, object, bytes])
def test_texts_come_and_go(kind):
    module = gantry.compile(joining())
    a = numpy.array(['x', '', 'zz'] if kind is not bytes else [b'x', b'', b'zz'], dtype=kind)
    for _ in range(2):
        y = module(a, a[::-1])
        assert y.dtype == object and y.tolist() == ['xzz', '', 'zzx']
    assert module(numpy.array(['ü\0é']), numpy.array(['日'])).tolist() == ['ü\0é日']


def test_objects_that_are_no_texts_are_refused():
    with pytest.raises(gantry.InputError, match="input 'a': its array of Python objects holds a int"):
        gantry.compile(joining())(numpy.array([1], dtype=object), numpy.array(['x']))


def test_bools_come_and_go():
    shape = (2, 3)
    module = gantry.compile(models.model([models.node('Not', ['x'], ['y'])], [('x', models.BOOL, shape)],
                                         [('y', models.BOOL, shape)]))
    numpy.testing.assert_array_equal(module(X > 0), X <= 0)


def test_strided_reversed_and_transposed_arrays_are_read_as_they_are(relu):
    wide = numpy.arange(-30, 30, dtype='float32').reshape(6, 10)
    for view in (wide[::3, 1:7:2], wide[4:2:-1, 8:2:-2], wide.T[2:4, 3:6], numpy.asfortranarray(wide[:2, :3])):
        assert view.shape == (2, 3)
        numpy.testing.assert_array_equal(relu(view), numpy.maximum(view, 0))


def test_arrays_of_any_alignment_are_read_as_they_are(relu):
    memory = numpy.zeros(200, 'uint8')
    for offset in (0, 4, 5, 64):
        x = memory[offset:offset + 24].view('float32').reshape(2, 3)
        x[:] = X
        numpy.testing.assert_array_equal(relu(x), numpy.maximum(X, 0))


def test_fields_of_records_are_read(relu):
    records = numpy.zeros((2, 3), [('value', 'float32'), ('tag', 'uint8')])
    records['value'] = X
    numpy.testing.assert_array_equal(relu(records['value']), numpy.maximum(X, 0))


def test_read_only_arrays_are_read(relu):
    x = X.copy()
    x.flags.writeable = False
    numpy.testing.assert_array_equal(relu(x), numpy.maximum(X, 0))


def test_inputs_stay_as_they_were(total):
    x, y = X.copy(), X.copy()
    total(x, y)
    numpy.testing.assert_array_equal(x, X)


def test_empty_begins_where_calls_read_without_a_copy(relu):
    for shape in ((2, 3), (5,), 7, ()):
        assert gantry.empty(shape).ctypes.data % 64 == 0
    x = gantry.empty((2, 3))
    x[:] = X
    numpy.testing.assert_array_equal(relu(x), numpy.maximum(X, 0))
    assert gantry.empty((4, 2), 'int64').dtype == 'int64'


def test_outputs_are_the_sessions_memory_and_later_calls_write_elsewhere(relu):
    first = relu(X)
    second = relu(-X)
    assert first.ctypes.data != second.ctypes.data
    numpy.testing.assert_array_equal(first, numpy.maximum(X, 0))
    numpy.testing.assert_array_equal(second, numpy.maximum(-X, 0))
    # A loop that keeps one result has two memories in turns, and copies nothing.
    places = set()
    result = relu(X)
    for _ in range(20):
        result = relu(X)
        places.add(result.ctypes.data)
    assert len(places) <= 3


def test_outputs_can_be_written_to_and_outlive_their_session():
    session = gantry.Session(gantry.compile(models.relu()))
    result = session(X)
    del session
    result += 1
    numpy.testing.assert_array_equal(result, numpy.maximum(X, 0) + 1)


def test_several_outputs_are_a_tuple_or_named():
    module = gantry.compile(models.two_outputs())
    x = numpy.ones((3, 4), 'float32')
    total, product = module(x, 2 * x)
    numpy.testing.assert_array_equal(total, 3 * x)
    named = module.run({'a': x, 'b': 2 * x})
    assert list(named) == ['total', 'product']
    numpy.testing.assert_array_equal(named['product'], product)


def test_big_endian_arrays_are_refused(relu):
    with pytest.raises(gantry.InputError, match="input 'x': its array is big-endian"):
        relu(X.astype('>f4'))


@pytest.mark.parametrize('x, message', [
    (X.astype('float64'), r"input 'x': expected f32 \(2, 3\), got f64 \(2, 3\)"),
    (X[:1], r"expected f32 \(2, 3\), got f32 \(1, 3\): dimension 0 must be 2, not 1"),
    (X.ravel(), r"expected f32 \(2, 3\), got f32 \(6\)"),
    (X.astype('complex64'), "no model has elements of NumPy's type complex64"),
    (X.astype(str), "input 'x': expected f32, got strings"),
    ([[1, 2, 3], [4, 5, 6]], r"input 'x': a list is no array; numpy.asarray"),
    (None, 'a NoneType is no array'),
])
def test_what_does_not_fit_is_refused_by_name(relu, x, message):
    with pytest.raises(gantry.InputError, match=message):
        relu(x)
    numpy.testing.assert_array_equal(relu(X), numpy.maximum(X, 0))  # and nothing is left of it


def test_masked_elements_are_refused(relu):
    with pytest.raises(gantry.InputError, match=r"input 'x': elements of its array are masked; give array.filled"):
        relu(numpy.ma.masked_array(X, mask=X < 0))
    numpy.testing.assert_array_equal(relu(numpy.ma.masked_array(X)), numpy.maximum(X, 0))


def test_torch_tensors_that_are_negated_where_they_are_read_are_refused(relu):
    torch = pytest.importorskip('torch')
    negated = torch.full((2, 3), 1 + 2j).conj().imag
    assert negated.is_neg()
    with pytest.raises(gantry.InputError, match=r"input 'x': its tensor is negated .* give tensor.resolve_neg"):
        relu(negated)
    assert torch.equal(relu(negated.neg()), torch.full((2, 3), 2.0))


@pytest.mark.parametrize('rank', [17, 32, 33, 64])
def test_more_dimensions_than_tensors_have_are_refused(relu, rank):
    if rank > 32 and int(numpy.__version__.split('.')[0]) < 2:
        pytest.skip("NumPy's arrays have at most 32 dimensions before version 2")
    for dtype in ('float32', 'object'):
        with pytest.raises(gantry.InputError, match=f"input 'x': its array has {rank} dimensions; no model takes more than 16"):
            relu(numpy.full((1,) * rank, 'text' if dtype == 'object' else 1, dtype=dtype))


def test_more_dimensions_of_a_torch_tensor_are_refused(relu):
    torch = pytest.importorskip('torch')
    with pytest.raises(gantry.InputError, match="input 'x': its array has 20 dimensions"):
        relu(torch.ones((1,) * 20))
    numpy.testing.assert_array_equal(relu(X), numpy.maximum(X, 0))


def test_wrong_names_and_numbers_of_inputs_are_refused(total):
    with pytest.raises(gantry.InputError, match=r"3 arrays given, but the model takes 2: a \(f32 \(2, 3\)\), b"):
        total(X, X, X)
    with pytest.raises(gantry.InputError, match="input 'b' is not given"):
        total(X)
    with pytest.raises(gantry.InputError, match="input 'a' is given twice"):
        total(X, a=X)
    with pytest.raises(gantry.InputError, match="the model has no input 'c'"):
        total(X, c=X)


def test_inputs_are_given_by_whatever_name_they_have():
    shape = (2, 3)
    module = gantry.compile(models.model([models.node('Relu', ['self'], ['y'])], [('self', models.FLOAT, shape)],
                                         [('y', models.FLOAT, shape)]))
    session = gantry.Session(module)
    for call in (module, session):
        numpy.testing.assert_array_equal(call(self=X), numpy.maximum(X, 0))
    assert session.time_steps(self=X)[0].step == 0


class Elsewhere:
    """An array that says it is on a GPU."""

    def __dlpack_device__(self):
        return 2, 1

    def __dlpack__(self):
        raise AssertionError('asked for memory that nobody here can read')


def test_what_is_on_another_device_is_refused(relu):
    with pytest.raises(gantry.InputError, match="its Elsewhere is on cuda:1"):
        relu(Elsewhere())


def test_a_torch_tensor_on_a_gpu_is_refused_before_its_memory_is_asked_for(relu):
    class Tensor(Elsewhere):
        is_cpu = False
    Tensor.__module__ = 'torch'
    with pytest.raises(gantry.InputError, match=r"its Tensor is on cuda:1, .* give tensor.cpu\(\)"):
        relu(Tensor())


def test_a_torch_tensor_without_memory_is_refused_by_the_inputs_name(relu):
    torch = pytest.importorskip('torch')
    with pytest.raises(gantry.InputError, match="input 'x': its Tensor does not say where it is"):
        relu(torch.empty(2, 3, device='meta'))


def test_torch_tensors_of_any_strides_are_read_as_they_are(relu):
    torch = pytest.importorskip('torch')
    wide = torch.arange(-30, 30, dtype=torch.float32).reshape(6, 10)
    for view in (wide[::3, 1:7:2], wide.t()[2:4, 3:6], wide[:1, 4:7].expand(2, 3), wide[4:, 7:]):
        assert view.shape == (2, 3)
        assert torch.equal(relu(view), torch.relu(view))


def test_numpy_takes_and_gives_dlpack(relu):
    class OnlyDlpack:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self):
            return self.array.__dlpack__()

    result = relu(OnlyDlpack(X.copy()))
    assert isinstance(result, numpy.ndarray)
    numpy.testing.assert_array_equal(numpy.from_dlpack(result), numpy.maximum(X, 0))


def test_torch_tensors_come_and_go_without_a_copy(relu):
    torch = pytest.importorskip('torch')
    x = torch.from_numpy(X.copy())
    first = relu(x)
    assert isinstance(first, torch.Tensor)
    assert torch.equal(first, torch.relu(x))
    # Memory that two results take in turns is not copied: it is the session's.
    places, kept = set(), first
    for _ in range(20):
        kept = relu(x)
        places.add(kept.data_ptr())
    assert len(places) <= 3
    assert torch.equal(relu(x.t().contiguous().t()), torch.relu(x))
    # With gradients it is refused, as PyTorch says.
    with pytest.raises(gantry.InputError, match=r"input 'x': .*require gradient, use tensor\.detach\(\)"):
        relu(x.clone().requires_grad_())


def test_torch_bools_and_integers_come_and_go():
    torch = pytest.importorskip('torch')
    shape = (2, 3)
    module = gantry.compile(models.model([models.node('Not', ['x'], ['y'])], [('x', models.BOOL, shape)],
                                         [('y', models.BOOL, shape)]))
    x = torch.from_numpy(X > 0)
    assert torch.equal(module(x), torch.logical_not(x))
    integers = torch.arange(6).reshape(2, 3)
    assert torch.equal(gantry.compile(models.add(dtype=models.INT64))(integers, integers), 2 * integers)


def test_bf16_goes_by_dlpack():
    torch = pytest.importorskip('torch')
    shape = (2, 3)
    module = gantry.compile(models.model([models.node('Cast', ['x'], ['y'], to=models.BFLOAT16)],
                                         [('x', models.FLOAT, shape)], [('y', models.BFLOAT16, shape)]))
    result = module(X)
    assert isinstance(result, gantry.Tensor)
    assert result.dtype == 'bf16' and result.shape == shape
    assert torch.equal(torch.utils.dlpack.from_dlpack(result.__dlpack__()).float(), torch.from_numpy(X))


def address_of(capsule):
    """Where the elements of a DLPack capsule lie: its tensor begins with their address."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.c_void_p.from_address(pointer(capsule, b'dltensor')).value


def test_a_tensor_gives_copies_and_only_the_cpus_memory():
    shape = (2, 3)
    result = gantry.compile(models.model([models.node('Cast', ['x'], ['y'], to=models.BFLOAT16)],
                                         [('x', models.FLOAT, shape)], [('y', models.BFLOAT16, shape)]))(X)
    bits = (X.view('uint32') >> 16).astype('uint16').tobytes()
    shared, again = result.__dlpack__(), result.__dlpack__(copy=False, dl_device=(1, 0), max_version=(1, 0))
    copied = result.__dlpack__(copy=True, dl_device=None)
    assert address_of(again) == address_of(shared) != address_of(copied)
    for capsule in (shared, copied):
        assert ctypes.string_at(address_of(capsule), len(bits)) == bits
    for device in ((2, 0), (1, 1)):
        with pytest.raises(BufferError, match=r"in the CPU's memory, DLPack's device \(1, 0\), and not on \(., .\)"):
            result.__dlpack__(dl_device=device)


UINT4, INT4, FLOAT8E5M2 = 21, 22, 19


def negated(dtype=INT4):
    """y = -x, in integers of 4 bits"""
    nodes = [models.node('Cast', ['x'], ['f'], to=models.FLOAT), models.node('Neg', ['f'], ['n']),
             models.node('Cast', ['n'], ['y'], to=INT4)]
    return models.model(nodes, [('x', dtype, ('N',))], [('y', INT4, ('N',))], opset=21)


def test_integers_of_less_than_8_bits_are_bytes():
    module = gantry.compile(negated())
    x = numpy.array([-7, -1, 0, 7], 'int8')
    y = module(x)
    assert y.dtype == 'int8'
    numpy.testing.assert_array_equal(y, -x)
    numpy.testing.assert_array_equal(module(y), x)
    numpy.testing.assert_array_equal(module(numpy.repeat(x, 2)[::2]), -x)
    unsigned = gantry.compile(negated(UINT4))
    assert unsigned(numpy.arange(8, dtype='uint8')).tolist() == [-value for value in range(8)]
    for value in (-9, 8, 100):
        with pytest.raises(gantry.InputError, match=f"input 'x': an element is {value}; i4 has -8 to 7"):
            module(numpy.array([1, value], 'int8'))
    with pytest.raises(gantry.InputError, match="input 'x': an element is 16; u4 has 0 to 15"):
        unsigned(numpy.array([16], 'uint8'))
    with pytest.raises(gantry.InputError, match=r"expected i4 \(.*\), got u8 \(4\)"):
        module(x.astype('uint8'))
    numpy.testing.assert_array_equal(module(x), -x)


def test_torch_integers_of_less_than_8_bits_are_bytes():
    torch = pytest.importorskip('torch')
    x = torch.tensor([-7, -1, 0, 7], dtype=torch.int8)
    y = gantry.compile(negated())(x)
    assert y.dtype == torch.int8 and torch.equal(y, -x)


def test_arrays_of_ml_dtypes_are_taken():
    ml_dtypes = pytest.importorskip('ml_dtypes')
    x = numpy.array([-7, -1, 0, 7], 'int8')
    numpy.testing.assert_array_equal(gantry.compile(negated())(x.astype(ml_dtypes.int4)), -x)
    unsigned = numpy.arange(8, dtype='uint8').astype(ml_dtypes.uint4)
    assert gantry.compile(negated(UINT4))(unsigned).tolist() == [-value for value in range(8)]
    values = numpy.array([[1, -2, 0.5], [-4, 3, 0]], 'float32')
    for dtype, code in ((ml_dtypes.bfloat16, models.BFLOAT16), (ml_dtypes.float8_e5m2, FLOAT8E5M2)):
        module = gantry.compile(models.model([models.node('Cast', ['x'], ['y'], to=models.FLOAT)],
                                             [('x', code, (2, 3))], [('y', models.FLOAT, (2, 3))], opset=21))
        given = values.astype(dtype)
        numpy.testing.assert_array_equal(module(given), values)
        numpy.testing.assert_array_equal(module(given[::-1, ::-1]), values[::-1, ::-1])
        with pytest.raises(gantry.InputError, match=r'got (bf16|f8e5m2) \(6\)'):
            module(given.ravel())
