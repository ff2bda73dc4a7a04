#!/usr/bin/env python3
"""Holds what the compiler predicts of its forms against what they take.

For each network and target the list of decisions (`gantry ir --forms`) is printed, lines of it changed, compiled and
run: the result must agree with that of the unchanged list, and the time of the nodes' kernels is held against what
`gantry ir --explain` says. Lines become other candidates of `gantry ir --explain`: for each pair of a form that was taken
and another form the nodes that take the most cycles (--lines of them); and, for the costliest node of each form, the same
form with other knobs (half the rows, the block, the chunk; for GPUs other tiles). What a machine or a kernel has no room
for is refused with the reason, which is counted, and fails nothing.

Times, on a machine that does nothing else; a target that it cannot run is refused:
  benchmarks/form_predictions.py --networks resnet18 bert_tiny --targets x86-64-v3 x86-64-v4 --results predictions.json
Agreement alone, also on a board or the emulated GPU (options of `gantry run` after the target):
  benchmarks/form_predictions.py --agree 'cortex-a76=--on 127.0.0.1:7453 --key board.key' --networks resnet18
  benchmarks/form_predictions.py --agree 'cuda-emulated:sm_80=--device cuda-emulated' --size 64
The table of the results:
  benchmarks/form_predictions.py --results predictions.json --table

Times are those of one thread: medians over --rounds of the kernels' medians, all modules of a network in turn. Changes of
different lines share a module.
"""
import argparse
import dataclasses
import json
import pathlib
import re
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


class Refused(Failure):
    """The request is one that gantry does not take."""


class Gantry:
    def __init__(self, program, folder):
        self.program, self.folder = str(pathlib.Path(program).absolute()), folder

    def __call__(self, *arguments):
        done = subprocess.run([self.program, *arguments], cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            kind = Refused if done.returncode == 1 else Failure
            raise kind(f'gantry {shlex.join(arguments)}: {done.stderr.strip() or done.returncode}')
        return done.stdout

    def decisions(self, model, target):
        """Lines of decisions, those of the target's section."""
        return self('ir', model, '--forms', '--target', target).splitlines()

    def candidates(self, model, target, node):
        return json.loads(self('ir', model, '--explain', '--node', node, '--target', target, '--json'))

    def kernels(self, model, target, *options):
        return json.loads(self('ir', model, '--explain', '--target', target, '--json', *options))['kernels']


def text_of(decision):
    return '{' + ', '.join(f'{name}={value}' for name, value in decision.items()) + '}'


def first_node(line):
    return line.split('// ')[1].split(', ')[0]


def cost_of(candidate):
    return candidate['cycles'] or candidate['ms']


@dataclasses.dataclass
class Edit:
    """One line changed: the node's nodes, what was taken, what is tried, and the ratio of their predicted costs."""
    line: str
    nodes: set
    taken: dict
    tried: dict
    cost: float
    predicted: float = None  # of other knobs: what the kernel's explanation says, asked later
    may_be_refused: bool = False  # candidates may not

    @property
    def kind(self):
        return (self.line.split(' ')[0], self.taken['form'], self.tried['form'])

    @property
    def changed(self):
        """What is tried, in few words."""
        knobs = {name: value for name, value in self.tried.items() if self.taken.get(name) != value}
        if 'form' in knobs:
            return self.tried['form']
        without = [f'without {name}' for name in self.taken if name not in self.tried]
        return ', '.join([f'{name}={value}' for name, value in knobs.items()] + without)


def applied(edits, lines):
    changes = {edit.line: edit.line.replace(text_of(edit.taken), text_of(edit.tried), 1) for edit in edits}
    return '\n'.join(changes.get(line, line) for line in lines) + '\n'


def questions_of(gantry, model, target, lines):
    """(line, question) of each line that has candidates whose cost is known."""
    seen = set()
    for line in lines:
        if '// ' not in line or '{' not in line:
            continue
        for question in gantry.candidates(model, target, first_node(line)):
            known = [one for one in question['candidates'] if cost_of(one)]
            fresh = text_of(question['decision']) in line and tuple(question['nodes']) not in seen
            if fresh and any(one['taken'] for one in known):
                seen.add(tuple(question['nodes']))
                yield line, question | {'candidates': known}


def form_edits(line, question):
    taken = next(one for one in question['candidates'] if one['taken'])
    return [Edit(line, set(question['nodes']), taken['decision'], other['decision'], cost_of(taken),
                 cost_of(other) / cost_of(taken)) for other in question['candidates'] if not other['taken']]


def other_knobs(decision, explanation, gpu):
    """Values of one knob each that differ from what was chosen, as the kernel's explanation has it."""
    if gpu:
        return [{'block_rows': 32}, {'block_columns': 32}, {'block_depth': 8}, {'split': 2}]
    found = [{name: decision[name] // 2} for name in ('block', 'columns') if decision.get(name, 0) > 1]
    for name, pattern in (('rows', r'(\d+) x \d+ sums'), ('chunk', r'(\d+) tiles at once')):
        chosen = re.search(pattern, explanation)
        if chosen and int(chosen[1]) > 1:
            found.append({name: (int(chosen[1]) + 1) // 2})
    if 'input transformed' in explanation:
        found.append({'input_first': int('input transformed first' not in explanation)})
    return found


def kernel_with(kernels, nodes):
    return next((kernel for kernel in kernels if nodes & set(kernel['nodes'])), None)


def knob_edits(line, question, kernels, gpu):
    kernel = kernel_with(kernels, set(question['nodes']))
    taken = next(one for one in question['candidates'] if one['taken'])
    return [Edit(line, set(question['nodes']), taken['decision'], taken['decision'] | other, cost_of(taken),
                 may_be_refused=True)
            for other in other_knobs(taken['decision'], kernel['decision'] or '' if kernel else '', gpu)]


def edits_of(gantry, model, target, lines, count):
    """The edits to try."""
    kinds, costliest, gpu = {}, {}, target.startswith('cuda')
    for line, question in questions_of(gantry, model, target, lines):
        found = form_edits(line, question)
        for edit in found:
            kinds.setdefault(edit.kind, []).append(edit)
        taken = next(one for one in question['candidates'] if one['taken'])
        form = (line.split(' ')[0], taken['decision']['form'])
        if cost_of(taken) > costliest.get(form, (0,))[0]:
            costliest[form] = (cost_of(taken), line, question)
    kernels = gantry.kernels(model, target)
    edits = [edit for found in kinds.values() for edit in sorted(found, key=lambda one: -one.cost)[:count]]
    for _, line, question in costliest.values():
        edits += knob_edits(line, question, kernels, gpu)
    return edits


def batches_of(edits):
    """Edits of different lines together."""
    batches = []
    for edit in edits:
        for batch in batches:
            if edit.line not in [one.line for one in batch]:
                batch.append(edit)
                break
        else:
            batches.append([edit])
    return batches


class Trial:
    """The edits of a network for a target: modules, rows of results."""

    def __init__(self, gantry, network, target, arguments):
        self.gantry, self.network, self.target, self.arguments = gantry, network, target, arguments
        self.model = f'{network}.onnx'
        self.where = shlex.split(arguments.where) if arguments.where else []
        if not (gantry.folder / self.model).exists():
            gantry('zoo', network, '-o', self.model, *(['--size', str(arguments.size)] if arguments.size else []))
        self.lines = gantry.decisions(self.model, target)
        gantry('compile', self.model, '--target', target, '-o', 'own.gmod', '--force')
        gantry('run', 'own.gmod', '--random=1', '-o', 'own.npy', '--force', *self.where)
        self.own_kernels = gantry.kernels(self.model, target)
        self.rows = []

    def row(self, edit, **more):
        return {'network': self.network, 'target': self.target, 'kind': edit.kind, 'nodes': sorted(edit.nodes),
                'changed': edit.changed, 'taken': text_of(edit.taken), 'tried': text_of(edit.tried),
                'predicted': edit.predicted} | more

    def predict(self, edits):
        """Of other knobs, by the explanation of the edited program."""
        asked = [edit for edit in edits if edit.predicted is None]
        if not asked:
            return
        now = self.gantry.kernels(self.model, self.target, '--decisions', 'edited.decisions')
        for edit in asked:
            before, after = (kernel_with(kernels, edit.nodes) for kernels in (self.own_kernels, now))
            if before and after and before['predicted'] and after['predicted']:
                if cost_of(before['predicted']) and cost_of(after['predicted']):
                    edit.predicted = cost_of(after['predicted']) / cost_of(before['predicted'])

    def agree(self, edits, module):
        """Compiles and runs; where that is refused or disagrees each edit is tried by itself. Those that are left."""
        (self.gantry.folder / 'edited.decisions').write_text(applied(edits, self.lines))
        compiled = False
        try:
            self.gantry('compile', self.model, '--target', self.target, '--decisions', 'edited.decisions', '-o', module, '--force')
            compiled = True
            self.gantry('run', module, '--random=1', '--expect', 'own.npy', '--tolerance', str(TOLERANCE), *self.where)
        except Failure as failure:
            if len(edits) == 1:
                refused = edits[0].may_be_refused and not compiled and isinstance(failure, Refused)
                self.rows.append(self.row(edits[0], **{'refused' if refused else 'failure': str(failure)}))
                return []
            left = [edit for edit in edits if self.agree([edit], module)]
            return self.agree(left, module) if left else []
        self.predict(edits)
        return edits

    def run(self):
        edits = edits_of(self.gantry, self.model, self.target, self.lines, self.arguments.lines)
        modules = {f'edited{i}.gmod': self.agree(batch, f'edited{i}.gmod') for i, batch in enumerate(batches_of(edits))}
        modules = {module: batch for module, batch in modules.items() if batch}
        times = {} if self.arguments.where or not modules else self.measure(modules)
        for module, batch in modules.items():
            for edit in batch:
                if not times:
                    self.rows.append(self.row(edit))
                    continue
                before, after = (statistics.median(kernels_ms(profile, edit.nodes) for profile in times[of])
                                 for of in ('own.gmod', module))
                self.rows.append(self.row(edit, own_ms=before, tried_ms=after, measured=after / before))
        return self.rows

    def measure(self, modules):
        """Profiles by module, all modules in turn."""
        times = {module: [] for module in ('own.gmod', *modules)}
        for _ in range(self.arguments.rounds):
            for module, profiles in times.items():
                text = self.gantry('profile', module, '--threads', '1', '--processes', '1', '--warmup', '3', '--duration',
                                   self.arguments.duration, '--json')
                profiles.append(json.loads(text)['kernels'])
        return times


def kernels_ms(kernels, nodes):
    """Milliseconds of the kernels that compute any of the nodes, in one run."""
    return sum(kernel['total_ms'] for kernel in kernels if nodes & set(kernel['nodes']))


def said(row):
    if 'failure' in row:
        return 'FAILED: ' + row['failure']
    if 'refused' in row:
        return 'refused: ' + row['refused'].splitlines()[0].split('error: ')[-1]
    predicted = f"predicted {row['predicted']:.2f}" if row['predicted'] else 'no prediction'
    return predicted + (f", measured {row['measured']:.2f}" if 'measured' in row else ', agrees')


def table(rows):
    """Markdown: for each target and pair of forms (or other knob) the ratios, and how far the prediction is off."""
    groups = {}
    for row in rows:
        if 'measured' in row and row['predicted']:
            op, taken, tried = row['kind']
            tried = tried if tried != taken else re.sub(r'=\d+', '', row['changed'])
            groups.setdefault((row['target'], op, taken, tried), []).append(row)
    lines = ['| target | op | taken | tried | nodes | predicted | measured | measured / predicted |',
             '| --- | --- | --- | --- | --- | --- | --- | --- |']
    for (target, op, taken, tried), found in sorted(groups.items()):
        off = [row['measured'] / row['predicted'] for row in found]
        lines.append(f"| {target} | `{op}` | {taken} | {tried} | {len(found)} | "
                     f"{statistics.median(row['predicted'] for row in found):.2f} | "
                     f"{statistics.median(row['measured'] for row in found):.2f} | "
                     f"{statistics.median(off):.2f} ({min(off):.2f} to {max(off):.2f}) |")
    return '\n'.join(lines)


def summary(rows):
    """A line a target: edits that agree, that were refused, that failed."""
    lines = []
    for target in dict.fromkeys(row['target'] for row in rows):
        of = [row for row in rows if row['target'] == target]
        refused, failed = (sum(kind in row for row in of) for kind in ('refused', 'failure'))
        lines.append(f'{target}: {len(set(row["network"] for row in of))} networks, {len(of) - refused - failed} edits agree, '
                     f'{refused} refused, {failed} failed')
    return '\n'.join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--gantry', default='build/bin/gantry')
    parser.add_argument('--networks', nargs='+', default=NETWORKS, metavar='NAME')
    parser.add_argument('--targets', nargs='+', default=['x86-64-v3'], metavar='TARGET')
    parser.add_argument('--agree', metavar='TARGET=OPTIONS', help='agreement alone, with these options of `gantry run`')
    parser.add_argument('--lines', type=int, default=1, help='nodes of each pair of forms (default 1)')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--duration', default='500ms', help='of a round of a module (default 500ms)')
    parser.add_argument('--size', type=int, help='size of the images, for slow boards')
    parser.add_argument('--results', type=pathlib.Path, help='file that rows are added to')
    parser.add_argument('--table', action='store_true', help='print the table of --results')
    arguments = parser.parse_args()
    rows = json.loads(arguments.results.read_text()) if arguments.results and arguments.results.exists() else []
    if arguments.table:
        print(summary(rows), table(rows), sep='\n\n')
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
                found = Trial(gantry, network, target, arguments).run()
                for row in found:
                    print(f"{network} {target} {row['kind'][0]} {row['kind'][1]} -> {row['changed']} {row['nodes'][0]}: {said(row)}",
                          flush=True)
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
