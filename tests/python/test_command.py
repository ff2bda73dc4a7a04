"""The gantry program out of the package."""
import os
import signal
import subprocess
import sys

import numpy

import gantry
import models


def test_it_is_the_whole_program(programs, tmp_path):
    done = subprocess.run([*programs['gantry'], '--version'], capture_output=True, text=True)
    assert done.returncode == 0 and gantry.__version__ in done.stdout
    (tmp_path / 'relu.onnx').write_bytes(models.relu())
    done = subprocess.run([*programs['gantry'], 'run', 'relu.onnx', '--random', '--json'], cwd=tmp_path,
                          capture_output=True, text=True)
    assert done.returncode == 0 and '"y"' in done.stdout, done.stderr
    done = subprocess.run([*programs['gantry'], 'inspect', 'missing.gmod'], capture_output=True, text=True)
    assert done.returncode == 1 and 'missing.gmod' in done.stderr


def test_names_of_files_need_not_be_utf8(programs, tmp_path):
    name = b'caf\xe9.onnx'
    with open(os.path.join(os.fsencode(tmp_path), name), 'wb') as file:
        file.write(models.relu())
    done = subprocess.run([*programs['gantry'], 'inspect', name], cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([*programs['gantry'], 'inspect', b'th\xe9.onnx'], cwd=tmp_path, capture_output=True)
    assert done.returncode == 1 and b'Traceback' not in done.stderr and b'.onnx' in done.stderr, done.stderr


def test_it_needs_no_numpy(programs):
    code = "import sys; sys.modules['numpy'] = None; import gantry; print(gantry.compile(open(sys.argv[1], 'rb').read()))"
    folder = os.path.dirname(os.path.dirname(gantry.__file__))
    done = subprocess.run([sys.executable, '-c', code, os.devnull], capture_output=True, text=True,
                          env={**os.environ, 'PYTHONPATH': folder})
    assert 'gantry._errors.InputError' in done.stderr or 'is not an ONNX file' in done.stderr
    assert 'ModuleNotFoundError' not in done.stderr


def test_ctrl_c_ends_it_and_leaves_nothing(programs, tmp_path):
    """A measurement that would go on for minutes."""
    (tmp_path / 'relu.onnx').write_bytes(models.relu())
    process = subprocess.Popen([*programs['gantry'], 'bench', 'relu.onnx', '--duration', '5min', '--precision-goal', '0.0001%',
                                '--json', 'out.json'], cwd=tmp_path, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        process.wait(timeout=1.5)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == -signal.SIGINT
    assert os.listdir(tmp_path) == ['relu.onnx']


def test_conformance_tests_are_run_by_this_package(programs, tmp_path):
    data = tmp_path / 'test_relu' / 'test_data_set_0'
    data.mkdir(parents=True)
    x = numpy.array([[-1, 2, -3], [4, -5, 6]], 'float32')
    (tmp_path / 'test_relu' / 'model.onnx').write_bytes(models.relu())
    (data / 'input_0.pb').write_bytes(models.tensor('x', x))
    (data / 'output_0.pb').write_bytes(models.tensor('y', numpy.where(x > 0, x, numpy.float32(0))))
    done = subprocess.run([*programs['gantry'], 'conformance', str(tmp_path), '--jobs', '1'], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_programs_for_boards_are_looked_for_in_the_package(programs, tmp_path):
    (tmp_path / 'test_relu').mkdir()
    (tmp_path / 'test_relu' / 'model.onnx').write_bytes(models.relu())
    architecture = 'aarch64' if os.uname().machine != 'aarch64' else 'x86-64'
    done = subprocess.run([*programs['gantry'], 'conformance', str(tmp_path), '--target', architecture],
                          capture_output=True, text=True)
    brought = os.path.join(os.path.dirname(gantry.__file__), 'bin', 'gantry-device')
    assert done.returncode != 0 and f'{brought}: is for' in done.stderr, done.stdout + done.stderr
