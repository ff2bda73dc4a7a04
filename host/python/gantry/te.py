"""Tensor expressions and schedules: what a kernel computes, and how.

::

    from gantry import te

    a = te.placeholder((1024,), "f32", "a")
    b = te.compute((1024,), lambda i: a[i] * 2, "b")
    schedule = te.Schedule(b)
    outer, inner = schedule[b].split(schedule[b].axes[0], 8)
    schedule[b].vectorize(inner)
    print(te.lower(schedule, [a]))
    module = te.build(schedule, [a], name="twice")   # a gantry.Module
    module(array)

It is the interface of ``host/compiler/compiler.h``; docs/tensor-expressions.md is the guide. What does not fit (types,
indices outside of a tensor, a loop that is none of a stage's) is an ``InputError`` where it is said or, of schedules, when
they are lowered.
"""

from . import _native
from ._module import Module

_te = _native.te

Axis = _te.Axis
Buffer = _te.Buffer
Expr = _te.Expr
LoopBuilder = _te.LoopBuilder
LoopNest = _te.LoopNest
LoopStep = _te.LoopStep
Schedule = _te.Schedule
Stage = _te.Stage
TensorExpression = _te.TensorExpression

placeholder, compute, reduce_axis, extern_kernel = _te.placeholder, _te.compute, _te.reduce_axis, _te.extern_kernel
schedule_for, lower = _te.schedule_for, _te.lower
const, cast, select, if_then_else = _te.const, _te.cast, _te.select, _te.if_then_else
sum, prod, max, min, any, all = _te.sum, _te.prod, _te.max, _te.min, _te.any, _te.all
maximum, minimum, abs, pow, fma = _te.maximum, _te.minimum, _te.abs, _te.pow, _te.fma
exp, log, sqrt, rsqrt, erf, sigmoid = _te.exp, _te.log, _te.sqrt, _te.rsqrt, _te.erf, _te.sigmoid
floor, ceil, round, trunc, isnan, isinf = _te.floor, _te.ceil, _te.round, _te.trunc, _te.isnan, _te.isinf
sin, cos, tan, asin, acos, atan = _te.sin, _te.cos, _te.tan, _te.asin, _te.acos, _te.atan
sinh, cosh, tanh, asinh, acosh, atanh = _te.sinh, _te.cosh, _te.tanh, _te.asinh, _te.acosh, _te.atanh


def build(schedule, inputs, *, target="native", name="kernel"):
    """A module of one kernel, ready to be called, saved or sent to a board.

    Args:
        schedule: How the outputs are computed.
        inputs: The placeholders that it reads, in the order of the module's inputs; their names are the inputs' names.
        target: What to compile for: a name from ``gantry.targets()``. Schedules with ``gpu=True`` are for GPUs.
        name: Of the kernel: letters, digits and ``_``.

    Raises:
        InputError: The schedule does not fit its tensors or the target; an input is missing, or computed.
        InternalError: A bug in gantry.

    Other threads of Python go on meanwhile; the schedule cannot be changed until it is done.
    """
    return Module(_te.build(schedule, inputs, target=target, name=name))


# fmt: off
__all__ = [
    "Axis", "Buffer", "Expr", "LoopBuilder", "LoopNest", "LoopStep", "Schedule", "Stage", "TensorExpression", "abs", "acos",
    "acosh", "all", "any", "asin", "asinh", "atan", "atanh", "build", "cast", "ceil", "compute", "const", "cos", "cosh", "erf",
    "exp", "extern_kernel", "floor", "fma", "if_then_else", "isinf", "isnan", "log", "lower", "max", "maximum", "min",
    "minimum", "placeholder", "pow", "prod", "reduce_axis", "round", "rsqrt", "schedule_for", "select", "sigmoid", "sin",
    "sinh", "sqrt", "sum", "tan", "tanh", "trunc",
]
