#!/usr/bin/env python3
"""How far `gantry bench` with its defaults lies from a run of five minutes.

usage: benchmarks/default_bench.py --gantry build/bin/gantry [--networks NAME,...] [--duration 5m] [--json FILE]

Each network of `gantry zoo` is compiled once and timed three times: with the defaults, for --duration whatever its interval,
and with the defaults again, so that a machine that has changed meanwhile shows as two defaults that differ. Prints a line a
network, with the medians in ms, their 95 % intervals, and both defaults over the long run; exit status 1 where one of them
is more than 2 % away.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

NETWORKS = 'resnet18,resnet50,mobilenet_v2,mobilenet_v3,efficientnet_b0,shufflenet_v2,squeezenet1_1,bert_base,bert_tiny,lstm'
ALLOWED = 0.02


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--gantry', required=True)
    parser.add_argument('--networks', default=NETWORKS)
    parser.add_argument('--duration', default='5m')
    parser.add_argument('--json')
    return parser.parse_args()


def gantry(args, *words):
    run = subprocess.run([args.gantry, '--quiet', *words], check=True, text=True, capture_output=True)
    if run.stderr:
        print(run.stderr.strip(), flush=True)
    return run.stdout


def bench(args, module, *options):
    return json.loads(gantry(args, 'bench', str(module), '--json', *options))


def median_text(result):
    low, high = result['interval_ms'] or (float('nan'), float('nan'))
    return f"{result['median_ms']:.4f} ({low:.4f} to {high:.4f}, {result['elapsed_s']:.0f} s)"


def measured(args, network, folder):
    gantry(args, 'zoo', network, '-o', str(folder / f'{network}.onnx'))
    module = folder / f'{network}.gmod'
    gantry(args, 'compile', str(folder / f'{network}.onnx'), '-o', str(module))
    first = bench(args, module)
    long = bench(args, module, '--duration', args.duration, '--precision-goal', '0.01%')
    second = bench(args, module)
    return {'network': network, 'first': first, 'long': long, 'second': second,
            'ratios': [default['median_ms'] / long['median_ms'] for default in (first, second)]}


def main():
    args = parse_arguments()
    args.gantry = str(pathlib.Path(args.gantry).resolve())
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        for network in args.networks.split(','):
            result = measured(args, network, pathlib.Path(scratch))
            results.append(result)
            print(f'{network}: ' + ' '.join(f'{ratio:.4f}' for ratio in result['ratios']) + '; '
                  + ' | '.join(median_text(result[which]) for which in ('first', 'long', 'second')), flush=True)
            if args.json:
                pathlib.Path(args.json).write_text(json.dumps(results), encoding='utf-8')
    far = [result['network'] for result in results if any(abs(ratio - 1) > ALLOWED for ratio in result['ratios'])]
    print(f'{len(results) - len(far)} of {len(results)} within {100 * ALLOWED:.0f} %' + (': not ' + ', '.join(far) if far else ''))
    sys.exit(bool(far))


if __name__ == '__main__':
    main()
