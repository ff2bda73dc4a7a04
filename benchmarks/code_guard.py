#!/usr/bin/env python3
"""Tells what a change of the compiler changed in the code that it generates.

Before and after the change:
  benchmarks/code_guard.py dump --gantry build/bin/gantry --out before
  benchmarks/code_guard.py dump --gantry build/bin/gantry --out after
What is different:
  benchmarks/code_guard.py compare before after
  benchmarks/code_guard.py compare before after --details conv_relu_1
  benchmarks/code_guard.py compare before after --expect expected.toml

A dump holds, for every network, target and precision, each kernel's loop nest and assembly, the plan with its memory, and
digests of the constants; nothing in it depends on time, place or the order of work, and equal files are stored once.
Without options it has the networks of `gantry zoo` and the targets and precisions listed below. Models of one's own come
from --models. Code is generated anew: the cache of compiled kernels (`gantry cache`) is neither read nor written. An
interrupted dump goes on where it was when the same command is given again; it takes no other build of gantry for it.
What gantry cannot compile is dumped as its message.

The comparison pairs kernels by the ONNX nodes that they compute. It exits with 0 where nothing changed, 1 where something
did, 2 where it cannot be told.
"""
import argparse
import concurrent.futures
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import code_comparison
import code_report
from code_dump import FORMAT, Dump, Failure, program_path, read_json, sha256_of, write_json

# Instruction sets, schedules and arithmetic that share little code with each other: what is dumped by default.
TARGETS = {
    'x86-64-v3': ['auto'],
    'x86-64-v4': ['auto'],
    'sapphirerapids': ['auto', 'fp32-split3', 'bf16', 'fp16'],  # AMX; and AVX512-FP16
    'cortex-a53': ['auto'],
    'cortex-a72': ['auto'],
    'cortex-a76': ['auto', 'fp16'],
    'neoverse-v1': ['bf16'],
    'cuda:sm_80/x86-64-v3': ['auto', 'fp16'],
    'cuda-emulated:sm_80/x86-64-v3': ['auto'],
}
# Networks of the zoo whose sizes are left open too: kernels for symbolic dimensions.
DYNAMIC = ('resnet18', 'bert_tiny')
UNFINISHED = 75  # sysexits' EX_TEMPFAIL
REFUSED = (1, 3)  # what gantry exits with for a user error and for one of its own: the same for the same build
LONGEST = 1800  # seconds that one program may take


def gantry_json(gantry, *arguments):
    done = subprocess.run([gantry, *arguments, '--json'], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failure(f'{gantry} {" ".join(arguments)}: {done.stderr.strip() or done.returncode}')
    return json.loads(done.stdout)


class Network:
    """A model file, or a network of the zoo that is written when it is needed."""

    def __init__(self, name, path=None, zoo=None):
        self.name, self.path, self.zoo = name, path, zoo

    def file(self, gantry, scratch):
        if self.path is not None:
            return self.path
        path = scratch / f'{self.name}.onnx'
        done = subprocess.run([gantry, 'zoo', *self.zoo, '-o', str(path), '--quiet'], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failure(f'{gantry} zoo {" ".join(self.zoo)}: {done.stderr.strip()}')
        return path

    def forget(self, path):
        if self.path is None:
            path.unlink()


def find_networks(args):
    """The zoo's and those of --models, or those of them that --networks names."""
    names = [network['name'] for network in gantry_json(args.gantry, 'zoo', '--list')]
    networks = [Network(name, zoo=[name]) for name in names]
    networks += [Network(f'{name}-dynamic', zoo=[name, '--dynamic']) for name in DYNAMIC if name in names]
    for folder in args.models:
        if not folder.is_dir():
            raise Failure(f'--models {folder}: is no folder')
        networks += [Network(path.name, path=path.resolve()) for path in sorted(folder.glob('*.onnx'))]
    known = {}
    for network in networks:
        if network.name in known:
            raise Failure(f'{network.name}: is in two folders of --models; rename one of the files')
        known[network.name] = network
    unknown = [name for name in args.networks if name not in known]
    if unknown:
        raise Failure(f'--networks {unknown[0]}: there is no such network; there are {", ".join(known)}')
    return [known[name] for name in args.networks] if args.networks else networks


def find_arithmetic(args):
    """Pairs of target and precision."""
    targets = args.targets or list(TARGETS)
    return [(target, precision) for target in targets for precision in args.precisions or TARGETS.get(target, ['auto'])]


def begin(args):
    """The dump's head; what is there already must be of the same build and options."""
    version = gantry_json(args.gantry, 'version')
    head = {'format': FORMAT, 'version': version.get('version'), 'commit': version.get('commit'),
            'build': sha256_of(args.gantry), 'opt': args.opt, 'optimize': args.optimize}
    path = args.out / 'dump.json'
    if path.is_file():
        there = read_json(path)
        different = [key for key, value in head.items() if there.get(key) != value]
        if different:
            raise Failure(f'{args.out}: holds a dump of another gantry or of other options ({", ".join(different)} differ); '
                          'give --out another folder, or remove this one')
        return
    if args.out.exists() and any(args.out.iterdir()):
        raise Failure(f'{args.out}: has files but no dump; give --out another folder')
    (args.out / 'programs').mkdir(parents=True)
    write_json(path, head)


def dump_program(args, network, model, digest, target, precision):
    """Writes the document of one program. Returns why there is none, or None."""
    command = [str(args.gantry), 'ir', str(model), '--target', target, '--precision', precision, '--opt', str(args.opt),
               '--optimize', args.optimize, '--all-to', str(args.out), '--quiet']
    document = {'network': network.name, 'model': digest, 'target': target, 'precision': precision}
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LONGEST)
    except subprocess.TimeoutExpired:
        return f'no result in {LONGEST} s'
    if done.returncode == 0:
        document['program'] = json.loads(done.stdout)
    elif done.returncode in REFUSED:
        document['error'] = done.stderr.strip().replace(str(model), network.name)
    else:
        return f'exit status {done.returncode}: {done.stderr.strip()}'
    write_json(program_path(args.out, network.name, target, precision), document)
    return None


def dump_network(args, network, missing, deadline, scratch):
    """Its programs that are missing, at most --jobs at once; returns how many were not begun and what failed."""
    model = network.file(args.gantry, scratch)
    digest = sha256_of(model)
    skipped, failures = [], []

    def work(arithmetic):
        if time.monotonic() > deadline:
            return skipped.append(arithmetic)
        problem = dump_program(args, network, model, digest, *arithmetic)
        if problem is not None:
            failures.append(f'{network.name} {" ".join(arithmetic)}: {problem}')

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        try:
            for done in [pool.submit(work, arithmetic) for arithmetic in missing]:
                done.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    network.forget(model)
    return len(skipped), failures


def dump(args):
    args.out = args.out.resolve()
    networks, arithmetic = find_networks(args), find_arithmetic(args)
    begin(args)
    deadline = time.monotonic() + args.minutes * 60 if args.minutes else float('inf')
    unfinished, failures = 0, []
    with tempfile.TemporaryDirectory(prefix='code-guard-') as scratch:
        for network in networks:
            missing = [pair for pair in arithmetic if not program_path(args.out, network.name, *pair).is_file()]
            if missing and time.monotonic() > deadline:
                unfinished += len(missing)
            elif missing:
                skipped, failed = dump_network(args, network, missing, deadline, pathlib.Path(scratch))
                unfinished += skipped
                failures += failed
                print(f'{network.name}: {len(missing) - skipped - len(failed)} programs', flush=True)
    for failure in failures:
        print(f'code_guard: {failure}', file=sys.stderr)
    total = len(networks) * len(arithmetic)
    print(f'{args.out}: {total - unfinished - len(failures)} of {total} programs')
    if failures:
        return 1
    if unfinished:
        return UNFINISHED
    shutil.rmtree(args.out / 'made', ignore_errors=True)
    return 0


def compare(args):
    old, new = Dump(args.old), Dump(args.new)
    expectations = code_comparison.read_expectations(args.expect) if args.expect else []
    comparison = code_comparison.compare(old, new, expectations, common=args.common)
    if args.details:
        print(code_report.details(comparison, old, new, args.details, args.assembly))
    else:
        print(code_report.report(comparison, old, new, args.rows))
    return 0 if comparison.is_as_expected() else 1


def command_line():
    defaults = '\n'.join(f'  {target}: {", ".join(precisions)}' for target, precisions in TARGETS.items())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog=f'Targets and precisions by default:\n{defaults}')
    commands = parser.add_subparsers(dest='command', required=True)
    writes = commands.add_parser('dump', help='write what a gantry makes of networks into a folder')
    writes.set_defaults(run=dump)
    writes.add_argument('--gantry', type=pathlib.Path, required=True, help='the program')
    writes.add_argument('--out', type=pathlib.Path, required=True, metavar='DIR', help='the dump')
    writes.add_argument('--models', type=pathlib.Path, nargs='+', default=[], metavar='DIR',
                        help='folders whose models (*.onnx) are dumped too')
    writes.add_argument('--networks', nargs='+', default=[], metavar='NAME',
                        help='only these: names of the zoo, NAME-dynamic, files of --models')
    writes.add_argument('--targets', nargs='+', default=[], metavar='TARGET')
    writes.add_argument('--precisions', nargs='+', default=[], metavar='PRECISION', help='of every target')
    writes.add_argument('--opt', type=int, choices=range(4), default=3)
    writes.add_argument('--optimize', choices=('speed', 'size', 'fast-math'), default='speed')
    writes.add_argument('--jobs', type=int, choices=(1, 2), default=2, help='programs compiled at once; default 2')
    writes.add_argument('--minutes', type=float, default=0,
                        help=f'begin nothing after this time, and exit with {UNFINISHED} where something is left to do')
    reads = commands.add_parser('compare', help='tell what differs between two dumps')
    reads.set_defaults(run=compare)
    reads.add_argument('old', metavar='OLD')
    reads.add_argument('new', metavar='NEW')
    reads.add_argument('--details', metavar='NAME',
                       help='differences of loop nests, or of assembly where only that differs, of the kernels whose name, '
                            'ops or ONNX node this is, or whose number in the list; a shell pattern too')
    reads.add_argument('--assembly', action='store_true', help='with --details: always of the assembly too')
    reads.add_argument('--expect', type=pathlib.Path, metavar='FILE.toml', help='changes that are expected, with their reasons')
    reads.add_argument('--common', action='store_true', help='ignore programs that only one of the dumps has')
    reads.add_argument('--rows', type=int, default=20, help='programs and changes listed; 0: all; default 20')
    return parser


def main():
    args = command_line().parse_args()
    try:
        return args.run(args)
    except Failure as failure:
        print(f'code_guard: {failure}', file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print('code_guard: interrupted; the same command goes on', file=sys.stderr)
        return 130


if __name__ == '__main__':
    sys.exit(main())
