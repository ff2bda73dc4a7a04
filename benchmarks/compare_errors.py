#!/usr/bin/env python3
"""How often `gantry compare` errs: programs beside themselves, and beside one that takes a little longer.

usage: benchmarks/compare_errors.py --gantry build/bin/gantry [--networks resnet18,mobilenet_v2,lstm] [--times 40]
                                    [--load] [--slower SHARE] [--duration 30s] [--json FILE]

Without --slower each network's module is compared with itself: every claim of a difference is wrong, and of 40
comparisons at most 4, of 240 at most 12 may make one. With --slower 3% the second module is the network with a kernel of
its own at the end that takes about that much longer (this needs Python's onnx and numpy): every comparison that makes no
claim, or the wrong one, is counted. --load runs a second process that keeps one CPU busy half of the time, in turns of
0.1 to 1 s. Prints a line a comparison, then a line a network; exit status 1 where too many erred.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--gantry', required=True)
    parser.add_argument('--networks', default='resnet18,mobilenet_v2,lstm')
    parser.add_argument('--times', type=int, default=40)
    parser.add_argument('--load', action='store_true')
    parser.add_argument('--slower', help='e.g. 3%%')
    parser.add_argument('--duration', default='30s')
    parser.add_argument('--json')
    return parser.parse_args()


def be_busy():
    """One CPU, half of the time."""
    turns = random.Random(0)
    while os.getppid() != 1:
        length = turns.uniform(0.1, 1)
        end = time.monotonic() + length
        while time.monotonic() < end:
            pass
        time.sleep(length)


def gantry(args, folder, *words):
    return subprocess.run([args.gantry, '--quiet', *words], cwd=folder, check=True, text=True, capture_output=True).stdout


def compared(args, folder, first, second):
    return json.loads(gantry(args, folder, 'compare', first, second, '--duration', args.duration, '--json'))


def with_a_kernel_more(source, target, channels):
    """The network with a matrix product added to its first output: x + 0 * (x W), W of `channels` columns."""
    import numpy
    import onnx
    from onnx import helper, numpy_helper
    model = onnx.load(source)
    output = model.graph.output[0]
    width = output.type.tensor_type.shape.dim[-1].dim_value
    for node in model.graph.node:
        node.output[:] = ['extra_in' if name == output.name else name for name in node.output]
        node.input[:] = ['extra_in' if name == output.name else name for name in node.input]
    generator = numpy.random.default_rng(0)
    weights = {'extra_w': generator.standard_normal((width, channels)),
               'extra_v': generator.standard_normal((channels, width)) * 1e-6}
    for name, value in weights.items():
        model.graph.initializer.append(numpy_helper.from_array(value.astype('float32'), name))
    model.graph.node.extend([helper.make_node('MatMul', ['extra_in', 'extra_w'], ['extra_h'], name='extra_up'),
                             helper.make_node('Relu', ['extra_h'], ['extra_r'], name='extra_relu'),
                             helper.make_node('MatMul', ['extra_r', 'extra_v'], ['extra_d'], name='extra_down'),
                             helper.make_node('Add', ['extra_in', 'extra_d'], [output.name], name='extra_add')])
    onnx.save(model, target)


def slower_module(args, folder, network, share):
    """A module that takes `share` longer: the width of what is added is found by measuring."""
    channels = 256
    for _ in range(6):
        with_a_kernel_more(folder / f'{network}.onnx', folder / 'more.onnx', channels)
        gantry(args, folder, 'compile', 'more.onnx', '-o', f'{network}-more.gmod')
        found = json.loads(gantry(args, folder, 'compare', f'{network}.gmod', f'{network}-more.gmod', '--json',
                                  '--duration', '40s'))['ratio'] - 1
        print(f'{network}: {channels} channels more take {100 * found:.2f} % longer', flush=True)
        if abs(found / share - 1) < 0.15:
            break
        channels = max(16, round(channels * min(8, max(0.125, share / max(found, 1e-4))) / 16) * 16)
    return f'{network}-more.gmod'


def main():
    args = parse_arguments()
    args.gantry = str(pathlib.Path(args.gantry).resolve())
    share = float(args.slower.rstrip('%')) / 100 if args.slower else None
    results = []
    load = os.fork() if args.load else None
    if load == 0:
        be_busy()
        os._exit(0)
    failed = False
    try:
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            for network in args.networks.split(','):
                gantry(args, folder, 'zoo', network, '-o', f'{network}.onnx')
                gantry(args, folder, 'compile', f'{network}.onnx', '-o', f'{network}.gmod')
                second = slower_module(args, folder, network, share) if share else f'{network}.gmod'
                right = ('slower',) if share else ('same', 'not shown')
                mine = []
                for i in range(args.times):
                    found = compared(args, folder, f'{network}.gmod', second)
                    mine.append(dict(found, network=network))
                    print(f"{network} {i + 1}: ratio {found['ratio']:.4f}, {found['interval'][0]:.4f} to "
                          f"{found['interval'][1]:.4f}, {found['verdict']}, {found['rounds']} rounds, "
                          f"{found['elapsed_s']:.1f} s", flush=True)
                results += mine
                wrong = sum(result['verdict'] not in right for result in mine)
                most = 2 if share else 4
                failed |= wrong > most
                widths = [(r['interval'][1] - r['interval'][0]) / 2 / r['ratio'] for r in mine]
                print(f'{network}: {wrong} of {len(mine)} err (at most {most} of 40 may); half-width of the interval '
                      f"{100 * statistics.median(widths):.2f} % (median), {statistics.median(r['elapsed_s'] for r in mine):.1f} s",
                      flush=True)
    finally:
        if load:
            os.kill(load, 9)
            os.waitpid(load, 0)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(results), encoding='utf-8')
    sys.exit(failed)


if __name__ == '__main__':
    main()
