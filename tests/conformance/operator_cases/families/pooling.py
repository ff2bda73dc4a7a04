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


def pooled(op, x, attributes):
    """Y of MaxPool, AveragePool and LpPool."""
    kernel = attributes['kernel_shape']
    rank = len(kernel)
    strides, dilations = (attributes.get(name, [1] * rank) for name in ('strides', 'dilations'))
    pads = attributes.get('pads', [0] * 2 * rank)
    axes = [places(x.shape[2 + at], kernel[at], strides[at], dilations[at], pads[at], pads[at + rank], attributes)
            for at in range(rank)]
    result = np.zeros(x.shape[:2] + tuple(len(starts) for starts, _, _ in axes), x.dtype if op == 'MaxPool' else np.float64)
    for position in itertools.product(*(range(len(starts)) for starts, _, _ in axes)):
        taps = [starts[at] + dilation * np.arange(side)
                for (starts, _, _), at, side, dilation in zip(axes, position, kernel, dilations)]
        inside = [each[(each >= 0) & (each < size)] for each, size in zip(taps, x.shape[2:])]
        counted = [np.sum((each >= -before) & (each < size + after))
                   for each, size, (_, before, after) in zip(taps, x.shape[2:], axes)]
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
