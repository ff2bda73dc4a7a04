#!/usr/bin/env python3
"""Holds the documents of `gantry bench`, `compare` and `conformance --json` against their schemas.

usage: schema_test.py GANTRY GANTRY_DEVICE DOCS [AARCH64_GANTRY_DEVICE]

Measures a small network on this machine, on a board on loopback, and on an emulated AArch64 board where its program and
qemu-aarch64 are there.
"""
import datetime
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import jsonschema

from program_under_test import ProgramTest, board

GANTRY, DEVICE, DOCS = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
AARCH64 = pathlib.Path(sys.argv[4]).resolve() if len(sys.argv) > 4 else None
QUICK = ['--duration', '2s', '--threads', '1']


def validator(name):
    schema = json.loads((DOCS / f'{name}.schema.json').read_text(encoding='utf-8'))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


class Schema(ProgramTest):
    GANTRY = GANTRY

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.gantry('zoo', 'lstm', '--size', '5', '-o', 'm.onnx')

    def measured(self, *arguments, model='m.onnx'):
        """The document of a bench, valid by its schema."""
        document = json.loads(self.gantry('bench', model, '--quiet', '--json', *arguments).stdout)
        for error in validator('bench').iter_errors(document):
            self.fail(f'{"/".join(map(str, error.absolute_path))}: {error.message}')
        return document

    def compared(self, *arguments, status=0):
        document = json.loads(self.gantry('compare', *arguments, '--quiet', '--json', status=status).stdout)
        for error in validator('compare').iter_errors(document):
            self.fail(f'{"/".join(map(str, error.absolute_path))}: {error.message}')
        return document

    def test_local_result(self):
        document = self.measured(*QUICK)
        self.assertIsNone(document['board']['address'])
        self.assertGreater(len(document['processes']), 1)
        self.assertEqual(document['sample_count'], sum(len(p['samples_ms']) for p in document['processes']))
        # A few pages of a small program, not a compiler.
        self.assertLess(document['memory']['peak_resident_bytes'], 64 << 20)

    def test_the_date_is_when_measuring_ended(self):
        began = datetime.datetime.now(datetime.timezone.utc)
        document = self.measured('--processes', '1', '--warmup', '0', '--repeat', '1', '--cooldown-ms', '3000')
        # Dates have whole seconds.
        self.assertGreater(datetime.datetime.fromisoformat(document['date'].replace('Z', '+00:00')),
                           began + datetime.timedelta(seconds=1.9))

    def test_every_option_is_in_the_result(self):
        document = self.measured('--processes', '2', '--warmup', '1', '--repeat', '3', '--number', '2', '--cold',
                                 '--seed', '7', '--precision', 'fp32', '--threads', '1')
        self.assertEqual(document['precision'], 'fp32')
        self.assertEqual([len(p['samples_ms']) for p in document['processes']], [3, 3])
        self.assertEqual({p['warm_up']['steady'] for p in document['processes']}, {None})
        self.assertEqual({p['warm_up']['runs'] for p in document['processes']}, {1})
        options = document['options']
        self.assertEqual((options['warmup'], options['repeat'], options['number'], options['cold'], options['seed']),
                         (1, 3, 2, True, 7))

    PROFILE = ['--profile', '--processes', '1', '--repeat', '3', '--threads', '1']

    def check_program(self, document):
        """The plan is that of the kernels and of the memory that were measured."""
        program = document['program']
        self.assertEqual(program['target'], document['target'])
        self.assertEqual(program['workspace_bytes'], document['memory']['workspace_bytes'])
        self.assertLessEqual(program['workspace_bound_bytes'], program['workspace_bytes'])
        self.assertEqual([value['id'] for value in program['values']], list(range(len(program['values']))))
        for kernel in document['kernels']:
            step = program['steps'][kernel['step']]
            for field in ('step', 'name', 'nodes', 'flops', 'bytes'):
                self.assertEqual(step[field] or 0, kernel[field] or 0, field)
            for field in ('symbol', 'op'):  # which boards of older versions do not say
                self.assertIn(kernel[field], (None, step[field]))

    def test_profile(self):
        document = self.measured(*self.PROFILE)
        self.assertTrue(document['kernels'])
        self.assertGreater(document['peaks']['gflop_per_s'], 0)
        self.assertGreater(document['peaks']['gb_per_s'], 0)
        self.assertEqual(document['peaks']['threads'], document['threads'])
        self.assertLessEqual({'others_share', 'steal_share', 'disturbed_share', 'busy'}, set(document['peaks']))
        steps = document['program']['steps']
        self.assertEqual({step['symbol'] for step in steps if step['loops']}, {step['symbol'] for step in steps} - {None})
        self.assertTrue(all(step['graph'] for step in steps if step['symbol']))
        self.assertTrue(all(value['type'] for value in document['program']['values']
                            if not value['name'].startswith('scratch of')))
        self.check_program(document)
        self.hold_timeline(document)
        document = self.measured('--processes', '1', '--repeat', '3')
        self.assertIsNone(document['kernels'])
        for field in ('program', 'timeline', 'peaks', 'peaks_note'):
            self.assertIsNone(document[field])

    def test_roofs_of_a_busy_machine_are_said_to_be(self):
        others = [subprocess.Popen([sys.executable, '-c', 'while True: pass']) for _ in range(os.cpu_count())]
        try:
            document = self.measured(*self.PROFILE)
        finally:
            for other in others:
                other.kill()
                other.wait()
        peaks = document['peaks']
        self.assertGreater(peaks['others_share'], 0.05)
        self.assertIn('other processes took', peaks['busy'])
        self.assertTrue(any(warning.startswith('the roofs are too low: ') and peaks['busy'] in warning
                            for warning in document['warnings']), document['warnings'])

    def test_profile_of_an_emulated_gpu(self):
        document = self.measured(*self.PROFILE, '--device', 'cuda-emulated')
        self.check_program(document)
        self.assertIsNone(document['peaks'])
        self.assertIn('emulated', document['peaks_note'])

    def test_profile_of_a_module_with_open_shapes(self):
        self.gantry('zoo', 'lstm', '--dynamic', '-o', 'open.onnx')
        self.gantry('compile', 'open.onnx', '-o', 'open.gmod')
        for model in ('open.onnx', 'open.gmod'):
            document = self.measured(*self.PROFILE, '--dim', 'sequence=6', model=model)
            self.check_program(document)
            self.assertEqual(any(step['loops'] for step in document['program']['steps']), model == 'open.onnx')
            self.assertIn('6', document['program']['values'][0]['type'].strip('f32[]').split(','))

    def test_profile_of_the_program_for_equal_sizes(self):
        # The numbers of rows have two names; those that are made up are equal, for which there is a program of its own.
        (self.folder / 'sum.gir').write_text(
            'fn @main(%a: Tensor[(N, 64), f32], %b: Tensor[(M, 64), f32]) -> Tensor[(broadcast(M, N), 64), f32] {\n'
            '  %0 = broadcast_to(%a, shape=(broadcast(M, N), 64), open=[0])\n'
            '  %1 = broadcast_to(%b, shape=(broadcast(M, N), 64), open=[0])\n'
            '  %y = add(%0, %1)\n  return %y as "y"\n}\n')
        document = self.measured(*self.PROFILE, model='sum.gir')
        self.assertIsNotNone(document['specialized'])
        self.assertTrue(document['kernels'])
        self.check_program(document)
        for step in document['program']['steps']:
            self.assertIn(step['symbol'], step['loops'])

    def test_which_of_several_programs_ran_is_said(self):
        self.gantry('zoo', 'lstm', '--dynamic', '-o', 'open.onnx')
        self.gantry('compile', 'open.onnx', '-o', 'several.gmod', '--specialize', 'sequence=6', '--specialize', 'sequence=3')
        with board([DEVICE], self.folder) as address:
            for where in ([], ['--on', address]):
                for size, ran in (('6', 'sequence=6'), ('3', 'sequence=3'), ('5', None)):
                    with self.subTest(where=where, size=size):
                        sizes = ['--dim', f'sequence={size}', '--threads', '1', *where]
                        document = self.measured('--processes', '1', '--repeat', '3', *sizes, model='several.gmod')
                        self.assertEqual((document['specialized'], document['specializations']), (ran, 2))
                        once = json.loads(self.gantry('run', 'several.gmod', '--random', '--json', *sizes).stdout)
                        self.assertEqual((once['specialized'], once['specializations']), (ran, 2))
                        said = f'the program for {ran} alone' if ran else 'the program for all sizes'
                        self.assertIn(f' code, {said}: first run', self.gantry('run', 'several.gmod', '--random', *sizes).stdout)
        document = self.measured('--processes', '1', '--repeat', '3')
        self.assertEqual((document['specialized'], document['specializations']), (None, 0))

    def hold_timeline(self, document):
        """Every step has its time, in order, and was computed by some thread within it."""
        timeline = document['timeline']
        self.assertEqual(len(timeline['threads']), document['threads'])
        steps = timeline['steps']
        self.assertEqual([step['step'] for step in steps], sorted(kernel['step'] for kernel in document['kernels']))
        ends = [0] + [step['end_us'] for step in steps]
        for before, step in zip(ends, steps):
            self.assertLessEqual(before, step['begin_us'])
            self.assertLessEqual(step['begin_us'], step['end_us'])
        self.assertLessEqual(ends[-1], timeline['run_ms'] * 1e3)
        for thread, step, begin, end in timeline['spans']:
            self.assertLess(thread, len(timeline['threads']))
            self.assertLessEqual(steps[step]['begin_us'], begin)
            self.assertLessEqual(begin, end)
            self.assertLessEqual(end, steps[step]['end_us'])
        self.assertEqual({span[1] for span in timeline['spans']}, {step['step'] for step in steps})

    def test_streams(self):
        document = self.measured('--streams', '2', '--processes', '2', '--duration', '2s')
        self.assertEqual(document['options']['streams'], 2)
        self.assertGreater(document['processes'][0]['runs_per_second'], 0)

    def test_board_result(self):
        with board([DEVICE], self.folder) as address:
            document = self.measured(*QUICK, '--on', address)
            profile = self.measured(*self.PROFILE, '--on', address)
            self.check_program(profile)
            self.assertGreater(profile['peaks']['gb_per_s'], 0)
        self.assertEqual(document['board']['address'], address)

    def test_emulated_board_result(self):
        qemu = shutil.which('qemu-aarch64')
        if not (AARCH64 and AARCH64.exists() and qemu):
            self.skipTest('no AArch64 gantry-device or no qemu-aarch64')
        with board([qemu, AARCH64], self.folder) as address:
            document = self.measured('--on', address, '--processes', '2', '--repeat', '3', '--threads', '1', '--profile')
        self.check_program(document)
        self.assertEqual(document['board']['architecture'], 'aarch64')

    def test_conformance(self):
        """A test that has no data, one without a model, and those of Debian's package that are quick."""
        (self.folder / 'tests' / 'test_none').mkdir(parents=True)
        shutil.copy(self.folder / 'm.onnx', self.folder / 'tests' / 'test_none' / 'model.onnx')
        (self.folder / 'tests' / 'test_bad').mkdir()
        (self.folder / 'tests' / 'test_bad' / 'model.onnx').write_bytes(b'no model')
        debian = pathlib.Path('/usr/share/libonnx-testdata/data/simple')
        self.gantry('conformance', 'tests', *([debian] if debian.exists() else []), '--quiet', '--json', 'c.json', status=1)
        document = json.loads((self.folder / 'c.json').read_text(encoding='utf-8'))
        for error in validator('conformance').iter_errors(document):
            self.fail(f'{"/".join(map(str, error.absolute_path))}: {error.message}')
        self.assertTrue(document['complete'])
        tests = {test['name']: test for test in document['tests']}
        self.assertEqual({tests[name]['status'] for name in ('test_none', 'test_bad')}, {'unsupported'})

    def test_comparisons(self):
        live = self.compared('m.onnx', '--second', '--opt 0', '--rounds', '3', '--threads', '1')
        self.assertTrue(live['interleaved'])
        self.assertEqual(live['rounds'], 3)
        self.hold_rounds(live)
        (self.folder / 'r.json').write_text(json.dumps(self.measured(*QUICK)), encoding='utf-8')
        apart = self.compared('r.json', 'r.json', '--history', 'series.jsonl')
        self.assertFalse(apart['interleaved'])
        self.assertIsNone(apart['results'])
        self.assertIn(apart['verdict'], ('same', 'not shown'))
        self.assertEqual(apart['history']['points'], 1)
        alone = self.compared('r.json', '--history', 'series.jsonl')
        self.assertIsNone(alone['verdict'])
        self.assertEqual(alone['history']['points'], 1)

    def hold_rounds(self, document):
        """Each side is a result by bench's schema, and what counts of it is what the comparison is made from."""
        self.assertEqual(len(document['played']), document['rounds'])
        for side, result in zip(('first', 'second'), document['results']):
            for error in validator('bench').iter_errors(result):
                self.fail(f'{side}: {"/".join(map(str, error.absolute_path))}: {error.message}')
            self.assertEqual(result['module_digest'], document[side]['module_digest'])
            self.assertEqual(len(result['processes']), document['rounds'])
            self.assertEqual(sum(p['used_samples'] for p in result['processes']), document[side]['samples'])
            self.assertAlmostEqual(result['median_ms'] / document[side]['median_ms'], 1, delta=0.5)
        began = [played['began_ms'] for played in document['played']]
        self.assertEqual(min(map(min, began)), 0)
        for before, after in zip(began, began[1:]):
            self.assertLess(max(before), min(after), 'rounds follow each other')
        # Of three rounds that all count the ratio is the geometric mean.
        if all(played['counts'] for played in document['played']):
            mean = math.exp(sum(math.log(played['ratio']) for played in document['played']) / 3)
            self.assertAlmostEqual(document['ratio'] / mean, 1, delta=1e-6)

    def test_slower_has_an_exit_status_of_its_own(self):
        document = self.measured('--processes', '1', '--repeat', '5')
        document['machine']['others_share'] = None
        process = document['processes'][0]
        for name, factor in (('fast', 1), ('slow', 1.5)):
            document['processes'] = [dict(process, pulses=[], samples_ms=[factor * ms for ms in (10, 10.1, 9.9, 10 + i / 50, 10)])
                                     for i in range(5)]
            (self.folder / f'{name}.json').write_text(json.dumps(document), encoding='utf-8')
        self.assertTrue(self.compared('fast.json', 'slow.json', '--fail-if-slower', '2%', status=4)['failed'])
        self.assertFalse(self.compared('slow.json', 'fast.json', '--fail-if-slower', '2%')['failed'])

    def test_page_describes_the_schemas(self):
        subprocess.run([sys.executable, DOCS / 'make_schema_page.py', '--check'], check=True)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
