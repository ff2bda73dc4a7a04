"""Ops that sample pictures at other places, and signals."""
import numpy as np
from onnx import TensorProto

from case import Input
from draw import Undefined, is_float

NEAREST = ['round_prefer_floor', 'round_prefer_ceil', 'floor', 'ceil']
COORDINATES = ['half_pixel', 'pytorch_half_pixel', 'align_corners', 'asymmetric']


def resize(d):
    modes = ['nearest', 'linear'] + (['cubic'] if d.version >= 11 else [])
    if d.version >= 11:
        return late_resize(d, d.choice(modes))
    shape = (d.choice([1, 2]), d.choice([1, 3]), d.choice([1, 2, 4, 5]), d.choice([1, 3, 4, 7]))
    factors = [1.0, 1.0] + [d.choice([0.5, 1.0, 1.5, 2.0, 3.0]) for _ in range(2)]
    if d.op == 'Upsample':
        factors = [max(factor, 1.0) for factor in factors]
    if any(int(size * factor) == 0 for size, factor in zip(shape, factors)):
        raise Undefined('nothing is left')
    return early_resize(d, d.input('T', shape), np.array(factors, np.float32), {'mode': d.choice(modes)})


def late_resize(d, mode):
    """Of one to five axes, all or some of which change."""
    rank = d.choice([1, 2, 3, 4, 4, 4, 5])
    shape = tuple(d.choice([1, 2, 3, 4, 5, 7]) if rank - axis <= 3 else d.choice([1, 2]) for axis in range(rank))
    x = d.input('T1', shape)
    if x.array.dtype == bool:
        raise Undefined('truths in between')
    axes = d.axes(rank) if d.has('axes') and d.chance(0.4) else None
    moved = [axis % rank for axis in axes] if axes is not None else range(rank)
    keeps = lambda axis: axes is None and rank > 3 and axis < rank - 3
    attributes = dict(resize_choices(d, mode), axes=axes, mode=mode)
    # ONNX Runtime cuts integers off that the reference rounds.
    rounds = x.array.dtype.kind in 'iu' and mode != 'nearest'
    judges = ('reference',) if rounds else ('reference', 'runtime')
    roi = None if d.version >= 13 else Input(np.array([], np.float32), constant=True)
    if attributes['coordinate_transformation_mode'] == 'tf_crop_and_resize':
        edges = [(0.0, 1.0) if keeps(axis) else (d.choice([0.0, 0.25, -0.5]), d.choice([1.0, 0.75, 1.5]))
                 for axis in moved]
        roi = Input(np.array([low for low, _ in edges] + [high for _, high in edges], d.type('T2')), constant=True)
    if d.chance(0.5):
        sizes = [shape[axis] if keeps(axis) else d.choice([1, 2, 5, 8]) for axis in moved]
        if d.has('keep_aspect_ratio_policy') and axes is not None and d.chance(0.4):
            attributes['keep_aspect_ratio_policy'] = d.choice(['not_larger', 'not_smaller', 'stretch'])
        without_half_pixel_of_one(attributes, sizes)
        empty = None if d.version >= 13 else Input(np.array([], np.float32), constant=True)
        oracle = resized(d, x.array, [roi, None, np.array(sizes, np.int64)], attributes, rounds)
        return d.case([x, roi, empty, d.steering(sizes)], attributes, scale=4, judges=judges, oracle=oracle)
    factors = [1.0 if keeps(axis) else d.choice([0.5, 1.0, 1.5, 2.0, 3.0]) for axis in moved]
    if any(int(shape[axis] * factor) == 0 for axis, factor in zip(moved, factors)):
        raise Undefined('nothing is left')
    lengths = [shape[axis] * factor for axis, factor in zip(moved, factors)]
    without_half_pixel_of_one(attributes, [int(length) for length in lengths])
    if attributes['coordinate_transformation_mode'] == 'tf_crop_and_resize' and any(1 < length < 2 for length in lengths):
        raise Undefined('a lone element, which the reference has at the start, as if it were one of several')
    scales = np.array(factors, np.float32)
    oracle = resized(d, x.array, [roi, scales], attributes, rounds)
    return d.case([x, roi, Input(scales, constant=True, steers=True)], attributes, scale=4, judges=judges, oracle=oracle)


def without_half_pixel_of_one(attributes, sizes):
    """PyTorch's half pixel of an axis of one is at 0, which the reference has at -0.5."""
    if attributes['coordinate_transformation_mode'] == 'pytorch_half_pixel' and 1 in sizes:
        attributes['coordinate_transformation_mode'] = 'half_pixel'


def resized(d, x, steering, attributes, rounds):
    """The result with axes counted from the first: of others the reference takes the parts of roi, and where it keeps aspect
    ratios the sizes, of wrong ones. What `rounds` is of double precision, where no element of it lies between two integers."""
    arrays = [each.array if isinstance(each, Input) else each for each in steering]
    axes = attributes['axes']
    attributes = dict(attributes, axes=None if axes is None else [axis % x.ndim for axis in axes])

    def evaluated(run):
        (result,) = run('Resize', d.version, [x.astype(np.float64) if rounds else x] + arrays, attributes)
        if not rounds:
            return [result]
        if (np.abs(result - np.floor(result) - 0.5) < 1e-3).any() or (x.dtype.kind == 'u' and (result < 0).any()):
            raise ValueError('halves, which are rounded up or down, or numbers beyond the type')
        return [np.rint(result)]
    return evaluated


def resize_choices(d, mode):
    coordinates = COORDINATES + ['tf_crop_and_resize'] + (['half_pixel_symmetric'] if d.version >= 19 else [])
    attributes = {'coordinate_transformation_mode': d.choice(coordinates)}
    if attributes['coordinate_transformation_mode'] == 'tf_crop_and_resize' and d.chance(0.5):
        attributes['extrapolation_value'] = d.choice([0.0, 3.0])
    if mode == 'nearest':
        attributes['nearest_mode'] = d.choice(NEAREST)
    elif d.has('antialias') and d.chance(0.25):
        attributes['antialias'] = 1
    if mode == 'cubic' and d.chance(0.4):
        attributes['exclude_outside'] = 1
        attributes['cubic_coeff_a'] = d.choice([-0.5, -0.75])
    return attributes


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
    later = dict(attributes, mode={'bilinear': 'linear', 'bicubic': 'cubic'}.get(mode, mode))
    reach = d.choice([1.0, 1.3, 1.3, 4.0])
    grid = (d.random.uniform(-reach, reach, (n,) + to + (rank,))).astype(d.type('T2'))
    x = d.input('T1', (n, channels) + sizes)
    # In double precision: of integers the reference takes the places for integers, too, and it rounds narrow ones.
    oracle = lambda run: run('GridSample', 22, [x.array.astype(np.float64), grid.astype(np.float64)], later)
    if is_float(x.array.dtype):
        return d.case([x, grid], attributes, scale=8, oracle=oracle)
    if mode != 'nearest' or x.array.dtype == bool:
        raise Undefined('integers and truths in between')
    return d.case([x, grid], attributes, oracle=oracle)


def affine_grid(d):
    rank = d.choice([2, 3])
    n = d.choice([1, 2])
    size = [n, d.choice([1, 3])] + [d.choice([1, 2, 5]) for _ in range(rank)]
    return d.case([d.input('T1', (n, rank, rank + 1)), d.steering(size)], {'align_corners': d.choice([0, 1])}, scale=4)


def roi_align(d):
    n, rois = d.choice([1, 2]), d.choice([0, 1, 3])
    dtype = d.type('T1')
    corners = np.sort(d.random.uniform(0, 6, (rois, 2, 2)), axis=1).reshape(rois, 4).astype(dtype)
    attributes = {'output_height': d.choice([1, 2, 3]), 'output_width': d.choice([1, 2]), 'sampling_ratio': d.choice([0, 1, 2, 3]),
                  'spatial_scale': d.choice([0.5, 1.0]), 'mode': d.choice(['avg', 'max'])}
    if d.has('coordinate_transformation_mode') and d.chance(0.6):
        attributes['coordinate_transformation_mode'] = d.choice(['half_pixel', 'output_half_pixel'])
    batches = np.asarray(d.random.integers(0, n, rois)).astype(np.int64)
    # The reference knows the first version by the later one's default.
    judges = ('runtime',) if d.version < 16 else ('reference', 'runtime')
    return d.case([d.values(dtype, (n, d.choice([1, 3]), 6, 7)), corners, batches], attributes, scale=4, judges=judges)


def max_roi_pool(d):
    n, rois = d.choice([1, 2]), d.choice([1, 3])
    dtype = d.type('T')
    low = d.random.integers(0, 3, (rois, 2))
    corners = np.concatenate([d.random.integers(0, n, (rois, 1)), low, low + d.random.integers(0, 4, (rois, 2))], axis=1)
    x, shape = d.values(dtype, (n, d.choice([1, 3]), 6, 7)), [d.choice([1, 2]), d.choice([1, 2, 3])]
    return d.case([x, corners.astype(dtype)], {'pooled_shape': shape}, oracle=lambda run: [greatest_of(x, corners, *shape)])


def greatest_of(x, corners, rows, columns):
    """MaxRoiPool: a region, both its corners in it, in bins that overlap where they do not divide it."""
    result = np.zeros((len(corners), x.shape[1], rows, columns), x.dtype)
    for roi, (batch, left, top, right, bottom) in enumerate(corners):
        height, width = bottom - top + 1, right - left + 1
        for row, column in np.ndindex(rows, columns):
            ys, xs = (slice(first + at * size // count, min(first + -(-(at + 1) * size // count), limit))
                      for first, at, size, count, limit in ((top, row, height, rows, x.shape[2]),
                                                            (left, column, width, columns, x.shape[3])))
            bin_of = x[batch, :, ys, xs].reshape(x.shape[1], -1)
            result[roi, :, row, column] = bin_of.max(axis=1) if bin_of.size else 0
    return result


def crop_pad(d):
    shape = d.shape(least=1)
    axes = d.axes(len(shape)) if d.chance(0.6) else None
    of = axes if axes is not None else range(len(shape))
    sizes = d.steering([d.choice([1, 2, 5, 9]) for _ in of], d.type('Tind'))
    return d.case([d.input('T', shape, 'special'), sizes], {'axes': axes})


def columns_to_image(d):
    rank = d.choice([1, 2, 2, 2, 3])
    block = [d.choice([1, 2]) for _ in range(rank)]
    image = [d.choice([3, 4, 5]) for _ in range(rank)]
    attributes = {'strides': [d.choice([1, 2]) for _ in range(rank)], 'pads': [d.choice([0, 1]) for _ in range(2 * rank)]}
    if d.chance(0.3):
        attributes['dilations'] = [d.choice([1, 2]) for _ in range(rank)]
    count = 1
    for axis in range(rank):
        reach = (block[axis] - 1) * attributes.get('dilations', [1] * rank)[axis] + 1
        padded = image[axis] + attributes['pads'][axis] + attributes['pads'][axis + rank]
        count *= (padded - reach) // attributes['strides'][axis] + 1
    x = d.input('T', (d.choice([1, 2]), d.choice([1, 3]) * int(np.prod(block)), count), 'whole')
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
    """Along any axis; of a length that is given, or of all there is."""
    shape = tuple(d.choice([1, 2, 3]) for _ in range(d.integer(1, 3)))
    axis = d.integer(0, len(shape) - 1)
    size = d.choice([1, 2, 3, 5, 8, 12])
    shape = shape[:axis] + (size,) + shape[axis + 1:]
    attributes = {'inverse': 1} if d.chance(0.3) else {}
    onesided = not attributes and d.chance(0.4)
    parts = 1 if onesided or (not attributes and d.chance(0.4)) else 2
    x = d.values(d.type('T1'), shape + (parts,))
    if onesided:
        attributes['onesided'] = 1
    length = d.choice([1, 2, 4, 7, 16]) if d.chance(0.3) else None
    given = None if length is None else d.steering(length, d.type('T2'))
    oracle = lambda run: [transformed(x.astype(np.float64), axis, length or size, 'inverse' in attributes, onesided)]
    named = axis - len(shape) - 1 if d.chance(0.3) else axis
    if d.version < 20:
        return d.case([x, given], dict(attributes, axis=named), scale=64, oracle=oracle)
    return d.case([x, given, Input(np.array(named, np.int64), constant=True)], attributes, scale=64, oracle=oracle)


def transformed(x, axis, length, inverse, onesided):
    """DFT by numpy's, which cuts off what is beyond the length, or fills up with 0."""
    numbers = x[..., 0] + (1j * x[..., 1] if x.shape[-1] == 2 else 0)
    result = (np.fft.ifft if inverse else np.fft.fft)(numbers, length, axis)
    if onesided:
        result = np.take(result, range(length // 2 + 1), axis)
    return np.stack([result.real, result.imag], axis=-1)


def frames(d):
    """STFT, against numpy's transform of each frame."""
    length, size = d.choice([5, 8, 16, 33]), d.choice([1, 2, 4, 5])
    step = d.choice([1, 2, 3, 7])
    parts = 1 if d.chance(0.7) else 2
    onesided = parts == 1 and d.chance(0.6)
    signal = d.values(d.type('T1'), (d.choice([1, 2]), length, parts))
    window = d.values(d.type('T1'), (size,), 'positive') if d.chance(0.6) else None
    given = d.steering(size, d.type('T2')) if window is None or d.chance(0.5) else None
    inputs = [signal, d.steering(step, d.type('T2')), window, given]
    attributes = {'onesided': int(onesided)} if not onesided or d.chance(0.5) else {}
    return d.case(inputs, attributes, scale=64, fixed=True,
                  oracle=lambda run: [spectra(signal.astype(np.float64), step, window, size, onesided)])


def spectra(signal, step, window, size, onesided):
    count = (signal.shape[1] - size) // step + 1
    numbers = signal[..., 0] + (1j * signal[..., 1] if signal.shape[2] == 2 else 0)
    cut = np.stack([numbers[:, at * step:at * step + size] for at in range(count)], axis=1)
    if window is not None:
        cut = cut * window.astype(np.float64)
    result = np.fft.fft(cut, axis=-1)[..., :size // 2 + 1 if onesided else size]
    return np.stack([result.real, result.imag], axis=-1)


def mel(d):
    numbers = [d.choice([1, 4, 8]), d.choice([16, 32]), d.choice([8000, 16000])]
    inputs = [Input(np.array(number, d.type('T1')), constant=True) for number in numbers]
    inputs += [Input(np.array(edge, np.float32), constant=True) for edge in (0.0, 4000.0)]
    d.types['T2'] = np.dtype(np.float32)
    return d.case(inputs, outputs=[np.dtype(np.float32)])


FAMILY = {'Resize': resize, 'Upsample': resize, 'GridSample': grid_sample, 'AffineGrid': affine_grid, 'RoiAlign': roi_align,
          'MaxRoiPool': max_roi_pool, 'CenterCropPad': crop_pad, 'Col2Im': columns_to_image, 'DFT': fourier,
          'MelWeightMatrix': mel, 'STFT': frames}
FAMILY.update({name: window_function for name in ('HannWindow', 'HammingWindow', 'BlackmanWindow')})
