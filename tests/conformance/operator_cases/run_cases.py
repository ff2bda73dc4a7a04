#!/usr/bin/env python3
"""Runs what generate.py made: the models of several cases, and of those that do not pass each case for itself.

usage: run_cases.py GANTRY FOLDER [--json RESULT.json] [--jobs N]

Prints how many cases pass, and what is not right about the others by op and reason; RESULT.json gets those. The exit
code is 1 where a case is wrong, crashes or takes too long: what gantry does not support is counted, and no failure.
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


def results(gantry, folder, result, jobs):
    """The tests of a folder as `gantry conformance` has them."""
    subprocess.run([gantry, 'conformance', folder, '--json', result, '--force', '--jobs', str(jobs), '--quiet'],
                   stdout=subprocess.DEVNULL, check=False)
    return json.loads(pathlib.Path(result).read_text(encoding='utf-8'))['tests']


def single_results(gantry, folder, names, jobs):
    """Of these cases alone."""
    if not names:
        return []
    with tempfile.TemporaryDirectory() as scratch:
        chosen = pathlib.Path(scratch) / 'cases'
        chosen.mkdir()
        for name in names:
            os.symlink((folder / 'single' / name).resolve(), chosen / name)
        return results(gantry, chosen, pathlib.Path(scratch) / 'result.json', jobs)


def reason_of(test):
    """Without the numbers."""
    if test.get('features'):
        return '; '.join(test['features'])
    text = re.sub(r'^.*model\.onnx: ', '', test['reason'].split('\n')[0])
    return re.sub(r'\[[-\d, ]*\]', '[]', re.sub(r'-?\d+(\.\d+)?(e[-+]?\d+)?', '#', text))[:150]


def summary(tests):
    """Lines, most cases first."""
    groups = collections.defaultdict(list)
    for test in tests:
        if test['status'] != 'pass':
            groups[(test['status'], test['name'].split('_')[0], reason_of(test))].append(test['name'])
    ordered = sorted(groups.items(), key=lambda item: (item[0][0], -len(item[1]), item[0]))
    return [f'{len(names):5} {status} {op}: {reason} ({names[0]})' for (status, op, reason), names in ordered]


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split('usage: ')[1].split('\n')[0])
    parser.add_argument('gantry')
    parser.add_argument('folder', type=pathlib.Path)
    parser.add_argument('--json', default='')
    parser.add_argument('--jobs', type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    made = json.loads((arguments.folder / 'cases.json').read_text(encoding='utf-8'))
    total = sum(len(names) for names in made['tests'].values())
    with tempfile.TemporaryDirectory() as scratch:
        together = results(arguments.gantry, arguments.folder / 'together', f'{scratch}/result.json', arguments.jobs)
    doubtful = [name for test in together if test['status'] != 'pass' for name in made['tests'][test['name']]]
    alone = single_results(arguments.gantry, arguments.folder, doubtful, arguments.jobs)
    counts = collections.Counter(test['status'] for test in alone)
    counts['pass'] += total - len(alone)
    # Cases that pass alone, of models that fail with all of them.
    several = [test for test in together if test['status'] in ('wrong', 'crash')
               and not any(case['status'] != 'pass' for case in alone if case['name'] in made['tests'][test['name']])]
    print('\n'.join(summary(alone) + summary(several)))
    print(f'{total} cases: {dict(counts)}; {len(several)} models fail all of whose cases pass alone')
    if arguments.json:
        left = [test for test in alone if test['status'] != 'pass'] + several
        pathlib.Path(arguments.json).write_text(json.dumps({'cases': total, 'counts': counts, 'left': left}, indent=1),
                                                encoding='utf-8')
    return 1 if several or any(counts[status] for status in ('wrong', 'crash', 'timeout')) else 0


if __name__ == '__main__':
    sys.exit(main())
