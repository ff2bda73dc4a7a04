"""Ops that take, put, cut and sort elements by position."""
import numpy as np

from case import Input
from draw import TEXT, Undefined

FAR = [-2**63, -2**40, -2**31, 2**31 - 1, 2**40, 2**63 - 1]


def positions(d, size, shape, negative):
    """Along an axis of this size."""
    if size == 0 and np.prod(shape) > 0:
        raise Undefined('positions of nothing')
    drawn = np.asarray(d.random.integers(-size if negative and d.chance(0.5) else 0, max(size, 1), shape))
    return drawn.astype(d.type('Tind'))


def data(d, shape, kind='special', parameter='T'):
    return d.values(d.type(parameter, texts=True), shape, kind)


def gather(d):
    shape = d.shape(least=1)
    axis = d.axis(len(shape))
    indices = positions(d, shape[axis], d.shape(most=2), d.version >= 11)
    return d.case([data(d, shape), Input(indices, constant=d.chance(0.3))], {'axis': axis} if axis or d.chance(0.5) else {})


def gather_elements(d):
    shape = d.shape(least=1)
    axis = d.axis(len(shape))
    at = axis % len(shape)
    sizes = tuple(d.choice([0, 1, 2, 5]) if each == at else d.integer(min(1, size), size) for each, size in enumerate(shape))
    return d.case([data(d, shape), Input(positions(d, shape[at], sizes, True), constant=d.chance(0.3))], {'axis': axis})


def gather_nd(d):
    shape = d.shape(least=1)
    batch = d.integer(0, min(2, len(shape) - 1)) if d.has('batch_dims') and d.chance(0.5) else 0
    depth = d.integer(1, len(shape) - batch)
    outer = shape[:batch] + (d.shape(least=0 if batch == 0 else 1, most=2))[:2]
    indices = tuples(d, shape[batch:batch + depth], outer)
    return d.case([data(d, shape), indices], {'batch_dims': batch} if batch else {})


def tuples(d, sizes, outer):
    if 0 in sizes and np.prod(outer) > 0:
        raise Undefined('positions of nothing')
    columns = [np.asarray(d.random.integers(-size if d.chance(0.4) else 0, max(size, 1), outer)) for size in sizes]
    return np.stack(columns, axis=-1).astype(np.int64)


def reduction_of(d, dtype):
    if d.version < 16 or d.chance(0.5) or dtype in (bool, TEXT):
        return None
    return d.choice(['add', 'mul'] + (['max', 'min'] if d.version >= 18 else []))


def scatter_elements(d):
    shape = d.shape(least=1)
    axis = d.axis(len(shape), negative=d.version >= 11)
    at = axis % len(shape)
    dtype = d.type('T', texts=True)
    reduction = reduction_of(d, dtype)
    sizes = tuple(d.integer(0 if d.chance(0.1) else min(1, size), size) for size in shape)
    if reduction:
        indices = positions(d, shape[at], sizes, True)
    else:  # each place once
        order = np.argsort(d.random.random(sizes[:at] + (shape[at],) + sizes[at + 1:]), axis=at)
        indices = np.take(order, range(sizes[at]), axis=at)
        negative = d.chance(0.4) and d.version >= 11
        indices = (indices - shape[at] if negative else indices).astype(d.type('Tind'))
    kind = 'whole' if reduction else 'special'
    attributes = {'axis': axis, 'reduction': reduction}
    return d.case([data(d, shape, kind), Input(indices, constant=d.chance(0.3)), data(d, sizes, kind)], attributes, scale=8)


def scatter_nd(d):
    shape = d.shape(least=1)
    depth = d.integer(1, len(shape))
    dtype = d.type('T', texts=True)
    reduction = reduction_of(d, dtype)
    outer = d.shape(least=1, most=2)[:2] if reduction else (d.choice([0, 1, 2, 3]),)
    indices = tuples(d, shape[:depth], outer)
    if not reduction:
        places = indices % np.array(shape[:depth]) if indices.size else indices
        if len(np.unique(places, axis=0)) != len(places):
            raise Undefined('two updates of one place')
    kind = 'whole' if reduction else 'special'
    updates = data(d, tuple(outer) + shape[depth:], kind)
    return d.case([data(d, shape, kind), indices, updates], {'reduction': reduction}, scale=8)


def slices(d):
    shape = d.shape(least=1)
    rank = len(shape)
    axes = d.axes(rank, negative=d.version >= 11)
    bound = lambda size: d.choice(FAR) if d.chance(0.15) else d.integer(-size - 2, size + 2)
    starts, ends = [bound(shape[axis]) for axis in axes], [bound(shape[axis]) for axis in axes]
    steps = [d.choice([1, 1, 2, 3, -1, -2, 100, -100]) for _ in axes]
    if d.chance(0.05):
        steps[0] = d.choice([2**40, -2**40, 2**63 - 1, -2**63 + 1])
    x = data(d, shape)
    limits = np.iinfo(np.int64 if d.version < 10 else d.type('Tind'))
    clip = lambda values: [min(max(value, limits.min), limits.max) for value in values]
    starts, ends, steps = clip(starts), clip(ends), [max(step, limits.min + 1) for step in clip(steps)]
    natural = axes == list(range(len(axes)))
    if d.version < 10:
        return d.case([x], {'starts': starts, 'ends': ends, 'axes': None if natural and d.chance(0.5) else axes})
    given = lambda values: d.steering(values, d.type('Tind'))
    inputs = [x, given(starts), given(ends)]
    with_steps = d.chance(0.6)
    if not natural or with_steps or d.chance(0.5):
        inputs.append(None if natural and d.chance(0.4) else given(axes))
    if with_steps:
        inputs.append(given(steps))
    result = cut(x, starts, ends, axes, steps if with_steps else [1] * len(axes))
    return d.case(inputs, oracle=lambda run: [result])


def cut(x, starts, ends, axes, steps):
    """Slice's definition: bounds are brought into the axis, where numpy takes a start before it as behind its end."""
    for start, end, axis, step in zip(starts, ends, axes, steps):
        size = x.shape[axis]
        start, end = (bound + size if bound < 0 else bound for bound in (start, end))
        low, high = (0, size) if step > 0 else (-1, size - 1)
        start, end = min(max(start, 0), high), min(max(end, low), high)
        x = np.take(x, range(start, end, step) if size else [], axis)
    return x


def one_hot(d):
    shape = d.shape(least=1, most=3)
    depth = d.choice([1, 2, 5, 17])
    axis = d.axis(len(shape) + 1) if d.chance(0.7) else -1
    indices_type, depth_type = d.type('T1'), d.type('T2')
    low = -depth - 1 if indices_type.kind != 'u' and d.version >= 11 else 0
    indices = np.asarray(d.random.integers(low, depth + 2, shape)).astype(indices_type)
    size = d.steering(depth if d.chance(0.5) else [depth], depth_type)
    values = data(d, (2,), 'plain', 'T3')
    def chosen(run):  # the reference computes with the two values, which rounds
        (is_on,) = run('OneHot', 11, [indices.astype(np.int64), np.array(depth, np.int64), np.array([0, 1])], {'axis': axis})
        return [values[is_on]]
    return d.case([indices, size, values], {'axis': axis}, oracle=chosen)


def non_zero(d):
    shape = d.shape()
    x = data(d, shape, 'plain')
    keep = d.random.random(shape) < d.choice([0.0, 0.3, 0.7, 1.0])
    nothing = np.array('', TEXT) if x.dtype == TEXT else np.zeros((), x.dtype)
    return d.case([np.where(keep, x, nothing)], outputs=[np.dtype(np.int64)])


def compress(d):
    shape = d.shape(least=1)
    axis = d.axis(len(shape), negative=d.version >= 11) if d.chance(0.7) else None
    size = int(np.prod(shape)) if axis is None else shape[axis]
    condition = np.asarray(d.random.random(d.integer(0, size)) < d.choice([0.0, 0.5, 1.0]))
    return d.case([data(d, shape), Input(condition, steers=True)], {'axis': axis})


def top_k(d):
    shape = d.shape(least=1)
    axis = d.axis(len(shape)) if d.chance(0.7) else -1
    k = d.integer(0, shape[axis])
    x = data(d, shape, d.choice(['plain', 'whole', 'extremes']))
    types = [x.dtype, np.dtype(np.int64)]
    attributes = {'axis': axis}
    if d.version < 10:
        return d.case([x], dict(attributes, k=max(k, 1)), outputs=types) if shape[axis] else undefined('k of nothing')
    if d.has('largest'):
        attributes['largest'] = d.choice([0, 1])
    return d.case([x, d.steering([k])], attributes, outputs=types)


def undefined(why):
    raise Undefined(why)


def unique(d):
    shape = d.shape(least=1)
    x = data(d, shape, 'whole')
    axis = d.axis(len(shape)) if d.chance(0.5) else None
    if 0 in shape and axis is not None:
        raise Undefined('slices of nothing')
    types = [x.dtype] + [np.dtype(np.int64) if d.chance(0.7) else None for _ in range(3)]
    while types[-1] is None:
        types.pop()
    is_sorted = d.choice([0, 1])
    results = distinct(x, axis, is_sorted)
    kept = [result for result, kind in zip(results, types) if kind is not None]
    return d.case([x], {'axis': axis, 'sorted': is_sorted}, outputs=types, oracle=lambda run: kept)


def distinct(x, axis, is_sorted):
    """Unique's four outputs: slices along an axis, or elements, that occur, in their order or that of their first places."""
    slices = [x.reshape(-1)[at] for at in range(x.size)] if axis is None else list(np.moveaxis(x, axis, 0))
    keys = [tuple(np.asarray(each).reshape(-1).tolist()) for each in slices]
    first = {}
    for at, key in enumerate(keys):
        first.setdefault(key, at)
    order = sorted(first) if is_sorted else list(first)
    places = [first[key] for key in order]
    y = x.reshape(-1)[places] if axis is None else np.take(x, places, axis)
    rank = {key: at for at, key in enumerate(order)}
    return [y] + [np.array(numbers, np.int64) for numbers in (
        places, [rank[key] for key in keys], [keys.count(key) for key in order])]


def reverse_sequence(d):
    shape = d.shape(least=2, empty=False)
    batch = d.integer(0, 1)
    lengths = np.asarray(d.random.integers(1, shape[1 - batch] + 1, shape[batch])).astype(np.int64)
    attributes = {'batch_axis': batch, 'time_axis': 1 - batch}
    return d.case([data(d, shape), lengths], attributes if batch == 0 or d.chance(0.5) else {})


def suppression(d):
    batches, classes, boxes = d.choice([1, 1, 2]), d.choice([1, 2, 3]), d.choice([0, 1, 2, 6, 20])
    corners = d.random.random((batches, boxes, 4)).astype(np.float32)
    if d.chance(0.5):
        corners = np.round(corners * 8) / np.float32(8)
    scores = d.random.random((batches, classes, boxes)).astype(np.float32)
    inputs = [corners, scores]
    if d.chance(0.85):
        inputs.append(d.steering([d.choice([0, 1, 2, 10])]))
        inputs.append(Input(np.array([d.choice([0.0, 0.3, 0.5, 1.0])], np.float32), constant=d.chance(0.5))
                      if d.chance(0.7) else None)
        inputs.append(Input(np.array([d.choice([0.0, 0.4])], np.float32), constant=d.chance(0.5))
                      if d.chance(0.5) else None)
    attributes = {'center_point_box': d.choice([0, 1])} if d.chance(0.6) else {}
    return d.case(inputs, attributes, outputs=[np.dtype(np.int64)])


FAMILY = {'Gather': gather, 'GatherElements': gather_elements, 'GatherND': gather_nd, 'Scatter': scatter_elements,
          'ScatterElements': scatter_elements, 'ScatterND': scatter_nd, 'Slice': slices, 'OneHot': one_hot,
          'NonZero': non_zero, 'Compress': compress, 'TopK': top_k, 'Unique': unique, 'ReverseSequence': reverse_sequence,
          'NonMaxSuppression': suppression}
