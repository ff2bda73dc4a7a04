"""Ops of windows that move over spatial axes: convolutions and poolings."""
import numpy as np

from case import Input
from draw import Undefined
from families import pooling

POOLS = ['MaxPool', 'AveragePool', 'LpPool']
GLOBAL_POOLS = ['GlobalMaxPool', 'GlobalAveragePool', 'GlobalLpPool']
FAR_STRIDES = [100, 2**31 - 1]


def window(d, rank, kernel, with_dilations=True):
    """Attributes of a window over that many axes; kernel_shape is not among them."""
    attributes = {}
    if d.chance(0.6):
        attributes['strides'] = [d.choice([1, 1, 2, 3]) for _ in range(rank)]
        if d.chance(0.06):
            attributes['strides'][0] = d.choice(FAR_STRIDES)
    if with_dilations and d.has('dilations') and d.chance(0.3):
        attributes['dilations'] = [d.choice([1, 2, 3]) for _ in range(rank)]
    kind = d.random.random()
    if kind < 0.2:
        attributes['auto_pad'] = d.choice(['SAME_UPPER', 'SAME_LOWER', 'VALID'])
        if attributes['auto_pad'] != 'VALID' and max(attributes.get('dilations', [1])) > 1:
            del attributes['dilations']
    elif kind < 0.7:
        attributes['pads'] = [d.integer(0, max(kernel[axis % rank] - 1, 0)) for axis in range(2 * rank)]
    return attributes


def images(d, rank, kernel, attributes, least=1):
    """Sizes of the spatial axes that a window fits into at least once. What SAME pads is no less than -1, which all take
    for nothing: of less, some cut the half off at the beginning, others nothing, and ONNX Runtime refuses some."""
    dilations = attributes.get('dilations', [1] * rank)
    pads = attributes.get('pads', [0] * 2 * rank)
    sizes = []
    for axis in range(rank):
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        low = max(reach - pads[axis] - pads[axis + rank], least)
        sizes.append(low + d.choice([0, 0, 1, 2, 3, 5, 8] if rank < 3 else [0, 1, 2]))
        stride = attributes.get('strides', [1] * rank)[axis]
        if 'SAME' in attributes.get('auto_pad', '') and (sizes[-1] - 1) // stride * stride + reach - sizes[-1] < -1:
            raise Undefined('padding of less than nothing')
    return tuple(sizes)


def convolution_shapes(d):
    rank = d.choice([1, 2, 2, 2, 3])
    kernel = [d.choice([1, 1, 2, 3]) for _ in range(rank)]
    attributes = window(d, rank, kernel)
    if d.chance(0.05) and 'auto_pad' not in attributes:
        attributes['pads'] = [d.choice([0, 1, 30]) for _ in range(2 * rank)]
    group = d.choice([1, 1, 1, 2, 3])
    if group > 1 or d.chance(0.3):
        attributes['group'] = group
    if d.chance(0.5):
        attributes['kernel_shape'] = kernel
    channels, filters = group * d.choice([1, 1, 2, 3]), group * d.choice([1, 1, 2, 9])
    batch = d.choice([0, 1, 1, 1, 2]) if d.chance(0.4) else 1
    return rank, kernel, attributes, group, channels, filters, batch


def conv(d):
    rank, kernel, attributes, group, channels, filters, batch = convolution_shapes(d)
    sizes = images(d, rank, kernel, attributes)
    # Infinities of one group reach others where groups are merged (docs/math-functions.md); what of numbers near the
    # largest overflows in between depends on their order. The reference has zeros between the weights of dilated windows.
    dilated = any(dilation > 1 for dilation in attributes.get('dilations', []))
    kind = d.choice(['whole', 'whole', 'whole', 'infinite']) if group == 1 and not dilated else 'whole'
    x = d.input('T', (batch, channels) + sizes, kind)
    w = Input(d.values(d.type('T'), (filters, channels // group) + tuple(kernel), 'whole'), constant=d.chance(0.6))
    b = d.input('T', (filters,), 'whole') if d.chance(0.5) else None
    return d.case([x, w, b], attributes, scale=64)


def conv_transpose(d):
    rank, kernel, attributes, group, channels, filters, batch = convolution_shapes(d)
    attributes['strides'] = [min(stride, 3) for stride in attributes.get('strides', [1] * rank)]
    sizes = tuple(d.choice([1, 2, 3, 5]) for _ in range(rank))
    reach = [(side - 1) * dilation + 1 for side, dilation in zip(kernel, attributes.get('dilations', [1] * rank))]
    full = [(size - 1) * stride + each for size, stride, each in zip(sizes, attributes['strides'], reach)]
    # Windows that leave gaps reach less far than SAME demands, and ONNX has no padding below 0: the reference has zeros
    # on both sides, ONNX Runtime a smaller result, gantry zeros at the end.
    if 'SAME' in attributes.get('auto_pad', '') and any(each < stride for each, stride in zip(reach, attributes['strides'])):
        del attributes['auto_pad']
    pads = attributes.get('pads', [0] * 2 * rank)
    if any(full[axis] - pads[axis] - pads[axis + rank] < 1 for axis in range(rank)):
        attributes.pop('pads', None)
    if d.chance(0.3) and 'auto_pad' not in attributes:
        attributes['output_padding'] = [d.integer(0, stride - 1) for stride in attributes['strides']]
    elif d.chance(0.15):
        attributes.pop('pads', None)
        attributes['output_shape'] = [max(size - d.choice([0, 0, 1]), 1) for size in full]
    x = d.input('T', (batch, channels) + sizes, 'whole')
    w = Input(d.values(d.type('T'), (channels, filters // group) + tuple(kernel), 'whole'), constant=d.chance(0.6))
    b = d.input('T', (filters,), 'whole') if d.chance(0.5) else None
    return d.case([x, w, b], attributes, scale=64, oracle=None if b is None else with_bias(d, x, w, b, attributes))


def with_bias(d, x, w, b, attributes):
    """ConvTranspose of which the reference adds the first bias to all groups."""
    def evaluated(run):
        (result,) = run('ConvTranspose', d.version, [x.array, w.array], attributes)
        return [result.astype(np.float64) + b.array.astype(np.float64).reshape((-1,) + (1,) * (result.ndim - 2))]
    return evaluated


def pool(d):
    rank = d.choice([1, 2, 2, 2, 3])
    if d.op == 'LpPool' and d.version < 2:
        rank = 2
    kernel = [d.choice([1, 2, 3]) for _ in range(rank)]
    attributes = window(d, rank, kernel)
    if d.has('ceil_mode') and 'auto_pad' not in attributes and d.chance(0.4):
        attributes['ceil_mode'] = 1
    if d.op == 'AveragePool' and d.has('count_include_pad') and d.chance(0.4):
        attributes['count_include_pad'] = 1
    if d.op == 'LpPool' and d.chance(0.6):
        attributes['p'] = d.choice([1, 2, 3]) if d.version >= 2 else d.choice([1.0, 2.0])
    attributes['kernel_shape'] = kernel
    sizes = images(d, rank, kernel, attributes)
    # ONNX has no maximum of nothing: it is an infinity here, the least number there; an average is 0 divided by 0.
    means_something = d.op == 'LpPool' or attributes.get('count_include_pad')
    if not means_something and pooling.has_empty_window(sizes, attributes):
        raise Undefined('windows of padding alone')
    batch = d.choice([0, 1, 2]) if d.chance(0.3) else 1
    kinds = ['plain', 'whole'] if d.op == 'MaxPool' else ['plain', 'whole', 'infinite']
    x = d.input('T', (batch, d.choice([1, 2, 9])) + sizes, d.choice(kinds))
    types, judges = [x.array.dtype], ('reference', 'runtime')
    positions = False
    if d.op == 'MaxPool' and d.version >= 8:
        if d.chance(0.4):
            types.append(np.dtype(np.int64))
            judges, positions = ('runtime',), True  # the reference counts positions in each channel anew
            x = d.input('T', x.array.shape, 'whole')
        if d.chance(0.2):
            attributes['storage_order'] = 1
    # The reference passes over NaN, and pads what needs none.
    oracle = None if positions else lambda run: [pooling.pooled(d.op, x.array, attributes)]
    return d.case([x], attributes, outputs=types, scale=8, oracle=oracle, judges=judges)


def global_pool(d):
    shape = d.shape(least=3, most=5, empty=False)[:5]
    if d.op == 'GlobalLpPool' and d.version < 2 and len(shape) != 4:
        raise Undefined('not of pictures')
    attributes = {'p': d.choice([1, 2, 3]) if d.version >= 2 else 2.0} if d.has('p') and d.chance(0.6) else {}
    kind = d.choice(['plain', 'special'] if d.op == 'GlobalMaxPool' else ['whole', 'whole', 'infinite'])
    x = d.input('T', shape, kind)
    return d.case([x], attributes, scale=8, oracle=lambda run: [pooled(d.op, x.array, attributes.get('p', 2))])


def pooled(op, x, p):
    axes = tuple(range(2, x.ndim))
    if op == 'GlobalMaxPool':
        return x.max(axis=axes, keepdims=True)
    wide = x.astype(np.float64)
    if op == 'GlobalAveragePool':
        return wide.mean(axis=axes, keepdims=True)
    return (np.abs(wide) ** p).sum(axis=axes, keepdims=True) ** (1 / p)


def unpool(d):
    """Of windows that lie side by side, overlap, or leave gaps."""
    rank = d.choice([1, 2, 2, 3])
    kernel = [d.choice([1, 2, 3]) for _ in range(rank)]
    strides = [d.choice([1, 2]) for _ in range(rank)] if d.chance(0.4) else kernel
    shape = (d.choice([1, 2]), d.choice([1, 3])) + tuple(d.choice([1, 2, 3]) for _ in range(rank))
    full = shape[:2] + tuple((size - 1) * stride + side for size, stride, side in zip(shape[2:], strides, kernel))
    size = int(np.prod(full))
    order = np.sort(d.random.permutation(size)[:int(np.prod(shape))]).reshape(shape).astype(np.int64)
    attributes = {'kernel_shape': kernel, 'strides': strides}
    return d.case([d.input('T1', shape, 'plain'), order], attributes)


def conv_integer(d):
    rank, kernel, attributes, group, channels, filters, batch = convolution_shapes(d)
    sizes = images(d, rank, kernel, attributes)
    x = d.input('T1', (batch, channels) + sizes, 'special')
    w = d.values(d.type('T2'), (filters, channels // group) + tuple(kernel), 'special')
    zeros = [d.values(d.type('T1'), ()) if d.chance(0.6) else None, d.values(d.type('T2'), ()) if d.chance(0.4) else None]
    return d.case([x, Input(w, constant=d.chance(0.5))] + zeros, attributes, outputs=[np.dtype(np.int32)])


def deform_conv(d):
    n, group, offsets = d.choice([1, 2]), d.choice([1, 1, 2]), d.choice([1, 1, 2])
    channels, filters = 2 * d.choice([1, 2]), 2 * d.choice([1, 2])
    kernel = [d.choice([1, 2, 3]), d.choice([1, 2, 3])]
    attributes = {'group': group, 'offset_group': offsets}
    attributes['strides'] = [d.choice([1, 2]) for _ in range(2)]
    attributes['pads'] = [d.choice([0, 1]) for _ in range(4)]
    attributes['dilations'] = [d.choice([1, 1, 2]) for _ in range(2)]
    sizes = images(d, 2, kernel, attributes)
    reach = [(side - 1) * dilation + 1 for side, dilation in zip(kernel, attributes['dilations'])]
    out = [(sizes[axis] + attributes['pads'][axis] + attributes['pads'][axis + 2] - reach[axis])
           // attributes['strides'][axis] + 1 for axis in range(2)]
    taps = kernel[0] * kernel[1]
    dtype = d.type('T')
    half = lambda shape: (d.values(dtype, shape, 'whole').astype(np.float32) / 2).astype(dtype)
    inputs = [d.values(dtype, (n, channels) + sizes, 'whole'), d.values(dtype, (filters, channels // group, *kernel), 'whole'),
              half((n, offsets * taps * 2, *out)), d.values(dtype, (filters,), 'whole') if d.chance(0.5) else None,
              half((n, offsets * taps, *out)) if d.chance(0.5) else None]
    return d.case(inputs, attributes, scale=64)



FAMILY = {'Conv': conv, 'ConvTranspose': conv_transpose, 'MaxUnpool': unpool, 'ConvInteger': conv_integer,
          'DeformConv': deform_conv}
FAMILY.update({name: pool for name in POOLS})
FAMILY.update({name: global_pool for name in GLOBAL_POOLS})
