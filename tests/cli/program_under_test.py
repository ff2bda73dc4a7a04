"""What the tests in Python share: the program in a folder of its own, and a board on loopback."""
import contextlib
import os
import pathlib
import subprocess
import tempfile
import unittest


@contextlib.contextmanager
def board(command, folder):
    """A gantry-device that serves, started by the command's words; yields its address."""
    server = subprocess.Popen([*command, 'serve', '--listen', '127.0.0.1:0', '--cache', str(folder / 'cache')],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
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

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        cls.environment = dict(os.environ, HOME=scratch.name, XDG_CONFIG_HOME=scratch.name, XDG_CACHE_HOME=scratch.name)

    @classmethod
    def gantry(cls, *arguments, status=0):
        """The finished command; fails where its exit code is another one."""
        done = subprocess.run([cls.GANTRY, *arguments], cwd=cls.folder, env=cls.environment, text=True, capture_output=True,
                              check=False, timeout=cls.LONGEST)
        if done.returncode != status:
            raise AssertionError(f'gantry {" ".join(arguments)}: {done.returncode}\n{done.stderr}')
        return done
