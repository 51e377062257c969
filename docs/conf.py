"""Sphinx settings: Markdown sources, API pages from the docstrings, every warning counts."""

import inspect
import re
import shutil
import sys
from importlib.metadata import version as installed_version
from pathlib import Path

import tarantella

HERE = Path(__file__).parent
API_PAGES = "reference/api/generated"  # written by each build, one page for each public name

project = "Tarantella"
copyright = "the Tarantella developers"
release = version = installed_version("tarantella")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
templates_path = ["_templates"]
exclude_patterns = ["_build"]

sys.modules["tnt"] = tarantella  # API pages have the names that scripts write
default_role = "py:obj"  # single backticks in docstrings are code, and links where there is a page
autodoc_member_order = "bysource"
autodoc_typehints = "description"
# Keras documents the hundreds of members that its own classes bring.
methods_of_model = [
    name
    for of_class in tarantella.Model.__mro__
    if of_class.__module__.startswith("tnt_keras.")
    for name, value in vars(of_class).items()
    if not name.startswith("_") and (isinstance(value, classmethod) or inspect.isfunction(value))
]
autosummary_context = {"methods_of_model": ", ".join(methods_of_model)}
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # otherwise the fields of a named tuple are described twice
maximum_signature_line_length = 60  # longer ones have a line for each parameter
python_display_short_literal_types = True

copybutton_prompt_text = r"\$ |>>> |\.\.\. "  # not copied, nor is the output below
copybutton_prompt_is_regexp = True

pygments_dark_style = "github-dark"
html_theme = "furo"
html_title = f"Tarantella {release}"
html_static_path = ["_static"]
html_css_files = ["tarantella.css"]
html_theme_options = {
    "source_repository": "https://github.com/cc-hpc-itwm/tarantella",
    "source_branch": "main",
    "source_directory": "docs/",
}


def remove_old_api_pages(app, config):
    """A name that is gone leaves no page behind."""
    shutil.rmtree(HERE / API_PAGES, ignore_errors=True)


def offer_no_edit_of_api_pages(app, page, template, context, doctree):
    """Nobody can edit a page that is not in the repository."""
    if page.startswith(API_PAGES):
        context["page_source_suffix"] = None


def show_code_of_descriptions(app, what, name, value, options, lines):
    """Indented lines below a paragraph are code; docstrings do without `::` before them."""
    for i in range(len(lines) - 1, 1, -1):
        above = lines[i - 2]
        begins = lines[i].startswith("    ") and not lines[i - 1]
        if begins and above and not above.startswith((" ", "- ")) and not above.endswith("::"):
            lines[i:i] = ["::", ""]


BEFORE_NAPOLEON = 400  # whose priority is 500; it changes the indentation of sections


def shorten_words(app, what, name, value, options, signature, returned):
    """A default that is a member of an enumeration is shown as it is written."""
    return re.sub(r"<([\w.]+): \d+>", r"\1", signature or "") or None, returned


def setup(app):
    app.connect("config-inited", remove_old_api_pages)
    app.connect("autodoc-process-docstring", show_code_of_descriptions, priority=BEFORE_NAPOLEON)
    app.connect("autodoc-process-signature", shorten_words)
    app.connect("html-page-context", offer_no_edit_of_api_pages)
