#!/usr/bin/env python3
"""Loads a model into ONNX Runtime or OpenVINO and times it whenever it is asked to.

usage: peer_worker.py onnxruntime|openvino THREADS MODEL.onnx [INPUT.npy]
Writes one line of JSON when it is ready ({"version": …} or {"error": …}); then, for each line SECONDS that it reads,
one with the median of runs over that time. performance.py keeps one of these beside gantry, so that both are measured
in turns without loading the model again. With EXPECT_AVX2 in its environment it refuses to run unless
hold_to_avx2.cpp holds it. OpenVINO is held to float32 (with AMX it would choose bfloat16 by itself).
"""
import json
import os
import sys
import time

import numpy as np

TYPES = {'tensor(float)': np.float32, 'tensor(int64)': np.int64, 'tensor(int32)': np.int32,
         'tensor(uint8)': np.uint8, 'tensor(bool)': np.bool_, 'tensor(float16)': np.float16}


def made_up(shape, dtype):
    dims = [d if isinstance(d, int) and d > 0 else 1 for d in shape]
    return (np.random.default_rng(0).random(dims) * 2 - 1).astype(dtype)


def load_onnxruntime(model, threads, given):
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = ort.InferenceSession(model, options, providers=['CPUExecutionProvider'])
    feeds = {i.name: given if given is not None else made_up(i.shape, TYPES[i.type]) for i in session.get_inputs()}
    return lambda: session.run(None, feeds), ort.__version__


def load_openvino(model, threads, given):
    import openvino as ov
    core = ov.Core()
    settings = {'INFERENCE_NUM_THREADS': threads, 'NUM_STREAMS': 1, 'PERFORMANCE_HINT': 'LATENCY',
                'INFERENCE_PRECISION_HINT': 'f32'}
    network = core.compile_model(core.read_model(model), 'CPU', settings)
    request = network.create_infer_request()
    feeds = {}
    for k, port in enumerate(network.inputs):
        shape = [d.get_length() if d.is_static else 1 for d in port.partial_shape]
        feeds[k] = given if given is not None else made_up(shape, port.element_type.to_dtype())
    return lambda: request.infer(feeds), ov.__version__.split('-')[0]


def median_of_runs(run, seconds):
    samples, start = [], time.perf_counter()
    while len(samples) < 5 or time.perf_counter() - start < seconds:
        before = time.perf_counter()
        run()
        samples.append(1e3 * (time.perf_counter() - before))
    return float(np.median(samples))


def main():
    peer, threads, model, *files = sys.argv[1:]
    try:
        if os.environ.get('EXPECT_AVX2') and not os.environ.get('HELD_TO_AVX2'):
            raise RuntimeError(f"not held to AVX2: {os.environ.get('LD_PRELOAD')} was not loaded (is it built?)")
        given = np.load(files[0]) if files else None
        load = {'onnxruntime': load_onnxruntime, 'openvino': load_openvino}[peer]
        run, version = load(model, int(threads), given)
        for _ in range(2):
            run()
    except Exception as error:  # whatever a peer throws is a row of the table
        print(json.dumps({'error': f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"}), flush=True)
        return
    print(json.dumps({'version': version}), flush=True)
    for line in sys.stdin:
        run()
        print(json.dumps({'median_ms': median_of_runs(run, float(line))}), flush=True)


if __name__ == '__main__':
    main()
