#!/usr/bin/env python3
"""Runs the script `run`, which keeps gantry-device running on boards without a service manager, with a server that says what
a test wants, in each shell that this machine has.

usage: board_run_test.py RUN_SH
"""
import contextlib
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

RUN = pathlib.Path(sys.argv[1]).resolve()
SHELLS = [words for words in (['dash'], ['bash', '--posix'], ['busybox', 'sh']) if shutil.which(words[0])]
MOST = 256 << 10
# Says that it listens, tells so many lines, then serves until it is ended, or ends with words that no line's end follows.
SERVER = """#!/usr/bin/env python3
import sys, time
assert sys.argv[1] == 'serve', sys.argv
print('gantry-device 9.9 listening on nothing', flush=True)
for i in range({lines}):
    print(f'line {{i:06}} refused: it does not speak the protocol, *, \\\\n and  spaces  included', file=sys.stderr)
sys.stderr.flush()
if {ends}:
    sys.stderr.write('broken on purpose')
    sys.exit(1)
print('all is told', flush=True)
time.sleep(600)
"""


class Run(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        shutil.copy(RUN, self.folder / 'run')
        (self.folder / 'options').write_text('OPTIONS="--listen 127.0.0.1:1"\n')

    @contextlib.contextmanager
    def running(self, shell, lines, ends=False):
        """`run` by that shell; it has ended afterwards."""
        server = self.folder / 'gantry-device'
        server.write_text(SERVER.format(lines=lines, ends=ends))
        server.chmod(0o755)
        (self.folder / 'said').unlink(missing_ok=True)
        with subprocess.Popen([*shell, str(self.folder / 'run')], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                yield process
                process.wait(timeout=60)
            finally:
                process.kill()

    def await_that(self, condition, what):
        deadline = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.02)

    def said(self):
        with contextlib.suppress(OSError):
            return (self.folder / 'said').read_text()
        return ''

    def told(self, name):
        return (self.folder / name).read_text().splitlines()

    def names(self):
        return sorted(path.name for path in self.folder.iterdir() if path.name not in ('run', 'options', 'gantry-device', 'said'))

    def test_the_log_is_bounded_and_keeps_one_older_part(self):
        lines = 3 * MOST // 85
        for shell in SHELLS:
            with self.subTest(shell=shell):
                with self.running(shell, lines):
                    self.await_that(lambda: 'all is told' in self.said(), 'the server tells nothing')
                    (self.folder / 'control').write_text('stop\n')
                self.assertEqual(self.names(), ['log', 'log.old'])
                older, newer = self.told('log.old'), self.told('log')
                numbers = [int(line.split()[1]) for line in older + newer]
                self.assertEqual(numbers, list(range(numbers[0], lines)), 'lines are lost or changed')
                self.assertGreater(numbers[0], 0)
                self.assertEqual(newer[-1], f'line {lines - 1:06} refused: it does not speak the protocol, *, \\n and  spaces  included')
                for name in ('log', 'log.old'):
                    self.assertLess((self.folder / name).stat().st_size, MOST + 100)
                self.assertGreaterEqual((self.folder / 'log.old').stat().st_size, MOST)

    def test_the_last_words_of_a_server_that_fails_are_in_the_log_when_run_has_ended(self):
        for shell in SHELLS:
            with self.subTest(shell=shell):
                (self.folder / 'log.old').touch()
                with self.running(shell, 3, ends=True) as process:
                    self.assertEqual(process.wait(timeout=60), 1)
                    self.assertEqual(self.told('log')[-1], 'broken on purpose')
                self.assertEqual(len(self.told('log')), 4)
                self.assertEqual(self.names(), ['log'], 'what an earlier run has told is still there')


if __name__ == '__main__':
    if not SHELLS:
        print('skipped: neither dash, bash nor busybox is installed')
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
