"""Makes the values of one epoch of training that steps.rs compares the library with, by Keras: nothing of this project.

pip install numpy jax keras && python3 tests/golden/steps/make.py [FAMILY…]
"""

import importlib
import sys

import signatures

MODULES = "layers layer_options masks small constraints losses metrics optimizers".split()

if __name__ == "__main__":
    signatures.write()
    for module in MODULES:
        for family in importlib.import_module(module).families():
            if family.name in sys.argv[1:] or len(sys.argv) == 1:
                family.write()
