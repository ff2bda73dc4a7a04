"""The wheel: complete, the same twice, and it runs installed."""
import base64
import csv
import hashlib
import io
import os
import subprocess
import sys
import zipfile

import pytest

import gantry
import models

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), '..', '..'))
# The package that is tested lies in BUILD/python/gantry.
BUILD = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(gantry.__file__))))


@pytest.fixture(scope='module')
def wheel(tmp_path_factory):
    pytest.importorskip('wheel')
    if not os.path.exists(os.path.join(BUILD, 'CMakeCache.txt')):
        pytest.skip(f'{BUILD} is no build folder')
    made = []
    for umask in (0o022, 0o077):
        folder = tmp_path_factory.mktemp('wheel')
        before = os.umask(umask)
        try:
            subprocess.run([os.path.join(SOURCE, 'toolchains', 'package', 'wheel'), '--build', BUILD, str(folder)],
                           check=True, capture_output=True)
        finally:
            os.umask(before)
        made.append(folder / os.listdir(folder)[0])
    assert made[0].read_bytes() == made[1].read_bytes()
    return made[0]


def test_its_record_is_right_and_its_licences_are_there(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        info = next(name.split('/')[0] for name in names if '.dist-info/' in name)
        record = csv.reader(io.StringIO(archive.read(f'{info}/RECORD').decode()))
        recorded = {name: digest for name, digest, _ in record}
        assert set(recorded) == set(names)
        for name, digest in recorded.items():
            if digest:
                found = base64.urlsafe_b64encode(hashlib.sha256(archive.read(name)).digest()).rstrip(b'=').decode()
                assert digest == f'sha256={found}', name
        assert f'{info}/licenses/liblld-19-dev.txt' in names and f'{info}/LICENSE' in names
        assert 'gantry/py.typed' in names and 'gantry/_native.pyi' in names


def test_installed_it_compiles_and_runs(wheel, tmp_path):
    site = tmp_path / 'site'
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    os.chmod(site / 'gantry' / 'bin' / 'gantry-device', 0o755)
    (tmp_path / 'relu.onnx').write_bytes(models.relu())
    environment = {'PATH': os.environ['PATH'], 'PYTHONPATH': str(site), 'HOME': str(tmp_path)}
    code = ('import gantry, numpy; x = numpy.array([[1, -2, 3], [-4, 5, -6]], "float32"); '
            'm = gantry.compile("relu.onnx"); print(gantry.__file__, (m(x) == numpy.maximum(x, 0)).all()); '
            'print(gantry.bench(m, processes=1, repeat=10, warmup=1).median_ms > 0)')
    done = subprocess.run([sys.executable, '-c', code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(site / 'gantry' / '__init__.py'), 'True', 'True']
    for target in ('aarch64', 'cuda:sm_80'):
        done = subprocess.run([sys.executable, '-m', 'gantry', 'compile', 'relu.onnx', '-o', 'out.gmod', '-t', target],
                              cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
