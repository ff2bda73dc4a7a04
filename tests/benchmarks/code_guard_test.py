#!/usr/bin/env python3
"""Dumps of generated code and their comparison, of a small network.

usage: code_guard_test.py GANTRY
"""
import filecmp
import json
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(SOURCE / 'tests' / 'cli'), str(SOURCE / 'benchmarks')]
import code_dump  # noqa: E402
from program_under_test import ProgramTest  # noqa: E402

GANTRY = pathlib.Path(sys.argv.pop(1)).resolve()
UNFINISHED = 75
TARGET = 'x86-64-v3'


def files_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob('*') if path.is_file()}


class Guard(ProgramTest):
    GANTRY = GANTRY

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write_model('models', '0')
        cls.dump('first')

    @classmethod
    def write_model(cls, folder, seed):
        (cls.folder / folder).mkdir()
        cls.gantry('zoo', 'bert_tiny', '--size', '8', '--seed', seed, '-o', f'{folder}/tiny.onnx')

    @classmethod
    def guard(cls, *arguments, status=0):
        done = subprocess.run([sys.executable, SOURCE / 'benchmarks' / 'code_guard.py', *arguments], cwd=cls.folder,
                              env=cls.environment, text=True, capture_output=True, check=False, timeout=cls.LONGEST)
        if done.returncode != status:
            raise AssertionError(f'code_guard {" ".join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}')
        return done.stdout + done.stderr

    @classmethod
    def dump(cls, name, *arguments, models='models', targets=(TARGET,), status=0):
        return cls.guard('dump', '--gantry', str(GANTRY), '--out', name, '--models', models, '--networks', 'tiny.onnx',
                         '--targets', *targets, *arguments, status=status)

    def program(self, name, target=TARGET, precision='auto'):
        return code_dump.Dump(self.folder / name).programs()['tiny.onnx', target, precision]['program']

    def expect_file(self, text):
        (self.folder / 'expected.toml').write_text(text, encoding='utf-8')
        return 'expected.toml'


class Dumps(Guard):
    def test_the_same_compiler_writes_the_same_files_whatever_is_done_at_once(self):
        self.dump('again', '--jobs', '1')
        self.assertEqual(files_of(self.folder / 'first'), files_of(self.folder / 'again'))
        self.assertIn('1 unchanged, 0 changed', self.guard('compare', 'first', 'again'))

    def test_loop_nests_are_those_that_ir_shows(self):
        dump = code_dump.Dump(self.folder / 'first')
        shown = self.gantry('ir', 'models/tiny.onnx', '--target', TARGET, '--loops').stdout
        for kernel in self.program('first')['kernels']:
            lines = [line for line in dump.loops(kernel).splitlines() if line.strip()]
            mine = re.search(rf'^// kernel {kernel["symbol"]}: .*?(?=^// kernel |\Z)', shown, re.MULTILINE | re.DOTALL).group()
            theirs = [re.sub(rf'\b{kernel["symbol"]}\b', 'kernel', line) for line in mine.splitlines()
                      if line.strip() and not line.strip().startswith('//')]
            self.assertEqual(lines, theirs)

    def test_assembly_has_the_instructions_that_ir_shows(self):
        dump = code_dump.Dump(self.folder / 'first')
        kernel = self.program('first')['kernels'][0]
        shown = self.gantry('ir', 'models/tiny.onnx', '--target', TARGET, '--asm', '--kernel', kernel['symbol']).stdout
        shown = re.sub(r'[ \t]*#.*', '', shown).replace(kernel['symbol'], 'kernel')

        def instructions(text):
            return [line for line in text.splitlines() if re.match(r'\t[a-z]', line)]
        self.assertEqual(instructions(dump.code(kernel)), instructions(shown))
        self.assertEqual(dump.instructions(kernel), len(instructions(shown)))

    def test_plan_and_sizes_are_those_of_the_module(self):
        self.gantry('compile', 'models/tiny.onnx', '--target', TARGET, '-o', 'tiny.gmod', '--no-cache')
        module = json.loads(self.gantry('inspect', 'tiny.gmod', '--json').stdout)
        variant, program = module['variants'][0], self.program('first')
        for key in ('steps', 'buffers', 'workspace_bytes'):
            self.assertEqual(program[key], variant[key])
        self.assertEqual([kernel['symbol'] for kernel in program['kernels']], [kernel['symbol'] for kernel in variant['kernels']])
        self.assertEqual(len(program['constants']), variant['constants'])
        # What the linker adds to the kernels' code is tables of its own.
        code = sum(kernel['code_bytes'] for kernel in program['kernels'])
        self.assertTrue(0 < code < variant['code_bytes'], f'{code} of {variant["code_bytes"]}')

    def test_the_cache_of_kernels_is_left_alone(self):
        shutil.rmtree(self.folder / 'gantry', ignore_errors=True)
        self.dump('uncached')
        self.assertEqual(json.loads(self.gantry('cache', '--json').stdout)['kernels'], 0)

    def test_an_unfinished_dump_goes_on(self):
        targets = (TARGET, 'cortex-a53')
        self.assertIn('0 of 2 programs', self.dump('part', '--minutes', '1e-9', targets=targets, status=UNFINISHED))
        self.dump('part', targets=(TARGET,))
        written = (self.folder / 'part' / 'programs').iterdir().__next__().stat().st_mtime_ns
        self.assertIn('2 of 2 programs', self.dump('part', targets=targets))
        self.assertIn(written, [path.stat().st_mtime_ns for path in (self.folder / 'part' / 'programs').iterdir()])

    def test_a_dump_of_another_build_is_not_added_to(self):
        shutil.copytree(self.folder / 'first', self.folder / 'foreign')
        head = json.loads((self.folder / 'foreign' / 'dump.json').read_text())
        (self.folder / 'foreign' / 'dump.json').write_text(json.dumps({**head, 'build': '0' * 64}))
        self.assertIn('build differ', self.dump('foreign', status=2))
        self.assertIn('opt differ', self.dump('first', '--opt', '1', status=2))

    def test_refusals_are_dumped_as_their_message(self):
        self.dump('refused', '--precisions', 'tf32')
        document = code_dump.Dump(self.folder / 'refused').programs()['tiny.onnx', TARGET, 'tf32']
        self.assertIn('tf32', document['error'])
        self.assertNotIn(str(self.folder), document['error'])
        self.guard('compare', 'refused', 'refused')

    def test_gpu_kernels_are_ptx_and_the_same_every_time(self):
        cuda = 'cuda:sm_80/x86-64-v3'
        for name in ('gpu', 'gpu-again'):
            self.dump(name, targets=(cuda,))
        self.assertTrue(filecmp.cmpfiles(self.folder / 'gpu', self.folder / 'gpu-again', ['dump.json'])[0])
        self.guard('compare', 'gpu', 'gpu-again')
        program = self.program('gpu', cuda)
        on_gpu = [kernel for kernel in program['kernels'] if kernel['language'] == 'ptx']
        self.assertEqual([kernel['symbol'] for kernel in on_gpu],
                         [kernel['symbol'] for kernel in program['kernels'] if kernel['device'] == 'cuda'])
        dump = code_dump.Dump(self.folder / 'gpu')
        self.assertIn('.entry kernel_0', dump.code(on_gpu[0]))
        self.assertGreater(dump.instructions(on_gpu[0]), 0)


class Comparisons(Guard):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.dump('unfused', '--opt', '1')
        cls.dump('plain', '--opt', '2')
        cls.write_model('others', '1')
        cls.dump('reseeded', models='others')

    def test_another_level_names_the_kernels_that_changed(self):
        text = self.guard('compare', 'first', 'plain', '--rows', '0', status=1)
        self.assertIn('0 unchanged, 1 changed', text)
        old, new = self.program('first'), self.program('plain')
        loops = {kernel['loops'] for kernel in new['kernels']}
        changed = [kernel for kernel in old['kernels'] if kernel['loops'] not in loops]
        self.assertTrue(changed)
        for kernel in changed:
            self.assertRegex(text, rf'\b{kernel["symbol"]} of ')
        self.assertIn(f'{len(old["kernels"])} -> {len(new["kernels"])}', text)

    def test_what_is_no_longer_fused_is_new_and_gone_with_its_nodes(self):
        text = self.guard('compare', 'plain', 'unfused', '--rows', '0', status=1)
        fused = next(step for step in self.program('plain')['steps'] if len(step.get('nodes', [])) > 1)
        self.assertIn(f'{self.program("plain")["kernels"][fused["kernel"]]["symbol"]} of {", ".join(fused["nodes"])}', text)
        self.assertRegex(text, r'\. gone ')
        self.assertRegex(text, r'\. new ')

    def test_details_are_a_difference_of_loop_nests(self):
        listed = self.guard('compare', 'first', 'plain', '--rows', '0', status=1)
        number = re.search(r'^ *(\d+)\. loops', listed, re.MULTILINE).group(1)
        text = self.guard('compare', 'first', 'plain', '--details', number, status=1)
        self.assertIn('--- old loop nest\n+++ new loop nest\n@@', text)
        self.assertNotIn('+++ new assembly', text)
        both = self.guard('compare', 'first', 'plain', '--details', number, '--assembly', status=1)
        self.assertIn('+++ new assembly', both)
        self.assertIn('no change is of', self.guard('compare', 'first', 'plain', '--details', 'no_such_kernel', status=2))

    def test_other_weights_change_constants_alone(self):
        text = self.guard('compare', 'first', 'reseeded', status=1)
        self.assertRegex(text, r'\. weights ')
        self.assertRegex(text, r'\. model ')
        for kind in ('loops', 'code', 'new', 'gone', 'plan'):
            self.assertNotRegex(text, rf'\. {kind} ')

    def test_expected_changes_are_no_failure(self):
        everything = self.expect_file('[[expected]]\nkinds = ["model", "weights"]\nreason = "another seed"\n')
        self.assertIn('expected: another seed', self.guard('compare', 'first', 'reseeded', '--expect', everything))
        part = self.expect_file('[[expected]]\nkinds = ["model"]\nnetworks = ["tiny*"]\nreason = "another seed"\n')
        self.guard('compare', 'first', 'reseeded', '--expect', part, status=1)

    def test_expectations_that_are_not_met_are_a_failure(self):
        unmet = self.expect_file('[[expected]]\ntargets = ["cortex-*"]\nreason = "a new schedule"\n')
        self.assertIn('expected, but not there: a new schedule', self.guard('compare', 'first', 'first', '--expect', unmet, status=1))

    def test_expectations_need_a_reason_and_known_keys(self):
        for text, problem in (('[[expected]]\nkinds = ["loops"]\n', 'has no reason'),
                              ('[[expected]]\nkind = ["loops"]\nreason = "r"\n', 'kind is none of'),
                              ('[[expected]]\nkinds = ["loop"]\nreason = "r"\n', 'loop is no kind'),
                              ('[[expected]\n', 'cannot be read')):
            self.assertIn(problem, self.guard('compare', 'first', 'first', '--expect', self.expect_file(text), status=2))

    def test_code_that_alone_differs_is_told_and_shown(self):
        shutil.copytree(self.folder / 'first', self.folder / 'patched')
        path = next((self.folder / 'patched' / 'programs').iterdir())
        document = json.loads(path.read_text(encoding='utf-8'))
        kernel = document['program']['kernels'][0]
        dump = code_dump.Dump(self.folder / 'patched')
        code = dump.code(kernel).replace('\tretq\n', '\tnop\n\tretq\n').encode()
        kernel['code'] = code_dump.hashlib.sha256(code).hexdigest()
        (self.folder / 'patched' / 'code' / (kernel['code'] + '.s')).write_bytes(code)
        path.write_text(json.dumps(document), encoding='utf-8')
        text = self.guard('compare', 'first', 'patched', status=1)
        self.assertIn('1. code ', text)
        self.assertNotIn('2. ', text)
        before = dump.instructions(self.program('first')['kernels'][0])
        self.assertIn(f'{before:,} -> {dump.instructions(kernel):,} instructions', text)
        self.assertIn('+\tnop', self.guard('compare', 'first', 'patched', '--details', kernel['symbol'], status=1))

    def test_programs_of_one_dump_alone_are_a_change_unless_ignored(self):
        self.dump('two', targets=(TARGET, 'cortex-a72'))
        self.assertIn('1 only in NEW', self.guard('compare', 'first', 'two', status=1))
        self.guard('compare', 'first', 'two', '--common')

    def test_damaged_dumps_are_named(self):
        shutil.copytree(self.folder / 'first', self.folder / 'damaged')
        for path in (self.folder / 'damaged' / 'loops').iterdir():
            path.write_bytes(path.read_bytes()[1:])
        self.assertIn('is damaged', self.guard('compare', 'damaged', 'plain', '--details', '*', status=2))
        self.assertIn('is no dump', self.guard('compare', 'first', 'models', status=2))


del Guard  # its own cases are those of the others

if __name__ == '__main__':
    unittest.main()
