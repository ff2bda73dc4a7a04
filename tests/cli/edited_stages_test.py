"""Networks as text after every pass, with one place of it edited, compiled and run.

    edited_stages_test.py GANTRY                       small networks, as a test
    edited_stages_test.py GANTRY NAME|MODEL.onnx …     those of the zoo and others, with what each edit did
    … --stages import,fuse_ops,place_devices           after these only
    … --size 32                                        of the zoo's images, or length of its sequences
    … --dim NAME=SIZE                                  of models with symbolic dimensions

An edit exchanges the op of one node, an attribute, or a constant of an elementwise op. The node is known by its op and its
ONNX node, so that the same edit can be made in the text after each pass: wherever it is made, the edited program must
compute the same, which is what the text as it was imported computes when only that has been edited and nothing is
optimised. Of each kind of edit there is one a network, in its middle, or nearer its results where those hardly change: in
networks that were not trained signals may vanish. Texts that a pass left as they were are not compiled again.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SMALL = [('squeezenet1_1', 64), ('mobilenet_v3', 32), ('bert_tiny', 8), ('lstm', 4)]
TOLERANCE = 2e-4  # results of other algorithms and orders of sums, beside the largest
EFFECT = 1e-3  # that an edit must have, on the same scale

NODE = re.compile(r'^\s*%\d+ = (?P<op>[a-z_.0-9]+)\((?P<arguments>.*)\).*?  // (?P<origin>.+)$')
# Of nodes of one input, and of those whose operands passes may exchange.
OTHER_OPS = {'nn.relu': 'tanh', 'sigmoid': 'tanh', 'tanh': 'sigmoid', 'nn.hard_swish': 'tanh', 'nn.hard_sigmoid': 'sigmoid',
             'nn.gelu': 'nn.relu', 'add': 'maximum'}
OTHER_ATTRIBUTES = [(re.compile(r'\bmax=[0-9.]+'), 'max=0'), (re.compile(r'\bepsilon=[-0-9.e]+'), 'epsilon=0.5')]
CONSTANT = re.compile(r'(?:(?P<name>@[^ ,()]+): )?const\(f32, \[\], \[(?P<value>[-0-9.e]+)\]\)')

Edit = collections.namedtuple('Edit', 'kind op origin')


def other_attribute(line):
    """The line with another value of an attribute; None where it has none that may have another one."""
    for pattern, other in OTHER_ATTRIBUTES:
        changed, times = pattern.subn(other, line)
        if times == 1 and changed != line:
            return changed
    return None


def other_constant(line, text):
    """The line with another constant in the place of its only one of one element, which other nodes do not read too."""
    found = list(CONSTANT.finditer(line))
    if len(found) != 1:
        return None
    at = found[0]
    if at['name'] and len(re.findall(re.escape(at['name']) + r'(?![\w.])', text)) > 1:
        return None
    return line[:at.start('value')] + repr(float(at['value']) * 1.5 + 0.25) + line[at.end('value'):]


def edits_of(text):
    """{edit: (line number, the line as edited)} of the edits that there is one place for."""
    found = collections.defaultdict(list)
    for number, line in enumerate(text.splitlines()):
        node = NODE.match(line)
        if not node:
            continue
        op, origin = node['op'], node['origin']
        if op in OTHER_OPS:
            found[Edit('op', op, origin)].append((number, line.replace(f'= {op}(', f'= {OTHER_OPS[op]}(', 1)))
        for kind, change in (('attribute', other_attribute), ('constant', lambda line: other_constant(line, text))):
            changed = change(line)
            if changed is not None:
                found[Edit(kind, op, origin)].append((number, changed))
    return {edit: places[0] for edit, places in found.items() if len(places) == 1}


def edited(text, edit):
    """The text with the edit made, the line before and after it."""
    lines = text.splitlines()
    number, changed = edits_of(text)[edit]
    before, lines[number] = lines[number], changed
    return '\n'.join(lines) + '\n', before.strip(), changed.strip()


def candidates(stages):
    """Of each kind, edits that can be made after the most passes: that in the middle of those and two behind it; exchanged
    activations before exchanged sums."""
    places = collections.Counter(edit for text in stages.values() for edit in edits_of(text))
    first = list(edits_of(next(iter(stages.values()))))
    for kind in ('op', 'attribute', 'constant'):
        of_kind = [edit for edit in first if edit.kind == kind]
        if of_kind:
            most = max((places[edit], edit.op != 'add') for edit in of_kind)
            best = [edit for edit in of_kind if (places[edit], edit.op != 'add') == most]
            yield [best[len(best) // 2], best[len(best) * 3 // 4], best[-1]]


class Network:
    """A model in a folder of its own, with `gantry` as a program of one line."""

    def __init__(self, gantry, model, dims, folder):
        self.program, self.model, self.dims, self.folder = gantry, model, dims, folder

    def gantry(self, *arguments, fails=False):
        done = subprocess.run([self.program, *map(str, arguments)], cwd=self.folder, text=True, capture_output=True, check=False)
        if done.returncode != 0 and not fails:
            raise AssertionError(f'gantry {" ".join(map(str, arguments))}: {done.returncode}\n{done.stderr}')
        return done.stdout

    def stages(self, wanted):
        """The text after each pass that changed it: {pass: text}; the texts are those of `gantry ir --all`."""
        parts = re.split(r'^// after (.*)$', self.gantry('ir', self.model, *self.dims, '--all'), flags=re.M)[1:]
        texts, last = {}, None
        for name, text in zip(parts[::2], parts[1::2]):
            if text != last and (wanted is None or name in wanted):
                texts[name] = text
            last = text
        return texts, len(parts) // 2

    def file_after(self, stage):
        self.gantry('ir', self.model, *self.dims, '--after', stage, '-o', 'stage.gir', '--force')
        return (self.folder / 'stage.gir').read_text()

    def run(self, model, *more):
        """The outputs as saved; --random makes the same inputs of the same names and types."""
        return self.gantry('run', model, '--random=5', *self.dims_for(model), *more)

    def dims_for(self, model):
        """Sizes are fixed in the text that they were given for."""
        return self.dims if str(model).endswith('.onnx') else []

    def deviation(self, model, expected, *more):
        report = json.loads(self.gantry('run', model, '--random=5', *self.dims_for(model), *more, '--expect', expected, '--json',
                                        fails=True))
        return max(output['deviation'] for output in report['outputs'])


def chosen(network, edits, text, say):
    """The first of the edits of the text that changes the results well; its file of results without optimisation."""
    for edit in edits:
        changed, before, after = edited(text, edit)
        (network.folder / 'edited.gir').write_text(changed)
        results = f'edited_{edit.kind}.npz'
        network.run('edited.gir', '--opt', '0', '-o', results, '--force')
        if network.deviation(network.model, results) >= EFFECT:
            break
    say(f'  {before}\n  {after}')
    return edit, results


def check(network, wanted, say):
    """Edits the text after each pass; the failures, as text."""
    stages, count = network.stages(wanted)
    say(f'{count} passes, {len(stages)} texts')
    network.run(network.model, '-o', 'plain.npz', '--force')
    first = network.file_after(next(iter(stages)))
    chosen_edits = [chosen(network, edits, first, say) for edits in candidates(stages)]
    failures, compiled = [], 0
    for stage in stages:
        text = network.file_after(stage)
        plain = network.deviation('stage.gir', 'plain.npz')
        if not plain <= TOLERANCE:
            failures.append(f'after {stage}: the text as printed differs from the model by {plain:.2g}')
        line = f'  {stage}: as printed {plain:.0e}'
        for edit, results in [one for one in chosen_edits if one[0] in edits_of(text)]:
            (network.folder / 'edited.gir').write_text(edited(text, edit)[0])
            difference = network.deviation('edited.gir', 'plain.npz')
            wrong = network.deviation('edited.gir', results)
            compiled += 1
            line += f'; {edit.kind} of {edit.op}: result {difference:.2g} off the unedited, {wrong:.0e} off the expected'
            if difference < EFFECT:
                failures.append(f'after {stage}: the edit of {edit} changes the results by {difference:.2g} only')
            if not wrong <= TOLERANCE:
                failures.append(f'after {stage}: the edit of {edit} gives another result, by {wrong:.2g}')
        say(line)
    say(f'  {compiled} edited texts, {len(failures)} failures')
    return failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('gantry', type=pathlib.Path)
    parser.add_argument('models', nargs='*')
    parser.add_argument('--stages', type=lambda names: names.split(','))
    parser.add_argument('--size', type=int, default=32)
    parser.add_argument('--dim', action='append', default=[])
    options = parser.parse_args()
    gantry = options.gantry.resolve()
    failed = 0
    for name, size in [(name, options.size) for name in options.models] or SMALL:
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            os.environ['XDG_CACHE_HOME'] = str(folder / 'cache')
            model = pathlib.Path(name).resolve() if name.endswith('.onnx') else folder / f'{name}.onnx'
            network = Network(gantry, model, [word for dim in options.dim for word in ('--dim', dim)], folder)
            if not name.endswith('.onnx'):
                network.gantry('zoo', name, '--size', size, '-o', model)
            print(f'{name}: ', end='', flush=True)
            failures = check(network, options.stages, lambda text: print(text, flush=True))
            for failure in failures:
                print(f'FAILED: {name}: {failure}', flush=True)
            failed += len(failures)
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
