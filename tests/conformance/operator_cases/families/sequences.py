"""Recurrences, attention, and what goes with it."""
import numpy as np

from case import Input
from draw import Undefined

GATES = {'RNN': 1, 'GRU': 3, 'LSTM': 4}


def recurrence(d):
    """Outputs of all steps and of the last, in one direction or both."""
    gates = GATES[d.op]
    steps, batch, size, hidden = d.choice([1, 2, 5]), d.choice([1, 2, 3]), d.choice([1, 3]), d.choice([1, 2, 5])
    direction = d.choice(['forward', 'reverse', 'bidirectional'])
    directions = 2 if direction == 'bidirectional' else 1
    attributes = {'hidden_size': hidden}
    if direction != 'forward' or d.chance(0.3):
        attributes['direction'] = direction
    layout = d.has('layout') and d.chance(0.3) and directions == 1
    if layout:
        attributes['layout'] = 1
    if d.op == 'GRU' and d.has('linear_before_reset') and d.chance(0.5):
        attributes['linear_before_reset'] = d.choice([0, 1])
    dtype = d.type('T')
    unit = lambda *shape: d.values(dtype, shape, 'unit')
    initial = (batch, directions, hidden) if layout else (directions, batch, hidden)
    inputs = [unit(batch, steps, size) if layout else unit(steps, batch, size),
              Input(unit(directions, gates * hidden, size), constant=d.chance(0.6)),
              Input(unit(directions, gates * hidden, hidden), constant=d.chance(0.6)),
              unit(directions, 2 * gates * hidden) if d.chance(0.6) else None,
              np.asarray(d.random.integers(1, steps + 1, batch)).astype(np.int32) if d.chance(0.3) and d.version >= 7 else None,
              unit(*initial) if d.chance(0.5) else None]
    if d.op == 'LSTM':
        inputs += [unit(*initial) if d.chance(0.5) else None, unit(directions, 3 * hidden) if d.chance(0.3) else None]
    types = [dtype if d.chance(0.8) else None, dtype] + ([dtype] if d.op == 'LSTM' and d.chance(0.5) else [])
    judges = ('reference', 'runtime') if inputs[4] is None else ('runtime',)  # the reference passes over lengths
    oracle = None
    if d.version < 7:
        arrays = [each.array if isinstance(each, Input) else each for each in inputs]
        oracle = lambda run: run_newer(run, d.op, arrays, attributes, types)
    return d.case(inputs, attributes, outputs=types, scale=1, judges=judges, oracle=oracle)


def run_newer(run, op, arrays, attributes, types):
    results = run(op, 7, arrays, attributes, len(types))
    return [result for result, dtype in zip(results, types) if dtype is not None]


def rotary(d):
    batch, heads, steps, size = d.choice([1, 2]), d.choice([1, 3]), d.choice([1, 2, 5]), d.choice([2, 4, 8])
    attributes = {'interleaved': d.choice([0, 1])} if d.chance(0.6) else {}
    three = d.chance(0.5)
    if three:
        attributes['num_heads'] = heads
    of = size
    if d.chance(0.3) and size > 2:
        of = attributes['rotary_embedding_dim'] = size // 2
    x = d.input('T', (batch, steps, heads * size) if three else (batch, heads, steps, size))
    if d.chance(0.5):
        caches = [d.input('T', (9, of // 2), 'unit') for _ in range(2)]
        return d.case([x] + caches + [np.asarray(d.random.integers(0, 9, (batch, steps))).astype(np.int64)], attributes, scale=2)
    return d.case([x] + [d.input('T', (batch, steps, of // 2), 'unit') for _ in range(2)], attributes, scale=2)


def attention(d):
    batch, steps, keys = d.choice([1, 2]), d.choice([1, 2, 5]), d.choice([1, 3, 6])
    groups = d.choice([1, 1, 2])
    kv_heads = d.choice([1, 2])
    heads, size, value_size = groups * kv_heads, d.choice([1, 4, 8]), d.choice([1, 4, 9])
    attributes = {}
    if d.chance(0.3):
        attributes['is_causal'] = 1
    if d.chance(0.3):
        attributes['scale'] = 0.5
    if d.chance(0.2):
        attributes['softcap'] = 2.0
    sizes = ((heads, steps, size), (kv_heads, keys, size), (kv_heads, keys, value_size))
    three = d.chance(0.5)
    if three:
        attributes.update(q_num_heads=heads, kv_num_heads=kv_heads)
    shapes = [(batch, n, h * s) if three else (batch, h, n, s) for h, n, s in sizes]
    inputs = [d.input(name, shape, 'unit') for name, shape in zip(('T1', 'T1', 'T2'), shapes)]
    types = [d.type('T1')]
    mask_type = d.type('U')
    if mask_type.kind in 'iu':
        raise Undefined('masks of integers')
    mask = d.values(mask_type, (steps, keys) if d.chance(0.5) else (batch, 1, steps, keys), 'unit') if d.chance(0.5) else None
    if mask is not None and mask.dtype == bool:
        mask[..., 0] = True
    return d.case(inputs + [mask], attributes, outputs=types, scale=2)


def tensor_scatter(d):
    batch, heads, rows, size = d.choice([1, 2]), d.choice([1, 2]), d.choice([3, 5, 8]), d.choice([1, 4])
    count = d.integer(1, rows)
    mode = d.choice(['linear', 'circular'])
    low = d.random.integers(0, rows if mode == 'circular' else rows - count + 1, batch)
    indices = np.asarray(low).astype(np.int64) if d.chance(0.8) else None
    return d.case([d.input('T', (batch, heads, rows, size), 'special'), d.input('T', (batch, heads, count, size), 'special'),
                   indices], {'mode': mode})


FAMILY = {name: recurrence for name in GATES}
FAMILY.update({'RotaryEmbedding': rotary, 'Attention': attention, 'TensorScatter': tensor_scatter})
