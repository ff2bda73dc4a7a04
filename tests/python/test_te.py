"""Tensor expressions and schedules: their results are NumPy's in float64, whatever the schedule."""
import gc
import math
import os
import subprocess
import sys
import threading

import numpy
import pytest

import gantry
from gantry import te

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'examples', 'python')
DRAW = numpy.random.default_rng(7)


def run(outputs, inputs, *arrays, schedule=None, **options):
    """What the outputs are of these arrays, as a list."""
    module = te.build(schedule or te.Schedule(outputs), inputs, **options)
    results = module(*arrays)
    return list(results) if isinstance(results, tuple) else [results]


def uniform(shape, low=-1.0, high=1.0, dtype='float32'):
    return DRAW.uniform(low, high, shape).astype(dtype)


@pytest.mark.parametrize('name', ['dense_expression', 'own_loop_nest'])
def test_the_examples_check_themselves(name):
    done = subprocess.run([sys.executable, os.path.join(EXAMPLES, f'{name}.py')], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert 'right' in done.stdout


UNARY = {
    'exp': numpy.exp, 'log': numpy.log, 'sqrt': numpy.sqrt, 'rsqrt': lambda x: 1 / numpy.sqrt(x), 'tanh': numpy.tanh,
    'sigmoid': lambda x: 1 / (1 + numpy.exp(-x)), 'floor': numpy.floor, 'ceil': numpy.ceil, 'round': numpy.round,
    'trunc': numpy.trunc, 'abs': numpy.abs, 'sin': numpy.sin, 'cos': numpy.cos, 'tan': numpy.tan, 'asin': numpy.arcsin,
    'acos': numpy.arccos, 'atan': numpy.arctan, 'sinh': numpy.sinh, 'cosh': numpy.cosh, 'asinh': numpy.arcsinh,
    'atanh': numpy.arctanh,
}


def test_functions_are_numpys():
    x = te.placeholder((40,), name='x')
    values = uniform(40, 0.05, 0.95)
    outputs = [te.compute((40,), lambda i, f=getattr(te, name): f(x[i]), name) for name in UNARY]
    outputs += [te.compute((40,), lambda i: te.acosh(x[i] + 1), 'acosh'), te.compute((40,), lambda i: te.pow(x[i], 1.5), 'pow'),
                te.compute((40,), lambda i: te.fma(x[i], 3, x[i]), 'fma'), te.compute((40,), lambda i: te.erf(x[i]), 'erf')]
    results = run(outputs, [x], values)
    wide = values.astype('float64')
    expected = [function(wide) for function in UNARY.values()] + [numpy.arccosh(wide + 1), wide ** 1.5, wide * 4]
    for output, result, reference in zip(outputs, results, expected):
        numpy.testing.assert_allclose(result, reference, rtol=3e-6, atol=1e-6, err_msg=output.name)
    numpy.testing.assert_allclose(results[-1], [math.erf(value) for value in wide], rtol=1e-6)


def test_operators_of_whole_numbers_round_down_as_pythons():
    a, b = te.placeholder((9, 7), 'i32', 'a'), te.placeholder((9, 7), 'int32', 'b')
    x = DRAW.integers(-40, 40, (9, 7)).astype('int32')
    y = DRAW.integers(1, 9, (9, 7)).astype('int32') * DRAW.choice([-1, 1], (9, 7)).astype('int32')
    made = {
        '//': lambda p, q: p // q, '%': lambda p, q: p % q, '+': lambda p, q: p + q * 3 - 1, '-': lambda p, q: -p - q,
        '&': lambda p, q: p & q, '|': lambda p, q: p | q, '^': lambda p, q: p ^ q, '~': lambda p, q: ~p,
        '<<': lambda p, q: p << 2, '>>': lambda p, q: p >> 1, 'of a number': lambda p, q: 100 // q + 7 % q,
    }
    results = run([te.compute((9, 7), lambda i, j, f=f: f(a[i, j], b[i, j])) for f in made.values()], [a, b], x, y)
    for name, function, result in zip(made, made.values(), results):
        numpy.testing.assert_array_equal(result, function(x, y), err_msg=name)


@pytest.mark.parametrize('bits', [8, 16, 32, 64])
def test_shifts_by_any_amount_are_numpys(bits):
    for kind in ('uint', 'int'):
        dtype = f'{kind}{bits}'
        amounts = numpy.array([0, 1, bits // 2, bits - 1, bits, bits + 1, 100, numpy.iinfo(dtype).max], dtype)
        numbers = numpy.array([3, 5, 100, 127], dtype)
        if kind == 'int':
            numbers, amounts = numpy.append(numbers, -numbers), numpy.append(amounts, numpy.array([-1, -5], dtype))
        x, by = te.placeholder(numbers.shape, dtype, 'x'), te.placeholder(amounts.shape, dtype, 'by')
        shape = (len(numbers), len(amounts))
        outputs = [te.compute(shape, lambda i, j: x[i] << by[j]), te.compute(shape, lambda i, j: x[i] >> by[j]),
                   te.compute(numbers.shape, lambda i: x[i] << bits), te.compute(numbers.shape, lambda i: x[i] >> bits)]
        left, right, all_left, all_right = run(outputs, [x, by], numbers, amounts)
        numpy.testing.assert_array_equal(left, numbers[:, None] << amounts)
        numpy.testing.assert_array_equal(right, numbers[:, None] >> amounts)
        numpy.testing.assert_array_equal(all_left, 0)
        numpy.testing.assert_array_equal(all_right, numpy.where(numbers < 0, -1, 0))


def test_bits_are_rotated():
    x, by = te.placeholder((33,), 'u32', 'x'), te.placeholder((33,), 'u32', 'by')
    rotated = te.compute((33,), lambda i: (x[i] << by[i]) | (x[i] >> (32 - by[i])))
    values, amounts = DRAW.integers(0, 2**32, 33).astype('uint32'), numpy.arange(33, dtype='uint32')
    expected = [(int(v) << int(n) | int(v) >> (32 - int(n))) % 2**32 for v, n in zip(values, amounts)]
    numpy.testing.assert_array_equal(run(rotated, [x, by], values, amounts)[0], expected)


def test_numbers_beyond_i64_are_of_u64_and_of_floats():
    a, x = te.placeholder((3,), 'u64', 'a'), te.placeholder((3,), 'f64', 'x')
    whole, wide = numpy.array([0, 5, 2**64 - 1], 'uint64'), numpy.array([1, -2, 0.5])
    outputs = [te.compute((3,), lambda i: a[i] ^ (2**64 - 1)), te.compute((3,), lambda i: a[i] // 2**63),
               te.compute((3,), lambda i: x[i] * 2**70), te.compute((3,), lambda i: x[i] - 2**64)]
    flipped, halves, scaled, less = run(outputs, [a, x], whole, wide)
    numpy.testing.assert_array_equal(flipped, ~whole)
    numpy.testing.assert_array_equal(halves, [0, 0, 1])
    numpy.testing.assert_array_equal(scaled, wide * 2.0**70)
    numpy.testing.assert_array_equal(less, wide - 2.0**64)


def test_comparisons_and_choices_are_expressions():
    x = te.placeholder((30,), 'f64', 'x')
    values = uniform(30, dtype='float64')
    outputs = [
        te.compute((30,), lambda i: te.select((x[i] < 0) & (i % 2 == 0), -x[i], 0.5)),
        te.compute((30,), lambda i: (x[i] >= 0.25) | ~(x[i] != values[3])),
        te.compute((30,), lambda i: te.cast(x[i] * 10, 'i8')),
        te.compute((30,), lambda i: te.maximum(te.minimum(x[i], 0.5), -0.5)),
    ]
    chosen, truth, whole, clipped = run(outputs, [x], values)
    places = numpy.arange(30)
    numpy.testing.assert_array_equal(chosen, numpy.where((values < 0) & (places % 2 == 0), -values, 0.5))
    numpy.testing.assert_array_equal(truth, (values >= 0.25) | (values == values[3]))
    assert truth.dtype == bool and whole.dtype == numpy.int8
    numpy.testing.assert_array_equal(whole, (values * 10).astype('int8'))
    numpy.testing.assert_array_equal(clipped, values.clip(-0.5, 0.5))


def test_reductions_go_over_axes_where_a_condition_holds():
    x = te.placeholder((6, 5, 8), name='x')
    values = uniform((6, 5, 8))
    wide = values.astype('float64')

    def over(function, last=8, **options):
        j, k = te.reduce_axis(5, 'j'), te.reduce_axis(last, 'k')
        return te.compute((6,), lambda i: function(x, i, j, k))

    outputs = [
        over(lambda x, i, j, k: te.sum(x[i, j, k] * x[i, j, k], [j, k])),
        over(lambda x, i, j, k: te.max(x[i, j, k], (j, k), where=k < 3)),
        over(lambda x, i, j, k: te.min(x[i, j, k], (j, k))),
        over(lambda x, i, j, k: te.prod(x[i, j, k] + 1, (j, k), where=j == 2)),
        over(lambda x, i, j, k: te.any(x[i, j, k] > 0.9, (j, k))),
        over(lambda x, i, j, k: te.all(x[i, j, k] > -0.9, (j, k))),
    ]
    expected = [(wide ** 2).sum((1, 2)), wide[:, :, :3].max((1, 2)), wide.min((1, 2)), (wide[:, 2] + 1).prod(1),
                (wide > 0.9).any((1, 2)), (wide > -0.9).all((1, 2))]
    for result, reference in zip(run(outputs, [x], values), expected):
        numpy.testing.assert_allclose(result, reference, rtol=1e-5)


def test_reads_outside_of_a_tensor_are_refused_unless_a_condition_guards_them():
    x, w = te.placeholder((20,), name='x'), te.placeholder((5,), name='w')
    with pytest.raises(gantry.InputError, match=r'reads x at .*, which reaches 23, but dimension 0 has the indices 0 to 19'):
        k = te.reduce_axis(5)
        te.compute((20,), lambda i: te.sum(x[i + k] * w[k], k))
    k = te.reduce_axis(5)
    padded = te.compute((24,), lambda i: te.if_then_else((i >= 2) & (i < 22), x[i - 2], 0), 'padded')
    y = te.compute((20,), lambda i: te.sum(padded[i + k] * w[k], k))
    a, b = uniform(20), uniform(5)
    schedule = te.Schedule(y)
    schedule[padded].compute_inline()
    expected = numpy.correlate(a.astype('float64'), b, 'same')
    for how in (None, schedule):
        numpy.testing.assert_allclose(run(y, [x, w], a, b, schedule=how)[0], expected, atol=1e-6)


class Product:
    """c = a b, and what schedules do with it."""

    def __init__(self, m=20, n=24, depth=18):
        self.a, self.b = te.placeholder((m, depth), name='a'), te.placeholder((depth, n), name='b')
        self.k = te.reduce_axis(depth, 'k')
        self.c = te.compute((m, n), lambda i, j: te.sum(self.a[i, self.k] * self.b[self.k, j], self.k), 'c')
        self.inputs = [self.a, self.b]
        self.schedule = te.Schedule(self.c)
        self.stage = self.schedule[self.c]

    def check(self):
        a, b = uniform(self.a.shape), uniform(self.b.shape)
        result = run(self.c, self.inputs, a, b, schedule=self.schedule)[0]
        numpy.testing.assert_allclose(result, a.astype('float64') @ b, atol=1e-5)
        return str(te.lower(self.schedule, self.inputs))


def test_loops_are_divided_merged_ordered_and_annotated():
    p = Product()
    i, j = p.stage.axes
    outer, inner = p.stage.split(j, 7)
    wide = p.stage.fuse(i, outer)
    p.stage.reorder(p.k, inner)
    p.stage.parallel(wide)
    p.stage.unroll(inner)
    assert [axis.name for axis in p.stage.loops] == [wide.name, 'k', inner.name]
    assert (i.extent, p.k.extent, inner.extent) == (20, 18, None)
    assert 'parallel' in p.check()


@pytest.mark.parametrize('tail', ['guard', 'shift_inwards', 'shift_or_guard'])
def test_tails_are_guarded_or_shifted(tail):
    x = te.placeholder((37,), name='x')
    y = te.compute((37,), lambda i: x[i] * x[i])
    schedule = te.Schedule(y)
    schedule[y].vectorize(schedule[y].split(schedule[y].axes[0], 8, tail=tail)[1])
    values = uniform(37)
    numpy.testing.assert_allclose(run(y, [x], values, schedule=schedule)[0], values.astype('float64') ** 2, rtol=1e-6)


@pytest.mark.parametrize('parallel', [False, True])
@pytest.mark.parametrize('rows, fits', [(500, True), (5000, False)])
def test_shifted_tiles_in_a_reduction_are_summed_apart_or_refused(rows, fits, parallel):
    x, k = te.placeholder((rows, 16), name='x'), te.reduce_axis(16, 'k')
    y = te.compute((rows,), lambda i: te.sum(x[i, k], k), 'y')
    schedule = te.Schedule(y)
    stage = schedule[y]
    tile, row = stage.split(stage.axes[0], 4101 if parallel and not fits else 64, tail='shift_inwards')
    if parallel:
        stage.parallel(tile)
        stage.reorder(k, row)
    else:
        stage.reorder(k, tile, row)
    values = uniform((rows, 16))
    if fits:
        numpy.testing.assert_allclose(run(y, [x], values, schedule=schedule)[0], values.astype('float64').sum(1), atol=1e-5)
        return
    with pytest.raises(gantry.InputError, match="overlap.*tail 'guard'"):
        te.lower(schedule, [x])


def test_tiles_are_summed_in_registers():
    p = Product()
    sums = p.schedule.cache_write(p.c, 'local')
    row, column, in_row, in_column = p.stage.tile(*p.stage.axes, 4, 8)
    p.stage.unroll(in_row)
    p.stage.vectorize(in_column)
    stage = p.schedule[sums]
    stage.compute_at(p.stage, column)
    stage.reorder(p.k, *stage.axes)
    stage.unroll(stage.axes[0])
    stage.vectorize(stage.axes[1])
    stage.sum_in_parts(stage.split(p.k, 6)[1])
    assert 'c.cache' in p.check()


def attached_output(index, rows):
    """b[i, j] = a[index(i, j)] + x[0], where both are outputs and a is computed in the loop over i."""
    x = te.placeholder((8,), name='x')
    a = te.compute((8,), lambda i: x[i] * 2, 'a')
    b = te.compute((rows, 4), lambda i, j: a[index(i, j)] + x[0], 'b')
    schedule = te.Schedule([a, b])
    schedule[a].compute_at(schedule[b], schedule[b].axes[0])
    return schedule, [a, b], x


@pytest.mark.parametrize('index, rows', [
    (lambda i, j: i * 2, 4), (lambda i, j: i, 7), (lambda i, j: j, 8), (lambda i, j: 3, 8)])
def test_an_output_of_which_a_loop_reads_some_is_not_computed_there(index, rows):
    schedule, _, x = attached_output(index, rows)
    with pytest.raises(gantry.InputError, match='a is an output, but computed in b would be only what is read'):
        te.lower(schedule, [x])


def test_an_output_that_is_read_whole_may_be_computed_where_it_is_read():
    schedule, outputs, x = attached_output(lambda i, j: i, 8)
    values = uniform(8)
    doubled, read = run(outputs, [x], values, schedule=schedule)
    numpy.testing.assert_array_equal(doubled, values * 2)
    numpy.testing.assert_array_equal(read, numpy.repeat((values * 2 + values[0])[:, None], 4, 1))


@pytest.mark.parametrize('shape, refused', [((1024,), False), ((8192,), True), ((4, 8192), False)])
def test_iterations_that_run_at_once_do_not_add_up_the_same_sums_in_an_output(shape, refused):
    x, k = te.placeholder((*shape, 3), name='x'), te.reduce_axis(3, 'k')
    p = te.compute(shape, lambda *at: te.sum(x[(*at, k)], k), 'p')
    y = te.compute((4, shape[-1]), lambda i, j: p[(i, j)[-len(shape):]] * 2, 'y')
    schedule = te.Schedule([p, y])
    row = schedule[y].axes[0]
    schedule[y].parallel(row)
    schedule[p].compute_at(schedule[y], row)
    schedule[p].reorder(k, schedule[p].axes[-1])
    if refused:
        with pytest.raises(gantry.InputError, match='p is an output of which iterations of a parallel loop .* 16 KiB'):
            te.lower(schedule, [x])
        return
    values = uniform(x.shape)
    sums, doubles = run([p, y], [x], values, schedule=schedule)
    expected = values.astype('float64').sum(-1)
    numpy.testing.assert_allclose(sums, expected, atol=1e-6)
    numpy.testing.assert_allclose(doubles, numpy.broadcast_to(2 * expected, (4, shape[-1])), atol=1e-6)


@pytest.mark.parametrize('bounded', [False, True])
@pytest.mark.parametrize('index', [lambda at, i: at[i], lambda at, i: at[0] + i, lambda at, i: at[i] + (i % 2)],
                         ids=['gather', 'dynamic slice', 'gather and next'])
def test_of_what_is_read_at_indices_that_are_data_all_is_computed(index, bounded):
    x, at = te.placeholder((10,), name='x'), te.placeholder((6,), 'i64', 'at')
    powers = te.compute((10,), lambda i: te.exp(x[i]), 'powers')
    y = te.compute((6,), lambda i: powers[index(at, i)] * 2, 'y')
    schedule = te.Schedule(y)
    if bounded:
        schedule[powers].bound_to_reads()
    else:
        schedule[powers].compute_at(schedule[y], schedule[y].axes[0])
    values, places, count = uniform(10), numpy.array([3, 8, 0, 5, 5, 2]), numpy.arange(6)
    expected = numpy.exp(values.astype('float64'))[index(places, count)] * 2
    numpy.testing.assert_allclose(run(y, [x, at], values, places, schedule=schedule)[0], expected, rtol=1e-5)


def test_operands_are_read_through_copies():
    p = Product()
    row, _ = p.stage.split(p.stage.axes[0], 5)
    copy = p.schedule.cache_read(p.a, 'local', p.c)
    p.schedule[copy].compute_at(p.stage, row)
    assert p.schedule[copy].scope == 'local'
    p.stage.prefetch(row, p.b, (0, 0))
    assert 'a.read' in p.check()


def test_targets_rules_make_schedules_too():
    p = Product()
    p.schedule = te.schedule_for(p.c)
    p.check()


def test_half_and_byte_products_are_computed_in_wider_types():
    a, b = te.placeholder((4, 32), 'i8', 'a'), te.placeholder((32, 6), 'i8', 'b')
    k = te.reduce_axis(32)
    c = te.compute((4, 6), lambda i, j: te.sum(te.cast(a[i, k], 'i32') * te.cast(b[k, j], 'i32'), k))
    x, y = DRAW.integers(-128, 128, (4, 32)).astype('int8'), DRAW.integers(-128, 128, (32, 6)).astype('int8')
    numpy.testing.assert_array_equal(run(c, [a, b], x, y)[0], x.astype('int32') @ y.astype('int32'))
    h = te.placeholder((16,), 'float16', 'h')
    d = te.compute((16,), lambda i: te.cast(te.cast(h[i], 'f32') * 3, 'f16'))
    values = uniform(16, dtype='float16')
    numpy.testing.assert_array_equal(run(d, [h], values)[0], (values.astype('float32') * 3).astype('float16'))


def test_lowering_is_shown_step_by_step():
    x = te.placeholder((64,), name='x')
    y = te.compute((64,), lambda i: x[i] + 1)
    schedule = te.Schedule(y)
    schedule[y].vectorize(schedule[y].split(schedule[y].axes[0], 8)[1])
    nest = te.lower(schedule, [x], name='plus_one')
    names = [step.name for step in nest.steps]
    assert names[:3] == ['schedule', 'inline_stages', 'place_arguments']
    assert names[names.index('build_nests') + 1] == 'simplify' and 'vectorize' in names
    assert 'vectorized for ' in nest.steps[0].text and 'plus_one' in nest.steps[0].text
    vectorize = nest.steps[names.index('vectorize')]
    assert vectorize.changed and vectorize.text != nest.steps[0].text
    assert str(nest) == nest.steps[-1].text and 'plus_one' in str(nest)
    assert 'plus_one' in nest.assembly('aarch64') and 'define' in nest.llvm('x86-64-v3')


def test_an_emulated_gpu_runs_blocks_of_threads():
    planes, pixels, threads = 3, 100, 32
    x = te.placeholder((planes, pixels), name='x')
    k = te.reduce_axis(pixels, 'k')
    total = te.compute((planes,), lambda p: te.sum(x[p, k], k), 'total')
    y = te.compute((planes, pixels), lambda p, i: x[p, i] - total[p] / pixels, 'y')
    schedule = te.Schedule(y, gpu=True)
    out, sums = schedule[y], schedule[total]
    plane = out.axes[0]
    out.bind(plane, 'block')
    step, thread = out.split(out.axes[1], threads)
    out.reorder(plane, thread, step)
    out.bind(thread, 'thread')
    sums.scope = 'shared'
    sums.compute_at(out, plane)
    sums.bind(sums.split(k, threads)[1], 'thread')
    module = te.build(schedule, [x], target='cuda-emulated:sm_80')
    values = uniform((planes, pixels))
    wide = values.astype('float64')
    numpy.testing.assert_allclose(module.session(device='cuda-emulated')(values), wide - wide.mean(1, keepdims=True), atol=1e-6)
    assert '.entry' in te.lower(schedule, [x]).assembly('cuda:sm_80')
    with pytest.raises(gantry.InputError, match='is for a GPU'):
        te.build(schedule, [x])
    with pytest.raises(gantry.InputError, match='is for a CPU'):
        te.build(te.Schedule(y), [x], target='cuda:sm_80')


def test_modules_have_the_names_of_tensors_and_are_files_as_any(tmp_path):
    p = Product(2, 3, 4)
    module = te.build(p.schedule, p.inputs, target='aarch64', name='product')
    assert [str(info) for info in module.inputs] == ['a: f32 (2, 4)', 'b: f32 (4, 3)']
    assert module.outputs[0].name == 'c' and module.targets == ('aarch64',) and module.name == 'product'
    module.save(tmp_path / 'product.gmod')
    assert gantry.load(tmp_path / 'product.gmod').digest == te.build(p.schedule, p.inputs, target='aarch64', name='product').digest


def test_outputs_of_one_name_are_numbered():
    x = te.placeholder((4,), name='x')
    total, less, other = (te.compute((4,), lambda i, n=n: x[i] + n, name) for n, name in ((1, 'sum'), (2, 'y'), (3, 'y')))
    taken = te.compute((4,), lambda i: x[i] + 4, 'y_0')

    def both(nest):
        nest.loop('i', 4, lambda i: (nest.store(nest.result(0), i, 5), nest.store(nest.result(1), i, 6)))

    nests = te.extern_kernel([x], [(4,), (4,)], ['f32', 'f32'], both, 'nest')
    module = te.build(te.Schedule([total, less, other, taken, *nests]), [x])
    assert [info.name for info in module.outputs] == ['sum', 'y_1', 'y_2', 'y_0', 'nest_0', 'nest_1']
    for output, value in zip(module(numpy.zeros(4, 'float32')), range(1, 7)):
        numpy.testing.assert_array_equal(output, numpy.full(4, value))


def test_stages_keep_their_schedule_and_tensors_what_they_read():
    def stage_alone():
        x = te.placeholder((8,), name='x')
        y = te.compute((8,), lambda i: x[i] * 2)
        return te.Schedule(te.compute((8,), lambda i: y[i] + 1))[y]

    stage = stage_alone()
    gc.collect()
    assert stage.axes[0].extent == 8
    stage.compute_inline()


def test_other_threads_go_on_while_a_schedule_is_built_which_nobody_may_change():
    p, heard, stop = Product(), [], threading.Event()

    def copy(nest):
        heard.append(threading.current_thread())
        with pytest.raises(gantry.InputError, match='is being lowered'):
            schedule[y].unroll(schedule[y].axes[0])
        nest.loop('i', 480, lambda i: nest.store(nest.result(0), i, nest.input(0)[i] + 1))

    (copied,) = te.extern_kernel([p.c], [p.c.shape], ['f32'], copy)
    y = te.compute(p.c.shape, lambda i, j: copied[i, j] * 2)
    schedule = te.Schedule(y)
    turns = 0

    def count():
        nonlocal turns
        while not stop.is_set():
            turns += 1

    thread = threading.Thread(target=count)
    thread.start()
    try:
        a, b = uniform(p.a.shape), uniform(p.b.shape)
        result = run(y, p.inputs, a, b, schedule=schedule)[0]
    finally:
        stop.set()
        thread.join()
    numpy.testing.assert_allclose(result, (a.astype('float64') @ b + 1) * 2, atol=1e-5)
    assert turns > 1000 and heard
    schedule[y].unroll(schedule[y].axes[0])


def test_what_a_loop_nest_raises_is_raised_by_lowering():
    x = te.placeholder((4,), name='x')

    def lowered(body):
        return te.lower(te.Schedule(te.extern_kernel([x], [(4,)], ['f32'], body)), [x])

    with pytest.raises(ZeroDivisionError):
        lowered(lambda nest: 1 // 0)
    kept = []
    lowered(lambda nest: (kept.append(nest), nest.store(nest.result(0), 0, 1)))
    with pytest.raises(gantry.InputError, match='after its body has returned'):
        kept[0].result(0)

    def leak(nest):
        variables = []
        nest.loop('i', 4, variables.append)
        nest.store(nest.result(0), variables[0], 1)

    with pytest.raises(gantry.InputError, match='i is no variable of a loop around this'):
        lowered(leak)
    with pytest.raises(gantry.InputError, match='x is an element of a tensor expression'):
        lowered(lambda nest: nest.store(nest.result(0), 0, x[0]))
    with pytest.raises(gantry.InputError, match='input 1 of 1'):
        lowered(lambda nest: nest.input(1))


def test_conditions_values_and_workspace_of_loop_nests():
    x = te.placeholder((50,), name='x')

    def positive_first(nest):
        count = nest.scratch('count', 'i64', 1)

        def one(i):
            def keep():
                nest.let('at', count[0], lambda at: nest.store(nest.result(0), at, nest.input(0)[i]))
                nest.store(count, 0, count[0] + 1)
            nest.when(nest.input(0)[i] > 0, keep)

        nest.loop('z', 50, lambda i: nest.store(nest.result(0), i, 0), kind='vectorized')
        nest.store(count, 0, 0)
        nest.loop('i', 50, one)

    values = uniform(50)
    result = run(te.extern_kernel(x, [50], ['f32'], positive_first), [x], values)[0]
    kept = values[values > 0]
    numpy.testing.assert_array_equal(result, numpy.concatenate([kept, numpy.zeros(50 - len(kept))]))


def keeping(count):
    """y = x, by way of so many numbers on the stack: a schedule and its inputs."""
    x = te.placeholder((8,), name='x')

    def copy(nest):
        kept = nest.local('kept', 'f32', count)
        nest.loop('i', 8, lambda i: nest.store(kept, i, nest.input(0)[i]))
        nest.loop('j', 8, lambda j: nest.store(nest.result(0), j, kept[j]))
    return te.Schedule(te.extern_kernel(x, [8], ['f32'], copy)), [x]


def test_local_buffers_are_limited_by_the_stack():
    for make in (te.lower, te.build):
        with pytest.raises(gantry.InputError, match="local buffers take 80000 bytes of a thread's stack, at most 65536 are"):
            make(*keeping(20000))
    values = uniform(8)
    numpy.testing.assert_array_equal(te.build(*keeping(16384))(values), values)


def by_hand(body, count, *arrays):
    """What a loop nest makes of the arrays: `count` numbers of the first one's type."""
    inputs = [te.placeholder(array.shape, str(array.dtype), f'x{place}') for place, array in enumerate(arrays)]
    return run(te.extern_kernel(inputs, [count], [str(arrays[0].dtype)], body), inputs, *arrays)[0]


def test_what_a_variable_is_in_one_copy_of_a_loops_body_it_is_not_in_the_next():
    x = uniform(40)

    def sums_of_two(nest):
        total = nest.local('total', 'f32', 1)

        def one(i, at):
            nest.store(total, 0, nest.input(0)[at])
            nest.when(i > 0, lambda: nest.store(total, 0, total[0] + nest.input(0)[at - 4]))
            nest.store(nest.result(0), i, total[0])
        nest.loop('i', 8, lambda i: nest.let('at', i * 4, lambda at: one(i, at)))

    def products(nest):
        def one(r, i):
            nest.let('at', r * i, lambda at: nest.store(nest.result(0), r * 4 + i, nest.input(0)[at]))
        nest.loop('r', 8, lambda r: nest.loop('i', 4, lambda i: one(r, i), kind='unrolled'))

    def triangle(nest):
        def one(i, j):
            nest.store(nest.result(0), i * 4 + j, nest.input(0)[i * 4 + j])
        nest.loop('z', 16, lambda z: nest.store(nest.result(0), z, 0))
        nest.loop('i', 4, lambda i: nest.loop('j', i + 1, lambda j: one(i, j)), kind='unrolled')

    def remainders(nest):
        def one(r, i):
            nest.let('p', r * 2 - i * 3, lambda p: nest.store(nest.result(0), r * 2 + i, nest.input(0)[p % 3]))
        nest.loop('r', 8, lambda r: nest.loop('i', 2, lambda i: one(r, i), kind='unrolled'))

    before = numpy.append([0], x[0:28:4]).astype('float32')
    numpy.testing.assert_array_equal(by_hand(sums_of_two, 8, x), x[0:32:4] + before)
    numpy.testing.assert_array_equal(by_hand(products, 32, x), [x[r * i] for r in range(8) for i in range(4)])
    numpy.testing.assert_array_equal(by_hand(triangle, 16, x), numpy.tril(x[:16].reshape(4, 4)).ravel())
    chosen = [x[(r * 2 - i * 3) % 3] for r in range(8) for i in range(2)]
    numpy.testing.assert_array_equal(by_hand(remainders, 16, x), chosen)


@pytest.mark.parametrize('kind', ['serial', 'vectorized'])
def test_a_condition_is_asked_once_though_what_it_guards_changes_what_it_reads(kind):
    x = te.placeholder((16,), name='x')

    def rectified(nest):
        y, seen = nest.result(0), nest.result(1)

        def rectify(i):
            nest.store(y, i, 0)
            nest.store(seen, i, 1)

        def one(i):
            nest.store(y, i, nest.input(0)[i])
            nest.store(seen, i, 0)
            nest.when(y[i] < 0, lambda: rectify(i))
        nest.loop('i', 16, one, kind=kind)

    values = uniform(16)
    y, seen = run(te.extern_kernel(x, [16, 16], ['f32', 'f32'], rectified), [x], values)
    numpy.testing.assert_array_equal(y, values.clip(0))
    numpy.testing.assert_array_equal(seen, values < 0)


@pytest.mark.parametrize('divisor', [-3, -1, 3])
def test_what_divides_in_an_index_may_be_negative(divisor):
    x = uniform(16)
    x[0] = divisor

    def remainders(nest):
        x, y = nest.input(0), nest.result(0)

        def one(v, p):
            nest.loop('k', 3, lambda k: nest.store(y, p * 3 + k, x[p * 7 % v + 3 + k]))
        value = te.cast(x[0], 'i64')
        nest.let('v', value, lambda v: nest.loop('p', 5, lambda p: one(v, p)))

    def of_lanes(nest):
        x, y = nest.input(0), nest.result(0)

        def one(v, i):
            nest.store(y, i, 0)
            nest.when(x[i + 8] > 0, lambda: nest.store(y, i, x[i * 7 % v + 3]))
        value = te.cast(x[0], 'i64')
        nest.let('v', value, lambda v: nest.loop('i', 8, lambda i: one(v, i), kind='vectorized'))

    expected = [x[p * 7 % divisor + 3 + k] for p in range(5) for k in range(3)]
    numpy.testing.assert_array_equal(by_hand(remainders, 15, x), expected)
    expected = [x[i * 7 % divisor + 3] if x[i + 8] > 0 else 0 for i in range(8)]
    numpy.testing.assert_array_equal(by_hand(of_lanes, 8, x), expected)


WRAPS = '''
import numpy
from gantry import te

for bits in (8, 16, 32, 64):
    least, dtype = -2**(bits - 1), f'int{bits}'
    dividends, divisors = [least, least, 7, -7, least], [-1, 3, -1, 2, -2]
    a, b = te.placeholder((5,), dtype, 'a'), te.placeholder((5,), dtype, 'b')
    quotient = te.compute((5,), lambda i: a[i] // b[i])
    rest = te.compute((5,), lambda i: a[i] % b[i])
    module = te.build(te.Schedule([quotient, rest]), [a, b])
    quotients, rests = module(numpy.array(dividends, dtype), numpy.array(divisors, dtype))
    wrapped = [(x // y - least) % 2**bits + least for x, y in zip(dividends, divisors)]
    assert quotients.tolist() == wrapped, (dtype, quotients)
    assert rests.tolist() == [x % y for x, y in zip(dividends, divisors)], (dtype, rests)
'''


ZEROS = '''
import numpy
from gantry import te

for dtype in ('int8', 'uint8', 'int16', 'uint16', 'int32', 'uint32', 'int64', 'uint64'):
    dividends, divisors = numpy.array([7, 0, 9, 100, 5], dtype), numpy.array([0, 0, 2, 7, 0], dtype)
    a, b = te.placeholder((5,), dtype, 'a'), te.placeholder((5,), dtype, 'b')
    outputs = [te.compute((5,), lambda i: a[i] // b[i]), te.compute((5,), lambda i: a[i] % b[i]),
               te.compute((5,), lambda i: 100 // b[i]), te.compute((5,), lambda i: a[7 // i % 5]),
               te.compute((5,), lambda i: a[(i + 3) // (i + 1)])]
    schedule = te.Schedule(outputs)
    schedule[outputs[1]].vectorize(schedule[outputs[1]].axes[0])
    results = te.build(schedule, [a, b])(dividends, divisors)
    safe, at = numpy.maximum(divisors, 1), numpy.arange(5)
    expected = [dividends // safe, dividends % safe, 100 // safe, dividends[7 // numpy.maximum(at, 1) % 5],
                dividends[(at + 3) // (at + 1)]]
    for result, reference in zip(results, expected):
        assert result.tolist() == reference.tolist(), (dtype, result, reference)
'''


@pytest.mark.parametrize('program', [WRAPS, ZEROS], ids=['minus one', 'zero'])
def test_a_division_of_whole_numbers_ends_no_process(program):
    done = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize('dtype', ['int8', 'uint8', 'int32', 'uint32', 'int64', 'uint64'])
def test_divisors_within_divisors_are_evaluated_once(dtype):
    levels = 40
    x, first = te.placeholder((levels, 6), dtype, 'x'), te.placeholder((6,), dtype, 'first')

    def body(i):
        value = first[i]
        for level in range(levels):
            value = x[level, i] // value if level % 2 else x[level, i] % value
        return value

    dividends, expected = DRAW.integers(0, 100, (levels, 6)).astype(dtype), DRAW.integers(0, 3, 6).astype(dtype)
    result, = run(te.compute((6,), body), [x, first], dividends, expected)
    for level in range(levels):
        divisor = numpy.where(expected == 0, 1, expected).astype(dtype)
        expected = dividends[level] // divisor if level % 2 else dividends[level] % divisor
    numpy.testing.assert_array_equal(result, expected)


def deep(levels):
    x = te.placeholder((4,), name='x')

    def body(i):
        value = x[i]
        for _ in range(levels):
            value = value * 0.5 + x[i]
        return value
    return te.compute((4,), body), x


def test_deep_expressions_are_built_or_refused():
    y, x = deep(480)
    numpy.testing.assert_allclose(run(y, [x], numpy.ones(4, 'float32'))[0], numpy.full(4, 2), rtol=1e-6)
    with pytest.raises(gantry.InputError, match='more than 1000 levels'):
        deep(520)
    chain = x = te.placeholder((4,), name='x')
    with pytest.raises(gantry.InputError, match='tensors of tensors'):
        for _ in range(5000):
            chain = te.compute((4,), lambda i: chain[i] + 1)


def logistic(levels):
    x = te.placeholder((4,), 'f64', 'x')

    def body(i):
        value = x[i]
        for _ in range(levels):
            value = 3.7 * value * (1 - value)
        return value
    return te.compute((4,), body), x


def test_a_value_that_is_used_twice_a_level_is_built_or_refused():
    y, x = logistic(12)
    values = uniform(4, 0.1, 0.9, 'float64')
    expected = values
    for _ in range(12):
        expected = 3.7 * expected * (1 - expected)
    numpy.testing.assert_allclose(run(y, [x], values)[0], expected, rtol=1e-9)
    with pytest.raises(gantry.InputError, match='more than 262144 terms'):
        logistic(40)


def inlined_squares(levels, square):
    """x to the power of 2^levels, each square inlined into the next."""
    x = te.placeholder((4,), 'f64', 'x')
    squares = [x]
    for level in range(1, levels + 1):
        squares.append(te.compute((4,), lambda i: square(squares[-1], i), f'square{level}'))
    schedule = te.Schedule(squares[-1])
    for stage in squares[1:-1]:
        schedule[stage].compute_inline()
    return schedule, squares[-1], x


SQUARES = {'read twice': lambda x, i: x[i] * x[i], 'used twice': lambda x, i: (lambda value: value * value)(x[i]),
           'index used twice': lambda x, i: x[(i + i) // 2]}


@pytest.mark.parametrize('square', list(SQUARES.values()), ids=list(SQUARES))
def test_stages_inlined_into_each_other_are_built_or_refused(square):
    schedule, y, x = inlined_squares(5, square)
    values = uniform(4, 0.9, 1.1, 'float64')
    power = 1 if square is SQUARES['index used twice'] else 32
    numpy.testing.assert_allclose(run(y, [x], values, schedule=schedule)[0], values ** power, rtol=1e-12)
    schedule, y, x = inlined_squares(60, square)
    with pytest.raises(gantry.InputError, match='square.*: has more than 262144 terms with what is inlined into it'):
        te.lower(schedule, [x])


X, N = te.placeholder((4, 6), name='x'), te.placeholder((4,), 'i32', 'n')
Y = te.compute((4, 6), lambda i, j: X[i, j] + 1, 'y')
Z = te.compute((4, 6), lambda i, j: Y[i, j] * 2, 'z')
K = te.reduce_axis(4, 'k')


def scheduled(change):
    schedule = te.Schedule(Z)
    change(schedule, schedule[Z], schedule[Y])
    return te.lower(schedule, [X])


def summed(change):
    total = te.compute((4,), lambda i: te.sum(X[i, K], K), 'total')
    schedule = te.Schedule(total)
    change(schedule[total])
    return te.lower(schedule, [X])


def cleared():
    """The result of a loop nest by hand."""
    def clear(nest):
        nest.loop('i', 4, lambda i: nest.store(nest.result(0), i, 0))

    (result,) = te.extern_kernel([X], [(4,)], ['f32'], clear, 'cleared')
    return result


def sums_around_columns(lanes):
    """Sums of 2^20 columns, all inside of a reduction in vectors of so many lanes."""
    rows = te.placeholder((lanes, 2**20), name='rows')
    k = te.reduce_axis(lanes, 'k')
    total = te.compute((2**20,), lambda i: te.sum(rows[k, i], k), 'total')
    schedule = te.Schedule(total)
    schedule[total].reorder(k, schedule[total].axes[0])
    schedule[total].vectorize(k)
    return te.lower(schedule, [rows])


def wide_kernel(mark):
    """A stage whose inner loop has 2^20 iterations, which end up in one vector or in straight code."""
    long = te.placeholder((2**22,), 'f32', 'long')
    wide = te.compute((2**22,), lambda i: long[i] + 1, 'wide')
    schedule = te.Schedule(wide)
    mark(schedule[wide], schedule[wide].split(schedule[wide].axes[0], 2**20)[1])
    return te.lower(schedule, [long])


def wide_nest(kind):
    long = te.placeholder((2**20,), 'f32', 'long')

    def clear(nest):
        nest.loop('i', 2**20, lambda i: nest.store(nest.result(0), i, 0), kind=kind)

    return te.lower(te.Schedule(te.extern_kernel([long], [(2**20,)], ['f32'], clear)), [long])


@pytest.mark.parametrize('call, message', [
    (lambda: te.placeholder((4, 0)), 'dimension 1 of its shape is 0'),
    (lambda: te.placeholder('four'), "is 'f', which is no whole number"),
    (lambda: te.placeholder((2**21, 2**20)), 'more than 2\\^40 elements'),
    (lambda: te.placeholder((4,), 'float'), "dtype 'float' is none of"),
    (lambda: te.compute((4,), lambda i: 0), 'its body gave a int'),
    (lambda: te.compute((4,), lambda i: X[i]), 'read of x with 1 indices, it has 2 dimensions'),
    (lambda: te.compute((4,), lambda i: X[i, 6]), 'which reaches 6'),
    (lambda: te.compute((4,), lambda i: X[i, 0.5]), '0.5 is no i64'),
    (lambda: te.compute((4,), lambda i: X[i, N[i]]), 'indices are i64'),
    (lambda: te.compute((4,), lambda i: X[i, 0] + N[i]), 'operands of different types'),
    (lambda: te.compute((4,), lambda i: X[i, 0] if i < 2 else X[i, 1]), 'no truth value before it runs'),
    (lambda: te.compute((4,), lambda i: te.sum(X[i, K], K) + 1), 'a reduction must be the root of its body'),
    (lambda: te.compute((4,), lambda i: te.sum(X[i, K], i)), 'a Expr is no axis'),
    (lambda: te.compute((4,), lambda i: te.sum(X[i, K], (K, K))), 'goes over k twice'),
    (lambda: te.compute((4,), lambda i: X[i, K]), 'k is no axis of it'),
    (lambda: te.compute((4,), lambda i: te.any(X[i, K], K)), 'te.any: is of truth values'),
    (lambda: te.compute((4,), lambda i: te.exp(N[i])), 'exp is of floating-point numbers'),
    (lambda: te.compute((4,), lambda i: N[i] / 2), 'it is //'),
    (lambda: N[0] // 0, 'a division by 0'),
    (lambda: 7 % te.const(0, 'u8'), 'a division by 0'),
    (lambda: te.compute((4,), lambda i: X[i, 0] & 1), 'are of whole numbers'),
    (lambda: te.compute((4,), lambda i: (i < 2) + (i > 3)), 'truth values are joined'),
    (lambda: N[0] + 2**31, 'is no i32'),
    (lambda: N[0] + 2**63, '9223372036854775808 is no i32'),
    (lambda: te.const(2**64, 'u64'), '18446744073709551616 is no u64'),
    (lambda: te.const(-2**64, 'u64'), 'is no u64'),
    (lambda: te.const(10**400, 'f64'), 'is no f64'),
    (lambda: N[0] + 'one', 'a str is no scalar expression'),
    (lambda: te.maximum(1.5, 2.5), 'may be of several types'),
    (lambda: te.Schedule([]), 'at least one output'),
    (lambda: te.Schedule(X), 'the output x is an input'),
    (lambda: te.Schedule(Y)[Z], 'z is not part of this schedule'),
    (lambda: scheduled(lambda s, z, y: z.split(y.axes[0], 2)), 'is not one of its loops'),
    (lambda: scheduled(lambda s, z, y: z.split(z.axes[0], 0)), 'the factor is 0'),
    (lambda: scheduled(lambda s, z, y: z.fuse(z.axes[1], z.axes[0])), 'is not directly inside'),
    (lambda: scheduled(lambda s, z, y: z.bind(z.axes[0], 'grid')), "binding 'grid' is none of 'block', 'thread'"),
    (lambda: scheduled(lambda s, z, y: z.bind(z.axes[0], 'block')), 'is for a CPU'),
    (lambda: scheduled(lambda s, z, y: z.parallel(z.axes[1])), 'only the outermost loop'),
    (lambda: scheduled(lambda s, z, y: z.parallel(z.axes[0], rounds=3)), 'the 4 iterations of i0 are no multiple of its 3 rounds'),
    (lambda: scheduled(lambda s, z, y: y.compute_at(te.Schedule(Z)[Z], z.axes[0])), 'are of two schedules'),
    (lambda: scheduled(lambda s, z, y: y.compute_at(y, y.axes[0])), 'which is computed in it'),
    (lambda: scheduled(lambda s, z, y: (y.compute_at(z, z.axes[0]), z.compute_at(y, y.axes[0]))), 'which is computed in it'),
    (lambda: scheduled(lambda s, z, y: y.compute_at(z, y.axes[0])), 'is not one of the loops of z'),
    (lambda: scheduled(lambda s, z, y: s.cache_read(Y, 'registers', Z)), "scope 'registers' is none of"),
    (lambda: scheduled(lambda s, z, y: z.skip_unless(y.axes[0] < 2)), 'i0 is no axis of it'),
    (lambda: scheduled(lambda s, z, y: z.skip_unless(z.axes[0] < 2)), 'skip_unless of z: it is no sum'),
    (lambda: summed(lambda total: total.skip_unless(N[total.axes[0]] > 0)), 'the condition reads n; it is over axes'),
    (lambda: te.lower(te.Schedule([cleared()] * 2), [X]), 'cleared is an output of kernel kernel twice'),
    (lambda: summed(lambda total: total.fetch_next(X, total.axes[0], 2**40)), 'x in 4 iterations takes 17179869184 hints each'),
    (lambda: sums_around_columns(16), "total: 1048576 sums of 16 lanes each are more than a thread's stack holds"),
    (lambda: wide_kernel(lambda stage, axis: stage.vectorize(axis)), 'wide: the loop i0.i has 1048576 lanes, at most 2048'),
    (lambda: wide_kernel(lambda stage, axis: stage.unroll(axis)), 'wide: the loop i0.i writes out 1048576 iterations'),
    (lambda: wide_nest('vectorized'), 'the loop i has 1048576 lanes, at most 2048 are possible: split it'),
    (lambda: wide_nest('unrolled'), 'the loop i writes out 1048576 iterations, at most 1024 are possible'),
    (lambda: te.lower(te.Schedule(Z), []), 'x is read before it is computed'),
    (lambda: te.lower(te.Schedule(Z), [Y]), 'the input y is computed'),
    (lambda: te.lower(te.Schedule(Z), [X, te.placeholder((1,))]), 'two inputs are named x'),
    (lambda: te.build(te.Schedule(Z), [X], name='my kernel'), 'no name of a function'),
    (lambda: te.build(te.Schedule(Z), [X], target='x86-64-v33'), 'x86-64-v33'),
])
def test_what_does_not_fit_is_an_input_error(call, message):
    with pytest.raises(gantry.InputError, match=message):
        call()
