"""RNN, GRU and LSTM by their formulas in ONNX's operator documentation, a step at a time in double precision."""
import numpy as np

# Which take an alpha, and a beta, from the node's lists.
WITH_ALPHA = {'Affine', 'LeakyRelu', 'ThresholdedRelu', 'ScaledTanh', 'HardSigmoid', 'Elu'}
WITH_BETA = {'Affine', 'ScaledTanh', 'HardSigmoid'}
USUAL = {'RNN': ['Tanh'], 'GRU': ['Sigmoid', 'Tanh'], 'LSTM': ['Sigmoid', 'Tanh', 'Tanh']}

FUNCTIONS = {
    'Relu': lambda x, a, b: np.maximum(x, 0),
    'Tanh': lambda x, a, b: np.tanh(x),
    'Sigmoid': lambda x, a, b: 1 / (1 + np.exp(-x)),
    'Affine': lambda x, a, b: a * x + b,
    'LeakyRelu': lambda x, a, b: np.where(x >= 0, x, a * x),
    'ThresholdedRelu': lambda x, a, b: np.where(x >= a, x, 0),
    'ScaledTanh': lambda x, a, b: a * np.tanh(b * x),
    'HardSigmoid': lambda x, a, b: np.clip(a * x + b, 0, 1),
    'Elu': lambda x, a, b: np.where(x >= 0, x, a * (np.exp(x) - 1)),
    'Softsign': lambda x, a, b: x / (1 + np.abs(x)),
    'Softplus': lambda x, a, b: np.log(1 + np.exp(x)),
}


def activations(op, attributes, directions):
    """The functions of each direction, in front of which the node's clip bounds gates; not the cell, which ONNX Runtime
    leaves as it is."""
    names = attributes.get('activations', USUAL[op] * directions)
    alphas, betas = (iter(attributes.get(f'activation_{name}', [])) for name in ('alpha', 'beta'))
    bound = attributes.get('clip', np.inf)
    count, functions = len(USUAL[op]), []
    for at, name in enumerate(names):
        alpha, beta = next(alphas) if name in WITH_ALPHA else 0, next(betas) if name in WITH_BETA else 0
        limit = np.inf if at % count == 2 else bound
        functions.append(lambda x, f=FUNCTIONS[name], a=alpha, b=beta, limit=limit: f(np.clip(x, -limit, limit), a, b))
    return [functions[at * count:(at + 1) * count] for at in range(directions)]


def rnn_step(x, state, part, functions, attributes):
    (hidden,) = state
    gate = x @ part['w'].T + hidden @ part['r'].T + part['wb'] + part['rb']
    return (functions[0](gate),)


def gru_step(x, state, part, functions, attributes):
    """Gates lie in the order z, r, h."""
    (hidden,) = state
    size = hidden.shape[1]
    cut = lambda array, at: array[at * size:(at + 1) * size]
    seen = lambda at: x @ cut(part['w'], at).T + cut(part['wb'], at)
    kept = lambda value, at: value @ cut(part['r'], at).T + cut(part['rb'], at)
    z, r = (functions[0](seen(at) + kept(hidden, at)) for at in (0, 1))
    recurrent = r * kept(hidden, 2) if attributes.get('linear_before_reset') else kept(r * hidden, 2)
    return ((1 - z) * functions[1](seen(2) + recurrent) + z * hidden,)


def lstm_step(x, state, part, functions, attributes):
    """Gates lie in the order i, o, f, c; peepholes in the order i, o, f."""
    hidden, cell = state
    size = hidden.shape[1]
    gates = x @ part['w'].T + hidden @ part['r'].T + part['wb'] + part['rb']
    i, o, f, c = (gates[:, at * size:(at + 1) * size] for at in range(4))
    pi, po, pf = part['p'].reshape(3, size)
    i = functions[0](i + pi * cell)
    f = 1 - i if attributes.get('input_forget') else functions[0](f + pf * cell)
    cell = f * cell + i * functions[1](c)
    return functions[0](o + po * cell) * functions[2](cell), cell


STEPS = {'RNN': rnn_step, 'GRU': gru_step, 'LSTM': lstm_step}


def recurrence(op, attributes, inputs):
    """Y, Y_h and for LSTM Y_c, of the node's inputs X, W, R, B, sequence_lens, initial_h, initial_c, P."""
    x, w, r, b, lengths, *rest = list(inputs) + [None] * (8 - len(inputs))
    layout, directions, hidden = attributes.get('layout', 0), w.shape[0], r.shape[2]
    x, w, r = (each.astype(np.float64) for each in (x, w, r))
    x = np.swapaxes(x, 0, 1) if layout else x
    steps, batch = x.shape[:2]
    initial = [np.zeros((directions, batch, hidden)) if each is None else
               np.swapaxes(each, 0, 1).astype(np.float64) if layout else each.astype(np.float64) for each in rest[:2]]
    biases = np.zeros((directions, 2 * w.shape[1])) if b is None else b.astype(np.float64)
    peepholes = np.zeros((directions, 3 * hidden)) if rest[2] is None else rest[2].astype(np.float64)
    lengths = np.full(batch, steps) if lengths is None else lengths
    y = np.zeros((steps, directions, batch, hidden))
    last = [np.zeros((directions, batch, hidden)) for _ in range(2 if op == 'LSTM' else 1)]
    for at, functions in enumerate(activations(op, attributes, directions)):
        half = w.shape[1]
        part = {'w': w[at], 'r': r[at], 'wb': biases[at, :half], 'rb': biases[at, half:], 'p': peepholes[at]}
        backwards = attributes.get('direction') == 'reverse' or at == 1
        for sequence in range(batch):
            state = tuple(each[at, sequence:sequence + 1] for each in initial[:len(last)])
            turns = range(lengths[sequence])
            for turn in reversed(turns) if backwards else turns:
                state = STEPS[op](x[turn, sequence:sequence + 1], state, part, functions, attributes)
                y[turn, at, sequence] = state[0][0]
            for result, value in zip(last, state):
                result[at, sequence] = value[0]
    if layout:
        return [y.transpose(2, 0, 1, 3)] + [np.swapaxes(each, 0, 1) for each in last]
    return [y] + last
