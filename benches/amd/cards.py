"""The cards whose compiler is at hand, and what an instruction costs on them.

Sources: the product pages of amd.com (compute units, boost clock, bandwidth); the GCN 3, RDNA and
RDNA 3 instruction set manuals and the RDNA white paper of gpuopen.com (lanes of a SIMD, 32 banks of
4 bytes of workgroup memory for each compute unit); Mesa's aco_statistics.cpp (slots of instructions,
and what RDNA 3 issues at once for a wave of 64).
"""

import re
from dataclasses import dataclass

# Instructions that take more than one issue slot, and how many. RDNA has a unit of its own for
# transcendental functions.
RDNA = [
    (re.compile(r"v_(lshl|lshr|ashr)rev_[biu]64"), 2),
    (re.compile(r"v_mul_(lo|hi)_[iu]32|v_mad_[iu]64"), 4),
    (re.compile(r"v_\w+_f64"), 16),
]
# 16 x 16 x 16 products of f16 by a wave of 64: 512 operations a clock and compute unit.
RDNA3 = [*RDNA, (re.compile(r"v_wmma_"), 16)]
GCN = [*RDNA, (re.compile(r"v_(exp|log|rcp|rsq|sqrt|sin|cos|cvt|fma)_"), 4)]


@dataclass(frozen=True)
class Card:
    name: str
    family: str  # the compiler's target
    costs: list
    compute_units: int
    simds: int  # of a compute unit
    lanes: int  # of a SIMD
    clock: float  # Hz, boost
    bandwidth: float  # bytes a second
    # Whether a wave of 64 issues multiplications, additions and moves in half the clocks.
    is_dual: bool = False
    matrix_gain: float = 1  # by which products of f16 matrices are faster than f32
    shared_rate: int = 128  # bytes of workgroup memory a clock and compute unit

    @property
    def peak(self):
        """Operations of f32 a second; a multiply-add is two."""
        per_clock = self.compute_units * self.simds * self.lanes * (2 if self.is_dual else 1)
        return 2 * per_clock * self.clock

    def clocks(self, slots, dual_slots, wave):
        """Returns the clocks for which the instructions of a wave occupy a SIMD."""
        passes = max(1, wave // self.lanes)
        halved = dual_slots * passes / 2 if self.is_dual and passes > 1 else 0
        return slots * passes - halved


CARDS = {
    "polaris10": Card("RX 570", "amd-gcn", GCN, 32, 4, 16, 1.244e9, 224e9),
    "navi10": Card("RX 5700 XT", "amd-rdna", RDNA, 40, 2, 32, 1.905e9, 448e9),
    "navi31": Card("RX 7900 XTX", "amd-rdna3", RDNA3, 96, 2, 32, 2.5e9, 960e9, is_dual=True, matrix_gain=2),
}
