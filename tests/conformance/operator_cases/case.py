"""One node with its inputs, as a model of ONNX and as a folder in the layout of its backend tests."""
import dataclasses
import json
import pathlib
from typing import Any, Callable, Optional

import numpy as np
from onnx import TensorProto, helper, numpy_helper

# Old operator sets in a version of the format that lets initialisers be no inputs.
OLDEST_IR = 8
# The operator set of ai.onnx in models of another domain.
BESIDE = 18


@dataclasses.dataclass
class Input:
    array: np.ndarray
    constant: bool = False  # an initialiser
    steers: bool = False    # a shape or axes: of a size that the model declares
    captured: bool = False  # what a body of the node reads by its name, and the node does not


@dataclasses.dataclass
class Case:
    op: str
    opset: int
    inputs: list[Optional[Input]]
    outputs: list[Optional[np.dtype]]  # None: left out
    attributes: dict[str, Any]
    scale: float = 0.0         # of what is summed up: how far a result may be off near zero, in units of its type
    oracle: Optional[Callable] = None  # run -> outputs, where run(op, opset, inputs, attributes) evaluates another node
    symbolic: bool = False     # the inputs' dimensions are open in the model
    ranks: Optional[list[int]] = None  # of the outputs, once they are known
    judges: tuple[str, ...] = ('reference', 'runtime')
    domain: str = ''
    chain: Optional[Callable] = None  # (names of inputs, names of outputs, prefix) -> the nodes, where they are several

    def model(self, opset=None):
        """`opset`: of another one that has the same version of the op."""
        return model_of([self], opset or self.opset)

    def feeds(self, prefix=''):
        return {f'{prefix}x{i}': each.array
                for i, each in enumerate(self.inputs) if each is not None and not each.constant}

    def nodes(self, prefix):
        """An attribute that is a function makes a body, whose names begin with the prefix."""
        inputs = [f'{prefix}x{i}' if each is not None else '' for i, each in enumerate(self.inputs)
                  if each is None or not each.captured]
        outputs = [f'{prefix}y{i}' if each is not None else '' for i, each in enumerate(self.outputs)]
        if self.chain is not None:
            return self.chain(inputs, outputs, prefix)
        attributes = {name: value(prefix) if callable(value) else value for name, value in self.attributes.items()}
        return [helper.make_node(self.op, inputs, outputs, name=f'{prefix}node', domain=self.domain, **attributes)]

    def initialisers(self, prefix):
        return [numpy_helper.from_array(each.array, f'{prefix}x{i}')
                for i, each in enumerate(self.inputs) if each is not None and each.constant]

    def declared_inputs(self, prefix):
        """Dimensions of 1 are declared where others are open: an open one is never taken for a 1 that is broadcast."""
        declared = []
        for i, each in enumerate(self.inputs):
            if each is None or each.constant:
                continue
            is_open = self.symbolic and not each.steers
            shape = [f'{prefix}d{i}_{axis}' if is_open and size != 1 else size for axis, size in enumerate(each.array.shape)]
            declared.append(helper.make_tensor_value_info(f'{prefix}x{i}', tensor_type(each.array.dtype), shape))
        return declared

    def declared_outputs(self, prefix):
        kept = [(i, dtype) for i, dtype in enumerate(self.outputs) if dtype is not None]
        shapes = [[None] * rank for rank in self.ranks] if self.ranks is not None else [None] * len(kept)
        return [helper.make_tensor_value_info(f'{prefix}y{i}', tensor_type(dtype), shape)
                for (i, dtype), shape in zip(kept, shapes)]

    def tolerance(self):
        """Relative and absolute, for the least precise of the outputs."""
        widths = [RELATIVE.get(str(dtype), 0.0) for dtype in self.outputs if dtype is not None]
        relative = max(widths)
        return {'rtol': relative, 'atol': max(1e-6 if relative else 0.0, relative * self.scale)}


def model_of(cases, opset):
    """The nodes of each, side by side; of one case without prefixes. `opset`: of the domain that all of them are of."""
    prefixes = prefixes_of(cases)
    domain = cases[0].domain
    opsets = [helper.make_opsetid(domain, opset)] + ([helper.make_opsetid('', BESIDE)] if domain else [])
    newest_format = helper.find_min_ir_version_for(opsets, ignore_unknown=True) if opset > 12 or domain else OLDEST_IR
    parts = list(zip(cases, prefixes))
    graph = helper.make_graph([node for case, prefix in parts for node in case.nodes(prefix)], 'cases',
                              [value for case, prefix in parts for value in case.declared_inputs(prefix)],
                              [value for case, prefix in parts for value in case.declared_outputs(prefix)],
                              [value for case, prefix in parts for value in case.initialisers(prefix)])
    return helper.make_model(graph, opset_imports=opsets, ir_version=max(OLDEST_IR, newest_format))


def prefixes_of(cases):
    return [''] if len(cases) == 1 else [f'c{i}_' for i in range(len(cases))]


def write_test(folder, cases, expected):
    """model.onnx, test_data_set_0 and the tolerance, of cases with the same operator set and tolerance."""
    folder = pathlib.Path(folder)
    data = folder / 'test_data_set_0'
    data.mkdir(parents=True, exist_ok=True)
    (folder / 'model.onnx').write_bytes(model_of(cases, cases[0].opset).SerializeToString())
    (folder / 'test_data.json').write_text(json.dumps(cases[0].tolerance()), encoding='utf-8')
    feeds = [array for case in cases for array in case.feeds().values()]
    outputs = [array for arrays in expected for array in arrays]
    for kind, arrays in (('input', feeds), ('output', outputs)):
        for i, array in enumerate(arrays):
            (data / f'{kind}_{i}.pb').write_bytes(numpy_helper.from_array(array).SerializeToString())


# As in benchmarks of inference: what functions and sums in another order may differ by. Types of 8 bits and less: exact.
RELATIVE = {'float64': 1e-6, 'float32': 1e-3, 'float16': 4e-3, 'bfloat16': 3e-2}


def tensor_type(dtype):
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype)) if dtype != bool else TensorProto.BOOL
