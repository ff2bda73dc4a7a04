"""Ops of quantised numbers."""
import numpy as np

from case import Input, tensor_type
from draw import Undefined, is_float, is_integer
from families import windows


def scales(d, dtype, shape):
    """Powers of two, so that what is scaled by them is exact."""
    return np.asarray(2.0 ** d.random.integers(0 if is_integer(dtype) else -3, 3, shape)).astype(dtype)


def granularity(d, shape):
    """The shape of the scales, and the attributes that say so: one, one for each of an axis, one a block."""
    kind = d.random.random()
    if kind < 0.4 or not shape:
        return (), {}
    axis = d.axis(len(shape))
    if kind < 0.8 or not d.has('block_size'):
        if d.version < 13:
            return (), {}
        return (shape[axis],), {'axis': axis}
    if shape[axis] == 0:
        raise Undefined('blocks of nothing')
    block = d.integer(1, shape[axis])
    counts = list(shape)
    counts[axis] = -(-shape[axis] // block)
    if -(-shape[axis] // counts[axis]) != block:
        raise Undefined('blocks that do not fit')
    return tuple(counts), {'axis': axis, 'block_size': block}


def zero_point(d, dtype, shape):
    if is_float(dtype):
        return np.zeros(shape, np.float32).astype(dtype)
    return np.zeros(shape, dtype) if dtype == np.int32 else d.values(dtype, shape)


def quantize(d):
    shape = d.shape()
    of, attributes = granularity(d, shape)
    source = d.type('T1')
    scale_type = d.type(d.schema.inputs[1].type_str)
    target_parameter = d.schema.inputs[2].type_str
    target = d.type(target_parameter)
    x = d.values(source, shape, 'plain')  # the reference has no numbers beyond int32's
    if d.chance(0.3) and source in (np.float32, np.int32):
        x = (x.astype(np.float64) * 1000).astype(source)
    scale = scales(d, scale_type, of)
    zero = zero_point(d, target, of) if target != np.uint8 or d.chance(0.6) else None
    if zero is not None and d.has('output_dtype') and d.chance(0.3):
        zero, attributes['output_dtype'] = None, tensor_type(target)
    if d.has('saturate') and 'float8' in str(target) and d.chance(0.3):
        attributes['saturate'] = 0
    constant = d.chance(0.5)
    return d.case([x, Input(scale, constant), None if zero is None else Input(zero, constant)], attributes, outputs=[target])


def dequantize(d):
    shape = d.shape()
    of, attributes = granularity(d, shape)
    source = d.type(d.schema.inputs[0].type_str)
    scale_type = d.type(d.schema.inputs[1].type_str)
    x = d.values(source, shape, 'plain' if source == np.int32 else 'special')
    target = scale_type
    if d.has('output_dtype') and d.chance(0.3):
        target = d.type('T3')
        attributes['output_dtype'] = tensor_type(target)
    constant = d.chance(0.5)
    zero = Input(zero_point(d, source, of), constant) if d.chance(0.6) else None
    return d.case([x, Input(scales(d, scale_type, of), constant), zero], attributes, outputs=[target])


def dynamic_quantize(d):
    shape = d.shape(empty=False)
    x = d.values(np.float32, shape, d.choice(['plain', 'positive', 'unit']))
    return d.case([x], outputs=[np.dtype(np.uint8), np.dtype(np.float32), np.dtype(np.uint8)])


def qlinear_matmul(d):
    m, n, k = d.choice([1, 2, 5]), d.choice([1, 3, 17]), d.choice([1, 2, 9])
    batch = d.shape(most=2, empty=False)[:2] if d.chance(0.4) else ()
    types = [d.type(name, is_integer) for name in ('T1', 'T2', 'T3')]  # the reference has floats wrong
    scale_type = d.type('TS') if d.version >= 21 else np.dtype(np.float32)
    inputs = []
    for dtype, shape in zip(types, (batch + (m, k), batch + (k, n), None)):
        inputs += [d.values(dtype, shape)] if shape is not None else []
        inputs += [scales(d, scale_type, ()), d.values(dtype, ())]
    inputs[-1] = even(inputs[-1])
    return d.case(inputs, outputs=[types[2]])


def even(zero):
    """Halves are rounded to even before the zero point is added, by the reference behind: the same of even ones."""
    return zero // 2 * 2


def qlinear_conv(d):
    rank, kernel, attributes, group, channels, filters, batch = windows.convolution_shapes(d)
    sizes = windows.images(d, rank, kernel, attributes)
    x_type, w_type, y_type = d.type('T1'), d.type('T2'), d.type('T3')
    one = np.dtype(np.float32)
    of = (filters,) if d.chance(0.4) else ()
    w_zero = np.zeros(of, w_type) if of else d.values(w_type, of)
    bias = d.values(np.int32, (filters,)) if d.chance(0.5) else None
    inputs = [d.values(x_type, (batch, channels) + sizes), scales(d, one, ()), d.values(x_type, ()),
              Input(d.values(w_type, (filters, channels // group) + tuple(kernel)), constant=True),
              Input(scales(d, one, of), constant=True), Input(w_zero, constant=True),
              Input(scales(d, one, ()), constant=True), Input(even(d.values(y_type, ())), constant=True), bias]
    return d.case(inputs, attributes, outputs=[y_type])


FAMILY = {'QuantizeLinear': quantize, 'DequantizeLinear': dequantize, 'DynamicQuantizeLinear': dynamic_quantize,
          'QLinearMatMul': qlinear_matmul, 'QLinearConv': qlinear_conv}
