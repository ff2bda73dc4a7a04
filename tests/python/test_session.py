"""Sessions: threads, forks, memory, lifetimes, and that Python goes on meanwhile."""
import gc
import os
import platform
import shutil
import subprocess
import sys
import textwrap
import threading
import time
import weakref

import numpy
import pytest

import gantry
import models

X = numpy.array([[1, -2, 3], [-4, 5, -6]], 'float32')


@pytest.fixture(scope='module')
def network():
    data, reference = models.classifier()
    return gantry.compile(data), reference


def test_a_session_has_the_threads_that_it_is_asked_for(network):
    module, reference = network
    x = numpy.random.default_rng(1).standard_normal((4, 64)).astype('float32')

    def count():
        return len(os.listdir('/proc/self/task'))

    before = count()
    sessions = [gantry.Session(module, threads=threads) for threads in (1, 3)]
    assert count() - before == 2
    for session in sessions:
        numpy.testing.assert_allclose(session(x), reference(x), rtol=1e-4, atol=1e-6)
    del session
    sessions.clear()
    gc.collect()
    assert count() == before


def test_cpus_pin_the_calling_thread():
    cpu = min(os.sched_getaffinity(0))
    seen = []

    def pinned():
        session = gantry.Session(gantry.compile(models.relu()), threads=1, cpus=[cpu])
        session(X)
        seen.append(os.sched_getaffinity(0))

    thread = threading.Thread(target=pinned)
    thread.start()
    thread.join()
    assert seen == [{cpu}]


def test_cpus_that_no_thread_would_be_pinned_to_are_refused():
    cpu = min(os.sched_getaffinity(0))
    with pytest.raises(gantry.InputError, match=r'cpus=.* names 2 CPUs, but threads=1 leaves some of them without a thread'):
        gantry.Session(gantry.compile(models.relu()), threads=1, cpus=[cpu, cpu])


def test_sessions_of_other_devices_run_what_was_compiled_for_them():
    module = gantry.compile(models.relu(), target='cuda-emulated')
    numpy.testing.assert_array_equal(gantry.Session(module, device='cuda-emulated')(X), numpy.maximum(X, 0))
    with pytest.raises(gantry.InputError, match='neither|unknown|not a device|device'):
        gantry.Session(module, device='tpu')


def test_many_threads_may_call_one_module(network):
    module, reference = network
    failures = []

    def work(seed):
        x = numpy.random.default_rng(seed).standard_normal((1 + seed, 64)).astype('float32')
        try:
            for _ in range(25):
                numpy.testing.assert_allclose(module(x), reference(x), rtol=1e-4, atol=1e-6)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def advances_during(work):
    """How often another thread came round while `work` ran, but for its first and last 20 ms."""
    ticks, stop = [], threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    begin = time.monotonic()
    work()
    end = time.monotonic()
    stop.set()
    thread.join()
    return sum(begin + 0.02 < tick < end - 0.02 for tick in ticks), end - begin


def test_other_threads_go_on_while_a_model_is_compiled():
    ticks, seconds = advances_during(lambda: gantry.compile(models.chain(), cache=False))
    assert ticks > 5, f'{ticks} in {seconds} s'


def test_other_threads_go_on_while_a_module_runs():
    width = 512
    product = models.model([models.node('MatMul', ['a', 'b'], ['c'])] +
                           [models.node('MatMul', ['c' * i, 'b'], ['c' * (i + 1)]) for i in range(1, 40)],
                           [('a', models.FLOAT, (width, width)), ('b', models.FLOAT, (width, width))],
                           [('c' * 40, models.FLOAT, (width, width))])
    session = gantry.Session(gantry.compile(product, opt=0), threads=1)
    x = numpy.zeros((width, width), 'float32')
    ticks, seconds = advances_during(lambda: [session(x, x) for _ in range(3)])
    assert ticks > 5, f'{ticks} in {seconds} s'


def test_a_forked_childs_calls_have_threads_of_their_own(network):
    module, reference = network
    session = gantry.Session(module, threads=2)
    x = numpy.random.default_rng(2).standard_normal((8, 64)).astype('float32')
    expected = session(x)
    numpy.testing.assert_array_equal(module(x), expected)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            same = numpy.array_equal(session(x), expected) and numpy.array_equal(module(x), expected)
            os.write(writer, b'same' if same else b'other')
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, 'rb') as file:
        assert file.read() == b'same'
    os.waitpid(child, 0)
    numpy.testing.assert_array_equal(session(x), expected)


def test_what_nobody_holds_is_freed():
    module = gantry.compile(models.relu())
    session = module.session()
    x = X.copy()
    session(x)
    seen = [weakref.ref(item) for item in (module, session, x)]
    del module, session, x
    gc.collect()
    assert [item() for item in seen] == [None, None, None]


def run_python(code):
    return subprocess.run([sys.executable, '-c', textwrap.dedent(code)], capture_output=True, text=True, timeout=120,
                          env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)})


def test_large_inputs_are_read_where_they_are_and_outputs_are_not_copied():
    """By the memory that the process ever had: 256 MiB come in and go out, and nowhere is there room for them again."""
    done = run_python('''
        import numpy, gantry, models
        def peak():
            return next(int(line.split()[1]) for line in open('/proc/self/status') if line.startswith('VmHWM')) >> 10
        shape = (1024, 1 << 16)
        session = gantry.Session(gantry.compile(models.relu(shape)))
        x = gantry.empty(shape)
        x[:] = -1
        before = peak()
        y = session(x)
        assert not y.any()
        print(peak() - before)
    ''')
    assert done.returncode == 0, done.stderr
    assert 256 - 16 <= int(done.stdout) < 256 + 128


def test_large_torch_tensors_are_read_where_they_are():
    pytest.importorskip('torch')
    done = run_python('''
        import torch, gantry, models
        def peak():
            return next(int(line.split()[1]) for line in open('/proc/self/status') if line.startswith('VmHWM')) >> 10
        shape = (1024, 1 << 16)
        session = gantry.Session(gantry.compile(models.relu(shape)))
        x = torch.full(shape, -1.0)
        before = peak()
        y = session(x)
        assert y.sum() == 0
        print(peak() - before)
    ''')
    assert done.returncode == 0, done.stderr
    assert 256 - 16 <= int(done.stdout) < 256 + 128


def test_memory_and_step_times_say_what_the_session_has_and_does(network):
    module, _ = network
    session = gantry.Session(module)
    x = numpy.zeros((16, 64), 'float32')
    session(x)
    memory = session.memory
    assert memory.weights_bytes >= 4 * (64 * 96 + 96 + 96 * 10)
    assert memory.io_bytes == 4 * 16 * (64 + 10)
    assert memory.device_weights_bytes == 0
    steps = session.time_steps(x)
    assert [step.step for step in steps] == list(range(len(steps)))
    assert all(step.ms >= 0 for step in steps)
    # Two products of 2 m n k each, and little else.
    assert 2 * 16 * 96 * (64 + 10) <= sum(step.flops for step in steps) < 3 * 16 * 96 * (64 + 10)
    assert steps[0].to_dict()['ops'] == steps[0].ops


def test_steps_are_timed_in_one_run(tmp_path):
    compiler = shutil.which('gcc')
    if compiler is None:
        pytest.skip('gcc is not installed')
    (tmp_path / 'runs.c').write_text('''#include <gantry/custom_op.h>
static float runs;
int32_t count_runs(const GantryCustomCall* call) {
  *(float*)call->outputs[0]->data = ++runs;
  return 0;
}
''')
    include = os.path.join(os.path.dirname(__file__), '..', '..', 'device_runtime', 'include')
    subprocess.run([compiler, '-O2', '-fPIC', '-ffreestanding', '-fno-stack-protector', f'-I{include}', '-c', 'runs.c', '-o',
                    'runs.o'], check=True, cwd=tmp_path)
    architecture = 'aarch64' if platform.machine() == 'aarch64' else 'x86-64'
    (tmp_path / 'ops.toml').write_text(f'''[[op]]
domain = "mine"
name = "Runs"
inputs = ["x: f32[N]"]
outputs = ["y: f32[N]"]
kernel = {{ function = "count_runs", {architecture} = "runs.o" }}
''')
    node = models.node('Runs', ['x'], ['y'], 'Runs_0') + models.chunk(7, 'mine')
    data = models.model([node], [('x', models.FLOAT, (1,))], [('y', models.FLOAT, (1,))])
    data += models.chunk(8, models.chunk(1, 'mine') + models.number(2, 1))
    session = gantry.Session(gantry.compile(data, custom_ops=[tmp_path]))
    x = numpy.zeros(1, 'float32')
    assert session(x) == 1
    assert len(session.time_steps(x)) >= 1
    assert session(x) == 3
