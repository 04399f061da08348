"""Agent adapters as Python classes.

The gateway itself is one program without Python. This package holds what an adapter class imports
(:mod:`aicodebox.adapters.base`) and the process in which the gateway runs it (:mod:`aicodebox.bridge`).
"""

# One number for the package and its metadata. Adapters ask for "aicodebox >= 0.14" or newer.
__version__ = "0.18.0"
