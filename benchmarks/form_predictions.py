#!/usr/bin/env python3
"""Holds what the compiler predicts of its forms against what they take.

For each network and target the list of decisions (`gantry ir --forms`) is printed, one line of it changed to another
candidate of `gantry ir --explain`, compiled and run: the result must agree with that of the unchanged list, and the time
of the node's kernels is held against the prediction. Which lines: for each pair of a form that was taken and another
form, the nodes that take the most cycles (--lines of them).

Times, on a machine that does nothing else; a target that it cannot run is refused:
  benchmarks/form_predictions.py --networks resnet18 bert_tiny --targets x86-64-v3 x86-64-v4 --results predictions.json
Agreement alone, also on a board or the emulated GPU (options of `gantry run` after the target):
  benchmarks/form_predictions.py --agree 'cortex-a76=--on 127.0.0.1:7453 --key board.key' --networks resnet18
The table of the results:
  benchmarks/form_predictions.py --results predictions.json --table

Times are those of one thread: medians over --rounds of the kernels' medians, both modules in turn.
"""
import argparse
import json
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile

TOLERANCE = 2e-4  # of the largest output: forms differ in rounding, and networks amplify it
NETWORKS = ('bert_tiny', 'densenet121', 'efficientnet_b0', 'lstm', 'mobilenet_v2', 'mobilenet_v3', 'resnet18', 'resnet50',
            'shufflenet_v2', 'squeezenet1_1')


class Failure(Exception):
    """A program failed; the text says how."""


class Gantry:
    def __init__(self, program, folder):
        self.program, self.folder = str(pathlib.Path(program).absolute()), folder

    def __call__(self, *arguments):
        done = subprocess.run([self.program, *arguments], cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failure(f'gantry {shlex.join(arguments)}: {done.stderr.strip() or done.returncode}')
        return done.stdout

    def decisions(self, model, target):
        """Lines of decisions, those of the target's section."""
        return self('ir', model, '--forms', '--target', target).splitlines()

    def candidates(self, model, target, node):
        return json.loads(self('ir', model, '--explain', '--node', node, '--target', target, '--json'))


def text_of(decision):
    return '{' + ', '.join(f'{name}={value}' for name, value in decision.items()) + '}'


def first_node(line):
    return line.split('// ')[1].split(', ')[0]


class Edit:
    """One line changed: the node's nodes, what was taken, what is tried, and the ratio of their predicted cycles."""

    def __init__(self, line, question, other):
        taken = next(one for one in question['candidates'] if one['taken'])
        self.line, self.nodes = line, set(question['nodes'])
        self.taken, self.tried = question['decision'], other['decision']
        self.cycles, self.predicted = taken['cycles'], other['cycles'] / taken['cycles']

    @property
    def kind(self):
        return (self.line.split(' ')[0], self.taken['form'], self.tried['form'])

    def applied(self, lines):
        changed = self.line.replace(text_of(self.taken), text_of(self.tried), 1)
        return '\n'.join(changed if line == self.line else line for line in lines) + '\n'


def edits_of(gantry, model, target, lines, count):
    """The edits to try; the costliest nodes of each kind."""
    kinds, seen = {}, set()
    for line in lines:
        if '// ' not in line or '{' not in line:
            continue
        for question in gantry.candidates(model, target, first_node(line)):
            if text_of(question['decision']) not in line or tuple(question['nodes']) in seen:
                continue
            seen.add(tuple(question['nodes']))
            known = [one for one in question['candidates'] if one['cycles']]
            if not any(one['taken'] for one in known):
                continue
            for other in known:
                if not other['taken']:
                    edit = Edit(line, question, other)
                    kinds.setdefault(edit.kind, []).append(edit)
    return [edit for found in kinds.values() for edit in sorted(found, key=lambda one: -one.cycles)[:count]]


def time_of(gantry, module, nodes):
    """Milliseconds of the kernels that compute any of the nodes, in one run."""
    result = json.loads(gantry('profile', module, '--threads', '1', '--processes', '1', '--duration', '1s', '--json'))
    return sum(kernel['total_ms'] for kernel in result['kernels'] if nodes & set(kernel['nodes']))


def measure(gantry, modules, nodes, rounds):
    """Times of both modules, taken in turn."""
    times = [[time_of(gantry, module, nodes) for module in modules] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*times)]


def try_edit(gantry, model, target, edit, lines, own, arguments):
    """A row of results; raises Failure where the edited list is refused or disagrees."""
    (gantry.folder / 'edited.decisions').write_text(edit.applied(lines))
    run = shlex.split(arguments.where) if arguments.where else []
    gantry('compile', model, '--target', target, '--decisions', 'edited.decisions', '-o', 'edited.gmod', '--force')
    gantry('run', 'edited.gmod', '--random=1', '--expect', 'own.npy', '--tolerance', str(TOLERANCE), *run)
    row = {'kind': edit.kind, 'nodes': sorted(edit.nodes), 'taken': text_of(edit.taken), 'tried': text_of(edit.tried),
           'predicted': edit.predicted}
    if not arguments.where:
        before, after = measure(gantry, [own, 'edited.gmod'], edit.nodes, arguments.rounds)
        row |= {'own_ms': before, 'tried_ms': after, 'measured': after / before}
    return row


def try_network(gantry, network, target, arguments):
    model = f'{network}.onnx'
    if not (gantry.folder / model).exists():
        size = ['--size', str(arguments.size)] if arguments.size else []
        gantry('zoo', network, '-o', model, *size)
    lines = gantry.decisions(model, target)
    gantry('compile', model, '--target', target, '-o', 'own.gmod', '--force')
    run = shlex.split(arguments.where) if arguments.where else []
    gantry('run', 'own.gmod', '--random=1', '-o', 'own.npy', '--force', *run)
    rows = []
    for edit in edits_of(gantry, model, target, lines, arguments.lines):
        try:
            row = try_edit(gantry, model, target, edit, lines, 'own.gmod', arguments)
        except Failure as failure:
            row = {'kind': edit.kind, 'nodes': sorted(edit.nodes), 'tried': text_of(edit.tried), 'failure': str(failure)}
        row |= {'network': network, 'target': target}
        rows.append(row)
        said = row.get('failure') or (f"predicted {row['predicted']:.2f}" +
                                      (f", measured {row['measured']:.2f}" if 'measured' in row else ', agrees'))
        print(f"{network} {target} {' '.join(edit.kind)} {first_node(edit.line)}: {said}", flush=True)
    return rows


def table(rows):
    """Markdown: for each target and pair of forms the ratios, and how far the prediction is off."""
    groups = {}
    for row in rows:
        if 'measured' in row:
            groups.setdefault((row['target'], *row['kind']), []).append(row)
    lines = ['| target | op | taken | tried | nodes | predicted | measured | measured / predicted |',
             '| --- | --- | --- | --- | --- | --- | --- | --- |']
    for (target, op, taken, tried), found in sorted(groups.items()):
        off = [row['measured'] / row['predicted'] for row in found]
        lines.append(f"| {target} | `{op}` | {taken} | {tried} | {len(found)} | "
                     f"{statistics.median(row['predicted'] for row in found):.2f} | "
                     f"{statistics.median(row['measured'] for row in found):.2f} | "
                     f"{statistics.median(off):.2f} ({min(off):.2f} to {max(off):.2f}) |")
    return '\n'.join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--gantry', default='build/bin/gantry')
    parser.add_argument('--networks', nargs='+', default=NETWORKS, metavar='NAME')
    parser.add_argument('--targets', nargs='+', default=['x86-64-v3'], metavar='TARGET')
    parser.add_argument('--agree', metavar='TARGET=OPTIONS', help='agreement alone, with these options of `gantry run`')
    parser.add_argument('--lines', type=int, default=1, help='nodes of each pair of forms (default 1)')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--size', type=int, help='size of the images, for slow boards')
    parser.add_argument('--results', type=pathlib.Path, help='file that rows are added to')
    parser.add_argument('--table', action='store_true', help='print the table of --results')
    arguments = parser.parse_args()
    rows = json.loads(arguments.results.read_text()) if arguments.results and arguments.results.exists() else []
    if arguments.table:
        print(table(rows))
        return 0
    arguments.where, targets = None, arguments.targets
    if arguments.agree:
        target, _, arguments.where = arguments.agree.partition('=')
        targets = [target]
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        gantry = Gantry(arguments.gantry, pathlib.Path(folder))
        for target in targets:
            for network in arguments.networks:
                found = try_network(gantry, network, target, arguments)
                failed |= any('failure' in row for row in found)
                rows = [row for row in rows if (row['network'], row['target']) != (network, target)] + found
                if arguments.results:
                    arguments.results.write_text(json.dumps(rows, indent=1) + '\n')
    return 1 if failed else 0


if __name__ == '__main__':
    try:
        sys.exit(main())
    except Failure as failure:
        sys.exit(f'form_predictions: {failure}')
