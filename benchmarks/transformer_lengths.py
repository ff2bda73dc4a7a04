#!/usr/bin/env python3
"""Transformers of several widths and lengths beside ONNX Runtime on this CPU: time, and distance from float64.

Set-up: VENV/bin/pip install onnx onnxruntime numpy
usage: VENV/bin/python benchmarks/transformer_lengths.py [--gantry build/bin/gantry] [--widths 256,512,768]
           [--tokens 16,50,100,128,150,200,384,512] [--layers 12] [--threads 2] [--precisions auto,fp32] [--seconds 1]
           [--rounds 3] [--no-times]

Encoders as BERT has them (onnx_encoder.py), with random weights and 1,000 words. For each length ONNX Runtime and
gantry are timed in turns. A figure is the lower quartile of all samples of the rounds, in milliseconds: on a machine that
does nothing else the median is hardly more, on one that does, other programs are in the median. "disturbed" is the share
of all samples, of both sides, that took more than 1.2 times that. Errors are max |difference| / max |expected| beside
float64. Prints a table in Markdown, a row as it is known.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy
import onnx

from onnx_encoder import Encoder

POSITIONS, HEAD, VOCABULARY = 512, 64, 1000
DISTURBED = 1.2  # times the lower quartile


def call(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f'{" ".join(command)}: exit code {done.returncode}: {done.stderr}')
    return done.stdout


class OnnxRuntime:
    def __init__(self, model, given, args):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = args.threads, 1
        self.session = onnxruntime.InferenceSession(model, options, providers=['CPUExecutionProvider'])
        self.given, self.seconds = {'tokens': given}, args.seconds

    def result(self):
        return self.session.run(None, self.given)[0]

    def samples_ms(self):
        samples, start = [], time.perf_counter()
        while len(samples) < 5 or time.perf_counter() - start < self.seconds:
            before = time.perf_counter()
            self.result()
            samples.append(1e3 * (time.perf_counter() - before))
        return samples


class Gantry:
    def __init__(self, model, given, args, precision, folder):
        self.module, self.input, self.output = (os.path.join(folder, precision + end)
                                                for end in ('.gmod', '.in.npy', '.out.npy'))
        self.args = args
        numpy.save(self.input, given)
        call([args.gantry, '--quiet', 'compile', model, '--shape', f'tokens=1x{given.shape[1]}', '--precision', precision,
              '-o', self.module, '--force'])

    def result(self):
        call([self.args.gantry, '--quiet', 'run', self.module, '--input', self.input, '--output', self.output, '--force',
              '--threads', str(self.args.threads)])
        return numpy.load(self.output)

    def samples_ms(self):
        result = json.loads(call([self.args.gantry, '--quiet', 'bench', self.module, '--input', self.input, '--processes', '1',
                                  '--duration', f'{self.args.seconds}s', '--threads', str(self.args.threads), '--json']))
        return [sample for process in result['processes'] for sample in process['samples_ms']]


def error(result, expected):
    return numpy.abs(result - expected).max() / numpy.abs(expected).max()


def row(model, encoder, width, tokens, args, folder):
    given = numpy.random.default_rng(tokens).integers(0, VOCABULARY, (1, tokens))
    expected = encoder.exact(given)
    sides = [OnnxRuntime(model, given, args)] + [Gantry(model, given, args, p, folder) for p in args.precisions]
    cells = [str(width), str(tokens)] + [f'{error(side.result(), expected):.2g}' for side in sides]
    if args.times:
        samples = [[] for _ in sides]
        for _ in range(args.rounds):
            for side, of in zip(sides, samples):
                of += side.samples_ms()
        figures = [numpy.quantile(of, 0.25) for of in samples]
        cells += [f'{ms:.3g}' for ms in figures] + [f'{figures[0] / ms:.2f}' for ms in figures[1:]]
        cells += [f'{1e3 * ms / tokens:.3g}' for ms in figures[1:]]
        disturbed = [sample > DISTURBED * ms for of, ms in zip(samples, figures) for sample in of]
        cells.append(f'{numpy.mean(disturbed):.0%}')
    print('| ' + ' | '.join(cells) + ' |', flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda text: [int(part) for part in text.split(',')]
    parser.add_argument('--gantry', default='build/bin/gantry')
    parser.add_argument('--widths', type=numbers, default=[256, 512, 768])
    parser.add_argument('--tokens', type=numbers, default=[16, 50, 100, 128, 150, 200, 384, 512])
    parser.add_argument('--layers', type=int, default=12)
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('--precisions', type=lambda text: text.split(','), default=['auto', 'fp32'])
    parser.add_argument('--seconds', type=float, default=1)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--no-times', dest='times', action='store_false')
    args = parser.parse_args()
    head = ['width', 'tokens'] + [f'{side}: error' for side in ['ONNX Runtime', *args.precisions]]
    if args.times:
        head += [f'{side}, ms' for side in ['ONNX Runtime', *args.precisions]]
        head += [f'{side}: times as fast' for side in args.precisions]
        head += [f'{side}: us a token' for side in args.precisions] + ['disturbed']
    print('| ' + ' | '.join(head) + ' |\n|' + ' --- |' * len(head), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for width in args.widths:
            encoder = Encoder(args.layers, width, width // HEAD, 4 * width, VOCABULARY, POSITIONS, seed=width)
            model = os.path.join(folder, f'{width}.onnx')
            onnx.save(encoder.model(), model)
            for tokens in args.tokens:
                row(model, encoder, width, tokens, args, folder)
    return 0


if __name__ == '__main__':
    sys.exit(main())
