#!/usr/bin/env python3
"""`gantry records verify`: what an older generator measured is measured again, and recorded for this one.

usage: records_verify_test.py GANTRY
"""
import json
import pathlib
import sys
import unittest

from program_under_test import ProgramTest

ProgramTest.GANTRY = str(pathlib.Path(sys.argv.pop(1)).absolute())
ProgramTest.LONGEST = 600
WEIGHTS = ', '.join(str(i * 7 % 5 - 2) for i in range(64 * 32))


def product(weights):
    return (f'fn @main(%x: Tensor[(128, 64), f32]) -> Tensor[(128, 32), f32] {{\n'
            f'  %y = nn.dense(%x, @w: {weights}, units=32)  // head\n  return %y as "y"\n}}\n')


class Verify(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        (cls.folder / 'net.gir').write_text(product(f'const(f32, [64, 32], [{WEIGHTS}])'))
        cls.gantry('compile', 'net.gir', '-o', 'net.gmod')
        variant = json.loads(cls.gantry('inspect', 'net.gmod', '--json').stdout)['variants'][0]
        board = json.loads(cls.gantry('bench', 'net.gmod', '--repeat', '1', '--processes', '1', '--warmup', '1', '--json').stdout)['board']
        why = json.loads(cls.gantry('ir', 'net.gir', '--explain', '--node', 'head', '--json').stdout)[0]
        cls.baseline = '{' + ', '.join(f'{name}={value}' for name, value in why['decision'].items()) + '}'
        cls.record = {
            'work': why['work'], 'target': variant['target'], 'machine': board['cpu'],
            'features': ','.join(sorted(variant['features'])), 'threads': 2, 'precision': variant.get('precision', 'fp32'),
            'optimize': 'speed', 'generator': '0.0.1', 'op': 'nn.dense', 'decision': '{form=plain}', 'baseline': cls.baseline,
            'outcome': 'measured', 'reason': '', 'confirmation': 1, 'seconds': 0.01, 'baseline_seconds': 0.02, 'ratio': 0.5,
            'ratio_low': 0.4, 'ratio_high': 0.6, 'process_seconds': '0.01', 'baseline_process_seconds': '0.02',
            'timed': 'kernel', 'model': 'net.gir', 'nodes': 'head', 'board': '', 'beside': '',
            'date': '2026-01-01T00:00:00Z', 'source': 'a test'}

    def store(self, name, program=product('Tensor[(64, 32), f32]'), **changes):
        lines = [{'schema': 'gantry-records', 'version': 1}, self.record | changes]
        if program:
            lines.append({'program_of': self.record['work'], 'text': program})
        (self.folder / 'lines.jsonl').write_text(''.join(json.dumps(line) + '\n' for line in lines))
        self.gantry('records', 'import', name, 'lines.jsonl')
        return name

    def verified(self, store, *options):
        [report] = json.loads(self.gantry('records', 'verify', store, '--duration', '1s', '--no-wait', '--json', *options).stdout)
        return report

    def records(self, store):
        return json.loads(self.gantry('records', 'list', store, '--json').stdout)

    def test_what_decides_is_measured_again_for_this_generator(self):
        if self.baseline == '{form=plain}':
            self.skipTest('this machine computes the product plainly by itself')
        store = self.store('old.db')
        again = self.verified(store)['again']
        self.assertEqual((again['decision'], again['baseline'], again['outcome']), ('{form=plain}', self.baseline, 'measured'))
        self.assertEqual(again['generator'], json.loads(self.gantry('version', '--json').stdout)['generator'])
        self.assertTrue(again['ratio_low'] <= again['ratio'] <= again['ratio_high'])
        old, new = self.records(store)
        self.assertEqual(old, {'id': 1} | self.record)
        self.assertEqual(new['date'], again['date'])

    def test_a_decision_that_does_not_fit_any_more_is_recorded_as_such(self):
        store = self.store('misfit.db', decision='{form=retired}')
        self.assertEqual(self.verified(store)['again']['outcome'], 'misfit')
        self.assertEqual(len(self.records(store)), 2)

    def test_what_a_clock_that_was_ahead_has_dated_is_ended_too(self):
        store = self.store('ahead.db', decision='{form=retired}', date='2199-01-01T00:00:00Z',
                           generator=json.loads(self.gantry('version', '--json').stdout)['generator'])
        self.assertEqual(self.verified(store)['again']['outcome'], 'misfit')
        self.assertEqual(self.gantry('records', 'list', store, '--best').stdout, '')

    def test_trials_are_not_measured_which_is_said(self):
        store = self.store('trials.db', confirmation=0)
        said = self.gantry('records', 'verify', store, '--id', '1', status=1).stderr
        self.assertIn('trials.db: has no such records that decide anything; `gantry records list trials.db --best`', said)

    def test_what_the_compiler_takes_by_itself_is_not_measured(self):
        store = self.store('same.db', decision=self.baseline, baseline='{form=plain}')
        self.assertIn('by itself', self.verified(store)['why'])
        self.assertEqual(len(self.records(store)), 1)

    def test_what_cannot_be_measured_here_is_said(self):
        self.assertIn('no program', self.verified(self.store('none.db', program=None))['why'])
        self.assertIn('Another CPU', self.verified(self.store('elsewhere.db', machine='Another CPU'))['why'])

    def test_a_board_that_there_is_not_is_an_error_and_no_fault_of_records(self):
        store = self.store('board.db')
        self.assertIn("'nosuch' is neither a board's name", self.gantry('records', 'verify', store, '--on', 'nosuch', status=1).stderr)
        self.assertIn('--key is for a board', self.gantry('records', 'verify', store, '--key', 'absent.key', status=1).stderr)

    def test_a_program_of_other_work_is_not_measured(self):
        store = self.store('wrong.db', program=product('Tensor[(64, 32), f32]').replace('128', '64'))
        self.assertIn('other work', self.verified(store)['why'])
        self.assertEqual(len(self.records(store)), 1)

    def test_what_is_decided_of_a_network_needs_the_model(self):
        network = {'op': 'network', 'decision': '{form=layouts}; 0 {form=plain}', 'baseline': '{form=own}'}
        store = self.store('other.db', **network)
        self.assertIn('--model net.gir', self.verified(store)['why'])
        # The digest is that of a node's work.
        self.assertIn('another network', self.verified(store, '--model', 'net.gir')['why'])
        self.assertEqual(len(self.records(store)), 1)
        (self.folder / 'words.onnx').write_text('words')
        for arguments, words in ((['--model', 'none.onnx'], 'no such file'), (['--model', 'net.gmod'], 'compiled already'),
                                 (['--model', 'words.onnx'], 'words.onnx is not an ONNX file'),
                                 (['--shape', 'x=1'], '--model')):
            self.assertIn(words, self.gantry('records', 'verify', store, *arguments, status=1).stderr)

    def test_what_is_decided_of_a_network_is_measured_again_in_it(self):
        self.gantry('zoo', 'squeezenet1_1', '--size', '64', '-o', 'squeeze.onnx')
        # The first trials are of the network.
        self.gantry('tune', 'squeeze.onnx', '--threads', '1', '--trials', '1', '--time', '120s', '--records', 'trials.db')
        lines = [json.loads(line) for line in self.gantry('records', 'export', 'trials.db', '--op', 'network').stdout.splitlines()]
        if len(lines) < 2:
            self.skipTest('on this machine there is nothing to try of the network as a whole')
        record = lines[1] | {'generator': '0.0.1', 'date': '2026-01-01T00:00:00Z', 'confirmation': 1, 'outcome': 'measured',
                             'reason': '', 'ratio': 0.5, 'ratio_low': 0.4, 'ratio_high': 0.6}
        for name, changes in (('network.db', {}), ('strange.db', {'decision': '{form=layouts}; 9999 {form=plain}'})):
            (self.folder / 'lines.jsonl').write_text(json.dumps(lines[0]) + '\n' + json.dumps(record | changes) + '\n')
            self.gantry('records', 'import', name, 'lines.jsonl')
        again = self.verified('network.db', '--model', 'squeeze.onnx')['again']
        self.assertEqual([again[key] for key in ('op', 'work', 'decision', 'baseline', 'outcome', 'confirmation')],
                         ['network', record['work'], record['decision'], '{form=own}', 'measured', 1])
        self.assertEqual(again['generator'], json.loads(self.gantry('version', '--json').stdout)['generator'])
        self.assertTrue(again['ratio_low'] <= again['ratio'] <= again['ratio_high'])
        self.assertEqual(len(self.records('network.db')), 2)
        self.assertEqual(self.verified('strange.db', '--model', 'squeeze.onnx')['again']['outcome'], 'misfit')


if __name__ == '__main__':
    unittest.main()
