"""Pages and traces of what was measured."""
import json
import re

import numpy
import pytest

import gantry
import models

SHORT = {'processes': 2, 'repeat': 5, 'warmup': 1, 'threads': 1}


def data_of(page):
    """What a page shows."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text('utf-8'), re.S)[1])


def names_of(trace):
    return [event['name'] for event in json.loads(trace.read_text('utf-8'))['traceEvents']]


def tracks_of(trace):
    events = json.loads(trace.read_text('utf-8'))['traceEvents']
    return [event['args']['name'] for event in events if event['name'] == 'process_name']


@pytest.fixture(scope='module')
def measured():
    return gantry.bench(models.classifier(rows=4)[0], profile=True, **SHORT)


def test_a_page_has_the_result(measured, tmp_path):
    gantry.report(measured, output=tmp_path / 'page.html')
    data = data_of(tmp_path / 'page.html')
    assert [result['file'] for result in data['results']] == ['model']
    assert data['results'][0]['document'] == measured.to_dict()


def test_results_and_files_are_compared_on_one_page(measured, tmp_path):
    measured.save(tmp_path / 'r.json')
    gantry.report(measured, tmp_path / 'r.json', output=str(tmp_path / 'page.html'))
    data = data_of(tmp_path / 'page.html')
    assert [result['file'] for result in data['results']] == ['model, result 1', str(tmp_path / 'r.json')]
    assert len(data['comparisons']) == 2


def test_a_comparison_has_a_page(tmp_path):
    comparison = gantry.compare(models.relu(), models.relu(), rounds=3, threads=1)
    gantry.report(comparison, output=tmp_path / 'page.html')
    data = data_of(tmp_path / 'page.html')
    assert data['comparison']['ratio'] == comparison.ratio
    assert [len(result['document']['processes']) for result in data['results']] == [3, 3]
    comparison.save(tmp_path / 'c.json')
    with pytest.raises(gantry.InputError, match='given alone'):
        gantry.report(tmp_path / 'c.json', tmp_path / 'c.json', output=tmp_path / 'no.html')
    assert not (tmp_path / 'no.html').exists()


def test_what_is_no_result_is_refused(measured, tmp_path):
    with pytest.raises(gantry.InputError, match='no results'):
        gantry.report(output=tmp_path / 'page.html')
    with pytest.raises(gantry.InputError, match='type int is no result'):
        gantry.report(3, output=tmp_path / 'page.html')
    with pytest.raises(gantry.InputError, match='no path'):
        gantry.report(measured, output='')
    (tmp_path / 'other.json').write_text('{}')
    with pytest.raises(gantry.InputError, match='other.json'):
        gantry.report(tmp_path / 'other.json', output=tmp_path / 'page.html')
    assert not (tmp_path / 'page.html').exists()


def test_only_reports_are_replaced(measured, tmp_path):
    page = tmp_path / 'page.html'
    page.write_text('<!DOCTYPE html><p>mine')
    with pytest.raises(gantry.InputError, match='page.html'):
        gantry.report(measured, output=page)
    assert page.read_text().endswith('mine')
    for force in (True, False):
        gantry.report(measured, output=page, force=force)


def test_a_trace_of_compiling(tmp_path):
    gantry.compile(models.relu(), cache=False, trace=tmp_path / 'compile.json')
    assert tracks_of(tmp_path / 'compile.json') == ['gantry compile']
    gantry.compile(models.relu(), trace=tmp_path / 'compile.pftrace', output=tmp_path / 'm.gmod')
    assert (tmp_path / 'compile.pftrace').stat().st_size > 0
    gantry.compile(models.relu(), trace=tmp_path / 'compile.json', output=tmp_path / 'm.gmod')
    assert 'write the module' in names_of(tmp_path / 'compile.json')


def test_a_trace_of_measuring_has_samples_and_kernels(tmp_path):
    result = gantry.bench(models.relu(), profile=True, trace=tmp_path / 'bench.json', **SHORT)
    assert tracks_of(tmp_path / 'bench.json') == ['gantry bench', 'samples of model', 'kernels of model']
    assert set(kernel.document['symbol'] for kernel in result.kernels) - {None} <= set(names_of(tmp_path / 'bench.json'))


def test_a_trace_of_a_run_on_a_board(server, tmp_path):
    x = numpy.array([[1, -2, 3], [-4, 5, -6]], 'float32')
    board = gantry.Board(server[0], key=server[1])
    result = board.run(models.relu(), {'x': x}, trace=tmp_path / 'run.json')
    numpy.testing.assert_array_equal(result['y'], numpy.maximum(x, 0))
    assert tracks_of(tmp_path / 'run.json') == ['gantry run', 'kernels of model']
    board.bench(models.relu(), trace=tmp_path / 'bench.json', **SHORT)
    assert 'samples of model' in tracks_of(tmp_path / 'bench.json')


def test_traces_that_cannot_be_written_are_refused_before_any_work(tmp_path):
    for call in (lambda trace: gantry.compile(models.relu(), trace=trace),
                 lambda trace: gantry.bench(models.relu(), trace=trace, **SHORT)):
        with pytest.raises(gantry.InputError, match=r'end it in \.pftrace'):
            call(tmp_path / 'x.txt')
        with pytest.raises(gantry.InputError, match='no path'):
            call(3)
        (tmp_path / 'mine.json').write_text('{}')
        with pytest.raises(gantry.InputError, match='mine.json'):
            call(tmp_path / 'mine.json')
        assert (tmp_path / 'mine.json').read_text() == '{}'
