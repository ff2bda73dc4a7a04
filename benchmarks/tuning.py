#!/usr/bin/env python3
"""What `gantry tune` gains: the tables "What was measured" of docs/tuning.md.

  python3 -m venv VENV && VENV/bin/pip install numpy onnxruntime
  benchmarks/tuning.py --peer-python VENV/bin/python --folder tuned --time 5m --threads 1 resnet18.onnx mobilenet_v2.onnx

Each model is compiled untuned and tuned from nothing; `gantry compare` then times the two modules in turns, whatever the tuner
said of them, and ONNX Runtime is timed in rounds beside both. The share of the roof is the least time of all kernels, by their
operations at the multiply-add peak or their traffic (docs/performance.md says how), over what they take: what is missing to 1
is all that any tuner could still gain. Of Winograd's kernels the products count that the algorithm has, without its transforms.
Modules, records and results stay in --folder, as NAME-untuned.gmod, NAME-tuned.gmod, NAME.db, NAME.json, where NAME has the
model, the target and the number of threads, and --label if there is one: `gantry compare` of two such modules says how far
two runs are apart. A result that is there already is only printed. The machine must do nothing else. Where MODEL.in.npy lies
beside MODEL.onnx it is the input.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import performance
import performance_report


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--gantry', default='build/bin/gantry')
    parser.add_argument('--peer-python', help='the Python that has ONNX Runtime; without it gantry is timed alone')
    parser.add_argument('--folder', default='build/tuning', help='where modules, records and results stay')
    parser.add_argument('--time', default='5m', help='of each tuning; default %(default)s')
    parser.add_argument('--threads', type=int, default=1)
    parser.add_argument('--target', help='the CPU to tune for; default: the machine')
    parser.add_argument('--precision', default='fp32')
    parser.add_argument('--seed', default='0')
    parser.add_argument('--label', default='', help='that tells runs of one model and setting apart')
    parser.add_argument('--records', help='begin with these, which other networks left; default: with none')
    parser.add_argument('--prior', default='none', help='as of `gantry tune`; default %(default)s')
    parser.add_argument('--rounds', type=int, default=5, help='beside ONNX Runtime')
    parser.add_argument('--seconds', type=float, default=2.0, help='of one measurement of them')
    parser.add_argument('models', nargs='+')
    args = parser.parse_args()
    args.gantry = str(pathlib.Path(args.gantry).resolve())
    return args


def gantry(args, *words):
    """Its standard output; what it says beside that is shown."""
    done = subprocess.run([args.gantry, *words], check=True, text=True, stdout=subprocess.PIPE)
    return done.stdout


def machine_options(args):
    return ['--threads', str(args.threads), *(['--target', args.target] if args.target else [])]


def tuned(args, network, base):
    """The document of the tuner, which leaves `base`-tuned.gmod and `base`.db."""
    store = f'{base}.db'
    if args.records:
        gantry(args, '--quiet', 'records', 'export', args.records, '-o', f'{base}.jsonl', '--force')
        gantry(args, '--quiet', 'records', 'import', store, f'{base}.jsonl')
    given = ['--input', network.given] if network.given else []
    return json.loads(gantry(args, '--quiet', 'tune', network.model, '--time', args.time, '--seed', args.seed, '--precision',
                             args.precision, '--records', store, '--prior', args.prior, '-o', f'{base}-tuned.gmod',
                             '--force', '--json', *machine_options(args), *given))


def compared(args, base, network):
    given = ['--input', network.given] if network.given else []
    return json.loads(gantry(args, '--quiet', 'compare', f'{base}-untuned.gmod', f'{base}-tuned.gmod', '--json', '--threads',
                             str(args.threads), *given))


def beside_peer(args, base, network):
    """Medians of rounds in ms by name: ONNX Runtime (held to AVX2 beside x86-64-v3), the untuned and the tuned module."""
    samples = {'untuned': [], 'tuned': []}
    peer = None
    if args.peer_python:
        held = {'LD_PRELOAD': performance.hold_to_avx2(args.gantry), 'EXPECT_AVX2': '1'} if args.target == 'x86-64-v3' else None
        peer = performance.Peer(args.peer_python, 'onnxruntime', args.threads, network.model, network.given, held)
        if peer.error:
            sys.exit(f'{network.model}: ONNX Runtime: {peer.error}')
        samples['onnxruntime'] = []
    with tempfile.TemporaryDirectory() as folder:
        estimate = {}
        for _ in range(args.rounds):
            for name in ('untuned', 'tuned'):
                repeat = performance.repeats(args, estimate.get(name, 20.0))
                module = f'{base}-{name}.gmod'
                estimate[name] = performance.bench(args, module, network, args.threads, repeat, folder)['median_ms']
                samples[name].append(estimate[name])
            if peer:
                samples['onnxruntime'].append(peer.median_ms(args.seconds))
        kernels = performance.bench(args, f'{base}-tuned.gmod', network, args.threads, 20, folder, profile=True)['kernels']
    if peer:
        peer.close()
    return samples, kernels


def products_share(kernel):
    """Of the products of a convolution of 3 x 3, those that it computes: ((m + 2) / 3m)^2 by Winograd's F(m x m, 3 x 3) (Lavin and
    Gray, "Fast algorithms for convolutional neural networks", CVPR 2016)."""
    winograd = re.search(r'\[winograd(\d)\]', kernel['name'])
    m = int(winograd.group(1)) if winograd else 1
    return ((m + 2) / (3 * m)) ** 2


def share_of_roof(args, kernels):
    """Least time of the kernels over what they take; None where peak is not built."""
    program = os.path.join(os.path.dirname(args.gantry), 'peak')
    if not os.path.exists(program):
        return None
    peaks = json.loads(subprocess.run([program, str(args.threads)], check=True, text=True, stdout=subprocess.PIPE).stdout)
    mode = 'x86-64-v3' if args.target == 'x86-64-v3' else 'native'
    peak, _ = performance_report.peak_of({'peaks': {'1': peaks}}, mode, 1)
    least = sum(max(performance_report.roofline_seconds({**kernel, 'flops': kernel['flops'] * products_share(kernel)}, peaks, peak))
                for kernel in kernels)
    return least / sum(kernel['total_ms'] * 1e-3 for kernel in kernels)


def measured(args, model, base):
    network = performance.Network(model)
    compile_options = ['--precision', args.precision, *(['-t', args.target] if args.target else [])]
    gantry(args, '--quiet', 'compile', model, '-o', f'{base}-untuned.gmod', '--force', *compile_options)
    for suffix in ('.db', '.db-wal', '.db-shm'):
        pathlib.Path(base + suffix).unlink(missing_ok=True)
    tune = tuned(args, network, base)
    compare = compared(args, base, network)
    samples, kernels = beside_peer(args, base, network)
    return {'model': model, 'threads': args.threads, 'target': tune['target'], 'time': args.time, 'seed': args.seed,
            'label': args.label, 'tune': tune, 'compare': {key: compare[key] for key in ('ratio', 'interval', 'verdict', 'rounds')},
            'samples_ms': samples, 'kernels': kernels, 'share_of_roof': share_of_roof(args, kernels)}


def gains_of(tune):
    """Where the gain comes from, for people."""
    better = [task for task in tune['tasks'] if task['ratio'] and not task['of_network']]
    forms = sum(task['untuned']['form'] != task['tuned']['form'] for task in better)
    saved = sorted(((1 - task['ratio']['value'], task) for task in better), key=lambda pair: -pair[0] * pair[1]['share'])
    parts = [f"{len(better)} of {len(tune['tasks'])} kernels, {forms} by another form"]
    parts += [f"{100 * gain:.0f} % of {task['nodes'][0] if task['nodes'] else task['op']} ({100 * task['share']:.1f} % of the time)"
              for gain, task in saved[:1]]
    parts += [f"{what} accepted" for what in ('layouts', 'fusions') if any(one['accepted'] for one in tune[what])]
    if tune['combined'] and tune['combined']['kept']:
        parts.append('products combined')
    return '; '.join(parts)


def row(result):
    median = {name: statistics.median(samples) for name, samples in result['samples_ms'].items()}
    low, high = result['compare']['interval']
    said = result['tune']['ratio']
    cells = [pathlib.Path(result['model']).stem, result['target'], str(result['threads']), result['time'],
             performance_report.number(median['untuned']), performance_report.number(median['tuned']),
             f"{1 / result['compare']['ratio']:.3f} ({1 / high:.3f} to {1 / low:.3f})",
             f"{1 / said['value']:.3f}" if said else 'nothing changed',
             str(result['tune']['trials']),
             f"{median['onnxruntime'] / median['tuned']:.2f}" if 'onnxruntime' in median else '–',
             f"{100 * result['share_of_roof']:.0f} %" if result['share_of_roof'] else '–', gains_of(result['tune'])]
    return '| ' + ' | '.join(cells) + ' |'


def main():
    args = parse_arguments()
    os.makedirs(args.folder, exist_ok=True)
    results = []
    print('| network | target | threads | tuned for | untuned, ms | tuned, ms | times faster | as the tuner says | trials | '
          "times ONNX Runtime's speed | share of the roof | from |\n" + '| --- ' * 12 + '|', flush=True)
    for model in args.models:
        parts = [pathlib.Path(model).stem, args.target or 'native', str(args.threads), *([args.label] if args.label else [])]
        base = os.path.join(args.folder, '-'.join(parts))
        file = pathlib.Path(base + '.json')
        if not file.exists():
            result = measured(args, model, base)
            file.write_text(json.dumps(result, indent=1), encoding='utf-8')
        results.append(json.loads(file.read_text(encoding='utf-8')))
        print(row(results[-1]), flush=True)
    ratios = [result['compare']['ratio'] for result in results]
    print(f'geometric mean of {len(ratios)}: {1 / statistics.geometric_mean(ratios):.3f} times faster')


if __name__ == '__main__':
    main()
