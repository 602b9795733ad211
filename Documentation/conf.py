# SPDX-License-Identifier: GPL-2.0-only
"""
What make docs gives to Sphinx. scripts/docs.sh says where the kernel's
scripts/kernel-doc is.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "sphinx"))

# pylint: disable=invalid-name
project = "devpool"
author = "devpool developers"
with open(os.path.join(HERE, "../VERSION"), encoding="utf-8") as f:
    release = f.read().strip()
version = release

extensions = ["kernel_doc"]
kernel_doc_tree = os.path.dirname(HERE)

exclude_patterns = ["man", "sphinx"]
highlight_language = "none"
# As the kernel's headers have them
c_id_attributes = ["DEVPOOL_MUST_CHECK"]

html_theme = "alabaster"
html_theme_options = {"description": "a device's memory as pools", "page_width": "1000px"}
html_show_copyright = False
html_copy_source = False
