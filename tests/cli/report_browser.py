"""What the tests of pages in a browser share: Chromium without a window, and how figures are read from a page."""
import json
import re
import shutil
import time
import unittest

from program_under_test import ProgramTest

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
except ImportError:
    webdriver = None

CHROMIUM = shutil.which('chromium')
DRIVER = shutil.which('chromedriver')
MISSING = ('no python3-selenium' if webdriver is None else 'no chromium' if CHROMIUM is None else
           'no chromium-driver' if DRIVER is None else '')


def number(text):
    """The figure at the head of a text: '1,234.5 ms' -> 1234.5."""
    return float(re.match(r'[+−-]?[\d,.]+', text.strip()).group().replace(',', '').replace('−', '-'))


def rounded_alike(test, text, value, digits=3):
    """Whether the page's figure is the document's, to the digits that it shows."""
    test.assertAlmostEqual(number(text) / value, 1, delta=0.51 * 10 ** (1 - digits), msg=f'{text} beside {value}')


@unittest.skipIf(MISSING, MISSING)
class PageTest(ProgramTest):
    """Each class has a browser of its own; `GANTRY` is the program that makes the pages."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for argument in ('--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage',
                         '--window-size=1280,900', f'--user-data-dir={cls.folder / "profile"}'):
            options.add_argument(argument)
        options.set_capability('goog:loggingPrefs', {'browser': 'ALL', 'performance': 'ALL'})
        cls.browser = webdriver.Chrome(options=options, service=Service(DRIVER))
        cls.addClassCleanup(cls.browser.quit)

    def setUp(self):
        self.size(1280, 900)
        self.colours('light')

    def size(self, width, height, mobile=False):
        self.browser.execute_cdp_cmd('Emulation.setDeviceMetricsOverride',
                                     {'width': width, 'height': height, 'deviceScaleFactor': 1, 'mobile': mobile})

    def colours(self, scheme):
        self.browser.execute_cdp_cmd('Emulation.setEmulatedMedia',
                                     {'features': [{'name': 'prefers-color-scheme', 'value': scheme}]})

    def write(self, name, document):
        (self.folder / name).write_text(json.dumps(document), encoding='utf-8')
        return name

    def open(self, *documents):
        """The page of these results, drawn; every part of it scrolled to."""
        names = [self.write(f'r{i}.json', document) for i, document in enumerate(documents)]
        self.gantry('report', *names, '-o', 'page.html', '--force')
        self.show('page.html')

    def show(self, page):
        self.browser.get('about:blank')
        self.browser.get_log('browser')
        self.browser.get_log('performance')
        self.browser.get((self.folder / page).as_uri())
        self.wait(lambda: self.script('return document.documentElement.dataset.ready'), 'the page to be drawn')
        if self.all('#graph'):
            self.script('document.getElementById("graph").scrollIntoView()')
            self.wait(lambda: self.script('return document.getElementById("graph").dataset.drawn'), 'the graph')
            if self.all('#graph-view'):
                self.wait(lambda: self.script('return document.getElementById("graph-view").dataset.layout'), 'its layout')

    def wait(self, condition, what, seconds=60):
        end = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), end, f'waited {seconds} s for {what}')
            time.sleep(0.02)

    def script(self, text, *arguments):
        return self.browser.execute_script(text, *arguments)

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector):
        return self.script('return document.querySelector(arguments[0]).textContent', selector)

    def texts(self, selector):
        return self.script('return Array.from(document.querySelectorAll(arguments[0]), node => node.textContent)', selector)

    def click(self, selector):
        """At the middle of the window, where nothing covers it."""
        self.script('document.querySelector(arguments[0]).scrollIntoView({block: "center"})', selector)
        self.one(selector).click()

    def assert_quiet(self):
        """No error, and nothing asked of the network."""
        self.assertEqual([entry['message'] for entry in self.browser.get_log('browser') if entry['level'] == 'SEVERE'], [])
        asked = [message['params']['request']['url'] for entry in self.browser.get_log('performance')
                 for message in [json.loads(entry['message'])['message']] if message['method'] == 'Network.requestWillBeSent']
        self.assertEqual([url for url in asked if not url.startswith(('file:', 'blob:', 'about:'))], [])

    def in_unit(self, selector, ms):
        unit = re.search(r'(ns|µs|ms|s)$', self.text(selector)).group()
        return ms * {'ns': 1e6, 'µs': 1e3, 'ms': 1, 's': 1e-3}[unit]

    def column(self, name):
        return self.texts(f'#kernel-table tbody td[data-column="{name}"]')
