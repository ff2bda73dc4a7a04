"""The Python of docs/python.md runs as it stands there."""
import os
import re
import subprocess

import pytest

import gantry

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')


def test_the_guides_examples_run(programs, server, tmp_path, monkeypatch, capsys):
    pytest.importorskip('torch')
    pytest.importorskip('pandas')
    with open(os.path.join(SOURCE, 'docs', 'python.md'), encoding='utf-8') as file:
        blocks = re.findall(r'```python\n(.*?)```', file.read(), re.S)
    assert len(blocks) >= 4
    monkeypatch.chdir(tmp_path)
    subprocess.run([*programs['gantry'], 'zoo', 'resnet18', '-o', 'resnet18.onnx'], check=True, capture_output=True)
    subprocess.run([*programs['gantry'], 'boards', 'add', 'pi', server[0], '--key', server[1]], check=True,
                   capture_output=True)
    names = {}
    for block in blocks:
        exec(compile(re.sub(r'duration=\d+', 'duration=1', block), 'docs/python.md', 'exec'), names)
    said = capsys.readouterr().out
    assert "input 'input': expected f32 (1, 3, 224, 224), got f64 (1, 3, 224, 224)" in said
    assert gantry.load('pi.gmod').targets == ('aarch64',)
