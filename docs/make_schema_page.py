#!/usr/bin/env python3
"""Writes docs/bench-schema.md from docs/bench.schema.json, docs/compare.schema.json and docs/conformance.schema.json.

usage: docs/make_schema_page.py [--check]

--check writes nothing; the exit status is 1 where the page is not what would be written, or a field has no
description.
"""
import json
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
PAGE = FOLDER / 'bench-schema.md'

HEAD = """# The documents of `gantry bench`, `compare` and `conformance --json`

What follows is written by `docs/make_schema_page.py` from [bench.schema.json](bench.schema.json),
[compare.schema.json](compare.schema.json) and [conformance.schema.json](conformance.schema.json) (JSON Schema, draft 2020-12), which the tests hold every document against.
Times are milliseconds, sizes bytes, shares numbers from 0 to 1. What is not known, or not shown by a machine, is `null`,
never 0 or `""`. Fields may be added within a schema version; gantry reads results of version 1 too, each as one process
of which nothing else is known.

A result is the measurement of several processes, one after another: each loads the module (`load_ms`), runs it once
(`first_inference_ms`), warms up until run times no longer change (`warm_up`), and is then sampled. The spread between
processes is what the interval of the median comes from: samples of one process tell nothing of the next.
"""


def type_text(schema):
    if 'const' in schema:
        return f"`{json.dumps(schema['const'])}`"
    if 'enum' in schema:
        return ', '.join(f'`{json.dumps(value)}`' for value in schema['enum'])
    kinds = schema['type'] if isinstance(schema['type'], list) else [schema['type']]
    names = []
    for kind in kinds:
        if kind == 'array':
            items = schema['items'].get('type', 'value')
            kind = f'list of {items}s'
        names.append(kind)
    return ' or '.join(names)


def rows(schema, prefix=''):
    """One row a field, nested ones under their path: `memory.io_bytes`, `processes[].load_ms`."""
    for name, field in schema['properties'].items():
        path = f'{prefix}{name}'
        if not field.get('description'):
            raise SystemExit(f'{path}: has no description')
        yield f"| `{path}` | {type_text(field)} | {field['description']} |"
        if 'properties' in field:
            yield from rows(field, f'{path}.')
        elif 'properties' in field.get('items', {}):
            yield from rows(field['items'], f'{path}[].')


def page():
    text = HEAD
    for title, name in (('A result', 'bench'), ('A comparison', 'compare'), ("A run of ONNX's tests", 'conformance')):
        schema = json.loads((FOLDER / f'{name}.schema.json').read_text(encoding='utf-8'))
        text += f'\n## {title}: `gantry {name} --json`\n\n| field | type | what it is |\n| --- | --- | --- |\n'
        text += '\n'.join(rows(schema)) + '\n'
    return text


def main():
    if sys.argv[1:] not in ([], ['--check']):
        raise SystemExit(__doc__)
    text = page()
    if not sys.argv[1:]:
        PAGE.write_text(text, encoding='utf-8')
    elif PAGE.read_text(encoding='utf-8') != text:
        raise SystemExit(f'{PAGE}: is not what the schemas say; run docs/make_schema_page.py')


if __name__ == '__main__':
    main()
