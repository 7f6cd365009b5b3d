"""No test here asks the network or a cache of the user's: said before anything imports transformers."""

import os
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HOME"] = tempfile.mkdtemp()
