"""Costs of a compiled program, against values computed by hand."""

import pytest

from tfnlp.plan.hlo import _padded, program_costs

PROGRAM = """HloModule m, is_scheduled=true

%body (p.1: (s32[], f32[16,256])) -> (s32[], f32[16,256]) {
  %p.1 = (s32[]{:T(128)}, f32[16,256]{1,0:T(8,128)}) parameter(0)
  %i.1 = s32[]{:T(128)} get-tuple-element(%p.1), index=0
  %x.1 = f32[16,256]{1,0:T(8,128)} get-tuple-element(%p.1), index=1
  %w.1 = f32[256,256]{1,0:T(8,128)S(1)} constant({...})
  %c.1 = f32[16,256]{1,0:T(8,128)} convolution(%x.1, %w.1), dim_labels=bf_io->bf, \
backend_config={"window_config":{"estimated_cycles":"1000"}}
  %one.1 = s32[]{:T(128)S(6)} constant(1)
  %n.1 = s32[]{:T(128)S(6)} add(%i.1, %one.1)
  ROOT %t.1 = (s32[]{:T(128)}, f32[16,256]{1,0:T(8,128)}) tuple(%n.1, %c.1)
}

%condition (p.2: (s32[], f32[16,256])) -> pred[] {
  %limit = s32[]{:T(128)} constant(20)
  %p.2 = (s32[]{:T(128)}, f32[16,256]{1,0:T(8,128)}) parameter(0)
  %i.2 = s32[]{:T(128)} get-tuple-element(%p.2), index=0
  ROOT %less = pred[]{:T(512)} compare(%i.2, %limit), direction=LT
}

%taken (p.3: f32[1000,256], p.4: s32[]) -> f32[8,256] {
  %p.3 = f32[1000,256]{1,0:T(8,128)} parameter(0)
  %p.4 = s32[]{:T(128)S(6)} parameter(1)
  %zero = s32[]{:T(128)S(6)} constant(0)
  ROOT %s.3 = f32[8,256]{1,0:T(8,128)} dynamic-slice(%p.3, %p.4, %zero), dynamic_slice_sizes={8,256}
}

ENTRY %main (a: f32[16,256], b: f32[1000,256]) -> (s32[], f32[16,256]) {
  %a = f32[16,256]{1,0:T(8,128)} parameter(0)
  %b = f32[1000,256]{1,0:T(8,128)} parameter(1)
  %start = s32[]{:T(128)S(6)} constant(0)
  %f.4 = f32[8,256]{1,0:T(8,128)} fusion(%b, %start), kind=kLoop, calls=%taken
  %c.4 = (f32[16,256]{1,0:T(8,128)S(1)}, f32[16,256]{1,0:T(8,128)}, u32[]{:S(2)}) copy-start(%a)
  %d.4 = f32[16,256]{1,0:T(8,128)S(1)} copy-done(%c.4)
  %t.4 = (s32[]{:T(128)}, f32[16,256]{1,0:T(8,128)}) tuple(%start, %a)
  ROOT %w.4 = (s32[]{:T(128)}, f32[16,256]{1,0:T(8,128)}) while(%t.4), condition=%condition, \
body=%body
}
"""


def test_every_pass_of_a_loop_counts():
    costs = program_costs(PROGRAM)
    product = 2 * 16 * 256 * 256
    assert costs["matrix_flops"] == 20 * product
    assert costs["loop_flops"] == 19 * product
    assert costs["cycles"] == 20 * 1000


def test_only_bytes_of_hbm_count():
    # In the body x is read and c written, w is inside the chip; the condition reads the counter.
    # Outside the loop, 8 rows are read and written, and a is read into the chip.
    matrix, rows = 16 * 256 * 4, 8 * 256 * 4
    assert program_costs(PROGRAM)["hbm_bytes"] == 20 * (2 * matrix + 4) + 2 * rows + matrix


@pytest.mark.parametrize(
    "shape, size",
    [
        ("f32[8,128]{1,0:T(8,128)}", 8 * 128 * 4),
        ("f32[9,129]{1,0:T(8,128)}", 16 * 256 * 4),
        ("f32[9,129]{0,1:T(8,128)}", 136 * 128 * 4),
        ("bf16[3,5,7]{2,1,0:T(8,128)(2,1)}", 3 * 8 * 128 * 2),
        ("pred[10]", 10),
        ("s32[]", 4),
    ],
)
def test_arrays_fill_whole_tiles(shape, size):
    assert _padded(shape) == size


def test_a_convolution_counts_no_products_with_padding():
    head = "ENTRY %main (x: f32[4,10,16], k: f32[3,16,8]) -> f32[4,10,8] {\n"
    line = (
        "  ROOT %c = f32[4,10,8]{2,1,0} convolution(%x, %k), window={size=3 pad=1_1}, "
        "dim_labels=b0f_0io->b0f\n}\n"
    )
    parameters = "  %x = f32[4,10,16]{2,1,0} parameter(0)\n  %k = f32[3,16,8]{2,1,0} parameter(1)\n"
    positions = sum(0 <= o + k - 1 < 10 for o in range(10) for k in range(3))
    assert positions == 28
    assert program_costs(head + parameters + line)["matrix_flops"] == 2 * 4 * 16 * 8 * positions
