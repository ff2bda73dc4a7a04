"""ONNX models as bytes, written here so that tests need no onnx package."""
import struct

import numpy

FLOAT, INT64, BOOL, FLOAT16, DOUBLE, BFLOAT16 = 1, 7, 9, 10, 11, 16
TYPES = {'float32': FLOAT, 'int64': INT64, 'bool': BOOL, 'float16': FLOAT16, 'float64': DOUBLE}


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while True:
        out.append((value & 0x7F) | (0x80 if value > 0x7F else 0))
        value >>= 7
        if not value:
            return bytes(out)


def number(tag, value):
    return varint(tag << 3) + varint(value)


def chunk(tag, value):
    data = value.encode() if isinstance(value, str) else value
    return varint(tag << 3 | 2) + varint(len(data)) + data


def value_info(name, dtype, shape):
    dims = b''.join(chunk(1, chunk(2, size) if isinstance(size, str) else number(1, size)) for size in shape)
    return chunk(1, name) + chunk(2, chunk(1, number(1, dtype) + chunk(2, dims)))


def tensor(name, array):
    return (b''.join(number(1, size) for size in array.shape) + number(2, TYPES[array.dtype.name]) + chunk(8, name) +
            chunk(9, numpy.ascontiguousarray(array).tobytes()))


def attribute(name, value):
    if isinstance(value, float):
        return chunk(1, name) + varint(2 << 3 | 5) + struct.pack('<f', value) + number(20, 1)
    if isinstance(value, int):
        return chunk(1, name) + number(3, value) + number(20, 2)
    return chunk(1, name) + b''.join(number(8, item) for item in value) + number(20, 7)


def node(op, inputs, outputs, name='', **attributes):
    return (b''.join(chunk(1, item) for item in inputs) + b''.join(chunk(2, item) for item in outputs) +
            chunk(3, name) + chunk(4, op) + b''.join(chunk(5, attribute(*item)) for item in attributes.items()))


def model(nodes, inputs, outputs, weights=(), name='tests', opset=17):
    """Inputs and outputs: (name, type, shape), sizes that are text being symbolic. Weights: (name, array)."""
    graph = (b''.join(chunk(1, item) for item in nodes) + chunk(2, name) +
             b''.join(chunk(5, tensor(*item)) for item in weights) +
             b''.join(chunk(11, value_info(*item)) for item in inputs) +
             b''.join(chunk(12, value_info(*item)) for item in outputs))
    return number(1, 8) + chunk(7, graph) + chunk(8, number(2, opset))


def add(shape=(2, 3), dtype=FLOAT):
    """c = a + b"""
    return model([node('Add', ['a', 'b'], ['c'], 'Add_0')], [('a', dtype, shape), ('b', dtype, shape)],
                 [('c', dtype, shape)])


def relu(shape=(2, 3), dtype=FLOAT):
    """y = max(x, 0)"""
    return model([node('Relu', ['x'], ['y'], 'Relu_0')], [('x', dtype, shape)], [('y', dtype, shape)])


def default_input():
    """y = x + w of three numbers each, where w is [10, 20, 30] unless it is an input"""
    return model([node('Add', ['x', 'w'], ['y'])], [('x', FLOAT, (3,)), ('w', FLOAT, (3,))], [('y', FLOAT, (3,))],
                 [('w', numpy.array([10, 20, 30], 'float32'))])


def two_outputs():
    """total = a + b, product = a * b, of rows that are known when it runs"""
    shape = ('N', 4)
    return model([node('Add', ['a', 'b'], ['total']), node('Mul', ['a', 'b'], ['product'])],
                 [('a', FLOAT, shape), ('b', FLOAT, shape)], [('total', FLOAT, shape), ('product', FLOAT, shape)])


def classifier(rows='N', features=64, classes=10, seed=3):
    """scores = softmax(relu(x W1 + b1) W2), its weights, and the same by NumPy."""
    draw = numpy.random.default_rng(seed)
    w1 = draw.standard_normal((features, 96)).astype('float32') / 8
    b1 = draw.standard_normal(96).astype('float32')
    w2 = draw.standard_normal((96, classes)).astype('float32') / 8
    nodes = [node('MatMul', ['x', 'w1'], ['h1']), node('Add', ['h1', 'b1'], ['h2']), node('Relu', ['h2'], ['h3']),
             node('MatMul', ['h3', 'w2'], ['h4']), node('Softmax', ['h4'], ['scores'], axis=-1)]
    data = model(nodes, [('x', FLOAT, (rows, features))], [('scores', FLOAT, (rows, classes))],
                 [('w1', w1), ('b1', b1), ('w2', w2)])

    def reference(x):
        logits = numpy.maximum(x.astype('float64') @ w1 + b1, 0) @ w2
        powers = numpy.exp(logits - logits.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True)

    return data, reference


def chain(length=40, size=96, seed=5):
    """Products of up to 61 different shapes, each a kernel of its own, so that compiling takes a while."""
    draw = numpy.random.default_rng(seed)
    nodes, weights, width = [], [], size
    for i in range(length):
        following = size + 8 * (7 * (i + 1) % 61)
        weights.append((f'w{i}', (draw.standard_normal((width, following)) / width).astype('float32')))
        nodes += [node('MatMul', [f'x{i}', f'w{i}'], [f'm{i}']), node('Tanh', [f'm{i}'], [f'x{i + 1}'])]
        width = following
    return model(nodes, [('x0', FLOAT, (8, size))], [(f'x{length}', FLOAT, (8, width))], weights)
