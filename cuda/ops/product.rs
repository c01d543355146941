//! Quantized matrices times few columns, and the gated half of a feed-forward layer.

use qrun_quant::GgmlType;

use super::{
    formats::{self, Layout},
    grids,
    norm::{self, NormParams},
    params::MatmulParams,
};
use crate::{Grid, Params, Result, Stream};

/// Rows of a row tile.
const ROWS: u32 = 16;
/// Row tiles of a gated block: two of the gate and two of what is gated make a block of the image that it may write.
const GATED_TILES: u32 = 4;
/// Most elements of a column that every block norms for itself: its image lies in shared memory.
const MOST_NORMED: usize = 16_384;

/// Most columns of a block.
pub const MOST_COLUMNS: usize = 16;

/// What a kernel for up to so many columns allows.
#[derive(Debug, PartialEq, Eq)]
struct Variant {
    columns: u32,
    tiles: u32,
    warps: u32,
    /// Warps that a multiprocessor's registers have room for.
    resident: u32,
    /// Bytes of shared memory of a block.
    shared: u32,
}

impl Variant {
    /// Blocks of so many warps that run at once.
    fn at_once(&self, warps: u32, device: &Multiprocessors) -> u32 {
        device.count * (self.resident / warps).min(device.shared / self.shared).max(1)
    }
}

/// The kernels of a format in the order of [`super::formats::FormatKernels::product`].
const VARIANTS: [Variant; 3] = [
    Variant { columns: 1, tiles: 8, warps: 16, resident: 16, shared: 18 << 10 },
    Variant { columns: 8, tiles: 4, warps: 12, resident: 12, shared: 34 << 10 },
    Variant { columns: MOST_COLUMNS as u32, tiles: 4, warps: 8, resident: 8, shared: 46 << 10 },
];
/// The kernels that norm their column.
const NORMED: Variant = Variant { columns: 1, tiles: 8, warps: 8, resident: 16, shared: 20 << 10 };
/// The same where weights need few registers, from SM 9.0 on: where kernels begin early, nine warps are waited for less than eight.
const LIGHT_NORMED: Variant = Variant { warps: 9, resident: 18, ..NORMED };
/// And where they need many.
const HEAVY_NORMED: Variant = Variant { resident: 8, ..NORMED };

/// What a plan depends on of a device.
#[derive(Debug, Clone, Copy)]
struct Multiprocessors {
    count: u32,
    /// Bytes of shared memory that each has for blocks.
    shared: u32,
}

impl Multiprocessors {
    fn of(stream: &Stream) -> Self {
        let device = stream.gpu().properties();
        Self { count: device.multiprocessors as u32, shared: device.shared_per_block as u32 }
    }
}

/// How a launch is cut. Nothing of it is in a result's bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Row tiles of a block: 1, 2, 4, or with one column 8. A gated block has four, or with one column eight.
    pub tiles: u32,
    /// Warps of a block: up to 16 with one column (8 or 9 that norm it), 12 with up to 8, else 8.
    pub warps: u32,
}

/// A product as its plan sees it.
#[derive(Debug, Clone, Copy)]
struct Shape<'a> {
    /// Rows of each segment.
    rows: &'a [u32],
    /// Records in a row tile.
    in_row: u32,
    gated: bool,
    /// Chunks of the column that every block norms first; 0: it is there.
    normed: u32,
    /// Tiles of columns, each with an expert; 1 where there are none.
    experts: u32,
}

impl Shape<'_> {
    /// Blocks of a launch with so many row tiles each.
    fn blocks(&self, tiles: u32) -> u32 {
        match self.gated {
            true => self.rows[0].div_ceil(ROWS * tiles / 2),
            false => self.rows.iter().map(|rows| rows.div_ceil(ROWS * tiles)).sum(),
        }
    }
}

/// Turns of records that a block's beginning and end take, with their barriers.
const AROUND: u32 = 3;

/// Row tiles and warps of a block, so that the multiprocessors take the fewest turns: those of a block's records, of what is around
/// them, and of blocks that have to wait for others.
fn plan(variant: &Variant, shape: &Shape<'_>, device: &Multiprocessors) -> Plan {
    if shape.normed > 0 {
        return plan_normed(variant, shape, device);
    }
    let tiles = if shape.gated { &[GATED_TILES][..] } else { &[1, 2, 4, 8] };
    // In thousandths of a turn.
    let cost = |plan: &Plan| {
        let of_block = AROUND + (plan.tiles * shape.in_row).div_ceil(plan.warps);
        let blocks = shape.blocks(plan.tiles) * shape.experts;
        let rounds = 1000 * u64::from(blocks) / u64::from(variant.at_once(plan.warps, device));
        // Of many blocks some are always ending; of few the last ones run alone.
        let rounds = if rounds > 4000 { rounds } else { rounds.div_ceil(1000) * 1000 };
        rounds.max(1000) * u64::from(of_block)
    };
    let most = |tiles: u32| variant.warps.min((tiles * shape.in_row).max(4));
    let plans = tiles.iter().filter(|&&tiles| tiles <= variant.tiles);
    let plans = plans.flat_map(|&tiles| (4..=most(tiles)).map(move |warps| Plan { tiles, warps }));
    plans.min_by_key(cost).expect("there are plans")
}

/// The same where every block norms the column first, which takes about as long as some records of a warp do: blocks that are
/// there at once, as few turns as that allows, and as few blocks as take no longer.
fn plan_normed(variant: &Variant, shape: &Shape<'_>, device: &Multiprocessors) -> Plan {
    let tiles = if shape.gated { &[2 * GATED_TILES, GATED_TILES][..] } else { &[8, 4, 2, 1] };
    // In turns: a chunk that a warp norms takes about as long as a record, and some barriers as long as three.
    let turns = |plan: &Plan| {
        let at_once = variant.at_once(plan.warps, device);
        let records = (plan.tiles * shape.in_row).div_ceil(plan.warps);
        (shape.blocks(plan.tiles) * shape.experts).div_ceil(at_once) * (3 + shape.normed.div_ceil(plan.warps) + records)
    };
    let plans = tiles.iter().flat_map(|&tiles| (4..=variant.warps).rev().map(move |warps| Plan { tiles, warps }));
    plans.min_by_key(turns).expect("there are plans")
}

/// The twin of NormProductParams in kernels/product.cuh.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct NormProductParams {
    product: MatmulParams,
    norm: NormParams,
}
// SAFETY: NormProductParams in kernels/product.cuh; the test below compares size and offsets.
unsafe impl Params for NormProductParams {}

/// `y[column][row] = Σ_k w[row][k] · x[column][k] (+ bias[row])` for each segment; all segments in the same quantized format. Or
/// gated. A column's bits do not depend on the other columns, nor on the device.
///
/// # Errors
/// The driver refuses the launch, or an earlier launch has failed.
///
/// # Safety
/// The contract of [`ops`](crate::ops): the addresses in `p` and its segments have the sizes that their fields name.
pub unsafe fn product(stream: &Stream, p: &MatmulParams) -> Result<()> {
    // SAFETY: the caller keeps the same contract.
    unsafe { planned(stream, p, None, planned_for(stream, p, None)) }
}

/// Whether [`norm_product`] takes columns of `k` elements and matrices in these formats: quantized ones that have a kernel
/// together, which a rare one has only with itself.
pub fn norm_product_takes(k: usize, formats: &[GgmlType]) -> bool {
    let quantized = formats.iter().all(|format| format.format().block > 1);
    let same = formats.windows(2).all(|pair| pair[0] == pair[1]);
    let one_kernel = same || formats.iter().all(|format| mixes(*format));
    quantized && one_kernel && k.is_multiple_of(32) && k <= MOST_NORMED
}

/// Whether the kernel for several formats has this one.
fn mixes(format: GgmlType) -> bool {
    matches!(formats::kernels(format as i32).layout, Layout::Records { mixes: true, .. })
}

/// [`norm::norm`] of one row, an RMSNorm or none, and the product with it, in one launch: the same bits. Segments in formats that
/// [`norm_product_takes`]; gated, in the same one. Of `norm`, `x_out` is apart from `x`, and nothing is picked by `index`, nor written to `y` and `image`; `seq` is
/// that of the product, whose image is not used.
///
/// # Errors
/// The driver refuses the launch, or an earlier launch has failed.
///
/// # Safety
/// The contract of [`ops`](crate::ops): the addresses in `p`, its segments and `norm` have the sizes that their fields
/// name.
pub unsafe fn norm_product(stream: &Stream, p: &MatmulParams, norm: &NormParams) -> Result<()> {
    // SAFETY: the caller keeps the same contract.
    unsafe { planned(stream, p, Some(norm), planned_for(stream, p, Some(norm))) }
}

/// The same where nothing is normed ([`norm_product`] without weights, [`quantized_product`]): rare formats have no kernel for that.
pub fn sum_product_takes(k: usize, formats: &[GgmlType]) -> bool {
    norm_product_takes(k, formats) && formats.iter().all(|format| mixes(*format))
}

/// [`quantize`](super::activations::quantize) of `x`, one column or one for each of `experts`, and the product with it in one launch:
/// the same bits. The formats are those that [`sum_product_takes`]; the image is not used, and `experts` list one row's columns.
///
/// # Errors
/// The driver refuses the launch, or an earlier launch has failed.
///
/// # Safety
/// The contract of [`ops`](crate::ops): the addresses in `p` and its segments have the sizes that their fields name.
pub unsafe fn quantized_product(stream: &Stream, p: &MatmulParams) -> Result<()> {
    let norm = NormParams { x: p.x, n: p.k, ..NormParams::default() };
    // SAFETY: the caller keeps the same contract.
    unsafe { launch(stream, &p.with_step(), Some(&norm), planned_for(stream, p, Some(&norm))) }
}

/// The plan for this device.
fn planned_for(stream: &Stream, p: &MatmulParams, norm: Option<&NormParams>) -> Plan {
    let segments = &p.segment[..p.segments as usize];
    let kernels = formats::kernels(segments[0].format);
    let Layout::Records { columns, .. } = kernels.layout else { panic!("{} has no records", kernels.format) };
    let rows: Vec<u32> = segments.iter().map(|s| s.rows as u32).collect();
    let in_row = (p.k as usize).div_ceil(columns) as u32;
    let experts = if p.experts.is_null() { 1 } else { p.expert_tiles as u32 };
    let chunks = if norm.is_some() { (p.k as u32).div_ceil(norm::CHUNK as u32) } else { 0 };
    let shape = Shape { rows: &rows, in_row, gated: p.gated != 0, normed: chunks, experts };
    plan(
        norm.map_or(variant(p).1, |norm| normed_variant(stream.gpu().properties().sm, p, norm)),
        &shape,
        &Multiprocessors::of(stream),
    )
}

/// Bytes that each of so many matrices may be prefetched while their blocks wait: a quarter of L2 is for what blocks that run
/// at once have asked for. Of blocks that come later nobody waits.
pub(super) fn ahead(stream: &Stream, streams: u32) -> i32 {
    stream.gpu().properties().l2 / 4 / streams.max(1) as i32
}

/// The kernel for this number of columns: which one, and what it allows.
fn variant(p: &MatmulParams) -> (usize, &'static Variant) {
    let i = VARIANTS.iter().position(|v| p.columns as u32 <= v.columns).unwrap_or(VARIANTS.len() - 1);
    (i, &VARIANTS[i])
}

/// Whether only the kernel for several formats takes these.
fn is_mixed(p: &MatmulParams, norm: &NormParams) -> bool {
    let segments = &p.segment[..p.segments as usize];
    !p.experts.is_null() || norm.weight.is_null() || segments.iter().any(|s| s.format != segments[0].format)
}

/// What the kernel allows that norms its column and multiplies it with these.
fn normed_variant(sm: i32, p: &MatmulParams, norm: &NormParams) -> &'static Variant {
    use GgmlType::{IQ4_NL, MXFP4, NVFP4, Q1_0, Q2_0, Q2_K, Q4_0, Q5_0, Q8_0};
    let segments = &p.segment[..p.segments as usize];
    let same = !is_mixed(p, norm);
    match formats::kernels(segments[0].format).records {
        Q4_0 | Q5_0 | Q8_0 | IQ4_NL | MXFP4 | NVFP4 | Q1_0 | Q2_0 if same && sm >= 90 => &LIGHT_NORMED,
        Q2_K if same => &HEAVY_NORMED,
        _ => &NORMED,
    }
}

/// [`product`], or [`norm_product`], cut as the plan says.
///
/// # Errors
/// The driver refuses the launch, or an earlier launch has failed.
///
/// # Safety
/// As for [`product`], or [`norm_product`]; the plan is within the limits that [`Plan`] states.
pub unsafe fn planned(stream: &Stream, p: &MatmulParams, norm: Option<&NormParams>, plan: Plan) -> Result<()> {
    let norm = norm.map(NormParams::with_share);
    // SAFETY: the caller keeps the same contract.
    unsafe { launch(stream, p, norm.as_ref(), plan) }
}

/// The same; a norm with its share.
///
/// # Safety
/// As for [`planned`], or [`quantized_product`].
unsafe fn launch(stream: &Stream, p: &MatmulParams, norm: Option<&NormParams>, plan: Plan) -> Result<()> {
    let segments = &p.segment[..p.segments as usize];
    let number = segments[0].format;
    let kernels = formats::kernels(number);
    let same = segments.iter().all(|s| s.format == number);
    assert!(same || norm.is_some() && p.gated == 0, "segments of one product have one format");
    for s in segments {
        let format = formats::kernels(s.format).format;
        assert!((p.k as usize).is_multiple_of(format.format().block), "rows of {} weights in {format}", p.k);
        assert!(s.w.address().is_multiple_of(16), "weights begin at a multiple of 16 bytes");
        assert!(norm.is_some() || !p.image.q.is_null(), "{format} weights have activations to multiply");
    }
    let (i, variant) = variant(p);
    let rows: Vec<u32> = segments.iter().map(|s| s.rows as u32).collect();
    p.check_gated();
    let blocks = Shape { rows: &rows, in_row: 0, gated: p.gated != 0, normed: 0, experts: 1 }.blocks(plan.tiles);
    let factor = |n: u32| 65_536u32.div_ceil(n) as i32;
    let columns = p.column_tiles(variant.columns);
    let sm = stream.gpu().properties().sm;
    let of = norm.map_or(variant, |norm| normed_variant(sm, p, norm));
    let at_once = of.at_once(plan.warps, &Multiprocessors::of(stream));
    let ahead = if norm.is_some() || blocks * columns <= at_once {
        ahead(stream, (blocks * columns).min(at_once) * if p.gated == 0 { 1 } else { 2 })
    } else {
        0
    };
    let product = MatmulParams {
        tile_shift: plan.tiles.ilog2() as i32,
        warp_factor: factor(plan.warps),
        row_factor: [128, 256].map(|columns| factor((p.k as u32).div_ceil(columns))),
        ahead,
        weight_grid: grids::of(stream.gpu(), kernels.records)?,
        ..*p
    };
    let grid = Grid::plane(blocks, columns, 32 * plan.warps);
    for s in segments.iter().filter(|_| !p.experts.is_null()) {
        assert!(p.seq.is_null() && p.columns as u32 <= variant.columns, "columns of experts are listed");
        assert!(s.expert_rows > 0 && s.expert_rows % 16 == 0, "experts of {} rows", s.expert_rows);
    }
    let Some(norm) = norm else {
        // SAFETY: the kernel takes these parameters (compared by a test of `params`); the caller answers for the rest.
        return unsafe { stream.launch_dependent(kernels.product[i], grid, &product) };
    };
    let all: Vec<GgmlType> = segments.iter().map(|s| formats::kernels(s.format).format).collect();
    let takes = norm_product_takes(p.k as usize, &all);
    assert!(p.columns == 1 && norm.n == p.k && takes, "a norm of {} elements, then {all:?}", norm.n);
    assert!(norm.index.is_null() && norm.y.is_null() && norm.image.q.is_null(), "a norm of the product's own column");
    assert!(norm.x_out.is_null() || norm.x_out.address() != norm.x.address(), "other blocks still read the stream");
    assert!(!norm.weight.is_null() || norm.x_scale == 1.0, "a sum that is scaled and one that is not");
    // The image in whole chunks: a byte per element, and four bytes per 32 and per 16.
    let grid = Grid { shared: (p.k as u32).next_multiple_of(norm::CHUNK as u32) * 11 / 8, ..grid };
    let mixed = is_mixed(p, norm);
    assert!(!mixed || all.iter().all(|format| mixes(*format)), "{all:?} have no kernel together");
    let name = if mixed { "norm_product_mixed" } else { kernels.norm_product };
    let params = NormProductParams { product, norm: *norm };
    // SAFETY: the kernel takes these parameters (compared by the test below); the caller answers for the rest.
    unsafe { stream.launch_dependent(name, grid, &params) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Ptr,
        ops::{params::Segment, twin},
    };

    #[test]
    fn the_kernels_have_the_same() {
        twin::fields!(NormProductParams as "matrix_product::NormProductParams" { product, norm });
        twin::constants([
            ("matrix_product::MOST_TILES", VARIANTS[0].tiles as usize),
            ("matrix_product::MOST_WARPS", VARIANTS[0].warps as usize),
        ]);
        for kernels in formats::FORMATS.iter().filter(|k| matches!(k.layout, Layout::Records { .. })) {
            let segment = Segment { format: kernels.format as i32, ..Segment::default() };
            let norm = NormParams { weight: Ptr::NULL.add(4), ..NormParams::default() };
            let variant = normed_variant(90, &MatmulParams::default().with(&[segment]), &norm);
            let name = kernels.norm_product.trim_start_matches("norm_product_");
            twin::constants([
                (format!("norm warps {name}").as_str(), variant.warps as usize),
                (format!("norm blocks {name}").as_str(), (variant.resident / variant.warps) as usize),
            ]);
        }
    }

    /// Shapes of gemma-3-1b on 40, 84 and 132 multiprocessors.
    #[test]
    fn records_divide_among_warps() {
        let plans = |rows, in_row, gated, normed| {
            let shape = Shape { rows, in_row, gated, normed, experts: 1 };
            let variant = if normed > 0 { &NORMED } else { &VARIANTS[0] };
            [(40, 64), (84, 99), (132, 227)]
                .map(|(count, kb)| plan(variant, &shape, &Multiprocessors { count, shared: kb << 10 }))
                .map(|p| (p.tiles, p.warps))
        };
        assert_eq!(plans(&[262_144], 9, false, 0), [(8, 5), (8, 4), (8, 4)], "head");
        assert_eq!(plans(&[6912, 6912], 9, true, 0), [(4, 5), (4, 5), (4, 8)], "gate and up");
        assert_eq!(plans(&[6912, 6912], 9, true, 9), [(8, 5), (4, 5), (4, 8)], "gate and up of what is normed");
        assert_eq!(plans(&[1152], 54, false, 0), [(1, 8), (1, 14), (1, 14)], "down");
        assert_eq!(plans(&[1024, 256, 256], 9, false, 9), [(1, 5), (1, 8), (1, 8)], "q, k, v");
        for variant in VARIANTS.iter().chain([&NORMED, &LIGHT_NORMED, &HEAVY_NORMED]) {
            for in_row in 1..100 {
                let shape = Shape {
                    rows: &[160],
                    in_row,
                    gated: in_row % 2 == 0,
                    normed: u32::from(variant.shared == NORMED.shared) * in_row,
                    experts: 1,
                };
                let cut = plan(variant, &shape, &Multiprocessors { count: 84, shared: 99 << 10 });
                assert!(cut.warps >= 1 && cut.warps <= variant.warps && cut.tiles <= variant.tiles);
            }
        }
    }
}
