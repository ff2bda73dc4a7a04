#!/usr/bin/env python3
"""The scripts at the top of the tree say what they do, and do nothing else when asked; unknown options are refused.

usage: scripts_test.py SOURCE_FOLDER
"""
import os
import pathlib
import subprocess
import sys
import tempfile
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


# What install-packages asks and calls, by name; $SCRATCH is the test's folder.
COMMANDS = {
    'dpkg-query': 'for package; do :; done\ncase " $MISSING " in *" $package "*) exit 1 ;; esac\nprintf installed',
    'dpkg': 'echo arm64',
    'apt-get': '[ "$1" = update ] || cat "$SCRATCH/usr/sbin/policy-rc.d" >"$SCRATCH/policy" 2>/dev/null || true',
    'systemctl': 'echo "$@" >>"$SCRATCH/systemctl"',
    'sudo': 'exec "$@"',
}
# The units of each package that has some.
UNITS = {
    'avahi-daemon': ['avahi-daemon.service', 'avahi-daemon.socket'],
    'munge': ['munge.service'],
    'openssh-server': ['ssh.service'],
    'postgresql': ['postgresql.service'],
    'slurm-wlm': ['slurmctld.service', 'slurmd.service'],
}


class InstalledServers(unittest.TestCase):
    """Servers that tests use become no services of the machine that ./check runs on."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        for folder in ('bin', 'usr/sbin', 'lib/systemd/system', 'etc/systemd/system'):
            (self.folder / folder).mkdir(parents=True)
        for name, body in COMMANDS.items():
            (self.folder / 'bin' / name).write_text(f'#!/bin/sh\n{body}\n')
            (self.folder / 'bin' / name).chmod(0o755)

    def install(self, *missing):
        """What systemctl was asked, and the policy for starting services while packages were installed, '' for none."""
        (self.folder / 'packages.txt').write_text('\n'.join(missing) + '\n')
        environment = {**os.environ, 'PATH': f"{self.folder / 'bin'}:{os.environ['PATH']}", 'SCRATCH': str(self.folder),
                       'GANTRY_SYSTEM_ROOT': str(self.folder), 'MISSING': ' '.join(missing)}
        done = subprocess.run([SOURCE / 'toolchains/install-packages', self.folder / 'packages.txt'], env=environment,
                              capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        self.assertIn(f"installing {' '.join(missing)}\n", done.stdout)
        self.assertFalse((self.folder / 'usr/sbin/policy-rc.d').exists())
        asked = self.folder / 'systemctl'
        return asked.read_text() if asked.exists() else '', (self.folder / 'policy').read_text()

    def test_new_ones_are_neither_started_nor_enabled(self):
        units = ' '.join(unit for package in UNITS.values() for unit in package)
        self.assertEqual(self.install(*UNITS, 'furo'), (f'--quiet disable {units}\n', '#!/bin/sh\nexit 101\n'))

    def test_one_that_the_machine_has_already_stays_as_it_is(self):
        (self.folder / 'lib/systemd/system/postgresql.service').touch()
        (self.folder / 'etc/systemd/system/slurmd.service').touch()
        asked, _ = self.install('postgresql', 'slurm-wlm')
        self.assertEqual(asked, '--quiet disable slurmctld.service\n')

    def test_where_there_is_no_new_one_services_are_left_alone(self):
        (self.folder / 'lib/systemd/system/postgresql.service').touch()
        self.assertEqual(self.install('postgresql', 'furo'), ('', ''))


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0]])
