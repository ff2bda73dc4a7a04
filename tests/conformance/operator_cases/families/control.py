"""If, Loop and Scan with small bodies, held against the same steps in numpy."""
import numpy as np
from onnx import helper

from case import Input, tensor_type
from draw import is_float

TYPES = [np.float32, np.float32, np.float64, np.int32, np.int64]


class Body:
    """A graph for an attribute; names in it begin with a prefix that '@' stands for."""

    def __init__(self):
        self.steps, self.inputs, self.outputs = [], [], []

    def input(self, name, dtype, shape=None):
        self.inputs.append((name, dtype, shape))

    def output(self, name, dtype, shape=None):
        self.outputs.append((name, dtype, shape))

    def step(self, op, inputs, output, **attributes):
        self.steps.append((op, inputs, output, attributes))

    def __call__(self, prefix):
        of = lambda name: name.replace('@', prefix)
        nodes = [helper.make_node(op, [of(name) for name in inputs], [of(output)], **attributes)
                 for op, inputs, output, attributes in self.steps]
        values = [[helper.make_tensor_value_info(of(name), tensor_type(dtype), shape) for name, dtype, shape in each]
                  for each in (self.inputs, self.outputs)]
        return helper.make_graph(nodes, of('@body'), *values)


def captured(array):
    return Input(np.asarray(array), captured=True)


# How a branch makes its result of a captured tensor, as a node and in numpy.
BRANCHES = {
    'negated': ('Neg', ['@x1'], {}, lambda x: -x),
    'doubled': ('Add', ['@x1', '@x1'], {}, lambda x: x + x),
    'as it is': ('Identity', ['@x1'], {}, lambda x: x),
    'longer': ('Concat', ['@x1', '@x1'], {'axis': 0}, lambda x: np.concatenate([x, x])),
    'squared': ('Mul', ['@x1', '@x1'], {}, lambda x: x * x),
}


def branch(kind, dtype, result):
    op, inputs, attributes, _ = BRANCHES[kind]
    body = Body()
    body.step(op, inputs, result, **attributes)
    body.output(result, dtype)
    return body


def conditional(d):
    dtype = np.dtype(d.choice(TYPES))
    shape = d.shape(least=1, most=3)[:4]
    x = d.values(dtype, shape, 'whole')
    kinds = [d.choice(list(BRANCHES)) for _ in range(2)]
    condition = d.chance(0.5)
    bodies = [branch(kind, dtype, result) for kind, result in zip(kinds, ('@t', '@e'))]
    result = BRANCHES[kinds[0 if condition else 1]][-1](x)
    given = Input(np.array(condition) if d.chance(0.7) or d.version < 11 else np.array([condition]), constant=d.chance(0.3))
    return d.case([given, captured(x)], {'then_branch': bodies[0], 'else_branch': bodies[1]}, outputs=[dtype],
                  oracle=lambda run: [result], fixed=True)


def turns_of(d):
    """How many turns there may be, as an input or None; whether a turn ends the loop, as the condition's input."""
    limit = d.choice([0, 1, 2, 3, 7]) if d.chance(0.85) else None
    start = d.chance(0.9) if d.chance(0.5) else None
    return limit, start


def loop(d):
    """A state to which each turn adds a captured tensor, or itself; each turn's state is gathered; turns may end early."""
    dtype = np.dtype(d.choice(TYPES))
    shape = d.shape(most=2)[:3]
    limit, start = turns_of(d)
    stop = d.integer(0, 4) if limit is None or d.chance(0.4) else None
    growing = bool(shape) and d.chance(0.25)
    gathered = not growing and d.chance(0.5)
    state, beside = d.values(dtype, shape, 'whole'), d.values(dtype, shape, 'whole')
    body = loop_body(dtype, shape, stop, gathered, growing)
    inputs = [None if limit is None else Input(np.array(limit, np.int64), constant=d.chance(0.4)),
              None if start is None else Input(np.array(start), constant=d.chance(0.4)), Input(state), captured(beside)]
    if stop is not None:
        inputs.append(captured(np.array(stop, np.int64)))
    results = looped(state, beside, limit, start, stop, growing)
    return d.case(inputs, {'body': body}, outputs=[dtype] * (2 if gathered else 1), fixed=True,
                  oracle=lambda run: results[:2 if gathered else 1])


def loop_body(dtype, shape, stop, gathered, growing):
    body = Body()
    body.input('@i', np.int64, [])
    body.input('@c', bool, [])
    body.input('@s', dtype, None if growing else list(shape))
    if growing:
        body.step('Concat', ['@s', '@x3'], '@n', axis=0)
    else:
        body.step('Add', ['@s', '@x3'], '@n')
    if stop is None:
        body.step('Identity', ['@c'], '@g')
    else:
        body.step('Less', ['@i', '@x4'], '@g')
    body.output('@g', bool, [])
    body.output('@n', dtype, None if growing else list(shape))
    if gathered:
        body.step('Identity', ['@n'], '@o')
        body.output('@o', dtype, list(shape))
    return body


def looped(state, beside, limit, start, stop, growing):
    """The last state and those of all turns."""
    gathered, turn, going = [], 0, start is not False
    while going and (limit is None or turn < limit):
        state = np.concatenate([state, beside]) if growing else (state + beside).astype(state.dtype)
        gathered.append(state)
        going = stop is None or turn < stop
        turn += 1
    return [state, np.stack(gathered) if gathered and not growing else np.zeros((0,) + state.shape, state.dtype)]


def scan(d):
    """A running sum over one or two inputs, in any direction and along any axis."""
    dtype = np.dtype(d.choice(TYPES))
    length, count = d.choice([1, 2, 3, 6]), d.choice([1, 1, 2])
    element = tuple(d.choice([1, 2, 3]) for _ in range(d.integer(0 if d.version >= 9 else 1, 2)))
    state = d.values(dtype, element, 'whole')
    rows = [d.values(dtype, (length,) + element, 'whole') for _ in range(count)]
    body = scan_body(dtype, element, count)
    directions = [d.choice([0, 1]) for _ in range(count)] if d.chance(0.5) else None
    out_direction = d.choice([0, 1]) if d.chance(0.5) and d.version >= 9 else None
    attributes = {'body': body, 'num_scan_inputs': count}
    if d.version < 9:
        return early_scan(d, state, rows, attributes, directions, dtype)
    attributes.update(scan_input_directions=directions,
                      scan_output_directions=None if out_direction is None else [out_direction])
    last, all_states = scanned(state, rows, directions or [0] * count)
    all_states = all_states[::-1] if out_direction else all_states
    if d.chance(0.5):
        axes = [d.integer(-len(element) - 1 if d.version >= 11 else 0, len(element)) for _ in range(count)]
        attributes['scan_input_axes'] = axes
        rows = [np.ascontiguousarray(np.moveaxis(each, 0, axis)) for each, axis in zip(rows, axes)]
    if d.chance(0.5):
        axis = d.integer(-len(element) - 1 if d.version >= 11 else 0, len(element))
        attributes['scan_output_axes'] = [axis]
        all_states = np.moveaxis(all_states, 0, axis)
    return d.case([state] + rows, attributes, outputs=[dtype, dtype], fixed=True, oracle=lambda run: [last, all_states])


def early_scan(d, state, rows, attributes, directions, dtype):
    """Of operator set 8: a batch of sequences, whose lengths may be given."""
    batch = d.choice([1, 2])
    length = rows[0].shape[0]
    states = np.stack([d.values(dtype, state.shape, 'whole') for _ in range(batch)])
    several = [np.stack([d.values(dtype, each.shape, 'whole') for _ in range(batch)]) for each in rows]
    results = [scanned(states[at], [each[at] for each in several], directions or [0] * len(rows)) for at in range(batch)]
    return d.case([None, states] + several, dict(attributes, directions=directions), outputs=[dtype, dtype], fixed=True,
                  oracle=lambda run: [np.stack(each) for each in zip(*results)])


def scan_body(dtype, element, count):
    body = Body()
    body.input('@s', dtype, list(element))
    for index in range(count):
        body.input(f'@r{index}', dtype, list(element))
    body.step('Sum' if is_float(dtype) else 'Add', ['@s', '@r0'], '@n0')
    if count == 2:
        body.step('Mul', ['@n0', '@r1'], '@n1')
    last = f'@n{count - 1}'
    body.step('Identity', [last], '@o')
    body.output(last, dtype, list(element))
    body.output('@o', dtype, list(element))
    return body


def scanned(state, rows, directions):
    """The last state and those of all turns."""
    states = []
    for turn in range(rows[0].shape[0]):
        taken = [each[-1 - turn if backwards else turn] for each, backwards in zip(rows, directions)]
        state = state + taken[0]
        state = (state * taken[1] if len(taken) == 2 else state).astype(rows[0].dtype)
        states.append(state)
    return state, np.stack(states)


FAMILY = {'If': conditional, 'Loop': loop, 'Scan': scan}
