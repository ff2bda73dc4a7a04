#!/usr/bin/env python3
"""Runs the guide from PyTorch to a board, docs/pytorch-to-board.md, from its first command to its last in one folder; the
board is a gantry-device on loopback. What PyTorch prints is the reference for what the application prints.

    guide_test.py --build BUILD

Exit code 77, which CTest takes for skipped, where torch and torchvision are missing.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import extraction  # noqa: E402
from scratch import Server  # noqa: E402

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = 'docs/pytorch-to-board.md'
SKIPPED = 77
PYTHON = '/usr/bin/python3'  # Debian's, which has Debian's torch


def classes(text):
    return [(int(at), float(share)) for at, share in re.findall(r'^\d\. class +(\d+) +([\d.]+) %$', text, re.M)]


class Guide:
    def __init__(self, folder, build):
        self.folder = folder
        self.environment = {**os.environ, 'HOME': folder, 'XDG_CONFIG_HOME': os.path.join(folder, 'config'),
                            'GANTRY_CACHE_DIR': os.path.join(folder, 'cache'),
                            'PATH': os.path.join(build, 'bin') + ':' + os.environ['PATH']}
        self.device = os.path.join(build, 'bin', 'gantry-device')
        self.server, self.answers, self.page_classes = None, {}, []

    def run(self, command):
        text = command.text
        if text.startswith(('scp ', 'gantry boards setup ')):  # both are for boards over ssh
            return
        if text.startswith('ssh '):
            self.server = Server(self.device, self.environment, '--key', os.path.join(self.folder, 'pi.key'), '--cache',
                                 os.path.join(self.folder, 'board'))
            return
        if self.server:
            text = text.replace('pi:7453', self.server.address)
        text = re.sub(r'^python3\b', PYTHON, text)
        text = re.sub(r'^(gantry bench\b)', r'\1 --duration 2s', text)
        done = subprocess.run(['bash', '-ec', text], cwd=self.folder, env=self.environment, capture_output=True, text=True,
                              timeout=300, check=False)
        if done.returncode != 0:
            sys.exit(f'{command}\nran as: {text}\nexit code {done.returncode}\n{done.stdout}{done.stderr}')
        self.answers[command.text.split()[0] + ' ' + command.text.split()[1]] = done.stdout


def main():
    build = sys.argv[sys.argv.index('--build') + 1]
    if subprocess.run([PYTHON, '-c', 'import torch, torchvision, PIL'], capture_output=True, check=False).returncode != 0:
        print('skipped: Debian\'s python3-torch and python3-torchvision are not installed')
        return SKIPPED
    commands = [command for block in extraction.blocks(os.path.join(SOURCE, PAGE), SOURCE) if extraction.is_shell(block)
                for command in extraction.commands_of_block(block)]
    with tempfile.TemporaryDirectory(prefix='gantry_guide_') as folder:
        shutil.copytree(os.path.join(SOURCE, 'examples'), os.path.join(folder, 'examples'))
        guide = Guide(folder, build)
        try:
            for command in commands:
                guide.run(command)
        finally:
            if guide.server:
                guide.server.stop()
    wanted = classes(guide.answers['python3 examples/export_resnet18.py'])
    found = classes(guide.answers['classify here.gmod'])
    if len(wanted) != 5 or [at for at, _ in found] != [at for at, _ in wanted]:
        sys.exit(f'PyTorch gives the classes {wanted}, the application {found}')
    far = max(abs(mine - theirs) for (_, mine), (_, theirs) in zip(found, wanted))
    # JPEG decoders differ by a level of brightness or two.
    if far > 0.03:
        sys.exit(f'probabilities differ by {far:.3f} %: {wanted}, {found}')
    print(f'{len(commands)} commands; the classes of PyTorch and the application are the same, to {far:.3f} %')
    return 0


if __name__ == '__main__':
    sys.exit(main())
