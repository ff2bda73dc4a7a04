# The documentation as a site: `docs/build_site OUT` (Sphinx with Debian's packages alone; nothing is fetched).
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def read_version():
    with open(os.path.join(ROOT, 'CMakeLists.txt'), encoding='utf-8') as file:
        return re.search(r'project\(gantry VERSION ([\d.]+)', file.read()).group(1)


project = 'gantry'
copyright = 'the gantry authors; Apache-2.0'
version = release = read_version()
extensions = ['myst_parser', 'breathe', 'sphinx.ext.autodoc', 'sphinx.ext.napoleon']
source_suffix = {'.md': 'markdown', '.rst': 'restructuredtext'}
exclude_patterns = ['man']
myst_heading_anchors = 3
# Blocks without a language are commands and what they print.
highlight_language = 'none'
suppress_warnings = ['myst.header']

# What doxygen found in the headers (build_site runs it first).
breathe_projects = {'gantry': os.environ.get('GANTRY_DOXYGEN_XML', 'xml')}
breathe_default_project = 'gantry'
breathe_domain_by_extension = {'h': 'c', 'hpp': 'cpp'}
# Types of other headers, which have no page here.
nitpicky = False
autodoc_member_order = 'bysource'
autodoc_typehints = 'description'
autodoc_typehints_description_target = 'documented_params'

html_theme = 'furo'
html_title = f'gantry {release}'
html_static_path = ['site']
html_css_files = ['gantry.css']
html_show_sphinx = False
html_theme_options = {
    'light_css_variables': {'color-brand-primary': '#0b5cad', 'color-brand-content': '#0b5cad'},
    'dark_css_variables': {'color-brand-primary': '#6cb2ff', 'color-brand-content': '#6cb2ff'},
}
