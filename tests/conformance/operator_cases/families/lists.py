"""Sequences and optionals: what makes one, changes it, and takes a tensor out of it again."""
import numpy as np
from onnx import TensorProto, helper

from case import Input, tensor_type
from draw import Undefined

INT64 = np.dtype(np.int64)


class Chain:
    """Nodes behind one another, each of which takes the last one's result first."""

    def __init__(self):
        self.steps = []

    def add(self, op, *inputs, **attributes):
        """`inputs`: positions of the case's inputs; None for the chain's last result."""
        self.steps.append((op, inputs, attributes))

    def __call__(self, inputs, outputs, prefix):
        nodes, last = [], ''
        for index, (op, taken, attributes) in enumerate(self.steps):
            result = outputs[0] if index == len(self.steps) - 1 else f'{prefix}s{index}'
            made = {name: value(prefix) if callable(value) else value for name, value in attributes.items()}
            nodes.append(helper.make_node(op, [last if at is None else inputs[at] for at in taken], [result],
                                          name=f'{prefix}node{index}', **made))
            last = result
        return nodes


class Parts:
    """The case's inputs, as they are added."""

    def __init__(self):
        self.inputs = []

    def add(self, value):
        self.inputs.append(value if isinstance(value, Input) else Input(np.asarray(value)))
        return len(self.inputs) - 1


def position(d, length, beyond=False):
    """A position in a sequence of this length; `beyond`: or behind the last."""
    drawn = d.integer(-length, length if beyond else length - 1)
    return d.steering(drawn, d.choice([np.int32, np.int64]))


def tensor_types(d):
    """Of those that sequences have in all operator sets."""
    return np.dtype(d.choice([np.float32, np.float32, np.int64, np.uint8, np.float64, bool, object]))


def taken_out(d, chain, parts, dtype, length, along):
    """The last step: a tensor of the sequence, how many there are, or all of them in one. `along`: the axis in which their
    shapes differ; None: none does. The result's type."""
    kind = d.choice(['at', 'length', 'concat', 'stack'])
    if d.op in ('SequenceLength', 'SequenceAt', 'ConcatFromSequence'):
        kind = {'SequenceLength': 'length', 'SequenceAt': 'at'}.get(d.op, d.choice(['concat', 'stack']))
    if kind == 'length' or length == 0:
        chain.add('SequenceLength', None)
        return INT64
    if kind == 'at':
        chain.add('SequenceAt', None, parts.add(position(d, length)))
        return dtype
    axis, new_axis = (d.integer(-2, 1), int(kind == 'stack')) if along is None else (along, 0)
    chain.add('ConcatFromSequence', None, axis=axis, new_axis=new_axis)
    return dtype


def sequence(d):
    chain, parts, dtype = Chain(), Parts(), tensor_types(d)
    shape = d.shape(least=2, most=3, empty=d.chance(0.3))[:4]
    tensor = lambda: parts.add(d.values(dtype, shape, 'special'))
    length = d.integer(0 if d.op == 'SequenceEmpty' else 1, 4)
    if d.op == 'SequenceEmpty' or (length > 1 and d.chance(0.2)):
        chain.add('SequenceEmpty', dtype=tensor_type(dtype))
        for _ in range(length):
            chain.add('SequenceInsert', None, tensor())
    else:
        chain.add('SequenceConstruct', *[tensor() for _ in range(length)])
    if d.op == 'SequenceInsert' or d.chance(0.3):
        at = [parts.add(position(d, length, beyond=True))] if d.chance(0.7) else []
        chain.add('SequenceInsert', None, tensor(), *at)
        length += 1
    if length and (d.op == 'SequenceErase' or d.chance(0.3)):
        at = [parts.add(position(d, length))] if d.chance(0.7) else []
        chain.add('SequenceErase', None, *at)
        length -= 1
    return finished(d, chain, parts, dtype, length)


def finished(d, chain, parts, dtype, length, along=None):
    result = taken_out(d, chain, parts, dtype, length, along)
    used = {op for op, _, _ in chain.steps}
    if d.op not in used:
        raise Undefined('without the op')
    return d.case(parts.inputs, outputs=[result], chain=chain, fixed=True)


def split_to_sequence(d):
    chain, parts = Chain(), Parts()
    shape = d.shape(least=2, most=3, empty=False)[:4]
    axis = d.axis(len(shape)) if d.chance(0.7) else None
    size = shape[axis or 0]
    dtype = d.type('T', texts=True)
    x = parts.add(d.values(dtype, shape, 'special'))
    attributes = {} if axis is None else {'axis': axis}
    kind = d.choice(['none', 'one', 'several'])
    if kind == 'none':
        attributes['keepdims'] = d.choice([0, 1])
        chain.add('SplitToSequence', x, **attributes)
        return finished(d, chain, parts, dtype, size)
    if kind == 'one':
        each = d.integer(1, size)
        split, length, equal = d.steering(each), -(-size // each), size % each == 0
    else:
        cuts = sorted(d.integer(0, size) for _ in range(d.integer(0, 2)))
        sizes = [after - before for before, after in zip([0] + cuts, cuts + [size])]
        split, length, equal = d.steering(sizes), len(sizes), len(set(sizes)) == 1
    chain.add('SplitToSequence', x, parts.add(split), **attributes)
    return finished(d, chain, parts, dtype, length, None if equal else axis or 0)


def mapped(d):
    chain, parts = Chain(), Parts()
    shape = d.shape(least=2, most=3, empty=False)[:4]
    dtype = np.dtype(np.float32)
    length = d.integer(1, 3)
    chain.add('SequenceConstruct', *[parts.add(d.values(dtype, shape)) for _ in range(length)])
    beside = [parts.add(d.values(dtype, shape))] if d.chance(0.5) else []
    chain.add('SequenceMap', None, *beside, body=lambda prefix: sum_body(prefix, 1 + len(beside)))
    return finished(d, chain, parts, dtype, length)


def sum_body(prefix, count):
    names = [f'{prefix}b{index}' for index in range(count)]
    declared = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names]
    result = helper.make_tensor_value_info(f'{prefix}sum', TensorProto.FLOAT, None)
    return helper.make_graph([helper.make_node('Sum', [names[0]] + names, [f'{prefix}sum'])], 'body', declared, [result])


def optional(d):
    chain, parts, dtype = Chain(), Parts(), tensor_types(d)
    value = d.values(dtype, d.shape(), 'special')
    x = parts.add(value)
    as_it_is = d.version >= 18 and d.op != 'Optional' and d.chance(0.4)
    if not as_it_is:
        chain.add('Optional', x)
    asked = d.choice(['OptionalHasElement', 'OptionalGetElement']) if d.op == 'Optional' else d.op
    chain.add(asked, x if as_it_is else None)
    result = np.array(True) if asked == 'OptionalHasElement' else value
    return d.case(parts.inputs, outputs=[result.dtype], chain=chain, fixed=True, oracle=lambda run: [result])


FAMILY = {name: sequence for name in ('SequenceEmpty', 'SequenceConstruct', 'SequenceInsert', 'SequenceErase', 'SequenceAt',
                                      'SequenceLength', 'ConcatFromSequence')}
FAMILY.update({'SplitToSequence': split_to_sequence, 'SequenceMap': mapped})
FAMILY.update({name: optional for name in ('Optional', 'OptionalHasElement', 'OptionalGetElement')})
