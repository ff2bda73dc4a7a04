#!/usr/bin/env python3
"""The scripts at the top of the tree say what they do, and do nothing else when asked; unknown options are refused.

usage: scripts_test.py SOURCE_FOLDER
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import time
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


# What install-packages asks and calls, by name; $SCRATCH is the test's folder. Units belong to the package $OWNER.
COMMANDS = {
    'dpkg-query': 'for package; do :; done\n'
                  'if [ "$1" = -S ]; then [ -n "$OWNER" ] && echo "$OWNER: /lib${package#\\*}"; exit; fi\n'
                  'case " $MISSING " in *" $package "*) exit 1 ;; esac\nprintf installed',
    'dpkg': 'echo arm64',
    # What it unpacks has its units, whether it gets any further or not.
    'apt-get': '[ "$1" != update ] || exit 0\n'
               'cat "$SCRATCH/usr/sbin/policy-rc.d" >"$SCRATCH/policy" 2>/dev/null\n'
               'for unit in $UNPACKED; do : >"$SCRATCH/lib/systemd/system/$unit"; done\n'
               '[ -z "$KILLED" ] || kill -KILL "$PPID"\n'
               'while [ -n "$WAITS" ] && [ ! -e "$SCRATCH/go" ]; do sleep 0.05; done\n'
               'exit "$APT_RETURNS"',
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


def write_commands(folder, bodies):
    """Programs of the shell, by their names, in a new folder."""
    folder.mkdir()
    for name, body in bodies.items():
        (folder / name).write_text(f'#!/bin/sh\n{body}\n')
        (folder / name).chmod(0o755)


class InstalledServers(unittest.TestCase):
    """Servers that tests use become no services of the machine that ./check runs on."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        for folder in ('usr/sbin', 'lib/systemd/system', 'etc/systemd/system'):
            (self.folder / folder).mkdir(parents=True)
        write_commands(self.folder / 'bin', COMMANDS)

    def start_script(self, missing, apt_returns=0, killed=False, owner='', waits=False):
        packages = self.folder / f"packages-{'-'.join(missing)}.txt"
        packages.write_text('\n'.join(missing) + '\n')
        environment = {**os.environ, 'PATH': f"{self.folder / 'bin'}:{os.environ['PATH']}", 'SCRATCH': str(self.folder),
                       'GANTRY_SYSTEM_ROOT': str(self.folder), 'MISSING': ' '.join(missing), 'OWNER': owner,
                       'UNPACKED': ' '.join(unit for package in missing for unit in UNITS.get(package, ())),
                       'APT_RETURNS': str(apt_returns), 'KILLED': 'yes' if killed else '', 'WAITS': 'yes' if waits else ''}
        return subprocess.Popen([SOURCE / 'toolchains/install-packages', packages], env=environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run_script(self, missing, **how):
        """The finished process, after what systemctl was asked by it alone."""
        (self.folder / 'systemctl').unlink(missing_ok=True)
        with self.start_script(missing, **how) as process:
            output, errors = process.communicate(timeout=60)
            return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def asked(self):
        asked = self.folder / 'systemctl'
        return asked.read_text() if asked.exists() else ''

    def install(self, *missing, owner=''):
        """What systemctl was asked, and the policy for starting services while packages were installed, '' for none."""
        done = self.run_script(missing, owner=owner)
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        self.assertIn(f"installing {' '.join(missing)}\n", done.stdout)
        self.assertFalse(self.policy.exists())
        return self.asked(), (self.folder / 'policy').read_text()

    @property
    def policy(self):
        return self.folder / 'usr/sbin/policy-rc.d'

    def test_new_ones_are_neither_started_nor_enabled(self):
        units = ' '.join(unit for package in UNITS.values() for unit in package)
        asked, policy = self.install(*UNITS, 'furo')
        self.assertEqual(asked, f'--quiet disable {units}\n')
        self.assertRegex(policy, r'\A#!/bin/sh\n#.*\nexit 101\n\Z')

    def test_they_are_left_off_where_the_installation_fails(self):
        done = self.run_script(['munge'], apt_returns=100)
        self.assertEqual(done.returncode, 100)
        self.assertEqual(self.asked(), '--quiet disable munge.service\n')
        self.assertFalse(self.policy.exists())
        # Its unit is there, but is still to be enabled by the package, which is unpacked alone.
        asked, policy = self.install('munge', owner='munge')
        self.assertEqual(asked, '--quiet disable munge.service\n')
        self.assertIn('exit 101', policy)

    def test_what_a_killed_run_has_left_is_cleared_up_by_the_next(self):
        self.assertNotEqual(self.run_script(['munge', 'postgresql'], killed=True).returncode, 0)
        self.assertTrue(self.policy.exists())
        done = self.run_script([])
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        self.assertEqual(self.asked(), '--quiet disable munge.service postgresql.service\n')
        self.assertFalse(self.policy.exists())

    def test_one_that_runs_keeps_its_policy_while_another_starts(self):
        with self.start_script(['munge'], waits=True) as first:
            while first.poll() is None and not (self.folder / 'policy').exists():
                time.sleep(0.01)
            with self.start_script(['furo']) as second:
                with self.assertRaises(subprocess.TimeoutExpired, msg='it waits'):
                    second.wait(timeout=0.5)
                self.assertTrue(self.policy.exists())
                (self.folder / 'go').touch()
                self.assertEqual((first.wait(timeout=60), second.wait(timeout=60)), (0, 0))
        self.assertEqual(self.asked(), '--quiet disable munge.service\n')
        self.assertFalse(self.policy.exists())

    def test_a_policy_of_the_machines_own_stays(self):
        self.policy.write_text('#!/bin/sh\nexit 101\n')
        self.assertEqual(self.run_script(['munge']).returncode, 0)
        self.assertEqual(self.asked(), '--quiet disable munge.service\n')
        self.assertEqual(self.run_script([]).returncode, 0)
        self.assertEqual(self.policy.read_text(), '#!/bin/sh\nexit 101\n')

    def test_one_that_the_machine_has_already_stays_as_it_is(self):
        (self.folder / 'lib/systemd/system/postgresql.service').touch()
        (self.folder / 'etc/systemd/system/slurmd.service').touch()
        asked, _ = self.install('postgresql', 'slurm-wlm')
        self.assertEqual(asked, '--quiet disable slurmctld.service\n')

    def test_where_there_is_no_new_one_services_are_left_alone(self):
        (self.folder / 'lib/systemd/system/postgresql.service').touch()
        self.assertEqual(self.install('postgresql', 'furo'), ('', ''))


class Packing(unittest.TestCase):
    def test_a_source_without_a_commit_is_refused_before_anything_is_built(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            (folder / 'usr/sbin').mkdir(parents=True)
            write_commands(folder / 'bin', {'dpkg-query': COMMANDS['dpkg-query'], 'cmake': ': >"$SCRATCH/built"\nexit 1',
                                            'git': 'echo "fatal: detected dubious ownership" >&2\nexit 128'})
            environment = {**os.environ, 'PATH': f"{folder / 'bin'}:{os.environ['PATH']}", 'SCRATCH': str(folder),
                           'GANTRY_SYSTEM_ROOT': str(folder), 'MISSING': '', 'OWNER': '', 'SOURCE_DATE_EPOCH': ''}
            asked = subprocess.run([SOURCE / 'package', '--only', 'gantry-device'], env=environment, capture_output=True,
                                   text=True, check=False, timeout=60)
            self.assertEqual((asked.returncode, (folder / 'built').exists()), (1, False))
            self.assertEqual(asked.stderr, 'error: no commit to take a time from: set SOURCE_DATE_EPOCH to seconds since 1970, '
                                           'or mend this:\nfatal: detected dubious ownership\n')


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0]])
