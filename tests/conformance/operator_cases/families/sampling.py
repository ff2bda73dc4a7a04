"""Ops that sample pictures at other places, and signals."""
import numpy as np
from onnx import TensorProto

from case import Input
from draw import Undefined

NEAREST = ['round_prefer_floor', 'round_prefer_ceil', 'floor', 'ceil']
COORDINATES = ['half_pixel', 'pytorch_half_pixel', 'align_corners', 'asymmetric']


def resize(d):
    shape = (d.choice([1, 2]), d.choice([1, 3]), d.choice([1, 2, 4, 5]), d.choice([1, 3, 4, 7]))
    mode = d.choice(['nearest', 'linear'] + (['cubic'] if d.version >= 11 else []))
    x = d.input('T1' if d.version >= 11 else 'T', shape, 'plain')
    factors = [1.0, 1.0] + [d.choice([0.5, 1.0, 1.5, 2.0, 3.0]) for _ in range(2)]
    if d.op == 'Upsample':
        factors = [max(factor, 1.0) for factor in factors]
    if any(int(size * factor) == 0 for size, factor in zip(shape, factors)):
        raise Undefined('nothing is left')
    attributes = {'mode': mode}
    scales = np.array(factors, np.float32)
    if d.version < 11:
        return early_resize(d, x, scales, attributes)
    # ONNX Runtime cuts integers off that the reference rounds.
    judges = ('reference',) if x.array.dtype.kind in 'iu' and mode != 'nearest' else ('reference', 'runtime')
    if x.array.dtype == bool:
        raise Undefined('truths in between')
    attributes['coordinate_transformation_mode'] = d.choice(COORDINATES)
    if mode == 'nearest':
        attributes['nearest_mode'] = d.choice(NEAREST)
    if mode == 'cubic' and d.chance(0.4):
        attributes['exclude_outside'] = 1
        attributes['cubic_coeff_a'] = d.choice([-0.5, -0.75])
    roi = None if d.version >= 13 else Input(np.array([], np.float32), constant=True)
    if d.chance(0.5):
        sizes = list(shape[:2]) + [d.choice([1, 2, 5, 8]) for _ in range(2)]
        empty = None if d.version >= 13 else Input(np.array([], np.float32), constant=True)
        return d.case([x, roi, empty, d.steering(sizes)], attributes, scale=4, judges=judges)
    return d.case([x, roi, Input(scales, constant=True, steers=True)], attributes, scale=4, judges=judges)


def early_resize(d, x, scales, attributes):
    """Upsample, and Resize of operator set 10: later ones do the same with these attributes."""
    if x.array.dtype.kind != 'f' and attributes['mode'] != 'nearest':
        raise Undefined('integers in between')
    oracle = lambda run: run('Resize', 13, [x.array, None, scales], dict(
        attributes, coordinate_transformation_mode='asymmetric', nearest_mode='floor'))
    if d.version >= 9:
        return d.case([x, Input(scales, constant=True, steers=True)], attributes, oracle=oracle, scale=4)
    factors = [float(scale) for scale in scales]
    given = {'scales': factors} if d.version >= 7 else {'height_scale': factors[2], 'width_scale': factors[3]}
    return d.case([x], dict(attributes, **given), oracle=oracle, scale=4)


def grid_sample(d):
    n, channels = d.choice([1, 2]), d.choice([1, 3])
    rank = 2 if d.version < 20 else d.choice([2, 2, 3])
    sizes = tuple(d.choice([1, 2, 5]) for _ in range(rank))
    to = tuple(d.choice([1, 2, 4]) for _ in range(rank))
    modes = ['linear', 'nearest', 'cubic'] if d.version >= 20 else ['bilinear', 'nearest', 'bicubic']
    mode = d.choice(modes[:2] if rank == 3 else modes)
    attributes = {'mode': mode, 'padding_mode': d.choice(['zeros', 'border', 'reflection']), 'align_corners': d.choice([0, 1])}
    grid = (d.random.uniform(-1.3, 1.3, (n,) + to + (rank,))).astype(d.type('T2'))
    return d.case([d.input('T1', (n, channels) + sizes), grid], attributes, scale=8)


def affine_grid(d):
    rank = d.choice([2, 3])
    n = d.choice([1, 2])
    size = [n, d.choice([1, 3])] + [d.choice([1, 2, 5]) for _ in range(rank)]
    return d.case([d.input('T1', (n, rank, rank + 1)), d.steering(size)], {'align_corners': d.choice([0, 1])}, scale=4)


def roi_align(d):
    n, rois = d.choice([1, 2]), d.choice([0, 1, 3])
    dtype = d.type('T1')
    corners = np.sort(d.random.uniform(0, 6, (rois, 2, 2)), axis=1).reshape(rois, 4).astype(dtype)
    attributes = {'output_height': d.choice([1, 2, 3]), 'output_width': d.choice([1, 2]), 'sampling_ratio': d.choice([1, 2]),
                  'spatial_scale': d.choice([0.5, 1.0]), 'mode': d.choice(['avg', 'max'])}
    if d.has('coordinate_transformation_mode') and d.chance(0.6):
        attributes['coordinate_transformation_mode'] = d.choice(['half_pixel', 'output_half_pixel'])
    batches = np.asarray(d.random.integers(0, n, rois)).astype(np.int64)
    return d.case([d.values(dtype, (n, d.choice([1, 3]), 6, 7)), corners, batches], attributes, scale=4)


def max_roi_pool(d):
    n, rois = d.choice([1, 2]), d.choice([1, 3])
    dtype = d.type('T')
    low = d.random.integers(0, 3, (rois, 2))
    corners = np.concatenate([d.random.integers(0, n, (rois, 1)), low, low + d.random.integers(0, 4, (rois, 2))], axis=1)
    return d.case([d.values(dtype, (n, d.choice([1, 3]), 6, 7)), corners.astype(dtype)],
                  {'pooled_shape': [d.choice([1, 2]), d.choice([1, 2, 3])]})


def crop_pad(d):
    shape = d.shape(least=1)
    axes = d.axes(len(shape)) if d.chance(0.6) else None
    of = axes if axes is not None else range(len(shape))
    return d.case([d.input('T', shape, 'special'), d.steering([d.choice([1, 2, 5, 9]) for _ in of], d.type('Tind'))], {'axes': axes})


def columns_to_image(d):
    image, block = [d.choice([3, 4, 5]) for _ in range(2)], [d.choice([1, 2]) for _ in range(2)]
    attributes = {'strides': [d.choice([1, 2]) for _ in range(2)], 'pads': [d.choice([0, 1]) for _ in range(4)]}
    count = 1
    for axis in range(2):
        count *= (image[axis] + attributes['pads'][axis] + attributes['pads'][axis + 2] - block[axis]) \
            // attributes['strides'][axis] + 1
    x = d.input('T', (d.choice([1, 2]), d.choice([1, 3]) * block[0] * block[1], count), 'whole')
    return d.case([x, Input(np.array(image), constant=True), Input(np.array(block), constant=True)], attributes, scale=16)


def window_function(d):
    length = d.choice([1, 2, 5, 16, 33])
    size = d.steering(length, d.type('T1'))
    attributes = {'periodic': d.choice([0, 1])} if d.chance(0.6) else {}
    if length == 1 and attributes.get('periodic') == 0:
        raise Undefined('divides by 0')
    dtype = np.dtype(np.float32)
    if d.chance(0.5):
        dtype = d.type('T2', lambda each: each.kind == 'f')
        attributes['output_datatype'] = int(TensorProto.DataType.Value(
            {'float16': 'FLOAT16', 'float32': 'FLOAT', 'float64': 'DOUBLE'}[str(dtype)]))
    return d.case([size], attributes, outputs=[dtype], scale=1)


def fourier(d):
    length = d.choice([1, 2, 3, 5, 8, 12])
    attributes = {'inverse': 1} if d.chance(0.3) else {}
    onesided = not attributes and d.chance(0.4)
    parts = 1 if onesided or d.chance(0.4) else 2
    shape = (d.choice([1, 2]), length, parts) if d.chance(0.7) else (d.choice([1, 2]), length, 3, parts)
    x = d.values(d.type('T1'), shape)
    if onesided:
        attributes['onesided'] = 1
    if attributes.get('inverse') and parts == 1:
        raise Undefined('the inverse of real numbers')
    if d.version < 20:
        return d.case([x], dict(attributes, axis=1), scale=64)
    return d.case([x, None, Input(np.array(1, np.int64), constant=True)], attributes, scale=64)


def mel(d):
    numbers = [d.choice([1, 4, 8]), d.choice([16, 32]), d.choice([8000, 16000])]
    inputs = [Input(np.array(number, d.type('T1')), constant=True) for number in numbers]
    inputs += [Input(np.array(edge, np.float32), constant=True) for edge in (0.0, 4000.0)]
    d.types['T2'] = np.dtype(np.float32)
    return d.case(inputs, outputs=[np.dtype(np.float32)])


FAMILY = {'Resize': resize, 'Upsample': resize, 'GridSample': grid_sample, 'AffineGrid': affine_grid, 'RoiAlign': roi_align,
          'MaxRoiPool': max_roi_pool, 'CenterCropPad': crop_pad, 'Col2Im': columns_to_image, 'DFT': fourier,
          'MelWeightMatrix': mel}
FAMILY.update({name: window_function for name in ('HannWindow', 'HammingWindow', 'BlackmanWindow')})
