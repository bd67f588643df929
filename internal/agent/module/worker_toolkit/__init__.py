"""What scripts written for simple-sagemaker import: worker_lib, with its names.

A worker_toolkit that lies elsewhere on sys.path, as that tool's own in the code or
one that was installed, comes first.
"""

import pkgutil

__path__ = [_p for _p in pkgutil.extend_path([], __name__) if _p not in __path__] + __path__
