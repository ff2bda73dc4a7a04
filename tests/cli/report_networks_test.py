#!/usr/bin/env python3
"""Measures well-known networks, here and on an emulated board, and holds what their pages show in Chromium against their results.

usage: report_networks_test.py GANTRY AARCH64_GANTRY_DEVICE [TEST …]

Skipped by name where there is no Chromium, no driver of it, no selenium (Debian: chromium chromium-driver
python3-selenium), or, of the emulated board alone, no qemu-aarch64 or board program for it.
"""
import collections
import json
import os
import pathlib
import re
import shutil
import sys
import time
import unittest

from program_under_test import board
from report_browser import PageTest, number, rounded_alike

try:
    from selenium.webdriver.common.keys import Keys
except ImportError:
    pass  # skipped

GANTRY, AARCH64 = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
QUICK = ('--processes', '2', '--repeat', '3', '--warmup', '1')
# A folder for pictures of the pages, in the light, in the dark and on a phone, for somebody to look at.
PICTURES = os.environ.get('GANTRY_REPORT_PICTURES')
UNITS = {'B': 1, 'KiB': 1 << 10, 'MiB': 1 << 20, 'GiB': 1 << 30}


def bytes_of(text):
    """'1.50 MiB' -> 1572864"""
    return number(text) * UNITS[re.search(r'[KMG]?i?B', text).group()]


class Networks(PageTest):
    GANTRY = GANTRY

    def measure(self, network, *options, name=None):
        """The result of a short profile; its page is open afterwards."""
        model, result = f'{network}.onnx', f'{name or network}.json'
        if not (self.folder / model).exists():
            self.gantry('zoo', network, '-o', model, *self.SIZES[network])
        self.gantry('profile', model, '--json', result, *QUICK, *options)
        return json.loads((self.folder / result).read_text(encoding='utf-8'))

    # Smaller inputs than usual: the same layers and kernels in less time.
    SIZES = {'resnet50': ('--size', '96'), 'bert_base': ('--size', '16'), 'squeezenet1_1': ('--size', '64'),
             'mobilenet_v2': ('--size', '64')}

    def assert_shows(self, document):
        """Every part of the page has the figures of the document."""
        rounded_alike(self, self.text('#median'), self.in_unit('#median', document['median_ms']), 4)
        self.assert_kernels(document)
        self.assert_roofs(document)
        self.assert_memory(document['program'])
        steps = document['program']['steps']
        self.assertEqual(len(self.all('#graph .node.step')), len(steps))
        self.assertEqual(self.one('#graph-view').get_attribute('data-layout'), 'dagre')

    def assert_kernels(self, document):
        self.set('#kernel-top', '0')
        kernels = sorted(document['kernels'], key=lambda kernel: -kernel['total_ms'])
        unit = self.text('#kernel-table th[data-column="time"]').split(', ')[1].strip()
        scale = {'ns': 1e6, 'µs': 1e3, 'ms': 1, 's': 1e-3}[unit]
        shown = self.column('time')
        self.assertEqual(len(shown), len(kernels))
        last_digit = 10 ** -len(shown[0].partition('.')[2])
        for text, kernel in zip(shown, kernels):
            self.assertAlmostEqual(number(text), kernel['total_ms'] * scale, delta=0.51 * last_digit, msg=kernel['symbol'])
        total = number(self.texts('#kernel-table tfoot tr:last-child td[data-column="time"]')[0])
        self.assertAlmostEqual(total, sum(kernel['total_ms'] for kernel in kernels) * scale, delta=0.51 * last_digit * len(kernels))
        self.assertAlmostEqual(total, sum(map(number, shown)), delta=0.1 * last_digit)
        for text, kernel in zip(self.column('share'), kernels):
            self.assertAlmostEqual(number(text), 100 * kernel['share'], delta=0.051)

    def assert_roofs(self, document):
        drawn = sum(1 for kernel in document['kernels'] if kernel['flops'] > 0 and kernel['bytes'] > 0 and kernel['total_ms'] > 0)
        self.assertEqual(len(self.all('.roof-dot')), drawn)
        peaks, text = document['peaks'], self.text('#roofline-chart')
        for field, pattern in (('gflop_per_s', r'peak ([\d,.]+) GFLOP/s'), ('gb_per_s', r'memory ([\d,.]+) GB/s')):
            rounded_alike(self, re.search(pattern, text).group(1), peaks[field])
        # "of roof" is the least time that these two allow, by the document's own operations and traffic.
        worst = max(document['kernels'], key=lambda kernel: kernel['total_ms'])
        least_ms = max(worst['flops'] / peaks['gflop_per_s'], worst['bytes'] / peaks['gb_per_s']) / 1e6
        self.assertAlmostEqual(number(self.column('roof')[0]), 100 * least_ms / worst['total_ms'], delta=0.51)

    def assert_memory(self, program):
        planned, bound = re.search(r'workspace: (.*?) planned, (.*?) at least', self.text('.memory-summary')).groups()
        self.assertAlmostEqual(bytes_of(planned) / program['workspace_bytes'], 1, delta=0.0051)
        self.assertAlmostEqual(bytes_of(bound) / program['workspace_bound_bytes'], 1, delta=0.0051)
        # The bound by its definition: the most that lives at one step.
        living = collections.Counter()
        placed = [value for value in program['values'] if value['kind'] == 'workspace' and value['offset'] is not None]
        for value in placed:
            for step in range(value['first_step'], (value['first_step'] if value['last_step'] is None else value['last_step']) + 1):
                living[step] += value['bytes']
        self.assertLessEqual(max(living.values()), program['workspace_bound_bytes'])
        self.assertEqual(len(self.all('.lifetime')), len(placed))
        ticks = [int(text[1:]) for text in self.texts('#memory text') if re.fullmatch(r'#\d+', text)]
        self.assertTrue(ticks)
        self.assertLess(max(ticks), len(program['steps']), 'a step that is not')

    def assert_works(self, document):
        """It can be clicked, sorted, searched and zoomed."""
        self.click('#kernel-table th[data-column="gbs"] button')
        rates = [number(text) for text in self.column('gbs')]
        self.assertEqual(rates, sorted(rates, reverse=True))
        step = int(self.script('return document.querySelector("#kernel-table tbody tr").dataset.step'))
        self.click('#kernel-table tbody tr')
        self.assertIn(f'#{step}', self.text('#kernel-table tr.details'))
        self.assertIn('chosen', self.one(f'#graph .node[data-step="{step}"]').get_attribute('class'))
        node = next(kernel for kernel in document['kernels'] if kernel['step'] == step)['nodes'][0]
        self.click('#kernel-search')
        self.one('#kernel-search').send_keys(node)
        self.assertGreaterEqual(len(self.column('name')), sum(1 for kernel in document['kernels'] if node in kernel['nodes']))
        self.assertLess(len(self.column('name')), len(document['kernels']))
        self.assertTrue(self.all(f'#kernel-table tr[data-step="{step}"]'))
        self.one('#kernel-search').send_keys(Keys.CONTROL, 'a', Keys.DELETE)
        for box, view in (('#timeline', '#timeline-canvas'), ('#memory', '.memory-map'), ('#graph', '#graph-view')):
            before = float(self.one(view).get_attribute('data-zoom') or 1)
            self.click(f'{box} .zoom button')
            self.assertGreater(float(self.one(view).get_attribute('data-zoom')), before, view)
        self.assertTrue(self.script('return document.documentElement.scrollWidth <= document.documentElement.clientWidth'))
        self.assert_quiet()

    def set(self, selector, value):
        self.script('const list = document.querySelector(arguments[0]); list.value = arguments[1]; '
                    'list.dispatchEvent(new Event("change"))', selector, value)

    def picture(self, name):
        """The whole page as it is, and in the dark, and on a phone."""
        if not PICTURES:
            return
        for kind, width, scheme in (('light', 1280, 'light'), ('dark', 1280, 'dark'), ('phone', 390, 'light')):
            self.size(width, 900, mobile=kind == 'phone')
            self.colours(scheme)
            self.show(self.page)
            height = min(self.script('return document.documentElement.scrollHeight'), 9000)
            self.size(width, height, mobile=kind == 'phone')
            self.script('scrollTo(0, 0)')
            time.sleep(1)
            self.browser.save_screenshot(os.path.join(PICTURES, f'{name}-{kind}.png'))
        print(f'{name}: {(self.folder / self.page).stat().st_size} bytes', file=sys.stderr)

    def open_page_of(self, *results):
        self.page = f'{results[0]}.html'
        self.gantry('report', *(f'{result}.json' for result in results), '-o', self.page, '--force')
        self.show(self.page)

    def test_resnet50(self):
        document = self.measure('resnet50')
        self.open_page_of('resnet50')
        self.assert_shows(document)
        self.assert_works(document)
        self.picture('resnet50')

    def test_bert_base(self):
        document = self.measure('bert_base')
        self.open_page_of('bert_base')
        self.assertEqual(self.column('form') != [], any('[' in kernel['name'] for kernel in document['kernels']))
        self.assert_shows(document)
        self.assert_works(document)
        self.picture('bert_base')

    def test_an_emulated_board(self):
        qemu = shutil.which('qemu-aarch64')
        if not (AARCH64.exists() and qemu):
            self.skipTest('no AArch64 gantry-device or no qemu-aarch64')
        with board([qemu, AARCH64], self.folder) as address:
            document = self.measure('squeezenet1_1', '--on', address, '--threads', '1', name='board')
        self.open_page_of('board')
        self.assertIn('aarch64', self.text('#head'))
        self.assert_shows(document)
        self.assert_works(document)
        self.picture('board')

    def test_two_results(self):
        first = self.measure('mobilenet_v2', '--opt', '1', name='first')
        second = self.measure('mobilenet_v2', name='second')
        self.open_page_of('first', 'second')
        sums = [sum(kernel['total_ms'] for kernel in document['kernels']) for document in (first, second)]
        unit = re.search(r', (ns|µs|ms|s)', self.text('#difference-table th[data-column="a"]')).group(1)
        scale = {'ns': 1e6, 'µs': 1e3, 'ms': 1, 's': 1e-3}[unit]
        for column, total in zip(('a', 'b'), sums):
            shown = self.texts(f'#difference-table tbody td[data-column="{column}"]')
            self.assertAlmostEqual(sum(number(text) for text in shown if text != '–') / (total * scale), 1, delta=0.005)
        compared = json.loads(self.gantry('compare', 'first.json', 'second.json', '--json', '--quiet').stdout)
        self.assertEqual(self.one('#verdict').get_attribute('data-verdict'), compared['verdict'])
        self.assertIn(f'ratio {compared["ratio"]:.4f}', self.text('#verdict'))
        self.assert_shows(first)
        self.assert_quiet()
        self.picture('two')


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
