#!/usr/bin/env python3
"""Opens pages of `gantry report` and `gantry inspect --html` in Chromium, clicks, types, zooms, and reads figures back.

usage: report_page_test.py GANTRY [TEST …]

Skipped by name where there is no Chromium, no driver of it, or no selenium (Debian: chromium chromium-driver python3-selenium).
"""
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import threading
import time
import unittest

import report_samples
from report_browser import PageTest, number, rounded_alike

try:
    from selenium.webdriver.common.keys import Keys
except ImportError:
    pass  # skipped

GANTRY = pathlib.Path(sys.argv[1]).resolve()
HOSTILE = '</script><img src=x onerror="document.title=\'owned\'"><!--\u2028 &lt; {{data}}'


class Page(PageTest):
    GANTRY = GANTRY

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.gantry('zoo', 'lstm', '--size', '5', '-o', 'lstm.onnx')
        cls.gantry('profile', 'lstm.onnx', '--json', 'measured.json', '--processes', '2', '--repeat', '20', '--warmup', '1',
                   '--threads', '1')
        cls.measured = json.loads((cls.folder / 'measured.json').read_text(encoding='utf-8'))

    # What is measured is what is shown.

    def test_figures_are_those_of_the_document(self):
        self.open(self.measured)
        self.assertEqual(self.text('#title'), 'lstm.onnx')
        rounded_alike(self, self.text('#median'), self.in_unit('#median', self.measured['median_ms']), 4)
        for field, ms in (('min_ms', self.measured['min_ms']), ('mean_ms', self.measured['mean_ms'])):
            rounded_alike(self, self.text(f'[data-field="{field}"] dd'), self.in_unit(f'[data-field="{field}"] dd', ms))
        rounded_alike(self, self.text('[data-field="runs_per_second"] dd'), self.measured['runs_per_second'])
        self.assertEqual(number(self.text('[data-field="sample_count"] dd')), self.measured['sample_count'])
        self.assertIn('gantry', self.text('#command'))
        for warning in self.measured['warnings']:
            self.assertIn(warning.replace('`', ''), self.text('#warnings'))
        self.assert_quiet()

    def test_commands_in_warnings_are_shown_as_such(self):
        document = dict(report_samples.large(4), warnings=['run `gantry bench` again', 'a lone ` of a name stays'])
        self.open(document, document)
        self.assertEqual(self.texts('#warnings li'), ['run gantry bench again', 'a lone ` of a name stays'])
        self.assertEqual(self.texts('#warnings li code'), ['gantry bench'])
        self.assertIn('gantry compare', self.texts('#differences li code'))
        self.assertNotIn('`', self.text('#differences'))
        self.assert_quiet()

    def test_load_of_a_short_measurement_is_not_said_to_be_hidden(self):
        document = report_samples.large(4)
        for process in document['processes']:
            process['readings'] = [dict(reading, others_share=None, steal_share=None, power_watts=None) for reading in process['readings']]
        self.open(document)
        self.assertEqual(self.texts('#samples .missing'), [
            'Not shown by this machine: power.', 'Not known, since every process was sampled for less than 200 ms: other load.'])
        document['processes'][0]['readings'][-1]['at_ms'] = 300
        self.open(document)
        self.assertEqual(self.texts('#samples .missing'), ['Not shown by this machine: power, other load.'])
        self.assert_quiet()

    def test_kernels_are_those_of_the_document_and_add_up(self):
        document = report_samples.with_everything(self.measured)
        self.open(document)
        heading = self.text('#kernel-table th[data-column="time"]')
        unit = {'ns': 1e6, 'µs': 1e3, 'ms': 1, 's': 1e-3}[heading.split(', ')[1].strip()]
        kernels = sorted(document['kernels'], key=lambda kernel: -kernel['total_ms'])
        shown = [float(text) for text in self.column('time')]
        decimals = len(self.column('time')[0].split('.')[1])
        self.assertEqual(len(shown), len(kernels))
        for time_shown, kernel in zip(shown, kernels):
            self.assertAlmostEqual(time_shown, kernel['total_ms'] * unit, delta=0.51 * 10 ** -decimals)
        total = float(self.texts('#kernel-table tfoot tr:last-child td[data-column="time"]')[0])
        self.assertAlmostEqual(total, sum(shown), delta=1e-9 + 1e-6 * total)
        for text, kernel in zip(self.column('gflops'), kernels):
            if kernel['gflop_per_s'] and kernel['gflop_per_s'] > 1e-3:
                rounded_alike(self, text, kernel['gflop_per_s'])
        for text, kernel in zip(self.column('share'), kernels):
            self.assertAlmostEqual(number(text), 100 * kernel['share'], delta=0.051)
        self.assertEqual(self.column('sum')[-1], '100.0 %')
        self.assert_quiet()

    def test_samples_beside_a_high_pulse_are_marked(self):
        document = report_samples.large(10)
        self.open(document)
        dots = self.script('return Array.from(document.querySelectorAll(".dots"), '
                           'path => [path.classList.contains("disturbed"), path.getAttribute("d").split("M").length - 1])')
        self.assertEqual(dict((disturbed, count) for disturbed, count in dots), {False: 6 * 23, True: 6 * 2})
        for process in document['processes']:
            for added_later in ('pulses', 'disturbed', 'used_samples'):
                del process[added_later]
        self.open(document)
        self.assertEqual(self.all('.dots.disturbed'), [])
        self.assert_quiet()

    def test_an_interval_wider_than_the_time_is_not_shown_as_figures(self):
        document = report_samples.large(10)
        document['interval_ms'] = [document['median_ms'] / 70, document['median_ms'] * 70]
        self.open(document, document)
        self.assertEqual(self.text('#interval'), '95 % interval: no better than ±100 %')
        last = self.texts('#differences .axis text:not(.title)')[-1]
        self.assertLess(number(last), 2 * number(self.text('#median')))
        self.assert_quiet()

    def test_streams_are_judged_by_what_they_do_together(self):
        document = report_samples.large(10)
        document['options']['streams'] = 4
        document.update(interval_ms=None, runs_per_second=800.0, runs_per_second_interval=[790.0, 810.0])
        self.open(document)
        self.assertEqual(self.text('#throughput'), '800 /s')
        self.assertEqual(self.text('#interval'), '95 % interval 790 /s to 810 /s (±1.3 %)')
        rounded_alike(self, self.text('[data-field="median_ms"] dd'), self.in_unit('[data-field="median_ms"] dd', document['median_ms']))
        self.assertNotIn('Kernels take', self.text('#kernels'))
        self.assert_quiet()

    # What one does with it.

    def test_kernels_are_sorted_searched_and_summed(self):
        self.open(report_samples.large(60))
        self.click('#kernel-table th[data-column="gflops"] button')
        values = [number(text) for text in self.column('gflops')]
        self.assertEqual(values, sorted(values, reverse=True))
        self.click('#kernel-table th[data-column="gflops"] button')
        values = [number(text) for text in self.column('gflops')]
        self.assertEqual(values, sorted(values))
        self.assertEqual(self.one('#kernel-table th[data-column="gflops"]').get_attribute('aria-sort'), 'ascending')
        self.assertIn('others: 10', self.text('#kernel-table tfoot'))
        self.script('document.querySelector("#kernel-top").value = "0"; '
                    'document.querySelector("#kernel-top").dispatchEvent(new Event("change"))')
        self.assertEqual(len(self.column('name')), 60)
        self.click('#kernel-search')
        self.one('#kernel-search').send_keys('layer_7 ')
        self.assertEqual(self.column('name'), ['kernel_7'])
        self.assertIn('found: 1 of 60', self.text('#kernel-table tfoot'))
        self.one('#kernel-search').send_keys(Keys.CONTROL, 'a', Keys.DELETE)
        self.click('input[name="kernels-by"][value="type"] + span')
        self.assertEqual(sorted(self.column('name')), sorted(report_samples.TYPES))
        self.assertEqual(sum(int(text) for text in self.column('step')), 60)
        self.assert_quiet()

    def test_a_kernel_opens_and_is_marked_in_every_part(self):
        document = report_samples.with_everything(self.measured)
        self.open(document)
        step = document['kernels'][0]['step']
        self.click(f'#kernel-table tr[data-step="{step}"]')
        self.assertIn(f'#{step}', self.text('#kernel-table tr.details'))
        self.assertIn('chosen', self.one(f'.node[data-step="{step}"]').get_attribute('class'))
        self.assertIn(document['program']['steps'][step]['name'], self.text('#graph-panel'))
        self.assert_quiet()

    def test_roofline_dots_lead_to_their_kernels(self):
        document = report_samples.large(30)
        self.open(document)
        dots = self.all('.roof-dot')
        self.assertEqual(len(dots), sum(1 for kernel in document['kernels'] if kernel['flops'] > 0))
        step = dots[0].get_attribute('data-step')
        self.script('arguments[0].dispatchEvent(new MouseEvent("click", {bubbles: true}))', dots[0])
        self.assertIn('chosen', self.one(f'#kernel-table tr[data-step="{step}"]').get_attribute('class'))
        self.assertTrue(self.all('.roof'))
        self.assert_quiet()

    def test_roofs_of_a_busy_machine_are_said_to_be(self):
        document = report_samples.large(30)
        self.open(document)
        self.assertIn(f'They are too low: while they were measured, {document["peaks"]["busy"]}.', self.text('#roofline'))
        document['peaks'] = dict(document['peaks'], busy=None)
        self.open(document)
        self.assertNotIn('too low', self.text('#roofline'))

    def test_timeline_and_graph_zoom_by_buttons_and_keys(self):
        self.open(report_samples.large(30))
        for box, view in (('#timeline', '#timeline-canvas'), ('#graph', '#graph-view')):
            with self.subTest(view):
                before = float(self.one(view).get_attribute('data-zoom') or 1)
                self.click(f'{box} .zoom button')
                nearer = float(self.one(view).get_attribute('data-zoom'))
                self.assertGreater(nearer, before)
                self.script('document.querySelector(arguments[0]).focus()', view)
                self.browser.switch_to.active_element.send_keys('-')
                self.assertLess(float(self.one(view).get_attribute('data-zoom')), nearer)
        self.assert_quiet()

    def test_graph_has_every_step_and_finds_nodes(self):
        document = report_samples.large(30)
        self.open(document)
        self.assertEqual(len(self.all('#graph .node.step')), 30)
        self.assertEqual(self.one('#graph-view').get_attribute('data-layout'), 'dagre')
        places = self.script('return Array.from(document.querySelectorAll("#graph .node"), node => node.getAttribute("transform"))')
        self.assertEqual(len(set(places)), len(places), 'nodes lie on each other')
        self.click('#graph-search')
        self.one('#graph-search').send_keys('layer_12', Keys.ENTER)
        self.assertEqual(self.script('return document.querySelector("#graph .node.chosen").dataset.step'), '12')
        self.assertIn('kernel_12', self.text('#graph-panel'))
        self.assertIn('nn.conv(%12', self.text('#graph-panel'))
        self.assert_quiet()

    def test_memory_map_shows_every_value_at_its_place(self):
        document = report_samples.large(30)
        self.open(document)
        placed = [value for value in document['program']['values'] if value['offset'] is not None]
        self.assertEqual(len(self.all('.lifetime')), len(placed))
        boxes = self.script('return Array.from(document.querySelectorAll(".lifetime"), '
                            'node => [Number(node.dataset.value), node.x.baseVal.value, node.y.baseVal.value, node.height.baseVal.value])')
        by_id = {value['id']: value for value in placed}
        scale = {round(height / by_id[number_]['bytes'], 9) for number_, _, _, height in boxes if height > 20}
        self.assertEqual(len(scale), 1, 'heights are not proportional to sizes')
        self.assertEqual(len({value['first_step'] for value in placed}), len({x for _, x, _, _ in boxes}))
        self.assertEqual(len(self.all('.limit')), 2)
        self.assert_quiet()

    def test_hints_are_reached_by_pointer_and_keyboard(self):
        self.open(self.measured)
        self.script('document.querySelector("[data-field=\\"mean_ms\\"] .hint").focus()')
        self.assertFalse(self.one('#tip').get_attribute('hidden'))
        self.assertIn('of all samples', self.text('#tip'))
        self.browser.switch_to.active_element.send_keys(Keys.ESCAPE)
        self.assertTrue(self.one('#tip').get_attribute('hidden'))

    def test_keyboard_goes_through_the_table(self):
        self.open(report_samples.large(30))
        self.one('body').send_keys('/')
        self.assertEqual(self.browser.switch_to.active_element.get_attribute('id'), 'kernel-search')
        self.script('document.querySelector("#kernel-table tbody tr").focus()')
        self.browser.switch_to.active_element.send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN)
        focused = self.browser.switch_to.active_element.get_attribute('data-step')
        self.browser.switch_to.active_element.send_keys(Keys.ENTER)
        self.assertIn(f'#{focused}', self.text('#kernel-table tr.details'))
        self.script('document.querySelector("#sample-charts").focus()')
        self.browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
        self.assertIn('sample 1', self.text('#tip'))
        self.assert_quiet()

    def test_dark_and_light(self):
        ground = 'return getComputedStyle(document.body).backgroundColor'
        self.open(self.measured)
        light = self.script(ground)
        self.click('#theme')
        dark = self.script(ground)
        self.assertNotEqual(light, dark)
        self.one('body').send_keys('t')
        self.assertEqual(self.script(ground), light)
        self.colours('dark')
        self.show('page.html')
        self.assertEqual(self.script(ground), dark)

    def test_a_phone_has_no_horizontal_scroll(self):
        self.size(390, 840, mobile=True)
        self.open(report_samples.large(30), report_samples.large(30, factor=1.5))
        self.assertEqual(self.script('return document.documentElement.scrollWidth'), 390)
        self.assert_quiet()

    def test_charts_on_a_phone_show_their_scale(self):
        self.size(390, 840, mobile=True)
        document = report_samples.large(30)
        document['processes'] = [report_samples.process(median) for median in (130.0, 200.0, 290.0)]
        document.update(median_ms=200.0, interval_ms=[130.0, 290.0], p90_ms=None)
        self.open(document)
        figures = self.script("""return Array.from(document.querySelectorAll('#distribution-chart .axis')).pop()
            .querySelectorAll('text:not(.title)').length""")
        self.assertGreaterEqual(figures, 2)
        self.assert_quiet()

    def test_names_of_roofs_lie_over_the_dots(self):
        self.open(report_samples.large(30))
        self.assertTrue(self.script("""
            const dots = Array.from(document.querySelectorAll('.roof-dot'));
            const labels = document.querySelector('.roof-labels');
            return dots.every(dot => dot.compareDocumentPosition(labels) & Node.DOCUMENT_POSITION_FOLLOWING);"""))
        self.assertIn('peak', self.one('.roof-labels').text)

    # Two and more.

    def test_differences_are_sorted_by_what_they_cost(self):
        first, second = report_samples.large(30), report_samples.large(30, factor=1.5)
        second['kernels'][4]['total_ms'] *= 40
        self.open(first, second)
        self.assertEqual(self.one('#verdict').get_attribute('data-verdict'), self.verdict('r0.json', 'r1.json'))
        nodes = self.texts('#difference-table tbody td[data-column="nodes"]')
        self.assertEqual(nodes[0], second['kernels'][4]['nodes'][0])
        ratios = [float(text) for text in self.texts('#difference-table tbody td[data-column="ratio"]')]
        self.assertAlmostEqual(ratios[0], 60, delta=0.01)
        self.assertEqual({ratio for ratio in ratios[1:]}, {1.5})
        times = [[float(text.replace('−', '-')) for text in self.texts(f'#difference-table tbody td[data-column="{key}"]')]
                 for key in ('a', 'b', 'delta')]
        for a, b, delta in zip(*times):
            self.assertAlmostEqual(b - a, delta, places=6)
        self.assert_quiet()

    def verdict(self, first, second):
        done = subprocess.run([GANTRY, '--quiet', 'compare', first, second, '--json'], cwd=self.folder, env=self.environment,
                              text=True, capture_output=True, check=True)
        return json.loads(done.stdout)['verdict']

    def test_of_three_results_any_two_are_compared_and_any_one_is_shown(self):
        documents = [report_samples.large(10, factor=factor) for factor in (1, 2, 4)]
        self.open(*documents)
        self.assertEqual(len(self.all('#summary-table tbody tr')), 3)
        self.script('const list = document.getElementById("difference-0"); list.value = "2"; list.dispatchEvent(new Event("change"))')
        self.assertEqual({float(text) for text in self.texts('#difference-table tbody td[data-column="ratio"]')}, {0.5})
        self.assertEqual(self.one('#verdict').get_attribute('data-verdict'), 'faster')
        self.script('const list = document.getElementById("shown-result"); list.value = "2"; list.dispatchEvent(new Event("change"))')
        self.wait(lambda: self.script('return document.documentElement.dataset.ready'), 'the other result')
        rounded_alike(self, self.text('#median'), self.in_unit('#median', documents[2]['median_ms']), 4)
        self.assert_quiet()

    def test_fusions_that_differ_are_matched_by_their_nodes(self):
        first, second = report_samples.large(4), report_samples.large(4)
        second['kernels'][0]['nodes'] += second['kernels'][1]['nodes']
        del second['kernels'][1]
        self.open(first, second)
        names = self.texts('#difference-table tbody td[data-column="kernel"]')
        self.assertEqual(len(names), 3)
        self.assertTrue(any('→' in name for name in names))

    # A document of compare.

    def test_a_comparison_shows_the_figures_of_its_document(self):
        document = report_samples.comparison()
        self.open(document)
        self.assertEqual(self.text('#compared'), 'old.gmod and new.gmod')
        self.assertEqual(self.text('#ratio'), f'{document["ratio"]:.4f}')
        low, high = document['interval']
        self.assertIn(f'95 % interval {low:.4f} to {high:.4f}', self.text('#ratio-interval'))
        self.assertEqual(self.one('#verdict').get_attribute('data-verdict'), 'faster')
        self.assertIn('the second is faster: 10 % less time', self.text('#verdict'))
        for word in document['warnings'] + document['widened']:
            self.assertIn(word, self.text('#verdict'))
        for side in ('first', 'second'):
            cell = f'#sides-table [data-field="%s"] [data-side="{side}"]'
            rounded_alike(self, self.text(cell % 'median_ms'), self.in_unit(cell % 'median_ms', document[side]['median_ms']), 4)
            for field in ('processes', 'samples', 'threads'):
                self.assertEqual(number(self.text(cell % field)), document[side][field])
            self.assertEqual(self.text(cell % 'name'), document[side]['name'])
            self.assertTrue(document[side]['module_digest'].startswith(self.text(cell % 'module_digest')))
        self.assertEqual(number(self.text('[data-field="rounds"] dd')), document['rounds'])
        self.assertEqual(self.all('#differences, #kernels, #roofline, #timeline, #memory, #graph'), [])
        self.assert_quiet()

    def test_rounds_of_a_comparison_are_those_of_its_document(self):
        document = report_samples.comparison()
        self.open(document)
        dots = self.script('return Array.from(document.querySelectorAll("#round-chart .round-dot"), '
                           'dot => [dot.cx.baseVal.value, dot.cy.baseVal.value, dot.classList.contains("left-out")])')
        self.assertEqual([left_out for _, _, left_out in dots], [not played['counts'] for played in document['played']])
        # Places tell ratios apart as the document does: the two are related by one line.
        ratios = [played['ratio'] for played in document['played']]
        slope = (dots[1][1] - dots[0][1]) / (ratios[1] - ratios[0])
        for (_, y, _), ratio in zip(dots, ratios):
            self.assertAlmostEqual(y - dots[0][1], slope * (ratio - ratios[0]), delta=0.01)
        self.assertEqual([x for x, _, _ in dots], sorted(x for x, _, _ in dots))
        self.script('document.querySelector("#round-chart").focus()')
        self.browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
        self.assertIn(f'ratio {ratios[1]:.4f}', self.text('#tip'))
        self.assertIn('round 2', self.text('#tip'))
        self.assert_quiet()

    def test_samples_of_both_sides_lie_on_one_axis_with_the_machine(self):
        document = report_samples.comparison()
        self.open(document)
        shown = self.script('return Array.from(document.querySelectorAll("#round-samples .dots"), '
                            'path => [path.classList.contains("second"), path.getAttribute("d").match(/[0-9.]+ /g).map(Number)])')
        for side, result in enumerate(document['results']):
            places = [place for second, drawn in shown if second == bool(side) for place in drawn]
            self.assertEqual(len(places), sum(len(process['samples_ms']) for process in result['processes']))
        firsts = [min(place for second, drawn in shown if second == side for place in drawn) for side in (False, True)]
        self.assertLess(firsts[0], firsts[1], 'the first began the first round')
        self.assertIn('round 1', self.text('#round-samples'))
        for strip in ('clock', 'temperature', 'other load'):
            self.assertIn(strip, self.text('#round-samples'))
        self.script('document.querySelector("#round-samples").focus()')
        self.browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
        self.assertIn('first: round 1, sample 1', self.text('#tip'))
        shares = self.script('return Array.from(document.querySelectorAll("#round-distribution .bin title"), title => title.textContent)')
        for side in ('first', 'second'):
            self.assertAlmostEqual(sum(number(text.split(': ')[1]) for text in shares if text.startswith(side)), 100, delta=0.5)
        self.assert_quiet()

    def test_each_side_of_a_comparison_is_shown_as_a_result(self):
        document = report_samples.comparison()
        self.open(document)
        rounded_alike(self, self.text('#median'), self.in_unit('#median', document['results'][0]['median_ms']), 4)
        self.script('const list = document.getElementById("shown-result"); list.value = "1"; list.dispatchEvent(new Event("change"))')
        self.wait(lambda: self.script('return document.documentElement.dataset.ready'), 'the other side')
        rounded_alike(self, self.text('#median'), self.in_unit('#median', document['results'][1]['median_ms']), 4)
        self.assert_quiet()

    def test_a_measured_comparison_and_one_of_results_are_shown(self):
        self.gantry('compare', 'lstm.onnx', '--second', '--opt 0', '--rounds', '3', '--threads', '1', '--json', 'turns.json', '--force')
        document = json.loads((self.folder / 'turns.json').read_text(encoding='utf-8'))
        self.open(document)
        self.assertEqual(self.text('#ratio'), f'{document["ratio"]:.4f}')
        self.assertEqual(len(self.all('#round-chart .round-dot')), 3)
        self.assert_quiet()
        self.write('a.json', report_samples.large(10))
        self.write('b.json', report_samples.large(10, factor=1.5))
        self.gantry('compare', 'a.json', 'b.json', '--json', 'apart.json', '--history', 's.jsonl', '--fail-if-slower', '1%', '--force', status=4)
        document = json.loads((self.folder / 'apart.json').read_text(encoding='utf-8'))
        self.open(document)
        self.assertEqual(self.text('#ratio'), f'{document["ratio"]:.4f}')
        self.assertIn('gantry report a.json b.json', self.text('#rounds'))
        self.assertIn('slower than it allows', self.text('#limit'))
        self.assertIn('1 result', self.text('#history'))
        self.assert_quiet()

    def test_a_comparison_is_a_page_of_its_own(self):
        self.write('c.json', report_samples.comparison())
        self.write('r.json', self.measured)
        self.assertIn('given alone', self.gantry('report', 'c.json', 'r.json', '-o', 'no.html', status=1).stderr)
        self.write('c.json', dict(report_samples.comparison(), verdict='better'))
        self.assertIn("'verdict'", self.gantry('report', 'c.json', '-o', 'no.html', status=1).stderr)
        self.assertFalse((self.folder / 'no.html').exists())

    def test_a_comparison_fits_a_phone(self):
        self.size(390, 840, mobile=True)
        self.open(report_samples.comparison())
        self.assertEqual(self.script('return document.documentElement.scrollWidth'), 390)
        self.assert_quiet()

    def test_hostile_names_of_a_comparison_stay_text(self):
        document = report_samples.comparison()
        document['warnings'] = document['widened'] = [HOSTILE]
        for side, result in zip(('first', 'second'), document['results']):
            for field in ('name', 'model', 'board', 'target'):
                document[side][field] = HOSTILE
            result['model'] = HOSTILE
        self.open(document)
        self.assertEqual(self.all('img'), [])
        self.assertIn(HOSTILE, self.text('#compared'))
        self.assert_quiet()

    # What others may bring along.

    def test_hostile_names_stay_text(self):
        document = report_samples.large(10)
        document['model'] = HOSTILE
        document['board']['hostname'] = document['board']['cpu'] = HOSTILE
        document['warnings'] = [HOSTILE]
        document['command'] = ['gantry', HOSTILE]
        document['inputs'][0]['name'] = HOSTILE
        for kernel, step in zip(document['kernels'], document['program']['steps']):
            for entry in (kernel, step):
                entry['symbol'] = entry['name'] = entry['op'] = HOSTILE
                entry['nodes'] = [HOSTILE]
            step['graph'] = step['decision'] = HOSTILE
        for value in document['program']['values']:
            value['name'] = value['type'] = HOSTILE
        self.open(document, document)
        self.click('#kernel-table tbody tr')
        self.assertEqual(self.all('img'), [])
        self.assertNotIn('owned', self.browser.title)
        self.assertIn(HOSTILE, self.text('#warnings'))
        self.assert_quiet()

    def test_the_page_may_not_use_the_network_nor_run_other_scripts(self):
        self.open(self.measured)
        refused = self.browser.execute_async_script('''
          const done = arguments[0];
          const refusals = new Set();
          document.addEventListener('securitypolicyviolation', event => refusals.add(event.effectiveDirective));
          const image = document.createElement('img');
          image.src = 'http://127.0.0.1:9/x.png';
          const script = document.createElement('script');
          script.textContent = 'document.title = "owned"';
          document.body.append(image, script);
          fetch('http://127.0.0.1:9/').then(() => done(['fetched']), () => setTimeout(() => done(Array.from(refusals)), 200));''')
        self.assertEqual(set(refused), {'img-src', 'script-src-elem', 'connect-src'})
        self.assertNotEqual(self.browser.title, 'owned')

    def test_a_thousand_kernels_open(self):
        self.write('large.json', report_samples.large(1000))
        self.gantry('report', 'large.json', '-o', 'large.html', '--force')
        started = time.monotonic()
        self.show('large.html')
        self.assertLess(time.monotonic() - started, 60)
        self.assertEqual(len(self.all('#graph .node.step')), 1000)
        self.assertEqual(self.one('#graph-view').get_attribute('data-layout'), 'dagre')
        self.assert_quiet()

    def test_old_results_show_what_they_have(self):
        self.open({'schema': 'gantry-bench', 'schema_version': 1, 'model': 'm.onnx', 'device': 'cpu', 'target': 'aarch64',
                   'module_digest': 'aa', 'date': '2025-01-01T00:00:00Z', 'threads': 2, 'opt_level': None,
                   'board': {'hostname': 'pi4', 'cpu': 'Cortex-A72'}, 'samples_ms': [1, 2, 3, 2, 2.5],
                   'inputs': [{'name': 'x', 'dtype': 'f32', 'shape': [1], 'source': 'random, seed 0'}]})
        rounded_alike(self, self.text('#median'), 2)
        self.assertIn('gantry profile', self.text('#kernels'))
        self.assert_quiet()

    def test_damaged_results_are_refused_by_file_and_field(self):
        for path, value, field in ((('kernels', 0, 'total_ms'), 'fast', 'kernels[0].total_ms'),
                                   (('memory',), 3, 'memory'), (('processes', 0, 'readings'), None, 'processes[0].readings')):
            document = json.loads(json.dumps(self.measured))
            place = document
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = value
            self.write('damaged.json', document)
            with self.subTest(field):
                error = self.gantry('report', 'damaged.json', '-o', 'damaged.html', status=1).stderr
                self.assertIn('damaged.json', error)
                self.assertIn(f"'{field}'", error)
                self.assertFalse((self.folder / 'damaged.html').exists())
        document = json.loads(json.dumps(self.measured))
        del document['kernels'][0]['total_ms']
        self.write('damaged.json', document)
        self.assertIn("'kernels[0].total_ms'", self.gantry('report', 'damaged.json', '-o', 'damaged.html', status=1).stderr)

    def test_a_model_and_a_module_that_have_not_run_show_their_plan(self):
        self.gantry('compile', 'lstm.onnx', '-o', 'lstm.gmod', '--target', 'native', '--target', 'aarch64')
        module = json.loads(self.output('inspect', 'lstm.gmod', '--json'))
        model = json.loads(self.output('inspect', 'lstm.onnx', '--json'))
        for arguments, file, steps in ((['lstm.onnx'], 'lstm.onnx', None),
                                       (['lstm.gmod'], 'lstm.gmod', len(module['variants'][0]['steps'])),
                                       (['lstm.gmod', '--target', 'aarch64'], 'lstm.gmod', len(module['variants'][1]['steps']))):
            with self.subTest(arguments):
                self.gantry('inspect', *arguments, '--html', 'inspected.html')
                self.show('inspected.html')
                self.assertEqual(self.text('#title'), file)
                nodes = len(self.all('#graph .node.step'))
                self.assertEqual(nodes, steps or nodes)
                self.assertEqual(nodes, len(self.all('#kernel-table tbody tr')))
                self.assertTrue(self.all('.lifetime'))
                self.assertEqual(self.all('#samples, #roofline, #timeline'), [])
                if file == 'lstm.onnx':
                    ops = dict(zip(self.texts('#op-table th'), self.texts('#op-table td')))
                    self.assertEqual({op: int(count) for op, count in ops.items()}, model['ops'])
                self.assert_quiet()
        self.assertIn('aarch64', self.gantry('inspect', 'lstm.gmod', '--target', 'x86-64-v2', '--html', 'no.html', status=1).stderr)
        self.assertIn('--html', self.gantry('inspect', 'lstm.gmod', '--target', 'aarch64', status=1).stderr)

    def test_figures_that_open_dimensions_decide_are_not_shown_as_nothing(self):
        self.gantry('zoo', 'lstm', '--size', '5', '--dynamic', '-o', 'dynamic.onnx')
        self.gantry('inspect', 'dynamic.onnx', '--html', 'dynamic.html')
        self.show('dynamic.html')
        for column in ('flops', 'bytes'):
            self.assertEqual(set(self.column(column)), {'–'})
        self.assertIn('--shape fixes them', self.text('#kernels'))
        self.assert_quiet()

    def test_a_roofline_of_kernels_that_only_move_data_says_so(self):
        document = report_samples.large(5)
        for kernel in document['kernels']:
            kernel.update(flops=0.0, gflop_per_s=0.0)
        self.open(document)
        self.assertIn('only move data', self.text('#roofline'))
        self.assert_quiet()

    def output(self, *arguments):
        return subprocess.run([GANTRY, '--quiet', *arguments], cwd=self.folder, env=self.environment, text=True,
                              capture_output=True, check=True).stdout

    def test_a_result_may_come_through_a_pipe(self):
        pipe = self.folder / 'pipe'
        os.mkfifo(pipe)
        text = json.dumps(report_samples.large(4))
        writer = threading.Thread(target=pipe.write_text, args=(text,), kwargs={'encoding': 'utf-8'}, daemon=True)
        writer.start()
        self.gantry('report', 'pipe', '-o', 'piped.html')
        writer.join()
        self.show('piped.html')
        self.assertEqual(self.text('#title'), 'm.onnx')

    def test_a_folder_is_no_result(self):
        (self.folder / 'results').mkdir()
        self.assertIn('results: is a folder', self.gantry('report', 'results', '-o', 'no.html', status=1).stderr)
        self.assertFalse((self.folder / 'no.html').exists())

    def test_only_reports_are_replaced(self):
        self.write('r.json', self.measured)
        self.gantry('report', 'r.json', '-o', 'r.html')
        self.gantry('report', 'r.json', '-o', 'r.html')
        self.assertIn('would replace', self.gantry('report', 'r.json', '-o', 'r.json', '--force', status=1).stderr)
        with contextlib.suppress(FileNotFoundError):
            (self.folder / 'other.html').unlink()
        (self.folder / 'other.html').write_text('<!DOCTYPE html><p>mine', encoding='utf-8')
        self.assertIn('--force', self.gantry('report', 'r.json', '-o', 'other.html', status=1).stderr)
        self.gantry('report', 'r.json', '-o', 'other.html', '--force')


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
