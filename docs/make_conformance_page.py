#!/usr/bin/env python3
"""Writes docs/conformance.md, and the table of README.md, from what `gantry conformance --json` wrote.

usage: docs/make_conformance_page.py RESULT.json [RESULT.json …] [--label FOLDER=TEXT …]

The first result is the table's, others (of the same tests, for other targets) get a column each. --label says what the
tests of a folder that was given to the command are called.
"""
import argparse
import collections
import json
import pathlib
import re

FOLDER = pathlib.Path(__file__).resolve().parent
PAGE, README = FOLDER / 'conformance.md', FOLDER.parent / 'README.md'
BEGIN, END = '<!-- conformance: docs/make_conformance_page.py -->', '<!-- end of conformance -->'
STATUSES = ['pass', 'wrong', 'unsupported', 'crash', 'timeout']

HEAD = """# ONNX's own tests

Written by `docs/make_conformance_page.py` from the results of

```
gantry conformance /usr/share/libonnx-testdata/data --json result.json --resume
```

and of the same command with newer releases' test data behind Debian's: where several folders have a test of the same
name, the last counts. Every test is run as it stands, in a process of its own: the model is imported without being told
shapes or values, compiled, run on the test's inputs, and compared with its outputs (a relative tolerance of 1e-3 and an
absolute one of 1e-7 unless the test has its own; integers, bools and strings exactly; shapes and element types too). A
model that is the body of an operator's function (`test_X_expanded`) counts in a row of its own. Code for AArch64 runs under
qemu-user (`--target cortex-a76`); cuda-emulated is a GPU's kernels on the CPU (`--device cuda-emulated`).
"""


# Why a result differs that is not meant to change.
NOTES = {
    r'test_bernoulli.*': "the data are draws of a generator's state that the node's seed does not give: the standard "
                         'leaves the generator open',
    r'test_dft_inverse(_opset19)?': 'the data have the error of a transform in f32, to 1.5e-6; where the exact result is 0, '
                                 'the tolerance is 1e-7',
    r'test_attention_.*(bf16|fp16).*': 'the data round to the narrow type at each step of softmax and products (those of '
                                       'test_attention_4d_causal_bf16 are up to 1 % from the exact result); here they are '
                                       'computed in f32 and rounded once',
}


def note_on(name):
    return next((note for pattern, note in NOTES.items() if re.fullmatch(pattern, name)), '')


def counts_of(tests):
    counts = collections.Counter(test['status'] for test in tests)
    return [counts[status] for status in STATUSES]


def row(cells):
    return '| ' + ' | '.join(str(cell) for cell in cells) + ' |\n'


def table(first, rows):
    text = row([first] + STATUSES) + row(['---'] + ['---:'] * len(STATUSES))
    for name, tests in rows:
        text += row([name] + [count or '' for count in counts_of(tests)])
    return text


def by_folder(document, labels):
    """Tests by the folder that was given, as it is called; the longest path that fits."""
    groups = {labels.get(folder, pathlib.Path(folder).name): [] for folder in document['folders']}
    for test in document['tests']:
        fits = [folder for folder in document['folders'] if test['folder'].startswith(folder)]
        folder = max(fits, key=len)
        groups[labels.get(folder, pathlib.Path(folder).name)].append(test)
    return list(groups.items())


def by_operator(document):
    operators = {test['name']: test['operator'] for test in document['tests']}
    groups = collections.defaultdict(list)
    for test in document['tests']:
        body = re.fullmatch(r'(.+)_expanded.*', test['name'])
        of = operators.get(body.group(1)) if body else None
        groups[f'{of} (expanded)' if of else test['operator']].append(test)
    return sorted(groups.items())


def target_of(document):
    settings = document['settings']
    return settings['target'] if settings['device'] == 'cpu' else settings['device']


def summary(documents, labels):
    text = table(f'tests of, for {target_of(documents[0])}',
                 by_folder(documents[0], labels) + [('all', documents[0]['tests'])])
    for document in documents[1:]:
        text += row([f'all, for {target_of(document)}'] + [count or '' for count in counts_of(document['tests'])])
    return text


def failures(documents):
    """Tests of the first result that fail, then those that fail for another target alone."""
    text, told = '', set()
    for document in documents:
        for test in document['tests']:
            if test['status'] in ('pass', 'unsupported') or test['name'] in told:
                continue
            told.add(test['name'])
            only = '' if document is documents[0] else f' ({target_of(document)} alone)'
            reason = test['reason'].split('\n')[0].replace('|', '\\|')
            text += row([f"`{test['name']}`{only}", test['status'], reason, note_on(test['name'])])
    head = '\n## Wrong, crashed, too slow\n\n| test | status | what | why |\n| --- | --- | --- | --- |\n'
    return head + text if text else ''


def page(documents, labels):
    text = HEAD + '\n' + summary(documents, labels)
    text += '\n## By operator\n\n' + table('operator', by_operator(documents[0]))
    text += failures(documents)
    reasons = collections.Counter(feature for test in documents[0]['tests'] for feature in test.get('features', []))
    if reasons:
        text += '\n## Not supported\n\n| tests | what |\n| ---: | --- |\n'
        for reason, tests in sorted(reasons.items(), key=lambda item: (-item[1], item[0])):
            text += row([tests, reason.replace('_', ' ').replace('|', '\\|')])
    return text


def short_table(document):
    """Three rows: operators all of whose tests pass, some, none."""
    rows = {'all': [], 'some': [], 'none': []}
    for name, tests in by_operator(document):
        if name.endswith('(expanded)') or name in ('several', 'none'):
            continue
        passing = counts_of(tests)[0]
        kind = 'all' if passing == len(tests) else 'some' if passing else 'none'
        rows[kind].append(name if kind != 'some' else f'{name} {passing}/{len(tests)}')
    text = '| tests that pass | operators |\n| --- | --- |\n'
    for kind, names in rows.items():
        if names:
            text += row([f'{kind} ({len(names)})', ', '.join(names)])
    return text


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split('usage: ')[1])
    parser.add_argument('results', nargs='+')
    parser.add_argument('--label', action='append', default=[])
    arguments = parser.parse_args()
    labels = dict(label.split('=', 1) for label in arguments.label)
    documents = [json.loads(pathlib.Path(path).read_text(encoding='utf-8')) for path in arguments.results]
    for path, document in zip(arguments.results, documents):
        if not document['complete']:
            raise SystemExit(f'{path}: is not complete; go on with --resume')
    PAGE.write_text(page(documents, labels), encoding='utf-8')
    text = README.read_text(encoding='utf-8')
    before, _, rest = text.partition(BEGIN + '\n')
    _, _, after = rest.partition(END)
    if not after:
        raise SystemExit(f'{README}: lacks the lines that say where the table goes')
    README.write_text(f'{before}{BEGIN}\n{summary(documents, labels)}\n{short_table(documents[0])}{END}{after}',
                      encoding='utf-8')


if __name__ == '__main__':
    main()
