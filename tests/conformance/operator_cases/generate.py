#!/usr/bin/env python3
"""Makes tests of single ops of ai.onnx in the layout of ONNX's backend tests, for `gantry conformance`: over versions of
the ops, element types, shapes (none, empty, ranks to 9), attributes, inputs that are left out, NaN, infinities, extremes.
What steers shapes or axes is an initialiser in one half of the cases and an input in the other.

usage: generate.py FOLDER [--count N] [--seed S] [--ops NAME,...] [--versions LOW-HIGH] [--batch N]

FOLDER/single gets a test for each case, FOLDER/together the same cases, up to --batch of them side by side in a model,
which takes a fraction of the time: run_cases.py runs those and looks for the cases at fault. What is expected is from
ONNX's reference evaluator (pip's onnx), held against ONNX Runtime where that is installed and has the op; cases in which
the two differ are left out. FOLDER/cases.json says how many cases go by which of them, and of those that were drawn and
left out how many for which reason, with an example. The same seed makes the same cases.
"""
import argparse
import collections
import importlib.metadata
import json
import os
import pathlib
import re
import resource
import sys
import tempfile
import traceback
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import numpy as np
import onnx
from onnx import defs

from case import write_test
from draw import Draw, Undefined
from expected import Dropped, expectation
from families import FAMILIES, WEIGHTS

# How often a case is drawn anew where the last one means nothing or has no expectation.
TRIES = 12
# Of which one process makes cases.
VERSIONS_AT_ONCE = 200
# That a process may take: evaluators have asked for all there is.
MEMORY = 8 << 30
NEWEST = {'': defs.onnx_opset_version(), 'ai.onnx.ml': 5}


def op_versions():
    """(schema, the newest operator set with it) of each version of each op that there is a family for."""
    versions = collections.defaultdict(list)
    for schema in defs.get_all_schemas_with_history():
        if schema.domain in NEWEST and schema.name in FAMILIES:
            versions[schema.name].append(schema)
    found = []
    for name in sorted(versions):
        schemas = sorted(versions[name], key=lambda schema: schema.since_version)
        for schema, after in zip(schemas, schemas[1:] + [None]):
            last = NEWEST[schema.domain]
            newest = after.since_version - 1 if after else last
            if schema.since_version <= last and not schema.deprecated:
                found.append((schema, newest))
    return found


def shares(versions, count, seed):
    """How many of `count` cases each version gets, by the ops' weights; who gets the last few, the seed says."""
    weights = np.array([WEIGHTS.get(schema.name, 1) for schema, _ in versions], float)
    exact = count * weights / weights.sum()
    whole = np.floor(exact).astype(int)
    order = np.argsort(np.random.default_rng(seed).random(len(versions)) - (exact - whole))
    for index in order[:count - whole.sum()]:
        whole[index] += 1
    return whole


class Maker:
    """Makes the cases of versions of ops: in a folder `single` each for itself, in `together` up to `batch` of them in one
    model, once all are made."""

    def __init__(self, folder, seed, batch, with_runtime):
        self.folder, self.seed, self.batch, self.with_runtime = folder, seed, batch, with_runtime
        self.counts = collections.Counter()
        self.left_out = collections.Counter()
        self.examples = {}
        self.tests = {}  # of `together`: the cases in them
        self.waiting = collections.defaultdict(list)  # by what must be equal in one model

    def make(self, schema, newest, count):
        for index in range(count):
            opset = self.opset_of(index, schema.since_version, newest)
            for attempt in range(TRIES):
                made = self.made(schema, opset, index, attempt)
                if made:
                    break
            else:
                self.left_out[f'{schema.name}-{schema.since_version}: nothing in {TRIES} tries'] += 1
                continue
            self.waiting[(schema.domain, opset, *made[1].tolerance().values())].append(made)

    def opset_of(self, index, oldest, newest):
        """The same of as many versions of ops as possible, so that their cases go into one model."""
        order = np.random.default_rng([self.seed, index // self.batch]).permutation(range(1, NEWEST[''] + 1))
        return int(next(opset for opset in order if oldest <= opset <= newest))

    def put_together(self):
        for made in self.waiting.values():
            for first in range(0, len(made), self.batch):
                names, cases, outputs = zip(*made[first:first + self.batch])
                test = f'{names[0]}_and_{len(names) - 1}'
                write_test(self.folder / 'together' / test, cases, outputs)
                self.tests[test] = names

    def made(self, schema, opset, index, attempt):
        """(name, case, outputs), or None."""
        key = [self.seed, zlib.crc32(schema.name.encode()), schema.since_version, index, attempt]
        name = f'{schema.name}_{schema.since_version}_{index:03d}'
        try:
            case = FAMILIES[schema.name](Draw(schema, opset, key))
            outputs, source = expectation(case, schema.since_version, self.with_runtime)
        except Undefined:
            return None
        except Dropped as reason:
            self.leave_out(schema, str(reason), case)
            return None
        write_test(self.folder / 'single' / name, [case], [outputs])
        self.counts[source] += 1
        return name, case, outputs

    def leave_out(self, schema, reason, case):
        reason = f'{schema.name}-{schema.since_version}: {re.sub(r"0x[0-9a-f]+", "", reason)}'
        self.left_out[reason] += 1
        self.examples.setdefault(reason, onnx.printer.to_text(case.model()))


def in_child(work):
    """What `work` returns, from a process of its own: evaluators are native code. None where it died."""
    with tempfile.TemporaryFile('w+') as result:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
                json.dump(work(), result)
                result.flush()
                status = 0
            except Exception:  # so that the child never goes on as if it were its parent
                traceback.print_exc()
            os._exit(status)
        _, status = os.waitpid(child, 0)
        result.seek(0)
        return json.load(result) if status == 0 else None


def made_cases(arguments, versions):
    """Of versions of ops, each with how many; a list of what makers give."""
    def work(with_runtime):
        maker = Maker(pathlib.Path(arguments.folder), arguments.seed, arguments.batch, with_runtime)
        for schema, newest, count in versions:
            maker.make(schema, newest, count)
        maker.put_together()
        return {'counts': maker.counts, 'left_out': maker.left_out, 'examples': maker.examples, 'tests': maker.tests}
    made = in_child(lambda: work(True))
    if made is not None:
        return [made]
    if len(versions) > 1:
        half = len(versions) // 2
        return made_cases(arguments, versions[:half]) + made_cases(arguments, versions[half:])
    (schema, _, count), = versions
    made = in_child(lambda: work(False))
    if made is None:
        raise SystemExit(f'no cases of {schema.name}-{schema.since_version}')
    made['left_out'][f'{schema.name}-{schema.since_version}: ONNX Runtime crashed: by the reference alone'] = count
    return [made]


def version_of(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def wanted(arguments):
    ops = set(arguments.ops.split(',')) if arguments.ops else None
    low, high = (int(number) for number in arguments.versions.split('-'))
    return [(schema, newest) for schema, newest in op_versions()
            if (ops is None or schema.name in ops) and low <= schema.since_version <= high]


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split('usage: ')[1].split('\n')[0])
    parser.add_argument('folder')
    parser.add_argument('--count', type=int, default=20000)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--ops', default='')
    parser.add_argument('--versions', default='1-1000')
    parser.add_argument('--batch', type=int, default=24)
    arguments = parser.parse_args()
    pathlib.Path(arguments.folder).mkdir(parents=True, exist_ok=True)
    versions = wanted(arguments)
    report = {'onnx': onnx.__version__, 'onnxruntime': version_of('onnxruntime'), 'seed': arguments.seed,
              'versions of ops': len(versions), 'cases': collections.Counter(), 'left out': collections.Counter(),
              'examples': {}, 'tests': {}}
    counts = shares(versions, arguments.count, arguments.seed)
    wanted_of = [(schema, newest, int(count)) for (schema, newest), count in zip(versions, counts) if count]
    for first in range(0, len(wanted_of), VERSIONS_AT_ONCE):
        for made in made_cases(arguments, wanted_of[first:first + VERSIONS_AT_ONCE]):
            report['cases'].update(made['counts'])
            report['left out'].update(made['left_out'])
            report['examples'].update(made['examples'])
            report['tests'].update(made['tests'])
    (pathlib.Path(arguments.folder) / 'cases.json').write_text(json.dumps(report, indent=1), encoding='utf-8')
    total = sum(report['cases'].values())
    print(f"{total} cases of {len(versions)} versions of ops: {dict(report['cases'])}; "
          f"{sum(report['left out'].values())} drawn and left out")


if __name__ == '__main__':
    main()
