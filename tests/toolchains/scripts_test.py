#!/usr/bin/env python3
"""The scripts at the top of the tree say what they do, and do nothing else when asked; unknown options are refused.

usage: scripts_test.py SOURCE_FOLDER
"""
import pathlib
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(sys.argv[1])


def run(script, option):
    return subprocess.run([SOURCE / script, option], capture_output=True, text=True, check=False, timeout=60)


class Scripts(unittest.TestCase):
    def test_help_is_the_comment_at_the_top(self):
        for script in ('quickstart', 'check', 'package'):
            for option in ('--help', '-h'):
                with self.subTest(script=script, option=option):
                    asked = run(script, option)
                    comment = [line.removeprefix('#').removeprefix(' ') for line in (SOURCE / script).read_text().split('\n')[1:]]
                    comment = comment[:comment.index('set -euo pipefail')]
                    self.assertEqual((asked.returncode, asked.stdout.splitlines(), asked.stderr), (0, comment, ''))

    def test_an_option_that_is_none(self):
        for script in ('quickstart', 'package'):  # check's go to ctest
            with self.subTest(script=script):
                asked = run(script, '--nonsense')
                self.assertEqual(asked.returncode, 1)
                self.assertIn("no option '--nonsense'", asked.stderr)


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0]])
