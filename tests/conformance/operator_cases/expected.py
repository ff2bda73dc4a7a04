"""What a case is to give: ONNX's reference evaluator, held against ONNX Runtime where that runs the case."""
import warnings

import numpy as np
from onnx import checker
from onnx.reference import ReferenceEvaluator

from case import Case, Input
from draw import TEXT

LARGEST_OUTPUTS = 64 << 20  # bytes


def onnx_runtime():
    """The package, or None. Imported where it is used: its threads do not survive a fork."""
    try:
        import onnxruntime
    except ImportError:
        return None
    return onnxruntime


class Dropped(Exception):
    """Nothing is known to expect; the text is a reason that is counted."""


def evaluate(op, opset, inputs, attributes, outputs=1):
    """The reference evaluator's outputs of another node than the case's; for oracles."""
    arrays = [None if array is None else Input(np.asarray(array)) for array in inputs]
    attributes = {name: value for name, value in attributes.items() if value is not None}
    case = Case(op, opset, arrays, [np.asarray(inputs[0]).dtype] * outputs, attributes)
    return ReferenceEvaluator(case.model()).run(None, case.feeds())


def by_reference(case):
    with np.errstate(all='ignore'), warnings.catch_warnings():
        warnings.simplefilter('ignore')
        if case.oracle is not None:
            return case.oracle(evaluate)
        return ReferenceEvaluator(case.model()).run(None, case.feeds())


def by_runtime(case, opset):
    """With all graph optimisations off; raises where ONNX Runtime has no kernel for the case."""
    onnxruntime = onnx_runtime()
    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(case.model(opset).SerializeToString(), options, ['CPUExecutionProvider'])
    return session.run(None, case.feeds())


def typed(case, outputs):
    """The outputs in the types that the schema gives them; None where there are others than the case has."""
    wanted = [dtype for dtype in case.outputs if dtype is not None]
    if len(outputs) != len(wanted):
        return None
    arrays = [np.asarray(output) for output in outputs]
    if any(dtype == TEXT and not all(isinstance(text, str) for text in array.ravel().tolist())
           for array, dtype in zip(arrays, wanted)):
        return None
    with np.errstate(all='ignore'):
        return [array if array.dtype == dtype else array.astype(dtype) for array, dtype in zip(arrays, wanted)]


def agree(case, first, second):
    tolerance = case.tolerance()
    for one, other in zip(first, second):
        if one.shape != other.shape:
            return False
        if tolerance['rtol'] == 0 or one.dtype.kind in 'biuO':
            same = np.array_equal(one, other) or (one.dtype.kind not in 'biuO' and np.array_equal(
                one.astype(np.float32), other.astype(np.float32), equal_nan=True))
            if not same:
                return False
        elif not np.allclose(one.astype(np.float64), other.astype(np.float64), equal_nan=True, **tolerance):
            return False
    return True


def attempt(run):
    """What it gives, or None and why not."""
    try:
        return run(), ''
    except Exception as error:  # whatever an evaluator throws: the case goes by the other one
        return None, f'{type(error).__name__}: {error}'.split('\n')[0][:200]


def expectation(case, opset, with_runtime=True):
    """The outputs and what they go by; `opset`: the oldest one with the same version of the op. The case gets their
    ranks."""
    outputs, source = evaluated(case, opset, with_runtime)
    if sum(output.nbytes for output in outputs) > LARGEST_OUTPUTS:
        raise Dropped('the outputs are too large for a test')
    case.ranks = [output.ndim for output in outputs]
    _, complaint = attempt(lambda: checker.check_model(case.model(), full_check=True))
    if complaint:
        raise Dropped(f'the checker refuses it: {complaint}')
    return outputs, source


def evaluated(case, opset, with_runtime):
    reference, runtime, no_reference = None, None, 'it is not asked'
    if 'reference' in case.judges:
        reference, no_reference = attempt(lambda: typed(case, by_reference(case)))
    if 'runtime' in case.judges and with_runtime and onnx_runtime() is not None:
        runtime, _ = attempt(lambda: typed(case, by_runtime(case, opset)))
    if reference is None and runtime is None:
        raise Dropped(f'the reference evaluator fails: {no_reference}')
    if reference is None:
        return runtime, 'ONNX Runtime alone'
    if runtime is None:
        return reference, 'the reference alone'
    if not agree(case, reference, runtime):
        raise Dropped('the reference and ONNX Runtime differ')
    return reference, 'both'
