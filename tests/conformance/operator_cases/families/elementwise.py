"""Ops of one element, of two that broadcast, of several, and casts."""
import ml_dtypes
import numpy as np

from case import Input
from draw import TEXT, TEXTS, Undefined, is_float, is_integer

UNARY = ['Abs', 'Neg', 'Sign', 'Floor', 'Ceil', 'Round', 'Relu', 'Identity', 'IsNaN', 'Not', 'BitwiseNot', 'Reciprocal',
         'Sqrt', 'Exp', 'Log', 'Sin', 'Cos', 'Tan', 'Asin', 'Acos', 'Atan', 'Sinh', 'Cosh', 'Tanh', 'Asinh', 'Acosh',
         'Atanh', 'Sigmoid', 'Erf', 'Softplus', 'Softsign', 'HardSwish', 'Mish', 'Elu', 'Selu', 'Celu', 'LeakyRelu',
         'ThresholdedRelu', 'HardSigmoid', 'Shrink', 'Swish', 'Gelu', 'IsInf']
# Attributes that are drawn where a version of the op has them.
SHAPING = {'alpha': [0.01, 0.5, 1.0, 2.0], 'beta': [0.2, 0.5], 'gamma': [1.0, 1.5], 'lambd': [0.0, 0.5, 1.5],
           'bias': [0.0, 0.5], 'approximate': ['none', 'tanh'], 'detect_negative': [0, 1], 'detect_positive': [0, 1]}


def unary(d):
    parameter = d.schema.inputs[0].type_str
    kind = d.choice(['plain', 'special', 'special', 'unit'])
    attributes = {name: d.choice(values) for name, values in SHAPING.items() if d.has(name) and d.chance(0.6)}
    if d.op == 'Shrink':  # of integers next to the last the reference makes others
        kind = 'plain'
    x = d.input(parameter, d.shape(), kind, texts=True)
    # The reference rounds Gelu to narrow types after every step.
    exact = lambda run: run(d.op, d.version, [x.array.astype(np.float64)], attributes)
    return d.case([x], attributes, oracle=exact if d.op == 'Gelu' else None)


def legacy_operands(d, shape):
    """Shapes of A and B of the operator sets before 7, their attributes, and B's shape as numpy broadcasts it."""
    if d.chance(0.3):
        return shape, shape, {}, shape
    axis = d.integer(0, len(shape))
    end = d.integer(axis, len(shape))
    b = shape[axis:end]
    attributes = {'broadcast': 1}
    if end != len(shape) or d.chance(0.5):
        attributes['axis'] = axis
    if not b:
        attributes.pop('axis', None)
        return shape, b, attributes, b
    return shape, b, attributes, b + (1,) * (len(shape) - end)


def binary_shapes(d):
    """Shapes of both operands, attributes, and None or the later shape of B."""
    shape = d.shape()
    if d.has('broadcast'):
        return legacy_operands(d, shape)
    first, second = (shape, d.broadcast(shape)) if d.chance(0.5) else (d.broadcast(shape), shape)
    if d.chance(0.2):
        first, second = d.broadcast(shape), d.broadcast(shape)
    return first, second, {}, None


def newest(d, a, b, shape, attributes=None):
    """An oracle for a version with its own rule of broadcasting: the same op of operator set 13."""
    return lambda run: run(d.op, 13, [a, b.reshape(shape)], attributes or {})


def binary(d):
    first, second, attributes, later = binary_shapes(d)
    parameter = d.schema.inputs[0].type_str
    d.type(parameter, texts=True)
    a, b = (d.values(d.type(parameter), shape, d.choice(['plain', 'special', 'whole'])) for shape in (first, second))
    if d.op == 'Div' and is_integer(a.dtype):
        b = without(b, [0], 1)
        b = without(b, [-1], 1) if a.dtype.kind == 'i' else b
    return d.case([a, b], attributes, oracle=None if later is None else newest(d, a, b, later))


def without(array, values, other):
    return np.where(np.isin(array, np.array(values).astype(array.dtype)), np.asarray(other, array.dtype), array)


def mod(d):
    first, second, _, _ = binary_shapes(d)
    dtype = d.type('T')
    a, b = d.values(dtype, first, d.choice(['plain', 'special'])), d.values(dtype, second)
    if is_integer(dtype):
        b = without(without(b, [0], 3), [-1] if dtype.kind == 'i' else [], 3)
    fmod = 1 if is_float(dtype) else d.choice([0, 1])
    return d.case([a, b], {'fmod': fmod} if fmod or d.chance(0.5) else {})


def power(d):
    first, second, attributes, later = binary_shapes(d)
    base, exponent = d.type('T'), d.type(d.schema.inputs[1].type_str)
    if is_integer(base):
        a, b = d.values(base, first), np.abs(d.values(exponent, second, 'whole').astype(np.float32))
        b = np.minimum(b, 4).astype(exponent)
    else:
        a = d.values(base, first, d.choice(['plain', 'special', 'positive']))
        b = d.values(exponent, second, 'plain' if is_integer(exponent) else d.choice(['whole', 'plain', 'special']))
        b = np.clip(b.astype(np.float64), -20, 20).astype(exponent) if is_integer(exponent) else b
    return d.case([a, b], attributes, oracle=None if later is None else newest(d, a, b, later))


def shift(d):
    first, second, _, _ = binary_shapes(d)
    dtype = d.type('T')
    a = d.values(dtype, first, 'special')
    b = np.asarray(d.random.integers(0, 8 * dtype.itemsize, second)).astype(dtype)
    return d.case([a, b], {'direction': d.choice(['LEFT', 'RIGHT'])})


def prelu(d):
    shape = d.shape(least=2 if d.version < 7 else 0)
    dtype = d.type('T')
    x = d.values(dtype, shape, d.choice(['plain', 'special']))
    if d.version < 7:
        slope = d.values(dtype, (1,) if d.chance(0.4) else (shape[1],))
        later = slope if slope.size == 1 else slope.reshape(slope.shape + (1,) * (len(shape) - 2))
        return d.case([x, slope], oracle=lambda run: run('PRelu', 16, [x, later], {}))
    return d.case([x, d.values(dtype, d.broadcast(shape))])


def swiglu(d):
    shape = d.shape()
    return d.case([d.input('T', shape, 'special'), d.input('T', shape)],
                  {'alpha': d.choice([0.5, 1.702])} if d.chance(0.5) else {})


def variadic(d):
    shape = d.shape()
    dtype = d.type('T')
    kind = d.choice(['plain', 'whole']) if d.op in ('Sum', 'Mean') else d.choice(['plain', 'special'])
    count = d.integer(1, 4)
    shapes = [shape if d.version < 8 or each == 0 else d.broadcast(shape) for each in range(count)]
    return d.case([d.values(dtype, each, kind) for each in shapes], scale=8)


def where(d):
    shape = d.shape()
    dtype = d.type('T', texts=True)
    return d.case([d.values(bool, d.broadcast(shape)), d.values(dtype, d.broadcast(shape), 'special'),
                   d.values(dtype, shape, 'special')])


def clip(d):
    dtype = d.type('T')
    x = d.values(dtype, d.shape(), d.choice(['plain', 'special']))
    low, high = (None if d.chance(0.3) else d.values(dtype, (), 'plain') for _ in range(2))
    if low is not None and high is not None and low > high and d.chance(0.8):
        low, high = high, low
    if d.version >= 11:
        return d.case([x] + [None if limit is None else Input(limit, constant=d.chance(0.5)) for limit in (low, high)])
    attributes = {'min': None if low is None else float(low), 'max': None if high is None else float(high)}
    bounds = [None if limit is None else np.asarray(limit, dtype) for limit in (low, high)]
    oracle = (lambda run: run('Clip', 13, [x] + bounds, {})) if d.version < 6 else None  # which has no usual bounds
    return d.case([x], attributes, oracle=oracle)


def castable(d, source, target):
    """Values of one type that ONNX says how to cast to another."""
    if is_integer(target) and is_float(source):
        limits = ml_dtypes.iinfo(target)
        drawn = np.clip(d.values(source, d.shape()).astype(np.float64), int(limits.min), int(limits.max))
        return drawn.astype(source)
    return d.values(source, d.shape(), d.choice(['plain', 'special']))


def number_texts(d, shape, target):
    """Strings of numbers that the type holds."""
    whole = ['0', '7', '42', '1'] + (['-3', '-8'] if target.kind != 'u' else [])
    among = whole if is_integer(target) else whole + ['0.5', '-2.25', '1e2', 'NaN', 'INF', '-INF', '+3', '.5', '1E-3']
    return d.texts(shape, among)


def cast(d):
    source, target = d.type('T1', texts=True), d.type('T2', texts=True)
    if TEXT in (source, target):
        return cast_text(d, source, target)
    x = castable(d, source, target)
    if 'e8m0' in str(target):  # which has no negative numbers
        with np.errstate(all='ignore'):
            x = np.where(x.astype(np.float64) <= 0, np.ones((), source), x).astype(source)
    if x.size and is_integer(target) and is_float(source) and not np.isfinite(x.astype(np.float32)).all():
        raise Undefined('NaN as an integer')
    attributes = {}
    if d.has('saturate') and 'float8' in str(target) and d.chance(0.4):
        attributes['saturate'] = 0
    if d.op == 'CastLike':
        return d.case([x, d.values(target, (1,))], attributes)
    code = element_code(target)
    if d.version < 6:
        return d.case([x], {'to': code_name(code)}, oracle=lambda run: run('Cast', 13, [x], {'to': code}))
    return d.case([x], dict(attributes, to=code))


def width(dtype):
    """In bits."""
    limits = ml_dtypes.iinfo(dtype) if is_integer(dtype) else ml_dtypes.finfo(dtype) if dtype != bool else None
    return 8 if limits is None else limits.bits


def bit_cast(d):
    source = d.type('T1')
    target = d.type('T2', lambda dtype: width(dtype) == width(source))
    if target == bool and source != bool:
        raise Undefined('bits that are no truth')
    x = d.values(source, d.shape(), 'special')
    return d.case([x], {'to': element_code(target)}, outputs=[target], oracle=lambda run: [x.view(target)])


def cast_text(d, source, target):
    if d.op == 'CastLike' or d.version < 9 or bool in (source, target):
        raise Undefined('strings as a pattern, or as truths')
    if source == TEXT:
        x = d.texts(d.shape(), TEXTS) if target == TEXT else number_texts(d, d.shape(), target)
    elif is_integer(source):
        x = d.values(source, d.shape(), 'special')
    else:  # how many digits there are of others, implementations do not agree on
        x = d.values(source, d.shape(), 'whole') + np.asarray(0.5, source)
    return d.case([x], {'to': element_code(target)})


def element_code(dtype):
    from case import tensor_type
    return tensor_type(dtype)


def code_name(code):
    from onnx import TensorProto
    return TensorProto.DataType.Name(code)


FAMILY = {name: unary for name in UNARY}
FAMILY.update({name: binary for name in [
    'Add', 'Sub', 'Mul', 'Div', 'And', 'Or', 'Xor', 'Equal', 'Less', 'Greater', 'LessOrEqual', 'GreaterOrEqual',
    'BitwiseAnd', 'BitwiseOr', 'BitwiseXor']})
FAMILY.update({name: variadic for name in ['Max', 'Min', 'Sum', 'Mean']})
FAMILY.update({'Mod': mod, 'Pow': power, 'BitShift': shift, 'PRelu': prelu, 'SwiGLU': swiglu, 'Where': where, 'Clip': clip,
               'Cast': cast, 'CastLike': cast, 'BitCast': bit_cast})
