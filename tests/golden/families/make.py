"""Makes the values that the programs of examples/ are compared with, by Keras: nothing of this project.

    pip install numpy torch jax keras && python3 tests/golden/families/make.py [NAME…]

Each family of models is written with Keras' own layers, losses, optimizers and schedules, in families.py, and makes three
steps on one batch. NAME.txt is the contract with the program, in the form of golden/layers/cases.py:

    case NAME
        DEFINITION                          takes the place of the library's: numbers that are known instead of random ones
    program FILE MODEL                      the file, and the model that is trained; `all` for several in turn
    set NAME VALUE                          a hyper-parameter
    input NAME TYPE[SIZES] LOW HIGH
    target NAME TYPE[SIZES] LOW HIGH
    class NUMBER WEIGHT                     the weight of a class in the loss
    weight PATH TYPE[SIZES] LOW HIGH        the first values: every weight of the models, by path
    loss NAME VALUE VALUE VALUE             the loss of each step
    after PATH STEP                         the elements 0, STEP, 2 * STEP, … of a weight after the steps are in NAME.npy, those
                                            of one weight after another

Data and first weights come from the hash of golden/hashed.py, by name.

All is computed in float64 and rounded once. A step of Adam divides a gradient by its own size, so that rounding alone decides the
step of an element whose gradient is next to nothing. Keras in float32 shows which these are: an element that it computes with
an error above half of TOLERANCE, relative to the largest of the weight, is NaN in NAME.npy. So are all elements of a weight of
which these are more than a quarter, such as the bias of an attention's keys, whose gradient is 0.
"""

import sys

from families import FAMILIES
from keras_step import write

for name in sys.argv[1:] or FAMILIES:
    write(name, FAMILIES[name])
