"""Recurrences, attention, and what goes with it."""
import dataclasses

import numpy as np

from case import Input
from draw import Undefined
from expected import by_reference
from families import steps as steps_of

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
    layout = d.has('layout') and d.chance(0.3)
    if layout:
        attributes['layout'] = 1
    if d.op == 'GRU' and d.has('linear_before_reset') and d.chance(0.5):
        attributes['linear_before_reset'] = d.choice([0, 1])
    dtype = d.type('T')
    unit = lambda *shape: d.values(dtype, shape, 'unit')
    attributes.update(recurrence_choices(d, directions))
    initial = (batch, directions, hidden) if layout else (directions, batch, hidden)
    inputs = [unit(batch, steps, size) if layout else unit(steps, batch, size),
              Input(unit(directions, gates * hidden, size), constant=d.chance(0.6)),
              Input(unit(directions, gates * hidden, hidden), constant=d.chance(0.6)),
              unit(directions, 2 * gates * hidden) if d.chance(0.6) else None,
              np.asarray(d.random.integers(1, steps + 1, batch)).astype(np.int32) if d.chance(0.3) else None,
              unit(*initial) if d.chance(0.5) else None]
    if d.op == 'LSTM':
        inputs += [unit(*initial) if d.chance(0.5) else None, unit(directions, 3 * hidden) if d.chance(0.3) else None]
    types = [dtype if d.chance(0.8) else None, dtype] + ([dtype] if d.op == 'LSTM' and d.chance(0.5) else [])
    arrays = [each.array if isinstance(each, Input) else each for each in inputs]
    results = steps_of.recurrence(d.op, attributes, arrays)
    kept = [result for result, kind in zip(results, types) if kind is not None]
    return d.case(inputs, attributes, outputs=types, scale=1, oracle=lambda run: kept)


ACTIVATIONS = ['Relu', 'Tanh', 'Sigmoid', 'Affine', 'LeakyRelu', 'ThresholdedRelu', 'ScaledTanh', 'HardSigmoid', 'Elu',
               'Softsign', 'Softplus']


def recurrence_choices(d, directions):
    """Other activations than the usual ones, bounds of what goes into them, and forget gates coupled to those of input."""
    attributes = {}
    if d.chance(0.25):
        names = [d.choice(ACTIVATIONS) for _ in range({'RNN': 1, 'GRU': 2, 'LSTM': 3}[d.op] * directions)]
        attributes['activations'] = names
        for name, having in (('activation_alpha', steps_of.WITH_ALPHA), ('activation_beta', steps_of.WITH_BETA)):
            given = [d.choice([0.2, 0.5, 1.0]) for each in names if each in having]
            if given:
                attributes[name] = given
    if d.chance(0.15):
        attributes['clip'] = d.choice([0.3, 1.0])
    if d.op == 'LSTM' and d.chance(0.15):
        attributes['input_forget'] = 1
    return attributes


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


def linear_attention(d):
    batch, steps, kv_heads, groups = d.choice([1, 2]), d.choice([1, 2, 5]), d.choice([1, 2]), d.choice([1, 1, 2])
    size, value_size = d.choice([1, 2, 4]), d.choice([1, 3, 4])
    rule = d.choice(['linear', 'gated', 'delta', 'gated_delta'])
    attributes = {'q_num_heads': groups * kv_heads, 'kv_num_heads': kv_heads}
    if rule != 'gated_delta' or d.chance(0.5):
        attributes['update_rule'] = rule
    if d.chance(0.4):
        attributes['scale'] = d.choice([0.0, 0.5, 2.0])
    if d.chance(0.2):
        attributes['chunk_size'] = d.choice([1, 2, 64])
    unit = lambda width, kind='unit': d.input('T', (batch, steps, width), kind)
    past = d.chance(0.5)
    if not past:
        d.types['S'] = d.type('T')  # which has no other source
    inputs = [unit(groups * kv_heads * size), unit(kv_heads * size), unit(kv_heads * value_size),
              d.input('S', (batch, kv_heads, size, value_size), 'unit') if past else None,
              unit(kv_heads * d.choice([1, size])) if 'gated' in rule else None,
              unit(d.choice([1, kv_heads])) if 'delta' in rule else None]
    return d.case(inputs, attributes, outputs=[d.type('T'), d.type('S')], scale=4)


def causal_conv(d):
    batch, channels, length, taps = d.choice([1, 2]), d.choice([1, 3]), d.choice([1, 2, 5, 9]), d.choice([1, 2, 3, 4])
    attributes = {'activation': d.choice(['silu', 'swish', 'none'])} if d.chance(0.7) else {}
    inputs = [d.input('T', (batch, channels, length)), Input(d.values(d.type('T'), (channels, 1, taps)), d.chance(0.5)),
              d.input('T', (channels,)) if d.chance(0.5) else None,
              d.input('T', (batch, channels, taps - 1)) if d.chance(0.5) else None]
    return d.case(inputs, attributes, outputs=[d.type('T')] * 2, scale=8)


def attention(d):
    batch, steps, keys, past = d.choice([1, 2]), d.choice([1, 2, 5]), d.choice([1, 3, 6]), d.choice([0, 0, 1, 4])
    groups = d.choice([1, 1, 2])
    kv_heads = d.choice([1, 2])
    heads, size, value_size = groups * kv_heads, d.choice([1, 4, 8]), d.choice([1, 4, 9])
    attributes = attention_choices(d)
    sizes = ((heads, steps, size), (kv_heads, keys, size), (kv_heads, keys, value_size))
    three = d.chance(0.5)
    if three:
        attributes.update(q_num_heads=heads, kv_num_heads=kv_heads)
    shapes = [(batch, n, h * s) if three else (batch, h, n, s) for h, n, s in sizes]
    inputs = [d.input(name, shape, 'unit') for name, shape in zip(('T1', 'T1', 'T2'), shapes)]
    types = [d.type('T1')]
    caches = [None, None]
    if past:
        caches = [d.input(name, (batch, kv_heads, past, width), 'unit')
                  for name, width in (('T1', size), ('T2', value_size))]
        types += [d.type('T1'), d.type('T2')]
    if d.chance(0.3):
        types += [None] * (3 - len(types)) + [d.type('T1')]
        # In mode 0 the reference shows products behind the soft cap.
        attributes['qk_matmul_output_mode'] = d.choice([1, 2, 3] if 'softcap' in attributes else [0, 1, 2, 3])
    mask = attention_mask(d, batch, heads, steps, past + keys) if d.chance(0.5) else None
    padded = d.version >= 24 and not past and d.chance(0.3)
    lengths = np.asarray(d.random.integers(1, keys + 1, batch)) if padded else None
    case = d.case(inputs + [mask] + caches + [lengths], attributes, outputs=types, scale=2)
    if mask is not None and mask.shape[-2] != steps:  # from which the reference has the number of queries
        of_each = np.broadcast_to(mask, mask.shape[:-2] + (steps, mask.shape[-1]))
        case.oracle = lambda run: by_reference(with_mask(case, of_each))
    return case


def with_mask(case, mask):
    """The same attention, by the reference's own rules."""
    return dataclasses.replace(case, inputs=case.inputs[:3] + [Input(mask)] + case.inputs[4:], oracle=None)


def attention_choices(d):
    attributes = {}
    if d.chance(0.3):
        attributes['is_causal'] = 1
    if d.chance(0.3):
        attributes['scale'] = 0.5
    if d.chance(0.2):
        attributes['softcap'] = 2.0
    if d.chance(0.2):
        attributes['softmax_precision'] = 1
    for side in ('left_window_size', 'right_window_size'):
        if d.has(side) and d.chance(0.25):
            attributes[side] = d.choice([-1, 0, 1, 3])
    return attributes


def attention_mask(d, batch, heads, steps, keys):
    """Of two to four dimensions; a row may let no key in."""
    dtype = d.type('U')
    if dtype.kind in 'iu':
        raise Undefined('masks of integers')
    shape = d.choice([(steps, keys), (1, keys), (heads, steps, keys), (1, steps, keys), (batch, 1, steps, keys),
                      (batch, heads, steps, keys)])
    if d.version >= 24 and d.chance(0.1) and keys > 1:
        shape = shape[:-1] + (keys - 1,)
    mask = d.values(dtype, shape, 'unit')
    if dtype == bool and d.chance(0.8):
        mask[..., 0] = True
    elif dtype != bool and d.chance(0.3):
        mask = np.where(d.random.random(shape) < 0.3, np.asarray(-np.inf, dtype), mask).astype(dtype)
    return mask


def tensor_scatter(d):
    batch, heads, rows, size = d.choice([1, 2]), d.choice([1, 2]), d.choice([3, 5, 8]), d.choice([1, 4])
    count = d.integer(1, rows)
    mode = d.choice(['linear', 'circular'])
    low = d.random.integers(0, rows if mode == 'circular' else rows - count + 1, batch)
    indices = np.asarray(low).astype(np.int64) if d.chance(0.8) else None
    cache, update = (d.input('T', (batch, heads, length, size), 'special', texts=True) for length in (rows, count))
    return d.case([cache, update, indices], {'mode': mode})


FAMILY = {name: recurrence for name in GATES}
FAMILY.update({'RotaryEmbedding': rotary, 'Attention': attention, 'TensorScatter': tensor_scatter,
               'LinearAttention': linear_attention, 'CausalConvWithState': causal_conv})
