"""Ops that move elements as they lie, or say what shape they have."""
import numpy as np
from onnx import helper, numpy_helper

from case import Input
from draw import TEXT, Undefined, is_float


def any_values(d, shape, parameter=None):
    return d.input(parameter or d.schema.inputs[0].type_str, shape, 'special', texts=True)


def factors(d, size, rank):
    """A shape of so many elements."""
    shape = [1] * rank
    left, prime = size, 2
    while left > 1:
        while left % prime:
            prime += 1
        shape[d.integer(0, rank - 1)] *= prime
        left //= prime
    return shape


def reshape(d):
    shape = d.shape()
    size = int(np.prod(shape, dtype=np.int64))
    rank = d.integer(1, 6)
    if size == 0:
        to = [d.choice([1, 2, 3]) for _ in range(rank)]
        allow_zero = d.has('allowzero') and d.chance(0.6)
        at = d.integer(0, rank - 1)
        if allow_zero:
            to[at] = 0
        elif at < len(shape) and shape[at] == 0:
            to[at] = 0
        else:
            raise Undefined('no dimension of 0 to keep')
        return reshaped(d, shape, to, {'allowzero': 1} if allow_zero else {})
    to = factors(d, size, rank) if size > 1 or d.chance(0.8) else []
    for axis in range(len(to)):
        if axis < len(shape) and to[axis] == shape[axis] and d.chance(0.4):
            to[axis] = 0
    if to and d.chance(0.5):
        to[d.integer(0, len(to) - 1)] = -1
    return reshaped(d, shape, to, {})


def reshaped(d, shape, to, attributes):
    x = any_values(d, shape)
    if d.version < 5:
        if not to:
            raise Undefined('a list of nothing, which has no type as an attribute')
        return d.case([x], {'shape': to}, oracle=lambda run: run('Reshape', 13, [x.array, np.array(to, np.int64)], {}))
    return d.case([x, d.steering(to)], attributes)


def flatten(d):
    shape = d.shape(least=0 if d.version >= 9 else 1)
    axis = d.integer(0 if d.version < 11 else -len(shape), len(shape))
    if not shape:
        axis = 0
    return d.case([any_values(d, shape)], {'axis': axis} if axis != 1 or d.chance(0.5) else {})


def squeeze(d):
    shape = list(d.shape(least=1))
    for axis in range(len(shape)):
        shape[axis] = 1 if d.chance(0.4) else shape[axis]
    ones = [axis for axis, size in enumerate(shape) if size == 1]
    x = any_values(d, tuple(shape))
    if not ones or d.chance(0.2):  # how many are left must not depend on an open dimension
        return d.case([x], fixed=True)
    axes = [axis - len(shape) if d.version >= 11 and d.chance(0.3) else axis for axis in ones if d.chance(0.7)] or [ones[0]]
    return d.case([x], {'axes': axes}) if d.has('axes') else d.case([x, d.steering(axes)])


def unsqueeze(d):
    shape = d.shape(most=3)
    rank = len(shape) + d.integer(1, 3)
    axes = sorted(int(axis) for axis in d.random.permutation(rank)[:rank - len(shape)])
    axes = [axis - rank if d.version >= 11 and d.chance(0.3) else axis for axis in axes]
    if d.version >= 11 and d.chance(0.3):
        axes.reverse()
    x = any_values(d, shape)
    return d.case([x], {'axes': axes}) if d.has('axes') else d.case([x, d.steering(axes)])


def transpose(d):
    shape = d.shape()
    perm = [int(axis) for axis in d.random.permutation(len(shape))] if len(shape) and d.chance(0.8) else None
    return d.case([any_values(d, shape)], {'perm': perm})


def expand(d):
    shape = d.shape()
    return d.case([any_values(d, d.broadcast(shape)), d.steering(d.broadcast(shape) if d.chance(0.3) else shape)])


def tile(d):
    shape = d.shape(least=1)
    if d.version < 6:
        axis, times = d.axis(len(shape), negative=False), d.choice([1, 2, 3])
        x = any_values(d, shape)
        repeats = [times if at == axis else 1 for at in range(len(shape))]
        dtype = x.array.dtype
        if dtype == TEXT:
            raise Undefined('numbers of strings')
        return d.case([x, Input(np.array([times], dtype), constant=True), Input(np.array([axis], dtype), constant=True)],
                      oracle=lambda run: run('Tile', 13, [x.array, np.array(repeats, np.int64)], {}))
    return d.case([any_values(d, shape), d.steering([d.choice([0, 1, 1, 2, 3]) if len(shape) < 5 else d.choice([1, 1, 2])
                                                     for _ in shape])])


def concat(d):
    shape = d.shape(least=1)
    axis = d.axis(len(shape), negative=d.version >= 11)
    if d.version < 4 and len(shape) > 1 and d.chance(0.4):
        axis = None
    at = 1 if axis is None else axis % len(shape)
    dtype = d.type('T', texts=True)
    inputs = []
    for _ in range(d.integer(1, 4)):
        size = d.choice([0, 1, 2, 3, 5])
        inputs.append(d.values(dtype, shape[:at] + (size,) + shape[at + 1:], 'special'))
    return d.case(inputs, {'axis': axis})


def split(d):
    shape = list(d.shape(least=1))
    axis = d.axis(len(shape), negative=d.version >= 11)
    count = d.integer(1, 4)
    attributes = {'axis': axis} if axis != 0 or d.chance(0.5) else {}
    inputs = []
    if d.chance(0.6):
        sizes = [d.choice([0, 1, 2, 3] if d.version >= 2 else [1, 2, 3]) for _ in range(count)]
        shape[axis] = sum(sizes)
        if d.has('split'):
            attributes['split'] = sizes
        else:
            inputs = [d.steering(sizes)]
    else:
        shape[axis] = count * d.choice([1, 2, 3])
        if d.has('num_outputs'):
            attributes['num_outputs'] = count
            last = d.integer(0, shape[axis] // count - 1)
            shape[axis] -= last if last < shape[axis] // count and count > 1 else 0
    x = any_values(d, tuple(shape))
    oracle = (lambda run: run_split(run, x.array, attributes, count)) if d.version < 2 else None
    return d.case([x] + inputs, attributes, outputs=[x.array.dtype] * count, oracle=oracle)


def run_split(run, x, attributes, count):
    """Slices, by the reference's Slice."""
    axis = attributes.get('axis', 0)
    sizes = attributes.get('split', [x.shape[axis] // count] * count)
    ends = np.cumsum(sizes)
    one = lambda value: np.array([value], np.int64)
    return [run('Slice', 13, [x, one(end - size), one(end), one(axis)], {})[0] for size, end in zip(sizes, ends)]


def facts(d):
    attributes = {}
    if d.has('start'):
        attributes = {name: d.integer(-7, 7) for name in ('start', 'end') if d.chance(0.5)}
    x = any_values(d, d.shape())
    return d.case([x], attributes, oracle=None if d.op == 'Size' else lambda run: [extents(x.array.shape, **attributes)])


def extents(shape, start=0, end=None):
    """Shape's definition: both bounds are brought into the list, where the reference counts from the end twice."""
    rank = len(shape)
    start, end = (min(max(bound + rank if bound < 0 else bound, 0), rank) for bound in (start, rank if end is None else end))
    return np.array(shape[start:max(start, end)], np.int64)


def constant_of_shape(d):
    shape = d.shape()
    dtype = d.type('T2') if d.chance(0.8) else np.dtype(np.float32)
    value = None
    if dtype != np.float32 or d.chance(0.5):
        value = helper.make_tensor('value', element_code(dtype), [1], d.values(dtype, (1,), 'plain').tobytes(), raw=True) \
            if dtype.itemsize * 8 >= 8 and dtype.kind in 'fiub' else None
        if value is None and dtype != np.float32:
            raise Undefined('packed values')
    return d.case([d.steering(shape)], {'value': value}, outputs=[dtype])


def constant(d):
    """By any of its attributes; those of one value and of a list are of int64, float32 and strings."""
    kind = d.choice([name for name in ('value', 'value_int', 'value_ints', 'value_float', 'value_floats', 'value_string',
                                       'value_strings', 'sparse_value') if d.has(name)])
    if kind == 'value':
        array = d.values(d.type('T', texts=True), d.shape(), 'special')
        return d.case([], {kind: numpy_helper.from_array(array)}, outputs=[array.dtype], oracle=lambda run: [array])
    if kind == 'sparse_value':
        return sparse_constant(d)
    dtype = {'i': np.dtype(np.int64), 'f': np.dtype(np.float32), 's': TEXT}[kind[len('value_')]]
    array = d.values(dtype, (d.choice([1, 2, 5]),) if kind.endswith('s') else (), 'special')
    return d.case([], {kind: array.tolist()}, outputs=[dtype], oracle=lambda run: [array])


def sparse_constant(d):
    """Of places that are counted through all elements, or given by axis."""
    shape = d.shape(least=1, empty=False)
    size = int(np.prod(shape))
    places = np.sort(d.random.permutation(size)[:d.integer(1, min(size, 9))])
    dtype = np.dtype(d.choice([np.float32, np.int64, np.float16, np.int8, np.float64]))
    values = d.values(dtype, places.shape, 'special')
    array = np.zeros(size, dtype)
    array[places] = values
    by_axis = np.stack(np.unravel_index(places, shape), axis=-1)
    indices = np.asarray(places if d.chance(0.5) else by_axis, np.int64)
    sparse = helper.make_sparse_tensor(numpy_helper.from_array(values, 'v'), numpy_helper.from_array(indices, 'i'), shape)
    return d.case([], {'sparse_value': sparse}, outputs=[dtype], oracle=lambda run: [array.reshape(shape)])


def element_code(dtype):
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def blocks(d):
    """DepthToSpace and SpaceToDepth."""
    size = d.choice([1, 2, 3])
    n, c, h, w = (d.choice([1, 1, 2, 3]) for _ in range(4))
    if d.chance(0.1):
        n = 0
    shape = (n, c * size * size, h, w) if d.op == 'DepthToSpace' else (n, c, h * size, w * size)
    attributes = {'blocksize': size}
    if d.has('mode') and d.chance(0.6):
        attributes['mode'] = d.choice(['DCR', 'CRD'])
    return d.case([any_values(d, shape)], attributes)


def trilu(d):
    shape = d.shape(least=2)
    k = d.steering(d.choice([-10**9, -4, -1, 0, 1, 2, 5, 10**9])) if d.chance(0.7) else None
    return d.case([any_values(d, shape), k], {'upper': d.choice([0, 1])} if d.chance(0.7) else {})


def eye_like(d):
    shape = (d.choice([0, 1, 2, 5]), d.choice([0, 1, 3, 17]))
    attributes = {'k': d.choice([-20, -2, -1, 0, 1, 3, 20])} if d.chance(0.7) else {}
    x = any_values(d, shape)
    dtype = x.array.dtype
    if d.chance(0.5):
        dtype = d.type('T2')
        attributes['dtype'] = element_code(dtype)
    return d.case([x], attributes, outputs=[dtype])


def number_range(d):
    dtype = d.type('T')
    start, delta = d.integer(-5, 5), d.choice([1, 2, 3, -1, -2])
    limit = start + delta * d.choice([-2, 0, 1, 3, 7, 40]) + d.choice([0, 1])
    if dtype.kind == 'u':
        raise Undefined('negative numbers')
    numbers = [np.array(value, dtype) for value in (start, limit, delta)]
    if is_float(dtype):
        numbers[2] = (numbers[2] * np.array(0.5, dtype)).astype(dtype)
    return d.case([d.steering(number, dtype) for number in numbers])


def pad(d):
    shape = d.shape(least=1)
    mode = d.choice(['constant', 'constant', 'reflect', 'edge'] + (['wrap'] if d.version >= 19 else []))
    inputs = []
    axes = list(range(len(shape)))
    if d.version >= 18 and d.chance(0.4):
        axes = d.axes(len(shape))
    sides = [side_pads(d, shape[axis], mode) for axis in axes]
    pads = [low for low, _ in sides] + [high for _, high in sides]
    attributes = {'mode': mode} if mode != 'constant' or d.chance(0.5) else {}
    x = any_values(d, shape)
    dtype = x.array.dtype
    if d.version < 11:
        attributes['paddings' if d.version < 2 else 'pads'] = pads
        if d.chance(0.6):
            attributes['value'] = d.choice([0.5, -2.0, float('inf')])
        return d.case([x], attributes)
    value = Input(d.values(dtype, ()), constant=d.chance(0.5)) if d.chance(0.6) else None
    inputs = [x, d.steering(pads), value]
    if d.version >= 18 and (axes != list(range(len(shape))) or d.chance(0.3)):
        inputs.append(d.steering(axes, d.type('Tind')))
    return d.case(inputs, attributes)


def side_pads(d, size, mode):
    """Before and after; negative ones cut."""
    if mode == 'constant':
        low = d.choice([0, 0, 1, 2, 40, -1])
        high = d.choice([0, 0, 1, 3, 40, -1, -2])
        return (low, high) if size + low + high >= 0 and size + min(low, 0) + min(high, 0) >= 0 else (0, 0)
    if size == 0:
        return 0, 0
    most = size - 1 if mode == 'reflect' else 3 if mode == 'edge' else size
    return d.integer(0, min(most, 3)), d.integer(0, min(most, 3))


FAMILY = {'Reshape': reshape, 'Flatten': flatten, 'Squeeze': squeeze, 'Unsqueeze': unsqueeze, 'Transpose': transpose,
          'Expand': expand, 'Tile': tile, 'Concat': concat, 'Split': split, 'Shape': facts, 'Size': facts,
          'ConstantOfShape': constant_of_shape, 'DepthToSpace': blocks, 'SpaceToDepth': blocks, 'Trilu': trilu,
          'EyeLike': eye_like, 'Range': number_range, 'Pad': pad, 'Constant': constant}
