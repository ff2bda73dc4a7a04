#!/usr/bin/env python3
"""Measures gantry beside ONNX Runtime and OpenVINO on whole networks and writes the tables of docs/performance.md.

Set-up, once:
  python3 -m venv VENV && VENV/bin/pip install numpy onnxruntime openvino
  cmake --preset release && cmake --build --preset release     (builds build/bin/gantry, peak and fork_join)
Everything, on a machine that does nothing else:
  benchmarks/performance.py --peer-python VENV/bin/python --report docs/performance.md MODEL.onnx...
A part, added to what was measured before:
  benchmarks/performance.py --peer-python VENV/bin/python --targets x86-64-v3 --precisions auto --threads 1 \\
    resnet18.onnx
The tables again from the figures that are there:
  benchmarks/performance.py --report docs/performance.md

Figures are kept in --results and replaced one by one, so that interrupted and partial runs add up. For each network
and number of threads the peers are loaded once; then each round times every peer and every gantry module in turn. A
figure is the median over the rounds of medians, a ratio the median of the rounds' ratios: a drift of the machine's
speed falls on both. Where MODEL.in.npy lies beside MODEL.onnx it is the input, and MODEL.out.npy what the output is
compared with. What fails is a dash in the table, and a line below it says why; where gantry fails the exit status is
1. Beside x86-64-v3 the peers are held to AVX2 (hold_to_avx2.cpp). What two threads gain is measured in rounds of its
own (scaling.py).
"""
import argparse
import datetime
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import performance_report
import scaling

PEERS = ('onnxruntime', 'openvino')
BUILD = 'cmake --preset release && cmake --build --preset release'
# Precisions of native beside its default one, each a mode of its own; a target in its default precision is a mode too.
PRECISIONS = ('fp32', 'fp32-split3', 'bf16', 'fp16')


def arithmetic(mode):
    """Target and precision of a mode."""
    return ('native', mode) if mode in PRECISIONS else (mode, 'auto')


class Failure(Exception):
    """A program failed; the text says how, for the table."""


def call(command, environment=None, timeout=300):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout,
                              env={**os.environ, **(environment or {})})
    except subprocess.TimeoutExpired:
        raise Failure(f'{os.path.basename(command[0])} {command[1]}: no result in {timeout} s')
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        reason = lines[0].removeprefix('gantry: error: ') if lines else f'exit code {done.returncode}'
        raise Failure(reason[:160])
    return done.stdout


class Peer:
    """A peer with a model loaded, in a process of its own."""

    def __init__(self, python, name, threads, model, given, environment=None):
        worker = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'peer_worker.py')
        self.messages = tempfile.TemporaryFile('w+')
        self.process = subprocess.Popen([python, worker, name, str(threads), model] + ([given] if given else []),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.messages,
                                        text=True, env={**os.environ, **(environment or {})})
        ready = self._answer()
        self.version, self.error = ready.get('version'), ready.get('error')

    def _answer(self):
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        self.messages.seek(0)
        said = [text for text in self.messages.read().splitlines() if text.strip()]
        return {'error': 'ended without an answer' + (f': {said[-1][:160]}' if said else '')}

    def median_ms(self, seconds):
        self.process.stdin.write(f'{seconds}\n')
        self.process.stdin.flush()
        answer = self._answer()
        if 'error' in answer:
            raise Failure(answer['error'])
        return answer['median_ms']

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.messages.close()


class Results:
    """What was measured, on disk after every change."""

    def __init__(self, path):
        self.path = path
        self.data = {'machine': {}, 'peaks': {}, 'runs': {}, 'profiles': {}, 'compile': {}, 'fork_join': {},
                     'scaling': {}}
        if os.path.exists(path):
            with open(path) as file:
                self.data.update(json.load(file))

    def put(self, section, key, value):
        self.data[section][key] = value
        os.makedirs(os.path.dirname(os.path.abspath(self.path)), exist_ok=True)
        with open(self.path + '.partial', 'w') as file:
            json.dump(self.data, file, indent=1, sort_keys=True)
        os.replace(self.path + '.partial', self.path)


class Network:
    def __init__(self, model):
        self.model = model
        base = model.removesuffix('.onnx')
        self.name = os.path.basename(base)
        self.given = base + '.in.npy' if os.path.exists(base + '.in.npy') else None
        self.expected = base + '.out.npy' if os.path.exists(base + '.out.npy') else None


def bench_command(args, module, network, repeat, profile=False):
    command = [args.gantry, 'profile' if profile else 'bench', module, '--processes', '1', '--warmup', '2', '--number', '1', '--repeat',
               str(repeat)]
    return command + (['--input', network.given] if network.given else [])


def repeats(args, estimate_ms):
    """Samples that fill a measurement."""
    return max(5, min(1000, int(1e3 * args.seconds / estimate_ms)))


def bench(args, module, network, threads, repeat, folder, profile=False):
    result = os.path.join(folder, 'result.json')
    call(bench_command(args, module, network, repeat, profile) + ['--threads', str(threads), '--json', result])
    with open(result) as file:
        return json.load(file)


def error_of_output(args, module, network):
    """max |difference| / max |expected|; None without a reference."""
    if not (network.given and network.expected):
        return None
    out = call([args.gantry, 'run', module, '--input', network.given, '--expect', network.expected, '--tolerance',
                '1e9'])
    found = re.search(r'max \|expected\| = ([-+.\deinf]+)', out)
    return float(found.group(1)) if found else None


def compile_modules(args, network, folder, results):
    """Module of each mode, or why there is none; the times of native with the cache empty and full."""
    modules = {}
    for mode in args.modes:
        target, precision = arithmetic(mode)
        path = os.path.join(folder, f'{network.name}-{mode}.gmod')
        command = [args.gantry, 'compile', network.model, '-o', path, '--target', target, '--precision', precision]
        try:
            if mode == 'native':
                cache = {'GANTRY_CACHE_DIR': os.path.join(folder, 'cache')}
                times = []
                for _ in range(4):
                    start = time.perf_counter()
                    call(command, cache)
                    times.append(time.perf_counter() - start)
                results.put('compile', network.name, {'cold_s': times[0], 'warm_s': statistics.median(times[1:]),
                                                      'module_bytes': os.path.getsize(path)})
            else:
                call(command)
            modules[mode] = (path, None, error_of_output(args, path, network))
        except Failure as failure:
            modules[mode] = (None, str(failure), None)
    return modules


def hold_to_avx2(gantry):
    """The library that is preloaded to hold a peer to AVX2."""
    build = os.path.dirname(os.path.dirname(os.path.abspath(gantry)))
    return os.path.join(build, 'lib', 'libhold_to_avx2.so')


def peers_of(args, network, threads):
    peers = {name: Peer(args.peer_python, name, threads, network.model, network.given) for name in args.peers}
    if 'x86-64-v3' in args.modes:
        held = {'LD_PRELOAD': hold_to_avx2(args.gantry), 'EXPECT_AVX2': '1'}
        for name in args.peers:
            peers[name + '-avx2'] = Peer(args.peer_python, name, threads, network.model, network.given, held)
    return peers


def measure(args, network, threads, modules, folder, results):
    """Returns what failed to run, of gantry's."""
    peers = peers_of(args, network, threads) if args.peers else {}
    samples = {name: [] for name in [*peers, *modules]}
    errors = {name: peer.error for name, peer in peers.items() if peer.error}
    errors.update({mode: error for mode, (_, error, _) in modules.items() if error})
    estimate = {}
    for _ in range(args.rounds):
        for name in samples:
            if name in errors:
                samples[name].append(None)
                continue
            try:
                if name in peers:
                    samples[name].append(peers[name].median_ms(args.seconds))
                else:
                    repeat = repeats(args, estimate.get(name, 100.0))
                    median = bench(args, modules[name][0], network, threads, repeat, folder)['median_ms']
                    estimate[name] = median
                    samples[name].append(median)
            except Failure as failure:
                errors[name] = str(failure)
                samples[name].append(None)
    for peer in peers.values():
        peer.close()
    for mode, (_, _, deviation) in modules.items():
        entry = {'network': network.name, 'mode': mode, 'threads': threads, 'samples_ms': samples[mode],
                 'error': errors.get(mode), 'deviation': deviation, 'rounds': args.rounds, 'peers': {},
                 'date': datetime.date.today().isoformat()}
        for name, peer in peers.items():
            entry['peers'][name] = {'samples_ms': samples[name], 'error': errors.get(name), 'version': peer.version}
        results.put('runs', f'{network.name}|{mode}|{threads}', entry)
        print(performance_report.summary(entry), flush=True)
    return [f'{network.name}, {mode}, {threads} threads: {error}' for mode, error in errors.items()
            if mode in modules and not modules[mode][1]]


def profile(args, network, modules, folder, results):
    for mode, (path, _, _) in modules.items():
        if path is None or mode in performance_report.ASIDE:
            continue
        try:
            kernels = bench(args, path, network, 1, 5, folder, profile=True)['kernels']
            keep = ('name', 'nodes', 'calls', 'total_ms', 'flops', 'bytes')
            results.put('profiles', f'{network.name}|{mode}', [{k: kernel[k] for k in keep} for kernel in kernels])
        except Failure as failure:
            print(f'{network.name}, {mode}: no profile: {failure}', flush=True)


def measure_scaling(args, network, modules, folder, results):
    for mode, (path, _, _) in modules.items():
        if path is None or mode in performance_report.ASIDE:
            continue
        try:
            estimate = bench(args, path, network, 1, 5, folder)['median_ms']
        except Failure as failure:
            print(f'{network.name}, {mode}, two threads beside one: {failure}', flush=True)
            continue
        measured = scaling.measure(bench_command(args, path, network, repeats(args, estimate)), args.rounds)
        if measured:
            results.put('scaling', f'{network.name}|{mode}', measured)
            print(f'{network.name}, {mode}: two threads gain %.2f, two processes %.2f' % scaling.gains(measured),
                  flush=True)


def measure_machine(args, results):
    cpu = ''
    with open('/proc/cpuinfo') as file:
        for line in file:
            if line.startswith('model name'):
                cpu = line.split(':', 1)[1].strip()
                break
    results.put('machine', 'description', {'cpu': cpu, 'cores': os.cpu_count(), 'system': platform.platform()})
    for threads in args.threads:
        for program, section in (('peak', 'peaks'), ('fork_join', 'fork_join')):
            if program == 'fork_join' and threads < 2:
                continue
            path = os.path.join(os.path.dirname(args.gantry), program)
            if not os.path.exists(path):
                print(f'{path}: not built ({BUILD}); its table stays as it was')
                continue
            out = call([path, str(threads)])
            results.put(section, str(threads), json.loads(out) if program == 'peak' else out)


def refusal(gantry, target):
    """Why gantry does not compile for it; "" where it does. It looks at the target before it reads the model."""
    done = subprocess.run([gantry, 'compile', os.devnull, '-t', target], capture_output=True, text=True)
    return '' if os.devnull in done.stderr else done.stderr.strip()


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--gantry', default='build/bin/gantry')
    parser.add_argument('--peer-python', help='the Python that has the peers; without it gantry is timed alone')
    parser.add_argument('--peers', default=','.join(PEERS))
    parser.add_argument('--targets', default='native,x86-64-v4,x86-64-v3', help='of gantry; "" for none')
    parser.add_argument('--precisions', default='auto,fp32,fp32-split3,bf16,fp16',
                        help='auto: each of --targets in its default precision; the others: native too, where it has them; default %(default)s')
    parser.add_argument('--threads', default='1,2', help='"" for none: with --no-profile and --no-scaling, compile times alone')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--seconds', type=float, default=0.5, help='of one measurement')
    parser.add_argument('--results', default='build/performance.json')
    parser.add_argument('--report', help='the Markdown file whose tables are written')
    parser.add_argument('--no-profile', action='store_true')
    parser.add_argument('--no-scaling', action='store_true', help='do not time two threads and two processes in turn')
    parser.add_argument('models', nargs='*')
    args = parser.parse_args()
    precisions = args.precisions.split(',')
    args.modes = [t for t in args.targets.split(',') if t and 'auto' in precisions]
    args.modes += [precision for precision in PRECISIONS if precision in precisions]
    unknown = [p for p in precisions if p not in ('auto', *PRECISIONS)]
    if unknown or not args.modes:
        parser.error(f'--precisions {args.precisions}: takes auto (of --targets), {", ".join(PRECISIONS)}')
    missing = [model for model in args.models if not os.path.isfile(model)]
    if missing:
        parser.error('no such model: ' + ', '.join(missing))
    if args.models and not shutil.which(args.gantry):
        parser.error(f'--gantry {args.gantry}: no such program; build it ({BUILD})')
    if args.peer_python and not shutil.which(args.peer_python):
        parser.error(f'--peer-python {args.peer_python}: no such program')
    for target in {arithmetic(mode)[0] for mode in args.modes} if args.models else []:
        if why := refusal(args.gantry, target):
            parser.error(f'--targets {target}: {why}')
    args.threads = [int(t) for t in args.threads.split(',') if t]
    args.peers = [p for p in args.peers.split(',') if p] if args.peer_python else []
    if args.models and args.peers and 'x86-64-v3' in args.modes and not os.path.exists(hold_to_avx2(args.gantry)):
        parser.error(f'{hold_to_avx2(args.gantry)}: not built, and holds the peers to AVX2 beside x86-64-v3: build it '
                     f'({BUILD}), or measure other --targets')
    return args


def main():
    args = parse_arguments()
    results = Results(args.results)
    networks = [Network(model) for model in args.models]
    if networks:
        measure_machine(args, results)
    failed = []
    for network in networks:
        folder = tempfile.mkdtemp(prefix='gantry-performance-')
        try:
            modules = compile_modules(args, network, folder, results)
            # A precision that this CPU has no instructions for is a dash in the table, not a failure.
            failed += [f'{network.name}, {mode}: {error}' for mode, (_, error, _) in modules.items()
                       if error and not (mode in PRECISIONS and 'has no' in error)]
            for threads in args.threads:
                failed += measure(args, network, threads, modules, folder, results)
            if not args.no_scaling:
                measure_scaling(args, network, modules, folder, results)
            if not args.no_profile:
                profile(args, network, modules, folder, results)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    if args.report:
        performance_report.write(results.data, args.report)
    for failure in failed:
        print(f'failed: {failure}', file=sys.stderr)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
