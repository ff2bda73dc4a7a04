#!/usr/bin/env python3
"""ONNX Runtime with its CUDA provider, for benchmarks/gpu's `run`.

usage: ort_bench.py MODEL.onnx fp32|tf32 [--repeat 50] [--provider CUDAExecutionProvider]

Inputs and outputs stay on the GPU. ONNX Runtime shows no events: a run's time is that of the host from its call to the
end of its work on the GPU, so that short networks have the call's own cost in it. One line of JSON.
"""
import argparse
import json
import statistics
import time

CUDA = 'CUDAExecutionProvider'


def made_up(numpy, info):
    """Normal floats; integers 0 or 1, which every vocabulary has."""
    shape = [extent if isinstance(extent, int) else 1 for extent in info.shape]
    generator = numpy.random.default_rng(0)
    if 'float' in info.type:
        kind = {'tensor(float)': 'float32', 'tensor(float16)': 'float16', 'tensor(double)': 'float64'}[info.type]
        return generator.standard_normal(shape).astype(kind)
    kind = {'tensor(bool)': 'bool'}.get(info.type, info.type[len('tensor('):-1])
    return generator.integers(0, 2, shape).astype(kind)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('model')
    parser.add_argument('precision', choices=['fp32', 'tf32'])
    parser.add_argument('--repeat', type=int, default=50)
    parser.add_argument('--provider', default=CUDA)
    args = parser.parse_args()
    import numpy
    import onnxruntime

    options = {'use_tf32': '1' if args.precision == 'tf32' else '0'} if args.provider == CUDA else {}
    session = onnxruntime.InferenceSession(args.model, providers=[(args.provider, options)])
    if args.provider not in session.get_providers():
        raise SystemExit(f'ONNX Runtime did not take {args.provider}: {session.get_providers()}')
    device = 'cuda' if args.provider == CUDA else 'cpu'
    binding = session.io_binding()
    for info in session.get_inputs():
        value = onnxruntime.OrtValue.ortvalue_from_numpy(made_up(numpy, info), device, 0)
        binding.bind_ortvalue_input(info.name, value)
    for info in session.get_outputs():
        binding.bind_output(info.name, device, 0)

    def run():
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()

    for _ in range(10):
        run()
    samples = []
    for _ in range(args.repeat):
        begin = time.perf_counter()
        run()
        samples.append(1e3 * (time.perf_counter() - begin))
    print(json.dumps({'ms': statistics.median(samples), 'provider': args.provider,
                      'version': onnxruntime.__version__}), flush=True)


if __name__ == '__main__':
    main()
