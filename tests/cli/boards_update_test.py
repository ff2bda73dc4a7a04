#!/usr/bin/env python3
"""Updates boards that were set up over ssh.

usage: see boards_over_ssh.py
"""
import pathlib
import signal
import time

import boards_over_ssh
from boards_over_ssh import BROKEN, DEVICE, SYSTEM, Board, processes


class Update(Board):
    def test_the_new_program_serves_with_the_old_key_and_settings(self):
        self.setup()
        options = SYSTEM / 'options'
        options.write_text(options.read_text().replace('--log-level warning', '--log-level error'))
        new = self.home / 'new'
        new.write_bytes(DEVICE.read_bytes() + b'\0')  # another file of the same program
        self.assertIn('is up to date', self.gantry('boards', 'update', 'pi', '--device-program', str(new)))
        self.assertEqual((SYSTEM / 'gantry-device').read_bytes(), new.read_bytes())
        self.assertIn('--log-level error', options.read_text())
        self.gantry('boards', 'info', 'pi')
        self.uninstall()

    def test_options_of_ssh_of_the_call_come_before_those_that_were_kept(self):
        self.setup()
        new = self.home / 'new'
        new.write_bytes(DEVICE.read_bytes() + b'\0')
        for command, words in (('update', ('--device-program', str(new))), ('uninstall', ())):
            said = self.gantry('boards', command, 'pi', '--ssh-port', '1', *words, status=2)
            self.assertIn('port 1', said)
            self.gantry('boards', command, 'pi', '--ssh-port', '22', '--ssh-option', 'ConnectionAttempts=1', *words)

    def test_the_old_program_is_back_after_one_that_fails(self):
        self.setup()
        old = (SYSTEM / 'gantry-device').read_bytes()
        for name, source in BROKEN.items():
            with self.subTest(name):
                said = self.gantry('boards', 'update', 'pi', '--device-program', self.compiled(source), status=2)
                self.assertIn('the old program is back and runs', said)
                self.assertEqual((SYSTEM / 'gantry-device').read_bytes(), old)
                self.gantry('boards', 'info', 'pi')
        self.uninstall()

    def test_cut_off_at_any_step_the_old_program_serves(self):
        self.setup()
        old, new = (SYSTEM / 'gantry-device').read_bytes(), self.home / 'new'
        new.write_bytes(old + b'\0')
        for number in ('KILL', 'INT'):
            for step in ('end', 'send gantry-device', 'version', 'started'):
                with self.subTest(step=step, signal=number):
                    self.gantry('boards', 'update', 'pi', '--device-program', str(new),
                                status=-getattr(signal, f'SIG{number}'), CUT_AT=step, CUT_SIGNAL=number)
                    deadline = time.monotonic() + 20
                    while any('gantry-on-board' in line for line in processes()) and time.monotonic() < deadline:
                        time.sleep(0.1)
                    self.assertEqual((SYSTEM / 'gantry-device').read_bytes(), old)
                    self.assertFalse(pathlib.Path('/opt/gantry-device.partial').exists())
                    self.gantry('boards', 'info', 'pi')
        self.uninstall()


if __name__ == '__main__':
    boards_over_ssh.main()
