#!/usr/bin/env python3
"""Sets a board up whose ssh asks for a password: typed at a terminal, wrong, and where there is no terminal.

usage: see boards_over_ssh.py
"""
import os
import pty
import re
import select
import shutil
import signal
import time
import unittest

import boards_over_ssh
from boards_over_ssh import DEVICE, GANTRY, USER, WORK, Board, run

PASSWORD = 'a word for plain'
SSH_PORT = 2224


class Password(Board):
    @classmethod
    def setUpClass(cls):
        if not shutil.which('openssl'):
            raise unittest.SkipTest('openssl is not installed, which makes the hash of a password')
        super().setUpClass()
        hashed = run('openssl', 'passwd', '-6', '-stdin', input=PASSWORD).strip()
        run('usermod', '--password', hashed, 'plain')
        cls.serve_ssh('password', SSH_PORT, 'PasswordAuthentication yes', 'PubkeyAuthentication no')

    @classmethod
    def words(cls, command):
        return ('boards', command, *(('plain@127.0.0.1', '--name', 'pi', '--device-program', str(DEVICE))
                                     if command == 'setup' else ('plain@127.0.0.1',)),
                '--ssh-port', str(SSH_PORT), '--ssh-option', f'UserKnownHostsFile={WORK}/known', '--ssh-option', 'IdentityAgent=none')

    def clean_up(self):
        if USER.exists():
            self.at_a_terminal('uninstall', PASSWORD)

    def at_a_terminal(self, command, password):
        """What the terminal shows, and gantry's exit status; every question for a password is answered."""
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(self.home)
            os.execve(GANTRY, [str(GANTRY), *self.words(command)], self.environment(TERM='dumb'))
        shown, answered = '', 0
        deadline = time.monotonic() + self.LONGEST
        try:
            while time.monotonic() < deadline:
                if not select.select([terminal], [], [], 1)[0]:
                    continue
                try:
                    said = os.read(terminal, 4096)
                except OSError:  # EIO: the other end is closed
                    break
                if not said:
                    break
                shown += said.decode(errors='replace')
                if len(re.findall(r'password: ', shown)) > answered:
                    answered += 1
                    os.write(terminal, password.encode() + b'\n')
            else:
                os.kill(child, signal.SIGKILL)
        finally:
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            os.close(terminal)
        return shown, status, answered

    def test_it_is_typed_once_for_the_whole_conversation(self):
        shown, status, answered = self.at_a_terminal('setup', PASSWORD)
        self.assertEqual((status, answered), (0, 1), shown)
        self.assertIn('ran it there', shown)
        self.assertNotIn(PASSWORD, shown)
        self.assertRegex(self.gantry('boards', 'info', 'pi'), 'server +gantry-device')
        shown, status, answered = self.at_a_terminal('uninstall', PASSWORD)
        self.assertEqual((status, answered), (0, 1), shown)
        self.assert_nothing_is_left('uninstall')

    def test_a_wrong_one_is_an_error_that_leaves_nothing(self):
        shown, status, answered = self.at_a_terminal('setup', 'another word')
        self.assertEqual((status, answered), (2, 3), shown)
        self.assertIn('Permission denied', shown)
        self.assert_nothing_is_left('a wrong password')

    def test_without_a_terminal_the_error_says_what_to_do(self):
        said = self.gantry(*self.words('setup'), status=2)
        self.assertRegex(said, 'Permission denied')
        self.assertRegex(said, 'ssh-copy-id|terminal|key')
        self.assert_nothing_is_left('no terminal')


if __name__ == '__main__':
    boards_over_ssh.main()
