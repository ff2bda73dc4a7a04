"""Normalisations, losses and Dropout as it is without training."""
import numpy as np

from draw import Undefined


def floats(d, shape, kind='plain', parameter='T'):
    return d.values(d.type(parameter), shape, kind)


def epsilon(d):
    return {'epsilon': d.choice([1e-5, 1e-3, 0.1])} if d.chance(0.5) else {}


def batch_norm(d):
    shape = d.shape(least=1 if d.version >= 9 else 2, empty=d.chance(0.3))
    attributes = epsilon(d)
    if d.version < 7:
        attributes['is_test'] = 1
    if d.version < 6:
        attributes['consumed_inputs'] = [0, 0, 0, 1, 1]
    channels = shape[1:2] or (1,)
    if d.has('spatial') and d.chance(0.3):
        attributes['spatial'], channels = 0, shape[1:]
    scale_type = 'T1' if d.version >= 15 else 'T'
    mean_type = {14: 'U', 15: 'T2'}.get(d.version, 'T')
    # Of numbers near the largest, the order of the operations decides what overflows in between.
    x = floats(d, shape, d.choice(['plain', 'infinite']))
    statistics = [floats(d, channels, 'plain', scale_type), floats(d, channels, 'plain', scale_type),
                  floats(d, channels, 'plain', mean_type), floats(d, channels, 'positive', mean_type)]
    along = channels + (1,) * (len(shape) - 2) if len(channels) == 1 else channels
    return d.case([x] + statistics, attributes, scale=4,
                  oracle=lambda run: [by_statistics(x, statistics, along, attributes.get('epsilon', 1e-5))])


def by_statistics(x, statistics, along, epsilon):
    """BatchNormalization's formula: (x - mean) / sqrt(variance + epsilon) * scale + bias."""
    scale, bias, mean, variance = (each.astype(np.float64).reshape(along) for each in statistics)
    return (x.astype(np.float64) - mean) / np.sqrt(variance + epsilon) * scale + bias


def instance_norm(d):
    shape = d.shape(least=3, empty=False)
    channels = (shape[1],)
    return d.case([floats(d, shape), floats(d, channels), floats(d, channels)], epsilon(d), scale=4)


def layer_norm(d):
    shape = d.shape(least=1, empty=d.chance(0.3))
    axis = d.axis(len(shape))
    inner = shape[axis % len(shape):]
    if 0 in inner:
        raise Undefined('a mean of nothing')
    scale = d.broadcast(inner) if d.chance(0.2) else inner
    inputs = [floats(d, shape), floats(d, scale), floats(d, inner) if d.chance(0.5) else None]
    types = [d.type('T')] + [np.dtype(np.float32)] * d.integer(0, 2)
    return d.case(inputs, dict(epsilon(d), axis=axis), outputs=types, scale=4)


def rms_norm(d):
    shape = d.shape(least=1, empty=d.chance(0.3))
    axis = d.axis(len(shape))
    inner = shape[axis % len(shape):]
    if 0 in inner:
        raise Undefined('a mean of nothing')
    d.types['V'] = d.type('T')
    return d.case([floats(d, shape), floats(d, inner, 'plain', 'V')], dict(epsilon(d), axis=axis), outputs=[d.type('V')], scale=4)


def group_norm(d):
    shape = d.shape(least=3, empty=False)
    groups = d.choice([1, 2, 3])
    shape = (shape[0], groups * d.choice([1, 2])) + shape[2:]
    of = (groups,) if d.version < 21 else (shape[1],)
    return d.case([floats(d, shape), floats(d, of), floats(d, of)], dict(epsilon(d), num_groups=groups), scale=4)


def response_norm(d):
    shape = d.shape(least=3)
    attributes = {'size': d.choice([1, 3, 5])}
    for name, values in (('alpha', [1e-4, 0.5]), ('beta', [0.75, 0.5]), ('bias', [1.0, 2.0])):
        if d.chance(0.5):
            attributes[name] = d.choice(values)
    x = floats(d, shape)
    return d.case([x], attributes, oracle=lambda run: [by_neighbours(x.astype(np.float64), **attributes)])


def by_neighbours(x, size, alpha=1e-4, beta=0.75, bias=1.0):
    """LRN's formula, over neighbouring channels."""
    low, high = (size - 1) // 2, size - 1 - (size - 1) // 2
    squares = np.stack([(x[:, max(0, c - low):c + high + 1] ** 2).sum(axis=1) for c in range(x.shape[1])], axis=1) \
        if x.shape[1] else x
    return x / (bias + alpha / size * squares) ** beta


def lp_norm(d):
    shape = d.shape(least=1)
    attributes = {'axis': d.axis(len(shape))} if d.chance(0.7) else {}
    x, p = floats(d, shape, d.choice(['plain', 'whole'])), d.choice([1, 2])
    return d.case([x], dict(attributes, p=p),
                  oracle=lambda run: [by_norm(x.astype(np.float64), attributes.get('axis', -1), p)])


def by_norm(x, axis, p):
    """LpNormalization; a norm of 0 leaves zeros. The reference has no absolute values for p = 1."""
    norm = (np.abs(x) ** p).sum(axis=axis, keepdims=True) ** (1 / p)
    return np.where(norm == 0, 0, x / np.where(norm == 0, 1, norm))


def mean_variance(d):
    shape = d.shape(least=4, empty=False)
    axes = d.axes(len(shape)) if len(shape) != 4 or d.chance(0.6) else None
    x = floats(d, shape)
    over = tuple((0, 2, 3) if axes is None else (axis % len(shape) for axis in axes))
    return d.case([x], {'axes': axes}, scale=4, oracle=lambda run: [by_deviation(x.astype(np.float64), over)])


def by_deviation(x, axes):
    return (x - x.mean(axis=axes, keepdims=True)) / (x.std(axis=axes, keepdims=True) + 1e-9)


def dropout(d):
    x = floats(d, d.shape(), 'special')
    types = [x.dtype]
    attributes, inputs = {}, [x]
    if d.version < 7:
        attributes['is_test'] = 1
    if d.has('ratio') and d.chance(0.5):
        attributes['ratio'] = 0.3
    if d.version >= 12:
        inputs.append(np.asarray(0.3, d.type('T1')) if d.chance(0.5) else None)
        inputs.append(np.array(False) if d.chance(0.3) else None)
    if d.version >= 10 and d.chance(0.5):
        types.append(np.dtype(bool))
    as_it_is = [x, np.ones(x.shape, bool)][:len(types)]
    return d.case(inputs, attributes, outputs=types, oracle=lambda run: as_it_is)


def loss(d):
    classes = d.choice([1, 2, 5])
    outer = d.shape(most=3, empty=False)[:3]
    batch = d.choice([1, 2, 3])
    scores = floats(d, (batch, classes) + outer)
    targets = np.asarray(d.random.integers(0, classes, (batch,) + outer)).astype(d.type('Tind'))
    attributes = {'reduction': d.choice(['none', 'sum', 'mean'])} if d.chance(0.8) else {}
    if d.chance(0.4):
        attributes['ignore_index'] = d.choice([0, classes - 1, -1, 255])
        if attributes['ignore_index'] in (-1, 255):
            targets = np.where(d.random.random(targets.shape) < 0.3, attributes['ignore_index'], targets).astype(targets.dtype)
    weights = floats(d, (classes,), 'positive') if d.chance(0.5) else None
    types = [scores.dtype]
    if d.op == 'SoftmaxCrossEntropyLoss' and d.chance(0.4):
        types.append(scores.dtype)
    # Of targets that are -1 the reference takes none as ignored where there are no weights.
    judges = ('runtime',) if attributes.get('ignore_index') == -1 and weights is None else ('reference', 'runtime')
    return d.case([scores, targets, weights], attributes, outputs=types, scale=8, judges=judges)


FAMILY = {'BatchNormalization': batch_norm, 'InstanceNormalization': instance_norm, 'LayerNormalization': layer_norm,
          'RMSNormalization': rms_norm, 'GroupNormalization': group_norm, 'LRN': response_norm,
          'LpNormalization': lp_norm, 'MeanVarianceNormalization': mean_variance, 'Dropout': dropout,
          'NegativeLogLikelihoodLoss': loss, 'SoftmaxCrossEntropyLoss': loss}
