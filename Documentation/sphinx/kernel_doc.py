# SPDX-License-Identifier: GPL-2.0-only
"""
What a page takes out of the comments of a source file::

    .. kernel-doc:: FILE
       :identifiers: NAME...

puts the comments of these structs, enums, macros or functions there, in the
order of the file, ``:doc: TITLE`` a DOC: section, and no option all that the
file has. The work is done by scripts/kernel-doc of the kernel's source, which
the setting kernel_doc names; FILE is as seen from the top of the tree.
"""

import os
import re
import subprocess

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.errors import ExtensionError
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, switch_source_input

logger = logging.getLogger(__name__)

# In the definition of a struct kernel-doc takes these for members.
PREPROCESSOR = re.compile(r"^ +#(ifdef|else|endif).*;\n", re.MULTILINE)


class KernelDoc(SphinxDirective):
    """The directive kernel-doc"""

    required_arguments = 1
    option_spec = {
        "doc": directives.unchanged_required,
        "identifiers": directives.unchanged_required,
    }

    def wanted(self):
        """The names to ask for, none for all."""
        if "doc" in self.options:
            return [self.options["doc"]]
        return self.options.get("identifiers", "").split()

    def text_of(self, path, *options):
        """What kernel-doc makes of a file. What it complains of is a warning."""
        command = ["perl", self.config.kernel_doc, "-rst", "-sphinx-version", "3.0.0"]
        done = subprocess.run(
            [*command, *options, path], capture_output=True, encoding="utf-8", check=False
        )
        for line in done.stderr.splitlines():
            logger.warning("%s", line, location=self.get_location())
        if done.returncode or not done.stdout.strip():
            logger.warning(
                "kernel-doc has nothing: %s", " ".join(options), location=self.get_location()
            )
        return PREPROCESSOR.sub("", done.stdout)

    def run(self):
        path = os.path.join(self.config.kernel_doc_tree, self.arguments[0])
        self.env.note_dependency(os.path.abspath(path))
        names = self.wanted()
        text = "".join(self.text_of(path, "-function", name) for name in names)
        if not names:
            text = self.text_of(path)

        lines = StringList(text.expandtabs(8).splitlines(), self.arguments[0])
        node = nodes.Element()
        with switch_source_input(self.state, lines):
            self.state.nested_parse(lines, 0, node)
        return node.children


def check_settings(app, config):
    """Without the kernel's script there is nothing to be made."""
    if not os.path.exists(config.kernel_doc):
        raise ExtensionError(f"kernel_doc: there is no '{config.kernel_doc}'")


def setup(app):
    """What Sphinx calls"""
    app.add_config_value("kernel_doc", "", "env", [str])
    app.add_config_value("kernel_doc_tree", "", "env", [str])
    app.add_directive("kernel-doc", KernelDoc)
    app.connect("config-inited", check_settings)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
