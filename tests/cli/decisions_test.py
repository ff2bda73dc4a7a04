#!/usr/bin/env python3
"""Decisions: what the compiler chooses for networks and targets, and what it makes of those that it is given.

usage: decisions_test.py GANTRY FOLDER [--write]

FOLDER has what is chosen for each network of it, a section a target; --write writes that anew, for a change that is meant.
"""
import difflib
import pathlib
import re
import sys
import unittest

from program_under_test import ProgramTest

ProgramTest.GANTRY = str(pathlib.Path(sys.argv[1]).absolute())
GOLDEN = pathlib.Path(sys.argv[2])
TARGETS = ('x86-64-v3', 'x86-64-v4', 'sapphirerapids', 'cortex-a76', 'cuda:sm_80/x86-64-v3')
NETWORKS = ('bert_tiny', 'densenet121', 'efficientnet_b0', 'lstm', 'mobilenet_v2', 'mobilenet_v3', 'resnet18', 'resnet50',
            'shufflenet_v2', 'squeezenet1_1')


class WithNetworks(ProgramTest):
    @classmethod
    def model(cls, network):
        path = cls.folder / f'{network}.onnx'
        if not path.exists():
            cls.gantry('zoo', network, '-o', path.name)
        return path.name

    @classmethod
    def forms(cls, network, target, *options):
        """Lines of decisions, without the comment that names the file."""
        printed = cls.gantry('ir', cls.model(network), '--forms', '--target', target, *options).stdout
        return printed.split('\n', 1)[1]


class Golden(WithNetworks):
    def test_choices_are_those_that_were_looked_at(self):
        for network in NETWORKS:
            with self.subTest(network=network):
                chosen = ''.join(self.forms(network, target) for target in TARGETS)
                golden = GOLDEN / f'{network}.txt'
                if '--write' in sys.argv:
                    golden.write_text(chosen)
                expected = golden.read_text()
                changes = difflib.unified_diff(expected.splitlines(), chosen.splitlines(), golden.name, 'now', n=0, lineterm='')
                self.assertEqual(chosen, expected, 'other choices; where they are meant, decisions_test.py --write writes them '
                                 'down:\n' + '\n'.join(changes))


class RoundTrip(WithNetworks):
    def test_what_is_printed_is_accepted_and_printed_again(self):
        for network in NETWORKS:
            for target in TARGETS:
                with self.subTest(network=network, target=target):
                    chosen = self.forms(network, target)
                    (self.folder / 'printed.txt').write_text(chosen)
                    self.assertEqual(self.forms(network, target, '--decisions', 'printed.txt'), chosen)


class Given(WithNetworks):
    NETWORK = 'squeezenet1_1'

    def setUp(self):
        self.text = self.forms(self.NETWORK, 'native')
        self.gantry('run', self.model(self.NETWORK), '--random=1', '-o', 'expected.npy', '--precision', 'fp32', '--force')

    def write(self, text):
        (self.folder / 'forms.txt').write_text(text)

    def run_with(self, *options, status=0):
        return self.gantry('run', self.model(self.NETWORK), '--random=1', '--expect', 'expected.npy', '--decisions', 'forms.txt',
                           *options, status=status)

    def edited(self, change):
        """The text with what `change` makes of each line; it has to change one."""
        edited = '\n'.join(change(line) for line in self.text.split('\n'))
        self.assertNotEqual(edited, self.text)
        self.write(edited)

    def test_the_targets_own_give_the_same_module(self):
        self.write(self.text)
        modules = [self.folder / name for name in ('own.gmod', 'given.gmod')]
        self.gantry('compile', self.model(self.NETWORK), '-o', modules[0].name, '--no-cache', '--force')
        self.gantry('compile', self.model(self.NETWORK), '-o', modules[1].name, '--no-cache', '--force', '--decisions', 'forms.txt')
        self.assertEqual(modules[0].read_bytes(), modules[1].read_bytes())

    def test_a_module_keeps_them(self):
        self.gantry('compile', self.model(self.NETWORK), '-o', 'kept.gmod', '--force')
        self.assertEqual(self.gantry('inspect', 'kept.gmod', '--forms').stdout.split('\n', 1)[1], self.text)

    def test_other_forms_and_knobs_compute_the_same(self):
        direct = '{form=direct, block=16}'
        for name, change in {
            'every convolution direct': lambda line: line[:line.index('{')] + direct + line[line.index('}') + 1:]
                                                     if line.startswith('nn.conv') else line,
            'Winograd where it fits': lambda line: line[:line.index('{')] + '{form=winograd2, block=16}' + line[line.index('}') + 1:]
                                                   if line.startswith('nn.conv') and 'expand3x3' in line else line,
            'a matrix product': lambda line: line[:line.index('{')] + '{form=gemm}' + line[line.index('}') + 1:]
                                             if line.startswith('nn.conv') and 'squeeze' in line else line,
            'as the model has it': lambda line: line[:line.index('{')] + '{form=plain}' + line[line.index('}') + 1:]
                                                if line.startswith('nn.conv') and 'conv10' in line else line,
        }.items():
            with self.subTest(name):
                self.edited(change)
                self.run_with()

    def test_one_that_does_not_fit_is_refused_with_its_line(self):
        node = next(line for line in self.text.split('\n') if line.startswith('nn.conv'))
        origin = node[node.index('//'):]
        for decision, expected in {
            '{form=winograd3}': "there is no form 'winograd3' for it here; did you mean 'winograd2', 'winograd4' or 'winograd6'? there are plain,",
            '{form=direct, depth=4}': "form direct has no knob 'depth', only block, half",
            '{form=direkt, block=16}': "there is no form 'direkt' for it here; did you mean 'direct'? there are plain, direct, gemm",
            '{form=direct, blok=16}': "form direct has no knob 'blok'; did you mean 'block'? there are block, half",
            '{form=direct, block=7}': 'block of form direct is a multiple of',
            '{form=winograd4, block=16}': 'form winograd4 is for windows of 3 by 3 with strides and dilations of 1',
            '{form=direct, block=16, merged_groups=2}': 'merged_groups divides the 1 groups',
            '{form=direct, block=16, phases=1}': 'phases is for',
            '{form=direct, block}': 'is no decision: expected a form and whole numbers',
        }.items():
            with self.subTest(decision):
                self.write(f'nn.conv {decision}  {origin}\n')
                refused = self.run_with(status=1).stderr
                self.assertIn('forms.txt:1: ', refused)
                self.assertIn(expected, refused)

    def test_one_for_no_node_is_refused(self):
        self.write('\n# mine\nnn.conv {form=direct, block=16}  // nowhere\n')
        self.assertRegex(self.run_with(status=1).stderr, r'forms\.txt:3: nothing is decided for nn\.conv of nowhere .*--forms')

    def test_a_second_one_for_a_node_is_refused(self):
        node = next(line for line in self.text.split('\n') if line.startswith('nn.conv'))
        self.write(f'{node}\n# again\n{node}\n')
        self.assertRegex(self.run_with(status=1).stderr, r'forms\.txt:3: nn\.conv of .* is decided already, by forms\.txt:1')

    def test_what_shows_decisions_refuses_those_that_decide_nothing(self):
        self.write('nn.conv {form=direct, block=16}  // nowhere\n')
        for options in ([], ['--forms'], ['--explain', 'conv1'], ['--after', 'alter_layout'], ['--all'], ['-o', 'shown.gir', '--after',
                        'alter_layout']):
            with self.subTest(options=options):
                shown = self.gantry('ir', self.model(self.NETWORK), '--decisions', 'forms.txt', *options, status=1)
                self.assertIn('forms.txt:1: nothing is decided for nn.conv of nowhere', shown.stderr)
        self.assertFalse((self.folder / 'shown.gir').exists())
        self.assertIn('nothing is decided for nn.conv of nowhere without alter_layout, a pass of --opt 3',
                      self.gantry('ir', self.model(self.NETWORK), '--decisions', 'forms.txt', '--opt', '2', status=1).stderr)

    def test_they_may_stand_behind_a_byte_order_mark(self):
        self.write('\ufeff' + self.text)
        self.run_with()

    def test_lines_for_another_target_are_left_alone(self):
        self.write('[cortex-a76]\nnn.conv {form=direct, block=16}  // nowhere\n')
        self.assertIn('forms.txt: has no lines for', self.run_with().stderr)
        self.write(self.text)
        self.assertNotIn('has no lines', self.run_with().stderr)

    def test_a_file_that_is_none_or_not_there(self):
        self.write('nonsense\n')
        self.assertIn('forms.txt:1: expected an op and a decision', self.run_with(status=1).stderr)
        (self.folder / 'forms.txt').unlink()
        self.assertIn('forms.txt', self.run_with(status=1).stderr)
        (self.folder / 'forms.txt').mkdir()
        self.addCleanup((self.folder / 'forms.txt').rmdir)
        self.assertIn('forms.txt: is a folder', self.run_with(status=1).stderr)

    def test_a_graphs_text_may_have_them(self):
        self.gantry('ir', self.model(self.NETWORK), '--before', 'alter_layout', '-o', 'text.gir', '--force')
        text = (self.folder / 'text.gir').read_text()
        place = text.index(')  // conv10')
        (self.folder / 'text.gir').write_text(text[:place + 1] + ' {form=gemm}' + text[place + 1:])
        self.assertIn('nn.conv {form=gemm}  // conv10', self.gantry('ir', 'text.gir', '--forms').stdout)
        self.gantry('run', 'text.gir', '--random=1', '--expect', 'expected.npy')

    def test_a_graphs_text_has_none_where_there_is_no_choice(self):
        self.gantry('ir', self.model(self.NETWORK), '--before', 'alter_layout', '-o', 'text.gir', '--force')
        text = (self.folder / 'text.gir').read_text()
        place = text.index(')  // pool1')
        (self.folder / 'text.gir').write_text(text[:place + 1] + ' {form=direct}' + text[place + 1:])
        line = text[:place].count('\n') + 1
        self.assertIn(f'text.gir:{line}: {{form=direct}} of pool1 (nn.max_pool) does not fit',
                      self.gantry('ir', 'text.gir', '--forms', status=1).stderr)

    def test_a_graphs_text_has_none_that_is_not_what_was_made_of_the_node(self):
        for stage in ('alter_layout', 'fuse_ops'):
            self.gantry('ir', self.model(self.NETWORK), '--after', stage, '-o', 'text.gir', '--force', '--target', 'x86-64-v3')
            text = (self.folder / 'text.gir').read_text()
            line = next(line for line in text.splitlines() if line.endswith('// fire2.expand3x3') and 'nn.conv(' in line)
            decision = line[line.rindex('{'):line.rindex('}') + 1]
            self.gantry('compile', 'text.gir', '--target', 'x86-64-v3', '-o', 'made.gmod', '--force')
            for other in ('{form=winograd6, block=24}', '{form=plain}', '{form=nonsense}', '{form=packed, block=8}'):
                with self.subTest(stage=stage, other=other):
                    self.assertNotEqual(other, decision)
                    (self.folder / 'edited.gir').write_text(text.replace(line, line.replace(decision, other)))
                    refused = self.gantry('compile', 'edited.gir', '--target', 'x86-64-v3', '-o', 'not.gmod', status=1).stderr
                    number = text[:text.index(line)].count('\n') + 1
                    self.assertIn(f'edited.gir:{number}: {other} of fire2.expand3x3 (nn.conv) does not fit: another decision has '
                                  'been made of the node already', refused)

    def test_a_graphs_text_has_no_knob_that_was_not_made_of_the_node(self):
        self.gantry('ir', self.model(self.NETWORK), '--after', 'alter_layout', '-o', 'text.gir', '--force', '--target', 'cortex-a76')
        text = (self.folder / 'text.gir').read_text()
        line = next(line for line in text.splitlines() if '{form=winograd4' in line and 'padding=' in line)
        for knob in ('half=1', 'phases=1'):
            with self.subTest(knob=knob):
                (self.folder / 'edited.gir').write_text(text.replace(line, line.replace('{form=winograd4', f'{{form=winograd4, {knob}')))
                for level in ('2', '3'):
                    refused = self.gantry('ir', 'edited.gir', '--target', 'cortex-a76', '--opt', level, status=1).stderr
                    self.assertIn(f'edited.gir:{text[:text.index(line)].count(chr(10)) + 1}: {{form=winograd4, {knob}', refused)
                    self.assertIn('another decision has been made of the node already', refused)

    def test_what_was_rounded_to_half_is_so_when_it_is_read_again(self):
        fp16 = ('--target', 'cortex-a76', '--precision', 'fp16')
        self.gantry('ir', self.model(self.NETWORK), '--after', 'alter_layout', '-o', 'text.gir', '--force', *fp16)
        text = (self.folder / 'text.gir').read_text()
        line = next(line for line in text.splitlines() if ', half=1' in line)
        self.gantry('ir', 'text.gir', *fp16)
        (self.folder / 'edited.gir').write_text(text.replace(line, line.replace(', half=1', '')))
        self.assertIn('another decision has been made of the node already', self.gantry('ir', 'edited.gir', *fp16, status=1).stderr)

    def test_a_graphs_text_has_no_decision_that_no_pass_reads(self):
        model = self.model(self.NETWORK)
        for stage, levels, why in (('import', ('0', '2'), 'nothing is decided without alter_layout, a pass of --opt 3'),
                                   ('fuse_ops', ('3',), 'the node is in a group that has been made a kernel already')):
            self.gantry('ir', model, '--after', stage, '--opt', '2', '-o', 'text.gir', '--force', '--target', 'x86-64-v3')
            text = (self.folder / 'text.gir').read_text()
            place = re.search(r'= nn\.conv\(.*?\)(?=  // [^\n]*conv10)', text).end()
            number = text[:place].count('\n') + 1
            for decision, status in (('{form=direct, block=8}', 1), ('{form=plain}', 0)):
                (self.folder / 'edited.gir').write_text(f'{text[:place]} {decision}{text[place:]}')
                for level in levels:
                    with self.subTest(stage=stage, level=level, decision=decision):
                        refused = self.gantry('ir', 'edited.gir', '--opt', level, '--target', 'x86-64-v3', status=status).stderr
                        if status:
                            self.assertRegex(refused, rf'edited\.gir:{number}: {re.escape(decision)} of .*conv10.* does not fit: {why}')

    def test_a_graphs_text_has_no_knob_that_there_is_not(self):
        self.gantry('ir', self.model(self.NETWORK), '--after', 'alter_layout', '-o', 'text.gir', '--force', '--target', 'x86-64-v3')
        text = (self.folder / 'text.gir').read_text()
        line = next(line for line in text.splitlines() if line.endswith('// fire2.expand3x3') and 'nn.conv(' in line)
        (self.folder / 'edited.gir').write_text(text.replace(line, line.replace('}', ', chunks=2}')))
        refused = self.gantry('compile', 'edited.gir', '--target', 'x86-64-v3', '-o', 'not.gmod', status=1).stderr
        self.assertIn(f'edited.gir:{text[:text.index(line)].count(chr(10)) + 1}: ', refused)
        self.assertIn("has no knob 'chunks'; did you mean 'chunk'?", refused)

    def test_a_graphs_text_has_no_form_that_there_is_not_at_any_level(self):
        self.gantry('ir', self.model(self.NETWORK), '--before', 'alter_layout', '-o', 'text.gir', '--force')
        text = (self.folder / 'text.gir').read_text()
        place = text.index(')  // conv10')
        (self.folder / 'text.gir').write_text(text[:place + 1] + ' {form=gem}' + text[place + 1:])
        for level in ('0', '3'):
            self.assertIn("there is no form 'gem' for it; did you mean 'gemm'?",
                          self.gantry('ir', 'text.gir', '--forms', '--opt', level, status=1).stderr)

    def test_opt_takes_what_its_passes_read(self):
        self.edited(lambda line: line[:line.index('{')] + '{form=plain}' + line[line.index('}') + 1:]
                                 if line.endswith('// conv10') else line)
        optimized = self.gantry('opt', self.model(self.NETWORK), '--decisions', 'forms.txt', '-o', 'plain.gir', '--force').stdout
        self.assertRegex(optimized, r'// alter_layout: \d+ rewrites')
        self.assertRegex((self.folder / 'plain.gir').read_text(), r'nn\.conv\(.*\) \{form=plain\}  // conv10')
        self.gantry('run', 'plain.gir', '--random=1', '--expect', 'expected.npy')

    def test_opt_takes_what_is_said_of_the_network(self):
        groups = lambda *options: self.gantry('opt', self.model(self.NETWORK), *options).stdout.count('= fused(')
        self.write('network {form=apart} add nn.relu  // fire2.squeeze -> fire2.squeeze.relu\n')
        self.assertEqual(groups('--decisions', 'forms.txt'), groups() + 1)
        self.assertEqual(groups('--decisions', 'forms.txt', '--opt', '2'), groups('--opt', '2') + 1)
        self.write('network {form=combined}\n')
        self.assertIn('// combine_parallel_conv2d: not asked for', self.gantry('opt', self.model(self.NETWORK)).stdout)
        self.assertRegex(self.gantry('opt', self.model(self.NETWORK), '--decisions', 'forms.txt').stdout,
                         r'// combine_parallel_conv2d: (no|\d+) rewrite')

    def test_opt_refuses_what_no_pass_reads(self):
        opt = lambda *options, status=1: self.gantry('opt', self.model(self.NETWORK), '--decisions', 'forms.txt', *options,
                                                     status=status).stderr
        self.write(self.text)
        self.assertIn('none of these passes reads decisions: alter_layout takes', opt('--passes', 'simplify_inference,dead_code'))
        self.assertRegex(opt('--opt', '2'), 
                         r'forms\.txt:\d+: nothing is decided for nn\.conv of conv1 without alter_layout, a pass of --opt 3')
        opt('--passes', 'simplify_inference,alter_layout', status=0)
        opt('--stop-after', '0', status=0)
        self.write('nn.conv {form=winograd3}  // conv10\n')
        self.assertIn("forms.txt:1: {form=winograd3} of conv10 (nn.conv) does not fit", opt())
        self.write('\nnn.conv {form=plain}  // nowhere\n')
        self.assertIn('forms.txt:2: nothing is decided for nn.conv of nowhere', opt())
        self.write('network {form=apart} nn.conv nn.relu  // conv1 -> nowhere\n')
        self.assertIn('forms.txt:1: no nn.relu of nowhere reads what nn.conv of conv1 makes', opt())

    def test_candidates_of_a_node(self):
        name = next(line for line in self.text.split('\n') if 'expand3x3' in line).split('// ')[1].split(',')[0]
        explained = self.gantry('ir', self.model(self.NETWORK), '--explain', name).stdout
        self.assertRegex(explained, r'\{form=direct, block=\d+\} +[\d.]+ kcycles +')
        self.assertEqual(explained.count(' taken'), 1)
        self.assertIn('times as long', explained)
        self.assertIn('nothing is decided for a node of that name',
                      self.gantry('ir', self.model(self.NETWORK), '--explain', '--node', 'nowhere', status=1).stderr)
        self.assertIn('nothing is decided for any node: the model has none with a choice, or --opt is below 3',
                      self.gantry('ir', self.model(self.NETWORK), '--explain', name, '--opt', '2', status=1).stderr)


class LeftToTheCpu(ProgramTest):
    """A GPU's program that the CPU beside it runs, as sizes depend on data."""
    TARGET = 'cuda:sm_86/x86-64-v3'

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        weights = ', '.join(str(i % 7 - 3) for i in range(16 * 16 * 3 * 3))
        (cls.folder / 'late.gir').write_text(f'''gir 1
fn @main(%x: Tensor[(1, 16, 8, 8), f32], %mask: Tensor[(4), f32]) -> (Tensor[(1, 16, 8, 8), f32], Tensor[(1, n), i64]) {{
  %0 = nn.conv(%x, const(f32, [16, 16, 3, 3], [{weights}]), channels=16, kernel=[3, 3], strides=[1, 1], dilations=[1, 1], padding=(1, 1, 1, 1))  // conv
  %1 = cast(%mask, to=i64)
  %2 = sum(%1, axes=[0], keepdims=false)
  %3 = bind_dims(%2, symbols=(n))
  %4 = nonzero_positions(%mask, extents=(n))
  return %0 as "y", %4 as "at"
}}
''')

    def forms(self, target, decisions='', status=0):
        """What is printed, without the comment that names the file; where it is refused, why."""
        (self.folder / 'forms.txt').write_text(decisions)
        done = self.gantry('ir', 'late.gir', '--forms', '--target', target, *(['--decisions', 'forms.txt'] if decisions else []),
                           status=status)
        return done.stderr if status else done.stdout.split('\n', 1)[1]

    def test_its_choices_are_the_cpus_under_the_gpus_name(self):
        own, of_cpu = (self.forms(target).split('\n', 1) for target in (self.TARGET, 'x86-64-v3'))
        self.assertEqual(own[0], f'[{self.TARGET}]')
        self.assertEqual(own[1], of_cpu[1])

    def test_lines_for_the_gpu_are_taken(self):
        own = self.forms(self.TARGET)
        self.assertNotIn('{form=plain', own)
        self.assertIn('nn.conv {form=plain', self.forms(self.TARGET, f'[{self.TARGET}]\nnn.conv {{form=plain}}  // conv\n'))
        self.assertEqual(self.forms(self.TARGET, '[x86-64-v3]\nnn.conv {form=plain}  // conv\n'), own)

    def test_lines_for_the_gpu_that_decide_nothing_are_refused(self):
        for line, expected in {
            'nn.conv {form=plain}  // nowhere': f'nothing is decided for nn.conv of nowhere when the model is compiled for {self.TARGET}',
            'network {form=apart} nn.conv nn.relu  // conv -> nowhere': 'no nn.relu of nowhere reads what nn.conv of conv makes',
        }.items():
            with self.subTest(line):
                self.assertIn(f'forms.txt:2: {expected}', self.forms(self.TARGET, f'[{self.TARGET}]\n{line}\n', status=1))


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0]] + [argument for argument in sys.argv[3:] if argument != '--write'])
