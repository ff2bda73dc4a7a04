"""What the tests in Python share: the program in a folder of its own, and a board on loopback."""
import contextlib
import datetime
import os
import pathlib
import subprocess
import tempfile
import time
import unittest


def seconds(stamp):
    """Of a line of a server's log."""
    return datetime.datetime.fromisoformat(stamp.replace('Z', '+00:00')).timestamp()


@contextlib.contextmanager
def board(command, folder, *options, log=subprocess.DEVNULL):
    """A gantry-device that serves, started by the command's words; yields its address."""
    server = subprocess.Popen([*command, 'serve', '--listen', '127.0.0.1:0', '--cache', str(folder / 'cache'), *options],
                              stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        yield server.stdout.readline().split('listening on ')[1].split()[0]
    finally:
        server.terminate()
        server.wait(timeout=30)
        server.stdout.close()


class ProgramTest(unittest.TestCase):
    """Runs the program `GANTRY` of the class in a scratch folder, which is its home too."""
    GANTRY = None
    LONGEST = 300  # seconds that a command may take
    PATIENCE, PAUSE = 60, 0.05  # seconds that wait_until() waits, and from look to look

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        cls.environment = dict(os.environ, HOME=scratch.name, XDG_CONFIG_HOME=scratch.name, XDG_CACHE_HOME=scratch.name)

    @classmethod
    def start(cls, *arguments):
        return subprocess.Popen([cls.GANTRY, *arguments], cwd=cls.folder, env=cls.environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    @classmethod
    def finish(cls, process, status=0):
        """The finished command; fails where its exit code is another one."""
        try:
            out, err = process.communicate(timeout=cls.LONGEST)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        if process.returncode != status:
            raise AssertionError(f'gantry {" ".join(map(str, process.args[1:]))}: {process.returncode}\n{err}')
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    @classmethod
    def gantry(cls, *arguments, status=0):
        return cls.finish(cls.start(*arguments), status)

    def wait_until(self, condition):
        deadline = time.monotonic() + self.PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(self.PAUSE)
