"""bench and compare on this machine: documents, rows, errors."""
import json
import os
import signal
import subprocess
import sys
import threading

import numpy
import pytest

import gantry
import models

SHORT = {'processes': 2, 'repeat': 12, 'warmup': 1}


@pytest.fixture(scope='module')
def measured():
    return gantry.bench(models.classifier(rows=4)[0], profile=True, **SHORT)


def test_bench_measures_a_model_and_says_so(measured):
    assert measured.board == 'local' and measured.device == 'cpu' and measured.model == 'model'
    assert measured.target == gantry.compile(models.relu()).target
    assert [len(process.samples_ms) for process in measured.processes] == [12, 12]
    samples = [ms for process in measured.processes for ms in process.samples_ms]
    # Of those that others did not disturb, which on a busy machine are not all.
    assert measured.min_ms in samples and measured.min_ms <= measured.median_ms
    assert measured.min_ms <= measured.mean_ms <= max(samples)
    assert measured.memory['weights_bytes'] > 4 * 64 * 96
    assert str(measured).startswith('model on local')


def test_its_document_is_the_programs(measured):
    jsonschema = pytest.importorskip('jsonschema')
    document = measured.to_dict()
    path = os.path.join(os.path.dirname(__file__), '..', '..', 'docs', 'bench.schema.json')
    with open(path, encoding='utf-8') as file:
        jsonschema.validate(document, json.load(file))


def test_rows_are_ready_for_tables(measured):
    rows = measured.rows()
    assert len(rows) == 24 and rows[13]['process'] == 1 and rows[13]['sample'] == 1
    assert rows[13]['ms'] == measured.processes[1].samples_ms[1]
    kernels = measured.kernel_rows()
    assert len(kernels) == len(measured.kernels) > 0
    times = [kernel.ms for kernel in measured.kernels]
    assert times == sorted(times, reverse=True)
    assert sum(kernel.share for kernel in measured.kernels) == pytest.approx(1)
    pandas = pytest.importorskip('pandas')
    frame = measured.to_frame()
    assert isinstance(frame, pandas.DataFrame) and frame.groupby('process').ms.count().tolist() == [12, 12]
    assert list(measured.to_frame('kernels').name) == [kernel.name for kernel in measured.kernels]


def test_without_pandas_it_says_what_is_missing(measured, monkeypatch):
    monkeypatch.setitem(sys.modules, 'pandas', None)
    with pytest.raises(gantry.InputError, match='pip install pandas'):
        measured.to_frame()


def test_results_are_saved_and_read(measured, tmp_path):
    measured.save(tmp_path / 'result.json')
    assert gantry.BenchResult.load(tmp_path / 'result.json') == measured
    measured.save(tmp_path / 'result.json')
    (tmp_path / 'relu.onnx').write_bytes(models.relu())
    with pytest.raises(gantry.InputError, match='not a result of bench'):
        measured.save(tmp_path / 'relu.onnx')
    measured.save(tmp_path / 'relu.onnx', force=True)
    (tmp_path / 'other.json').write_text('{}')
    with pytest.raises(gantry.InputError, match='other.json: is no result'):
        gantry.BenchResult.load(tmp_path / 'other.json')


def test_damaged_results_are_input_errors(measured, tmp_path):
    document = measured.to_dict()
    del document['board']
    (tmp_path / 'cut.json').write_text(json.dumps(document))
    with pytest.raises(gantry.InputError, match="cut.json: is damaged: it has no field 'board'"):
        gantry.BenchResult.load(tmp_path / 'cut.json')


def test_what_it_says_is_what_is_known(measured):
    document = {**measured.to_dict(), 'median_ms': 2.0, 'interval_ms': [1.9, 2.1]}
    place = f"model on local ({document['target']}): "
    assert str(gantry.BenchResult.from_dict(document)) == place + '2 ms, 95 % confidence 1.9 to 2.1'
    document['interval_ms'] = [0.1, 40.0]
    assert str(gantry.BenchResult.from_dict(document)) == place + '2 ms, 95 % confidence no better than ±100 %'
    document.update(interval_ms=None, runs_per_second=900.0, runs_per_second_interval=[880.0, 920.0],
                    options={**document['options'], 'streams': 2})
    streams = gantry.BenchResult.from_dict(document)
    assert streams.runs_per_second_interval == (880.0, 920.0)
    assert str(streams) == place + '900 runs/s, 95 % confidence 880 to 920, median latency 2 ms'


def test_modules_and_arrays_are_measured_as_given():
    module = gantry.compile(models.two_outputs())
    x = numpy.ones((5, 4), 'float32')
    result = gantry.bench(module, inputs={'a': x, 'b': x}, **SHORT)
    inputs = result.to_dict()['inputs']
    assert [(entry['name'], entry['shape']) for entry in inputs] == [('a', [5, 4]), ('b', [5, 4])]
    assert result.to_dict()['module_digest'] == module.digest
    with pytest.raises(gantry.InputError, match="no input 'c'"):
        gantry.bench(module, inputs={'c': x}, **SHORT)
    with pytest.raises(gantry.InputError, match='compiled already'):
        gantry.bench(module, precision='bf16', **SHORT)


def test_made_up_inputs_fit_those_given():
    x = numpy.ones((5, 4), 'float32')
    result = gantry.bench(models.two_outputs(), inputs={'a': x}, **SHORT)
    assert [entry['shape'] for entry in result.to_dict()['inputs']] == [[5, 4], [5, 4]]


def inputs_of(document):
    return [entry['name'] for entry in document['inputs']]


def test_inputs_that_have_a_default_can_be_kept():
    model = models.default_input()
    assert inputs_of(gantry.bench(model, **SHORT).to_dict()) == ['x']
    assert inputs_of(gantry.bench(model, keep_inputs=['w'], **SHORT).to_dict()) == ['x', 'w']
    w = numpy.ones(3, 'float32')
    assert inputs_of(gantry.bench(model, inputs={'w': w}, **SHORT).to_dict()) == ['x', 'w']
    with pytest.raises(gantry.InputError, match="--keep-input v: model has no input 'v'"):
        gantry.bench(model, keep_inputs=['v'], **SHORT)
    with pytest.raises(gantry.InputError, match='keep_inputs: is no list of names'):
        gantry.bench(model, keep_inputs='w', **SHORT)
    with pytest.raises(gantry.InputError, match='compiled already.*leave out --keep-input'):
        gantry.bench(gantry.compile(model), keep_inputs=['w'], **SHORT)


def test_compare_keeps_inputs_of_both_sides_or_of_one():
    model = models.default_input()
    both = gantry.compare(model, model, keep_inputs=['w'], rounds=3, warmup=1)
    assert both.second == 'model'
    one = gantry.compare(model, model, second_options={'keep_inputs': ['w']}, rounds=3, warmup=1)
    assert one.second == "model keep_inputs=['w']"
    with pytest.raises(gantry.InputError, match="has no input 'v'"):
        gantry.compare(model, model, second_options={'keep_inputs': ['v']}, rounds=3, warmup=1)


def test_compare_measures_in_turns_and_compares_results(measured, tmp_path):
    data = models.classifier(rows=4)[0]
    found = gantry.compare(data, data, second_options={'opt': 0}, rounds=3, warmup=1)
    assert found.verdict in ('faster', 'slower', 'same', 'not shown')
    assert found.interval[0] <= found.ratio <= found.interval[1]
    assert found.second == 'model opt=0'
    assert [row['side'] for row in found.rows()] == ['first', 'second']
    apart = gantry.compare(measured, measured)
    assert apart.ratio == pytest.approx(1) and apart.to_dict()['interleaved'] is False
    measured.save(tmp_path / 'a.json')
    assert gantry.compare(str(tmp_path / 'a.json'), measured).ratio == apart.ratio
    with pytest.raises(gantry.InputError, match='a result can only be compared with a result'):
        gantry.compare(measured, data)
    for option in ({'threads': 2}, {'rounds': 3}, {'warmup': 0}, {'cold': True}, {'duration': 5}, {'key': 'pi.key'},
                   {'on': 'pi'}, {'second_options': {'opt': 0}}):
        with pytest.raises(gantry.InputError, match=f'measured already.*leave out {next(iter(option))}$'):
            gantry.compare(measured, measured, **option)
    assert gantry.compare(measured, measured, cold=False, first_options={}).ratio == apart.ratio


def test_what_compare_cannot_take_is_an_input_error():
    data = models.relu()
    with pytest.raises(gantry.InputError, match='on=3: is neither a gantry.Board nor'):
        gantry.compare(data, data, on=3)
    for options in (3, 'opt'):
        with pytest.raises(gantry.InputError, match='second_options: is of type .* not a dict of options of one side'):
            gantry.compare(data, data, second_options=options)


def test_arrays_of_one_side_are_called_by_their_names():
    x = numpy.ones((2, 3), 'float32')
    found = gantry.compare(models.relu(), models.relu(), second_options={'inputs': {'x': x}}, rounds=3, warmup=1)
    assert found.second == "model inputs=['x']"


def test_an_option_that_nobody_knows_is_a_type_error():
    with pytest.raises(TypeError, match="bench\\(\\) got an unexpected keyword argument 'repeats'; did you mean 'repeat'"):
        gantry.bench(models.relu(), repeats=3)
    with pytest.raises(TypeError, match='oops'):
        gantry.compare(models.relu(), models.relu(), second_options={'oops': 3})


def test_ctrl_c_ends_a_measurement():
    code = ("import gantry, models, sys\n"
            "data = models.relu()\n"
            "print('ready', flush=True)\n"
            "try:\n"
            "    gantry.bench(data, duration=300, precision_goal=1e-6)\n"
            "except KeyboardInterrupt:\n"
            "    sys.exit(5)\n")
    process = subprocess.Popen([sys.executable, '-c', code], stdout=subprocess.PIPE, text=True,
                               env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)})
    assert process.stdout.readline() == 'ready\n'
    timer = threading.Timer(1, process.send_signal, [signal.SIGINT])
    timer.start()
    assert process.wait(timeout=60) == 5
    timer.join()
    process.stdout.close()
