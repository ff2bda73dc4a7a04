"""A BERT encoder (Devlin et al. 2018) as an ONNX model, made without a training framework, and the same in float64 by NumPy.

Weights are random, from a seed: those of torch.nn.Linear and torch.nn.Embedding as they are initialised. Normalisations
have scales and shifts of their own, so that none is dropped.
"""
import math

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

EPSILON = 1e-5  # of normalisations


def random_weights(layers, width, hidden, vocabulary, positions, seed):
    """Arrays by name, float32; matrices are (inputs, outputs)."""
    random = numpy.random.default_rng(seed)
    weights = {}

    def linear(name, inputs, outputs):
        bound = 1 / math.sqrt(inputs)
        weights[f'{name}.weight'] = random.uniform(-bound, bound, (inputs, outputs))
        weights[f'{name}.bias'] = random.uniform(-bound, bound, outputs)

    def norm(name):
        weights[f'{name}.scale'] = random.normal(1, 0.1, width)
        weights[f'{name}.shift'] = random.normal(0, 0.1, width)

    weights['words'] = random.normal(0, 1, (vocabulary, width))
    weights['places'] = random.normal(0, 1, (positions, width))
    norm('norm')
    for layer in range(layers):
        for part in ('query', 'key', 'value', 'mix'):
            linear(f'{layer}.{part}', width, width)
        norm(f'{layer}.norm_attention')
        linear(f'{layer}.grow', width, hidden)
        linear(f'{layer}.shrink', hidden, width)
        norm(f'{layer}.norm_hidden')
    return {name: array.astype(numpy.float32) for name, array in weights.items()}


class Encoder:
    """`layers` layers of `width`, `heads` heads; tokens (1, T) int64 to (1, T, width) float32."""

    def __init__(self, layers, width, heads, hidden, vocabulary, positions, seed):
        self.layers, self.width, self.heads = layers, width, heads
        self.weights = random_weights(layers, width, hidden, vocabulary, positions, seed)

    def model(self):
        """The ONNX model, of any number of tokens up to the positions."""
        graph = _Graph(self.weights)
        tokens = graph.op('Shape', 'tokens', start=1)
        places = graph.op('Slice', 'places', graph.integers(0), tokens, graph.integers(0))
        x = graph.norm('norm', graph.op('Add', graph.op('Gather', 'words', 'tokens'), places))
        for layer in range(self.layers):
            x = self._layer(graph, str(layer), x)
        graph.nodes.append(helper.make_node('Identity', [x], ['output']))
        given = helper.make_tensor_value_info('tokens', TensorProto.INT64, [1, 'T'])
        result = helper.make_tensor_value_info('output', TensorProto.FLOAT, [1, 'T', self.width])
        constants = [numpy_helper.from_array(array, name) for name, array in (self.weights | graph.constants).items()]
        made = helper.make_graph(graph.nodes, 'encoder', [given], [result], constants)
        model = helper.make_model(made, opset_imports=[helper.make_opsetid('', 20)], ir_version=9)
        onnx.checker.check_model(model)
        return model

    def _layer(self, graph, layer, x):
        size = self.width // self.heads
        split = graph.integers(1, -1, self.heads, size)
        query, key, value = (graph.op('Reshape', graph.linear(f'{layer}.{part}', x), split)
                             for part in ('query', 'key', 'value'))
        scores = graph.op('MatMul', graph.op('Transpose', query, perm=[0, 2, 1, 3]),
                          graph.op('Transpose', key, perm=[0, 2, 3, 1]))
        shares = graph.op('Softmax', graph.op('Div', scores, graph.scalar(math.sqrt(size))), axis=-1)
        attended = graph.op('MatMul', shares, graph.op('Transpose', value, perm=[0, 2, 1, 3]))
        attended = graph.op('Reshape', graph.op('Transpose', attended, perm=[0, 2, 1, 3]), graph.integers(1, -1, self.width))
        x = graph.norm(f'{layer}.norm_attention', graph.op('Add', x, graph.linear(f'{layer}.mix', attended)))
        grown = graph.op('Gelu', graph.linear(f'{layer}.grow', x))
        return graph.norm(f'{layer}.norm_hidden', graph.op('Add', x, graph.linear(f'{layer}.shrink', grown)))

    def exact(self, tokens):
        """The result in float64, (1, T, width), of tokens (1, T)."""
        weights = {name: array.astype(numpy.float64) for name, array in self.weights.items()}

        def linear(name, x):
            return x @ weights[f'{name}.weight'] + weights[f'{name}.bias']

        def norm(name, x):
            centred = x - x.mean(-1, keepdims=True)
            deviation = numpy.sqrt((centred ** 2).mean(-1, keepdims=True) + EPSILON)
            return centred / deviation * weights[f'{name}.scale'] + weights[f'{name}.shift']

        def heads(x):
            return x.reshape(x.shape[0], self.heads, -1).transpose(1, 0, 2)

        x = norm('norm', weights['words'][tokens[0]] + weights['places'][: tokens.shape[1]])
        for layer in map(str, range(self.layers)):
            query, key, value = (heads(linear(f'{layer}.{part}', x)) for part in ('query', 'key', 'value'))
            scores = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1])
            shares = numpy.exp(scores - scores.max(-1, keepdims=True))
            attended = (shares / shares.sum(-1, keepdims=True)) @ value
            x = norm(f'{layer}.norm_attention', x + linear(f'{layer}.mix', attended.transpose(1, 0, 2).reshape(x.shape)))
            grown = linear(f'{layer}.grow', x)
            grown *= 0.5 * (1 + numpy.vectorize(math.erf)(grown / math.sqrt(2)))
            x = norm(f'{layer}.norm_hidden', x + linear(f'{layer}.shrink', grown))
        return x[None]


class _Graph:
    """Nodes in order, and constants that are no weights."""

    def __init__(self, weights):
        self.weights, self.nodes, self.constants = weights, [], {}

    def op(self, kind, *inputs, **attributes):
        result = f'{kind}_{len(self.nodes)}'
        self.nodes.append(helper.make_node(kind, inputs, [result], result, **attributes))
        return result

    def constant(self, array):
        name = f'constant_{len(self.constants)}'
        self.constants[name] = array
        return name

    def integers(self, *values):
        return self.constant(numpy.array(values, numpy.int64))

    def scalar(self, value):
        return self.constant(numpy.array(value, numpy.float32))

    def linear(self, name, x):
        return self.op('Add', self.op('MatMul', x, f'{name}.weight'), f'{name}.bias')

    def norm(self, name, x):
        return self.op('LayerNormalization', x, f'{name}.scale', f'{name}.shift', axis=-1, epsilon=EPSILON)
