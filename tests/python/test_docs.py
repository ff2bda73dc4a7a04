"""The Python of docs/python.md and docs/tensor-expressions.md runs as it stands there."""
import os
import re
import subprocess

import pytest

import gantry

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')


def run_page(page):
    """Its Python blocks one after another, measuring for a second each time."""
    with open(os.path.join(SOURCE, 'docs', page), encoding='utf-8') as file:
        blocks = re.findall(r'```python\n(.*?)```', file.read(), re.S)
    assert len(blocks) >= 4
    names = {}
    for block in blocks:
        exec(compile(re.sub(r'duration=\d+', 'duration=1', block), page, 'exec'), names)


def test_the_guides_examples_run(programs, server, tmp_path, monkeypatch, capsys):
    pytest.importorskip('torch')
    pytest.importorskip('pandas')
    monkeypatch.chdir(tmp_path)
    subprocess.run([*programs['gantry'], 'zoo', 'resnet18', '-o', 'resnet18.onnx'], check=True, capture_output=True)
    subprocess.run([*programs['gantry'], 'boards', 'add', 'pi', server[0], '--key', server[1]], check=True,
                   capture_output=True)
    run_page('python.md')
    said = capsys.readouterr().out
    assert "input 'input': expected f32 (1, 3, 224, 224), got f64 (1, 3, 224, 224)" in said
    assert gantry.load('pi.gmod').targets == ('aarch64',)


def test_the_guide_to_tensor_expressions_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_page('tensor-expressions.md')
    said = capsys.readouterr().out
    assert 'reads bias at i0 + 120, which reaches 129, but dimension 0 has the indices 0 to 127' in said
    assert gantry.load('dense.gmod').targets == ('aarch64',)
