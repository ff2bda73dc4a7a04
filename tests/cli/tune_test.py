#!/usr/bin/env python3
"""Tuning of small networks, on this machine and on a board: what comes out of it, and what is left of an interrupted one.

usage: tune_test.py GANTRY GANTRY_DEVICE
"""
import json
import os
import pathlib
import platform
import signal
import sqlite3
import stat
import subprocess
import sys
import time
import unittest

from program_under_test import ProgramTest, board

ProgramTest.GANTRY = str(pathlib.Path(sys.argv[1]).absolute())
DEVICE = str(pathlib.Path(sys.argv[2]).absolute())


class TuneTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.gantry('zoo', 'squeezenet1_1', '--size', '64', '-o', 'm.onnx')
        cls.gantry('run', 'm.onnx', '--random=7', '-o', 'expected.npy', '--precision', 'fp32')

    def tune(self, *options, status=0):
        return self.gantry('tune', 'm.onnx', '--precision', 'fp32', '--seed', '1', '--force', *options, status=status)

    def result(self, *options):
        return json.loads(self.tune(*options, '--json').stdout)

    def records(self, name='lab.db'):
        """How many there are; what is wrong with the file is an error."""
        with sqlite3.connect(self.folder / name) as store:
            self.assertEqual(store.execute('pragma integrity_check').fetchone(), ('ok',))
        return len(json.loads(self.gantry('records', 'list', name, '--json').stdout))


class OneRun(TuneTest):
    def test_a_module_decisions_and_a_document_come_out(self):
        result = self.result('--time', '25s', '-o', 'tuned.gmod', '--decisions-out', 'tuned.decisions')
        self.assertEqual(result['schema'], 'gantry-tuning')
        self.assertGreater(result['trials'], 0)
        self.assertGreater(len(result['tasks']), 5)
        self.assertLess(result['seconds'], 60)
        self.assertAlmostEqual(sum(task['share'] for task in result['tasks']), 1, delta=0.6)
        self.assertLessEqual(10 * result['outcomes'].get('misfit', 0), result['trials'], 'what is proposed fits')
        # The first convolution may read the image as it is, or channels-last.
        self.assertGreater(len(result['layouts']), 0)
        for layout in result['layouts']:
            self.assertGreater(len(layout['nodes']), 0)
        self.assertIsNone(result['combined'], 'no products of the same data are alike')
        # The module computes the same, and is the one of the decisions.
        self.gantry('run', 'tuned.gmod', '--random=7', '--expect', 'expected.npy', '--tolerance', '3e-5')
        self.gantry('compile', 'm.onnx', '-o', 'again.gmod', '--precision', 'fp32', '--decisions', 'tuned.decisions', '--force')
        self.assertEqual((self.folder / 'again.gmod').read_bytes(), (self.folder / 'tuned.gmod').read_bytes())
        self.expect_that_what_is_changed_was_shown_to_be_faster(result)

    def expect_that_what_is_changed_was_shown_to_be_faster(self, result):
        changed = [task for task in result['tasks'] if task['tuned'] != task['untuned']]
        if result['ratio'] is None:
            self.assertEqual(changed, [])
            return
        self.assertLess(result['ratio']['interval'][1], 1)
        for task in changed:
            self.assertLess(task['ratio']['interval'][1], 1)

    def test_the_program_that_runs_is_tuned(self):
        # The numbers of rows have two names: of equal ones, as are made up, another program runs than of others.
        weights = ', '.join(str(i % 7 - 3) for i in range(64 * 64))
        (self.folder / 'open.gir').write_text(
            'fn @main(%a: Tensor[(N, 64), f32], %b: Tensor[(M, 64), f32]) -> Tensor[(broadcast(M, N), 64), f32] {\n'
            '  %0 = broadcast_to(%a, shape=(broadcast(M, N), 64), open=[0])  // rows\n'
            '  %1 = broadcast_to(%b, shape=(broadcast(M, N), 64), open=[0])  // others\n'
            '  %2 = add(%0, %1)  // sum\n'
            f'  %y = nn.dense(%2, const(f32, [64, 64], [{weights}]), units=64)  // fc\n  return %y as "y"\n}}\n')
        result = json.loads(self.gantry('tune', 'open.gir', '--trials', '3', '--time', '20s', '-o', 'open.gmod',
                                        '--decisions-out', 'open.decisions', '--force', '--json').stdout)
        self.assertEqual(len(result['tasks']), 1)
        self.assertGreater(result['trials'], 0)
        self.gantry('compile', 'open.gir', '-o', 'again.gmod', '--decisions', 'open.decisions', '--force')
        self.assertEqual((self.folder / 'again.gmod').read_bytes(), (self.folder / 'open.gmod').read_bytes())
        variants = json.loads(self.gantry('inspect', 'open.gmod', '--json').stdout)['variants']
        self.assertEqual(len(variants), 2, 'both programs are there')

    def test_no_more_trials_than_asked_for(self):
        result = self.result('--time', '60s', '--trials', '5')
        self.assertEqual(result['trials'], 5)
        self.assertEqual(result['ended'], 'all trials are made')

    def write_a_sum(self):
        """add.gir, which has nothing to tune."""
        (self.folder / 'add.gir').write_text('fn @main(%x: Tensor[(4, 4), f32]) -> Tensor[(4, 4), f32] {\n'
                                             '  %y = add(%x, %x)\n  return %y as "y"\n}\n')

    def test_where_there_is_nothing_to_tune_that_is_said(self):
        self.write_a_sum()
        out = self.gantry('tune', 'add.gir', '--time', '9s', '-o', 'add.gmod', '--records', 'add.db', '--force').stdout
        self.assertRegex(out, r'^add\.gir: 0 trials in .*: nothing is left to try; nothing was shown to be faster')
        self.assertTrue((self.folder / 'add.gmod').exists())
        self.assertEqual(self.records('add.db'), 0)

    def test_a_seed_is_of_the_search_where_inputs_are_files(self):
        self.write_a_sum()
        self.gantry('run', 'add.gir', '--random=3', '-o', 'x.npy', '--force')
        self.gantry('tune', 'add.gir', '--time', '9s', '--input', 'x.npy', '--seed', '3', '-o', 'add.gmod', '--force')

    def test_a_prior_of_another_family_is_warned_of(self):
        self.write_a_sum()
        (self.folder / 'other.json').write_text(json.dumps(
            {'schema': 'gantry-prior', 'version': 1, 'family': 'sm_90', 'features': [], 'groups': []}))
        done = self.gantry('tune', 'add.gir', '--time', '9s', '--prior', 'other.json', '-o', 'add.gmod', '--force')
        self.assertRegex(done.stderr, r'other\.json: is of sm_90, the target \S+ of \S+')

    def test_requests_that_mean_nothing_are_refused(self):
        self.assertIn('--records', self.tune('--resume', status=1).stderr)
        self.gantry('compile', 'm.onnx', '-o', 'm.gmod', '--force')
        self.assertIn('compiled already', self.gantry('tune', 'm.gmod', status=1).stderr)
        self.assertIn('leave --time out', self.tune('--check-decisions', '5', '--time', '9s', status=1).stderr)

    def test_decisions_about_equal_candidates_are_counted(self):
        printed = self.tune('--check-decisions', '9').stdout
        self.assertRegex(printed, r'candidates equal to the best: [0-9] of 9 accepted \([0-9.]+ %; .*\n'
                                  r'the whole network with itself: [0-9]+ of [0-9]+ accepted')


class Records(TuneTest):
    def test_trials_are_kept_and_not_made_again(self):
        first = self.result('--time', '20s', '--records', 'lab.db')
        kept = self.records()
        self.assertGreater(kept, 0)
        self.assertEqual(first['records_written'], kept)
        second = self.result('--time', '20s', '--records', 'lab.db', '--resume')
        self.assertEqual(self.records(), kept + second['records_written'])

    def test_of_a_lesser_target_they_decide_for_that(self):
        lesser = 'x86-64-v2' if platform.machine() == 'x86_64' else 'aarch64'
        tuned = self.result('--time', '20s', '--target', lesser, '--records', 'lesser.db', '-o', 'lesser.gmod')
        self.assertEqual(tuned['target'], lesser)
        rows = json.loads(self.gantry('records', 'list', 'lesser.db', '--json').stdout)
        self.assertEqual({row['target'] for row in rows}, {lesser})
        variant = json.loads(self.gantry('inspect', 'lesser.gmod', '--json').stdout)['variants'][0]
        self.assertEqual(variant['target'], lesser)
        # What decided in the tuned module decides for the target, and not for this machine's own.
        of_lesser, of_own = [
            json.loads(self.gantry('compile', 'm.onnx', '-o', 'by-records.gmod', '--precision', 'fp32', '--records', 'lesser.db',
                                   '--target', target, '--force', '--json').stdout)
            for target in (lesser, 'native')]
        if tuned['ratio'] is not None:
            self.assertTrue(of_lesser['records']['decided'] or of_lesser['records']['network'])
        if of_own['targets'] != [lesser]:
            self.assertEqual(of_own['records']['decided'], [])

    def test_an_interrupted_run_leaves_whole_records_and_nothing_else(self):
        for number, seconds in ((signal.SIGINT, 7), (signal.SIGTERM, 11), (signal.SIGINT, 3)):
            before = set(os.listdir(self.folder)) | {'cut.db', 'cut.db-wal', 'cut.db-shm', 'cut.db-journal'}
            process = subprocess.Popen([self.GANTRY, 'tune', 'm.onnx', '--time', '60s', '--records', 'cut.db', '-o', 'cut.gmod'],
                                       cwd=self.folder, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(seconds)
            process.send_signal(number)
            self.assertEqual(process.wait(timeout=30), -number)
            self.assertLessEqual(set(os.listdir(self.folder)), before)
        result = self.result('--time', '15s', '--records', 'cut.db', '--resume')
        self.assertEqual(self.records('cut.db') >= result['records_written'], True)

    def test_a_run_that_ends_before_there_are_records_leaves_no_store(self):
        for seconds in (0.3, 1, 2, 4):
            process = subprocess.Popen([self.GANTRY, 'tune', 'm.onnx', '--time', '60s', '--records', 'early.db'],
                                       cwd=self.folder, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(seconds)
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(timeout=30), -signal.SIGINT)
            if 'early.db' in os.listdir(self.folder):
                self.assertGreater(self.records('early.db'), 0, f'after {seconds} s')
                break
            self.assertEqual([name for name in os.listdir(self.folder) if name.startswith('early.db')], [])

    def test_two_tuners_share_a_store(self):
        words = [self.GANTRY, 'tune', 'm.onnx', '--time', '20s', '--records', 'both.db', '--json']
        both = [subprocess.Popen([*words, '--seed', seed], cwd=self.folder, env=self.environment, stdout=subprocess.PIPE)
                for seed in ('1', '2')]
        written = [json.loads(process.communicate(timeout=120)[0])['records_written'] for process in both]
        self.assertEqual([process.returncode for process in both], [0, 0])
        self.assertEqual(self.records('both.db'), sum(written))


class Faults(TuneTest):
    def test_a_board_program_that_dies_now_and_then_ends_nothing(self):
        script = self.folder / 'frail-device'
        # Not the first ones: a board that cannot be asked what it is ends the command.
        script.write_text('#!/bin/bash\n'
                          f'echo >> {self.folder}/starts\n'
                          f'if (( $(wc -l < {self.folder}/starts) > 4 && RANDOM % 12 == 0 )); then ( sleep 0.5; kill -9 $$ ) & fi\n'
                          f'exec {DEVICE} "$@"\n')
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        self.environment['GANTRY_DEVICE'] = str(script)
        self.addCleanup(self.environment.pop, 'GANTRY_DEVICE')
        result = self.result('--time', '30s', '--records', 'frail.db')
        self.assertGreater(result['trials'], 0)
        self.assertEqual(self.records('frail.db'), result['records_written'])

    def test_a_board_is_tuned_for(self):
        with board([DEVICE], self.folder) as address:
            result = self.result('--time', '20s', '--on', address)
        self.assertGreater(result['trials'], 0)

    def test_two_tuners_share_a_board_and_a_store(self):
        with board([DEVICE], self.folder, '--turn', '3') as address:
            words = [self.GANTRY, 'tune', 'm.onnx', '--precision', 'fp32', '--time', '75s', '--on', address, '--records', 'board.db',
                     '--json']
            waits = {name: value for name, value in self.environment.items() if name != 'GANTRY_NO_WAIT'}
            both = [subprocess.Popen([*words, '--seed', seed], cwd=self.folder, env=waits, stdout=subprocess.PIPE)
                    for seed in ('1', '2')]
            results = [json.loads(process.communicate(timeout=240)[0]) for process in both]
        self.assertEqual([process.returncode for process in both], [0, 0])
        for result in results:
            self.assertGreater(result['records_written'], 0)
        self.assertEqual(self.records('board.db'), sum(result['records_written'] for result in results))
        rows = json.loads(self.gantry('records', 'list', 'board.db', '--json').stdout)
        self.assertEqual({row['outcome'] for row in rows} & {'crashed', 'timed-out'}, set(), 'a turn is no failure')
        self.assertEqual({row['board'] for row in rows}, {address})

    def test_a_board_that_is_not_there_is_an_error_of_the_board(self):
        self.tune('--time', '20s', '--on', '127.0.0.1:1', status=2)

    def test_a_board_that_dies_leaves_its_records_and_the_word_how_to_go_on(self):
        with board([DEVICE], self.folder) as address:
            process = self.start('tune', 'm.onnx', '--precision', 'fp32', '--time', '120s', '--on', address, '--records', 'dead.db')
            while process.poll() is None and not (self.folder / 'dead.db').exists():
                time.sleep(0.1)
        errors = self.finish(process, status=2).stderr
        self.assertIn('what was measured is in dead.db: the same command with --resume goes on from it', errors)
        self.assertIn(address, errors)
        self.assertGreater(self.records('dead.db'), 0)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
