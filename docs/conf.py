"""Sphinx settings: Markdown sources, API pages from the docstrings, every warning counts."""

from importlib.metadata import version as installed_version

project = "Tarantella"
copyright = "the Tarantella developers"
release = version = installed_version("tarantella")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "description"
# Keras' classes bring hundreds of inherited members that Keras documents.
autodoc_default_options = {"members": True, "inherited-members": False}
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # otherwise the fields of a named tuple are described twice

html_theme = "furo"
exclude_patterns = ["_build"]
