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


STEPS, STEP = 20, 16 * 256 * 4  # bytes of one step's array
LOOP = """HloModule m, is_scheduled=true

%inner (p.0: f32[20,16,256], p.1: s32[]) -> f32[1,16,256] {
  %p.0 = f32[20,16,256]{2,1,0:T(8,128)} parameter(0)
  %p.1 = s32[]{:T(128)S(6)} parameter(1)
  %zero.0 = s32[]{:T(128)S(6)} constant(0)
  ROOT %s.0 = f32[1,16,256]{2,1,0:T(8,128)} dynamic-slice(%p.0, %p.1, %zero.0, %zero.0), \
dynamic_slice_sizes={1,16,256}
}

%step (p.2: f32[20,16,256], p.3: f32[320,256], p.4: s32[], p.5: f32[16,256]) -> \
(f32[20,16,256], f32[16,256]) {
  %p.2 = f32[20,16,256]{2,1,0:T(8,128)} parameter(0)
  %p.3 = f32[320,256]{1,0:T(8,128)} parameter(1)
  %p.4 = s32[]{:T(128)S(6)} parameter(2)
  %p.5 = f32[16,256]{1,0:T(8,128)} parameter(3)
  %zero.2 = s32[]{:T(128)S(6)} constant(0)
  %all.2 = f32[20,16,256]{2,1,0:T(8,128)} bitcast(%p.3)
  %x.2 = f32[1,16,256]{2,1,0:T(8,128)} fusion(%all.2, %p.4), kind=kLoop, calls=%inner
  %y.2 = f32[16,256]{1,0:T(8,128)} bitcast(%x.2)
  %z.2 = f32[16,256]{1,0:T(8,128)} add(%y.2, %p.5)
  %w.2 = f32[1,16,256]{2,1,0:T(8,128)} bitcast(%z.2)
  %u.2 = f32[20,16,256]{2,1,0:T(8,128)} dynamic-update-slice(%p.2, %w.2, %p.4, %zero.2, %zero.2)
  ROOT %t.2 = (f32[20,16,256]{2,1,0:T(8,128)}, f32[16,256]{1,0:T(8,128)}) tuple(%u.2, %z.2)
}

%body (p.6: (s32[], f32[320,256], f32[20,16,256], f32[16,256])) -> (s32[]) {
  %p.6 = (s32[], f32[320,256]{1,0:T(8,128)}, f32[20,16,256]{2,1,0:T(8,128)}, \
f32[16,256]{1,0:T(8,128)}) parameter(0)
  %i.6 = s32[]{:T(128)S(6)} get-tuple-element(%p.6), index=0
  %x.6 = f32[320,256]{1,0:T(8,128)} get-tuple-element(%p.6), index=1
  %y.6 = f32[20,16,256]{2,1,0:T(8,128)} get-tuple-element(%p.6), index=2
  %c.6 = f32[16,256]{1,0:T(8,128)} get-tuple-element(%p.6), index=3
  %f.6 = (f32[20,16,256]{2,1,0:T(8,128)}, f32[16,256]{1,0:T(8,128)}) \
fusion(%y.6, %x.6, %i.6, %c.6), kind=kLoop, calls=%step
  %a.6 = f32[20,16,256]{2,1,0:T(8,128)} get-tuple-element(%f.6), index=0
  %b.6 = f32[16,256]{1,0:T(8,128)} get-tuple-element(%f.6), index=1
  ROOT %t.6 = (s32[], f32[320,256]{1,0:T(8,128)}, f32[20,16,256]{2,1,0:T(8,128)}, \
f32[16,256]{1,0:T(8,128)}) tuple(%i.6, %x.6, %a.6, %b.6)
}

%condition (p.7: (s32[])) -> pred[] {
  %limit = s32[]{:T(128)S(6)} constant(20)
  ROOT %less = pred[]{:T(512)S(6)} compare(%limit, %limit), direction=LT
}

ENTRY %main (a: s32[]) -> s32[] {
  %a = s32[]{:T(128)S(6)} parameter(0)
  ROOT %w = s32[]{:T(128)S(6)} while(%a), condition=%condition, body=%body
}
"""


def test_a_loop_counts_the_slices_that_it_reads_and_writes():
    # Each step reads its slice of x and the carry; it writes its slice of y and the carry.
    assert program_costs(LOOP)["hbm_bytes"] == STEPS * 4 * STEP


def test_an_update_alone_reads_and_writes_what_it_puts_there():
    program = """ENTRY %main (x: f32[20,16,256], y: f32[1,16,256]) -> f32[20,16,256] {
  %x = f32[20,16,256]{2,1,0:T(8,128)} parameter(0)
  %y = f32[1,16,256]{2,1,0:T(8,128)} parameter(1)
  %i = s32[]{:T(128)S(6)} constant(3)
  ROOT %u = f32[20,16,256]{2,1,0:T(8,128)} dynamic-update-slice(%x, %y, %i, %i, %i)
}
"""
    assert program_costs(program)["hbm_bytes"] == 2 * STEP
