"""Poolings by their definition, a window at a time in double precision."""
import itertools

import numpy as np


def places(size, kernel, stride, dilation, before, after, attributes):
    """The first position of each window along an axis of this size, and how many paddings are before and behind it."""
    reach = (kernel - 1) * dilation + 1
    kind = attributes.get('auto_pad', 'NOTSET')
    if kind in ('SAME_UPPER', 'SAME_LOWER'):
        count = -(-size // stride)
        total = max((count - 1) * stride + reach - size, 0)
        before = total // 2 if kind == 'SAME_UPPER' else total - total // 2
        after = total - before
    else:
        room = size + before + after - reach
        count = (-(-room // stride) if attributes.get('ceil_mode') else room // stride) + 1
        while attributes.get('ceil_mode') and (count - 1) * stride >= size + before:  # which begins in the padding
            count -= 1
    return [at * stride - before for at in range(count)], before, after


def windows_along(sizes, attributes):
    """Of each axis, for each window: the positions of its elements, and how many there are with padding."""
    kernel = attributes['kernel_shape']
    rank = len(kernel)
    strides, dilations = (attributes.get(name, [1] * rank) for name in ('strides', 'dilations'))
    pads = attributes.get('pads', [0] * 2 * rank)
    axes = []
    for at, size in enumerate(sizes):
        starts, before, after = places(size, kernel[at], strides[at], dilations[at], pads[at], pads[at + rank], attributes)
        taps = [start + dilations[at] * np.arange(kernel[at]) for start in starts]
        axes.append([(each[(each >= 0) & (each < size)], np.sum((each >= -before) & (each < size + after))) for each in taps])
    return axes


def has_empty_window(sizes, attributes):
    """Whether a window is of padding alone."""
    return any(len(inside) == 0 for axis in windows_along(sizes, attributes) for inside, _ in axis)


def pooled(op, x, attributes):
    """Y of MaxPool, AveragePool and LpPool."""
    axes = windows_along(x.shape[2:], attributes)
    result = np.zeros(x.shape[:2] + tuple(len(axis) for axis in axes), x.dtype if op == 'MaxPool' else np.float64)
    for position in itertools.product(*(range(len(axis)) for axis in axes)):
        inside, counted = zip(*(axis[at] for axis, at in zip(axes, position)))
        window = x[(slice(None), slice(None)) + np.ix_(*inside)]
        window = window.reshape(x.shape[:2] + (int(np.prod(window.shape[2:])),))
        result[(slice(None), slice(None)) + position] = of_window(op, window, int(np.prod(counted)), attributes)
    return result


def of_window(op, window, counted, attributes):
    """`counted`: how many elements there are with padding."""
    if op == 'MaxPool':
        least = -np.inf if window.dtype.kind not in 'iu' else np.iinfo(window.dtype).min
        return window.max(axis=2, initial=least)
    wide = window.astype(np.float64)
    if op == 'LpPool':
        p = attributes.get('p', 2)
        return (np.abs(wide) ** p).sum(axis=2) ** (1 / p)
    return wide.sum(axis=2) / (counted if attributes.get('count_include_pad') else wide.shape[2])
