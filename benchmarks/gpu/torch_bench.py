#!/usr/bin/env python3
"""PyTorch beside gantry on the same GPU, for benchmarks/gpu's `run`.

usage: torch_bench.py export NETWORK BATCH PATH     PATH.onnx, PATH.in.npy and PATH.out.npy, PyTorch's output on the CPU
       torch_bench.py bench NETWORK BATCH PRECISION [--gantry PROGRAM --module FILE.gmod] [--rounds 3] [--repeat 30]

`bench` times the sides in turns: eager, replay of a CUDA graph with cudnn.benchmark, torch.compile (mode
reduce-overhead), and gantry in processes of its own in between. Milliseconds are the medians of the rounds' medians,
by events on the GPU. fp32 and tf32 forbid and allow TF32; with fp16 and bf16 the whole network has that type, where
gantry's tensors stay f32. After each side of each round a line of JSON says what is known so far; the last counts.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)),
                os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')]
TYPES = {'fp16': 'float16', 'bf16': 'bfloat16'}


def export(name, batch, path):
    import numpy
    import torch
    import torch_networks

    network, given = torch_networks.build(name, batch)
    with torch.no_grad():
        expected = network(given)
    options = {'opset_version': 17, 'input_names': ['input'], 'output_names': ['output']}
    try:
        torch.onnx.export(network, (given,), path + '.onnx', dynamo=False, **options)
    except TypeError:  # before PyTorch 2.5 there is no other exporter to choose from
        torch.onnx.export(network, (given,), path + '.onnx', **options)
    numpy.save(path + '.in.npy', given.numpy())
    numpy.save(path + '.out.npy', expected.numpy())


def graph_replay(torch, network, given):
    """A function that replays the network's recorded launches."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            network(given)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        network(given)
    return graph.replay


def compiled(torch, network, given):
    fast = torch.compile(network, mode='reduce-overhead')
    for _ in range(3):
        fast(given)
    return lambda: fast(given)


MAKERS = {'eager': lambda torch, network, given: lambda: network(given), 'graph': graph_replay, 'compile': compiled}


def median_ms(torch, run, repeat):
    for _ in range(10):
        run()
    samples = []
    for _ in range(repeat):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        end.synchronize()
        samples.append(begin.elapsed_time(end))
    return statistics.median(samples)


def gantry_ms(gantry, module):
    with tempfile.TemporaryDirectory() as folder:
        result = os.path.join(folder, 'result.json')
        subprocess.run([gantry, 'bench', module, '--device', 'cuda', '--processes', '1', '--duration', '1s', '--json',
                        result], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        with open(result) as file:
            return json.load(file)['median_ms']


class Sides:
    """What takes turns; a side that fails once is left out, with its reason."""

    def __init__(self, torch, network, given, args):
        self.torch, self.network, self.given, self.args = torch, network, given, args
        self.runs, self.samples, self.problems = {}, {}, {}

    def time(self, side):
        if side == 'gantry':
            return gantry_ms(self.args.gantry, self.args.module)
        self.torch.backends.cudnn.benchmark = side != 'eager'
        if side not in self.runs:
            self.runs[side] = MAKERS[side](self.torch, self.network, self.given)
        return median_ms(self.torch, self.runs[side], self.args.repeat)

    def turn(self, side):
        if side in self.problems:
            return
        try:
            sample = self.time(side)
            self.samples.setdefault(side, []).append(sample)
        except Exception as error:
            said = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
            self.problems[side] = (said or type(error).__name__).strip()[-500:]

    def report(self):
        result = {f'{side}_ms': statistics.median(samples) for side, samples in self.samples.items()}
        result.update({'rounds': {side: len(samples) for side, samples in self.samples.items()},
                       'memory_bytes': self.torch.cuda.max_memory_reserved(), 'version': self.torch.__version__})
        if self.problems:
            result['problems'] = self.problems
        print(json.dumps(result), flush=True)


def bench(args):
    import torch
    import torch_networks

    network, given = torch_networks.build(args.network, args.batch)
    allowed = args.precision == 'tf32'
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allowed
    network, given = network.cuda(), given.cuda()
    if args.precision in TYPES:
        dtype = getattr(torch, TYPES[args.precision])
        network = network.to(dtype)
        given = given.to(dtype) if given.is_floating_point() else given
    names = ['eager', 'graph'] + ['gantry'] * bool(args.module) + ['compile'] * (not args.no_compile)
    sides = Sides(torch, network, given, args)
    with torch.inference_mode():
        for _ in range(args.rounds):
            for side in names:
                sides.turn(side)
                sides.report()
    return 0 if sides.samples else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest='command', required=True)
    exporting = commands.add_parser('export')
    measuring = commands.add_parser('bench')
    for command in (exporting, measuring):
        command.add_argument('network')
        command.add_argument('batch', type=int)
    exporting.add_argument('path')
    measuring.add_argument('precision', choices=['fp32', 'tf32', 'fp16', 'bf16'])
    measuring.add_argument('--gantry')
    measuring.add_argument('--module')
    measuring.add_argument('--no-compile', action='store_true')
    measuring.add_argument('--rounds', type=int, default=3)
    measuring.add_argument('--repeat', type=int, default=30)
    args = parser.parse_args()
    if args.command == 'export':
        return export(args.network, args.batch, args.path)
    return bench(args)


if __name__ == '__main__':
    sys.exit(main())
