"""Reductions, positions of extremes, running sums, and what is normalised along an axis."""
import numpy as np

from draw import Undefined, is_integer

REDUCTIONS = ['ReduceSum', 'ReduceMean', 'ReduceMax', 'ReduceMin', 'ReduceProd', 'ReduceL1', 'ReduceL2', 'ReduceLogSum',
              'ReduceLogSumExp', 'ReduceSumSquare']
# What they give without elements is ONNX's; a mean is of none.
OF_NOTHING = [name for name in REDUCTIONS if name != 'ReduceMean']


def reduction_values(d, dtype, shape):
    if d.op == 'ReduceProd':
        return np.where(d.random.random(shape) < 0.9, 1, d.values(dtype, shape, 'whole')).astype(dtype)
    if d.op == 'ReduceLogSum' and is_integer(dtype):
        return d.values(dtype, shape, 'positive')
    if d.op in ('ReduceLogSum', 'ReduceL2') and not is_integer(dtype):
        return d.values(dtype, shape, d.choice(['positive', 'positive', 'infinite']))
    if d.op == 'ReduceLogSumExp':  # the reference takes infinities from infinities
        return d.values(dtype, shape, 'plain')
    if is_integer(dtype):
        return d.values(dtype, shape, 'special' if d.op in ('ReduceMax', 'ReduceMin') else 'plain')
    return d.values(dtype, shape, d.choice(['whole', 'whole', 'plain', 'special']))


def reduction(d):
    dtype, shape = d.type('T'), d.shape()
    x = reduction_values(d, dtype, shape)
    rank = len(shape)
    axes = d.axes(rank, negative=d.version >= 11) if rank and d.chance(0.75) else None
    attributes = {'keepdims': d.choice([0, 1])} if d.chance(0.8) else {}
    inputs = [x]
    noop = d.has('noop_with_empty_axes') and d.chance(0.3)
    if noop:
        attributes['noop_with_empty_axes'] = d.choice([0, 1])
    if d.has('axes'):
        attributes['axes'] = axes
    elif axes is not None or d.chance(0.3):
        inputs.append(d.steering(axes or []))
    reduced = range(rank) if not axes else [axis % rank for axis in axes]
    if any(shape[axis] == 0 for axis in reduced) and d.op not in OF_NOTHING:
        raise Undefined('a mean of nothing')
    oracle, judges = None, ('reference', 'runtime')
    if d.op == 'ReduceLogSumExp' and is_integer(dtype):  # of which both make integers in between
        judges = ('reference',)
        over = tuple(reduced) if axes or not attributes.get('noop_with_empty_axes') else ()
        kept = bool(attributes.get('keepdims', 1))
        oracle = lambda run: [cut_off(np.log(np.exp(x.astype(np.float64)).sum(axis=over, keepdims=kept)), dtype)]
    return d.case(inputs, attributes, scale=16, oracle=oracle, judges=judges)


def cut_off(x, dtype):
    """To integers, where no element is so near to one that another sum could cut it off elsewhere."""
    if (np.abs(x - np.rint(x)) < 1e-3).any() or (dtype.kind == 'u' and (x < 0).any()):
        raise ValueError('numbers next to integers')
    return np.trunc(x)


def extreme_position(d):
    shape = d.shape(least=1)
    axis = d.axis(len(shape), negative=d.version >= 11)
    if shape[axis] == 0:
        raise Undefined('the position of an extreme of nothing')
    attributes = {'keepdims': d.choice([0, 1]), 'axis': axis}
    if axis == 0 and d.chance(0.5):
        del attributes['axis']
    if d.has('select_last_index') and d.chance(0.5):
        attributes['select_last_index'] = d.choice([0, 1])
    return d.case([d.input('T', shape, 'whole')], attributes)


def running(d):
    shape = d.shape(least=1)
    dtype = d.type(d.schema.inputs[0].type_str)
    x = d.values(dtype, shape, 'whole' if d.op == 'CumSum' else 'plain')
    if d.op == 'CumProd':
        x = np.where(d.random.random(shape) < 0.8, 1, np.clip(x.astype(np.float64), -2, 2)).astype(dtype)
    axis = d.steering(d.axis(len(shape)), d.type('T2'))
    return d.case([x, axis], {name: d.choice([0, 1]) for name in ('exclusive', 'reverse') if d.chance(0.6)}, scale=16)


def along_axis(d):
    """Softmax and its like, which before operator set 13 are of matrices."""
    shape = d.shape(least=1)
    rank = len(shape)
    x = d.input(d.schema.inputs[0].type_str, shape, d.choice(['plain', 'plain', 'special']))
    if 0 in shape and d.op == 'Hardmax':
        raise Undefined('the greatest of nothing')
    axis = d.axis(rank, negative=d.version >= 11) if d.chance(0.7) else None
    if d.version >= 13:
        return d.case([x], {'axis': axis}, scale=1)
    if axis is None and rank < 2:
        axis = 0
    at = (1 if axis is None else axis) % rank
    matrix = (int(np.prod(shape[:at], dtype=np.int64)), int(np.prod(shape[at:], dtype=np.int64)))
    return d.case([x], {'axis': axis}, oracle=lambda run: [
        run(d.op, 13, [x.array.reshape(matrix)], {'axis': 1})[0].reshape(shape)], scale=1)


FAMILY = {name: reduction for name in REDUCTIONS}
FAMILY.update({'ArgMax': extreme_position, 'ArgMin': extreme_position, 'CumSum': running, 'CumProd': running,
               'Softmax': along_axis, 'LogSoftmax': along_axis, 'Hardmax': along_axis})
