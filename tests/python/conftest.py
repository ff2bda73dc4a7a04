import os
import re
import signal
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


@pytest.fixture(scope='session', autouse=True)
def own_places(tmp_path_factory):
    """Neither the user's boards nor the user's kernels."""
    places = pytest.MonkeyPatch()
    for name in list(os.environ):
        if name.startswith('GANTRY_'):
            places.delenv(name)
    places.setenv('XDG_CONFIG_HOME', str(tmp_path_factory.mktemp('config')))
    places.setenv('GANTRY_CACHE_DIR', str(tmp_path_factory.mktemp('cache')))
    yield
    places.undo()


@pytest.fixture(scope='session')
def programs():
    """How the programs of the package are called."""
    import gantry
    device = os.path.join(os.path.dirname(gantry.__file__), 'bin', 'gantry-device')
    return {'gantry': [sys.executable, '-m', 'gantry'], 'device': [device]}


@pytest.fixture(scope='session')
def server(programs, tmp_path_factory):
    """A gantry-device on loopback with a key: (address, key file)."""
    folder = tmp_path_factory.mktemp('server')
    key = folder / 'board.key'
    subprocess.run([*programs['gantry'], 'keygen', '-o', str(key)], check=True, capture_output=True)
    process = subprocess.Popen([*programs['device'], 'serve', '--listen', '127.0.0.1:0', '--key', str(key), '--cache',
                                str(folder / 'cache')], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    port = re.search(r':(\d+)', process.stdout.readline()).group(1)
    yield f'127.0.0.1:{port}', str(key)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 0
    process.stdout.close()
