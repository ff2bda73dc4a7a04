#!/usr/bin/env python3
"""Compares gantry with ONNX Runtime on models as packages ship them: results, and times.

  python3 -m venv VENV && VENV/bin/pip install numpy onnxruntime
  VENV/bin/pip download --no-deps --only-binary :all: -d WHEELS magika nudenet silero-vad ...
  VENV/bin/python benchmarks/package_models.py --gantry build/bin/gantry --json models.json WHEELS

A folder is searched for .onnx files, and for wheels that have some; models that occur twice are taken once. Inputs are made
up: open dimensions are the batch in front, else what --size gives for their name or for the input's, else by their place;
elements come from a seed. A model is compiled as it stands, without shapes, and agrees where no output is further from ONNX
Runtime's than --tolerance of its largest element. Outputs that are all below 1e-6 (an empty detection) say nothing: "small".
Lines are printed as models end; the exit status is 1 where one is refused or differs."""
import argparse
import glob
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import zipfile

import numpy as np
import onnxruntime

PLACES = {1: 576, 2: 160, 3: 192}  # of an open dimension that nothing else says a size of


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--gantry', default='build/bin/gantry')
    parser.add_argument('--batch', type=int, default=1)
    parser.add_argument('--size', action='append', default=[], metavar='NAME=SIZE', help='of a dimension, or INPUT.AXIS')
    parser.add_argument('--value', action='append', default=[], metavar='INPUT=NUMBER', help='of all elements of an input')
    parser.add_argument('--only', help='models whose paths contain this')
    parser.add_argument('--tolerance', type=float, default=1e-3)
    parser.add_argument('--seconds', type=float, default=0.0, help='of one measurement; 0: results alone')
    parser.add_argument('--threads', type=int, default=1, help='of both')
    parser.add_argument('--json', help='the file that results are written to')
    parser.add_argument('folders', nargs='+')
    return parser.parse_args()


def models(folders, unpacked):
    """Paths of models, and what to call them."""
    for wheel in sorted(path for folder in folders for path in glob.glob(os.path.join(folder, '**', '*.whl'), recursive=True)):
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if name.endswith(('.onnx', '.onnx.data'))]
            archive.extractall(os.path.join(unpacked, os.path.basename(wheel).split('-')[0]), names)
    seen = set()
    for folder in (*folders, unpacked):
        for path in sorted(glob.glob(os.path.join(folder, '**', '*.onnx'), recursive=True)):
            with open(path, 'rb') as file:
                digest = hashlib.sha256(file.read()).digest()
            if digest not in seen:
                seen.add(digest)
                yield path, os.path.relpath(path, folder)


def shape_of(value, batch, sizes):
    """The sizes of an input of ONNX Runtime's."""
    shape = []
    for axis, dim in enumerate(value.shape):
        if isinstance(dim, int):
            shape.append(dim)
        elif f'{value.name}.{axis}' in sizes:
            shape.append(sizes[f'{value.name}.{axis}'])
        elif str(dim) in sizes:
            shape.append(sizes[str(dim)])
        else:
            shape.append(PLACES.get(axis, 1) if axis > 0 and len(value.shape) > 1 and axis != _batch_axis(value) else batch)
    return shape


def _batch_axis(value):
    """Of states, (layers, batch, features), the second."""
    return 1 if isinstance(value.shape[0], int) and len(value.shape) == 3 and isinstance(value.shape[2], int) else 0


def elements(value, shape, values, generator):
    if value.name in values:
        return np.full(shape, values[value.name])
    if 'int' in value.type:
        return generator.integers(0, 200 if '8' in value.type else 10, shape)
    if 'bool' in value.type:
        return generator.integers(0, 2, shape)
    return generator.standard_normal(shape) * 0.1


DTYPES = {'float': np.float32, 'double': np.float64, 'float16': np.float16, 'int64': np.int64, 'int32': np.int32,
          'int8': np.int8, 'uint8': np.uint8, 'bool': np.bool_}


class Refused(Exception):
    """gantry's message."""


def run_gantry(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode != 0:
        raise Refused(done.stderr.strip())
    return done.stdout


def worst(actual, expected):
    """The largest difference, as a share of the largest element, and that element."""
    if actual.shape != expected.shape:
        raise Refused(f'shape {actual.shape} instead of {expected.shape}')
    if expected.size == 0 or expected.dtype.kind not in 'fiub':
        return 0.0, 0.0
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    largest = float(np.abs(b).max())
    return float(np.abs(a - b).max()) / max(largest, 1e-30), largest


def made_up(session, batch, sizes, values, folder):
    """Inputs of a session of ONNX Runtime's by name, and gantry's options that give it the same from FOLDER's files."""
    generator = np.random.default_rng(5)
    feeds, inputs = {}, []
    for number, value in enumerate(session.get_inputs()):
        dtype = DTYPES[value.type.removeprefix('tensor(').removesuffix(')')]
        shape = shape_of(value, batch, sizes)
        feeds[value.name] = np.asarray(elements(value, shape, values, generator), dtype)
        file = os.path.join(folder, f'input_{number}.npy')
        np.save(file, feeds[value.name])
        inputs += ['--input', f'{value.name}={file}']
    return feeds, inputs


def errors(gantry, path, session, feeds, inputs, folder):
    """The worst error of all outputs, and the largest element of that output. PATH is a model or a module of it."""
    expected = session.run(None, feeds)
    outputs = os.path.join(folder, 'outputs.npz')
    run_gantry([gantry, 'run', path, *inputs, '-o', outputs, '--force'])
    result = {'error': 0.0, 'largest': 0.0}
    with np.load(outputs) as actual:
        for output, wanted in zip(session.get_outputs(), expected):
            error, largest = worst(actual[output.name], wanted)
            if error >= result['error']:
                result |= {'error': error, 'largest': largest}
    return result


def times(gantry, path, inputs, session, feeds, threads, seconds, rounds=3):
    """Medians in ms, of rounds in turn. PATH is a model or a module of it."""
    own, other = [], []
    for _ in range(rounds):
        text = run_gantry([gantry, 'bench', path, *inputs, '--threads', str(threads), '--processes', '1',
                           '--duration', str(seconds), '--json', '-'])
        own.append(json.loads(text)['median_ms'])
        samples, end = [], time.perf_counter() + seconds
        while time.perf_counter() < end or len(samples) < 3:
            begin = time.perf_counter()
            session.run(None, feeds)
            samples.append((time.perf_counter() - begin) * 1e3)
        other.append(float(np.median(samples)))
    return {'gantry_ms': float(np.median(own)), 'onnxruntime_ms': float(np.median(other))}


def compare(options, path, folder):
    session_options = onnxruntime.SessionOptions()
    session_options.intra_op_num_threads = options.threads
    session = onnxruntime.InferenceSession(path, session_options, providers=['CPUExecutionProvider'])
    feeds, inputs = made_up(session, options.batch, options.sizes, options.values, folder)
    result = errors(options.gantry, path, session, feeds, inputs, folder)
    result['status'] = 'pass' if result['error'] <= options.tolerance else 'small' if result['largest'] < 1e-6 else 'wrong'
    if options.seconds > 0:
        result |= times(options.gantry, path, inputs, session, feeds, options.threads, options.seconds)
    return result


def main():
    options = arguments()
    options.sizes = {name: int(size) for name, size in (text.split('=') for text in options.size)}
    options.values = {name: float(number) for name, number in (text.split('=') for text in options.value)}
    results = {}
    with tempfile.TemporaryDirectory() as work:
        for path, name in models(options.folders, os.path.join(work, 'unpacked')):
            if options.only and options.only not in name:
                continue
            try:
                results[name] = compare(options, path, work)
            except Refused as refusal:
                results[name] = {'status': 'refused', 'reason': str(refusal)}
            except Exception as error:  # ONNX Runtime's own, of whatever kind
                results[name] = {'status': 'no reference', 'reason': str(error)}
            print(f'{results[name]["status"]:8} {name}', {k: v for k, v in results[name].items() if k != 'status'}, flush=True)
    if options.json:
        with open(options.json, 'w', encoding='utf-8') as file:
            json.dump(results, file, indent=1)
    sys.exit(any(result['status'] in ('refused', 'wrong') for result in results.values()))


if __name__ == '__main__':
    main()
