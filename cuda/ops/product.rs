//! Quantized matrices times few columns, and the gated half of a feed-forward layer.

use super::{
    formats::{self, Layout},
    params::MatmulParams,
};
use crate::{Grid, Result, Stream};

/// Rows of a row tile.
const ROWS: u32 = 16;
/// Outputs of a gated block: one block of the image that it may write.
const GATED_ROWS: u32 = 32;
/// Row tiles of a gated block: two of the gate, two of what is gated.
const GATED_TILES: u32 = 4;

/// What a kernel for up to so many columns allows.
#[derive(Debug, PartialEq, Eq)]
struct Variant {
    columns: u32,
    tiles: u32,
    warps: u32,
}
/// The kernels of a format in the order of [`super::formats::FormatKernels::product`].
const VARIANTS: [Variant; 3] = [
    Variant { columns: 1, tiles: 8, warps: 16 },
    Variant { columns: 8, tiles: 4, warps: 12 },
    Variant { columns: 16, tiles: 4, warps: 8 },
];
/// Warps per multiprocessor that keep the memory busy.
const WARPS_PER_MULTIPROCESSOR: u32 = 16;

/// How a launch is cut. Nothing of it is in a result's bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Row tiles of a block: 1, 2, 4, or with one column 8. A gated block has four.
    pub tiles: u32,
    /// Warps of a block: up to 16 with one column, 12 with up to 8, else 8.
    pub warps: u32,
}

/// Row tiles and warps of a block: `rows` of each segment, `in_row` records in a row tile. Many row tiles per block where
/// there are blocks enough, and warps so that the block's records divide among them.
fn plan(variant: &Variant, rows: &[u32], in_row: u32, gated: bool, multiprocessors: u32) -> Plan {
    let blocks = |tiles: u32| -> u32 {
        let of = |rows: &u32| rows.div_ceil(if gated { GATED_ROWS } else { ROWS * tiles });
        if gated { of(&rows[0]) } else { rows.iter().map(of).sum() }
    };
    let tiles = match gated {
        true => GATED_TILES,
        false => {
            (0..4).rev().map(|i| 1 << i).find(|&t| t <= variant.tiles && blocks(t) >= 4 * multiprocessors).unwrap_or(1)
        }
    };
    let units = tiles * in_row;
    // Parts in a thousand of the warps' turns that have a record.
    let busy = |warps: u32| 1000 * units / (units.div_ceil(warps) * warps);
    let most = variant.warps.min(units.max(4));
    let best = (4..=most).map(busy).max().unwrap_or(0);
    let mut good = (4..=most).filter(|&warps| busy(warps) >= best * 19 / 20);
    let enough = WARPS_PER_MULTIPROCESSOR * multiprocessors;
    let last = good.clone().next_back().unwrap_or(4);
    Plan { tiles, warps: good.find(|warps| blocks(tiles) * warps >= enough).unwrap_or(last) }
}

/// `y[column][row] = Σ_k w[row][k] · x[column][k] (+ bias[row])` for each segment; all segments in the same quantized format, in any
/// where there is one column. Or gated. A column's bits do not depend on the other columns, nor on the device.
///
/// # Errors
/// The driver refuses the launch, or an earlier launch has failed.
pub fn product(stream: &Stream, p: &MatmulParams) -> Result<()> {
    let segments = &p.segment[..p.segments as usize];
    let kernels = formats::kernels(segments[0].format);
    let Layout::Records { columns, .. } = kernels.layout else { panic!("{} has no records", kernels.format) };
    let rows: Vec<u32> = segments.iter().map(|s| s.rows as u32).collect();
    let in_row = (p.k as usize).div_ceil(columns) as u32;
    let multiprocessors = stream.gpu().properties().multiprocessors as u32;
    planned(stream, p, plan(variant(p).1, &rows, in_row, p.gated != 0, multiprocessors))
}

/// The kernel for this number of columns: which one, and what it allows.
fn variant(p: &MatmulParams) -> (usize, &'static Variant) {
    let i = VARIANTS.iter().position(|v| p.columns as u32 <= v.columns).unwrap_or(VARIANTS.len() - 1);
    (i, &VARIANTS[i])
}

/// The same, cut as the plan says.
///
/// # Errors
/// The driver refuses the launch, or an earlier launch has failed.
pub fn planned(stream: &Stream, p: &MatmulParams, plan: Plan) -> Result<()> {
    let segments = &p.segment[..p.segments as usize];
    let number = segments[0].format;
    let kernels = formats::kernels(number);
    let same = segments.iter().all(|s| s.format == number);
    assert!(same || p.columns == 1 && p.gated == 0, "segments of several columns have one format");
    for s in segments {
        let format = formats::kernels(s.format).format;
        assert!((p.k as usize).is_multiple_of(format.format().block), "rows of {} weights in {format}", p.k);
        assert!(s.w.address().is_multiple_of(16), "weights begin at a multiple of 16 bytes");
        assert!(!p.image.q.is_null(), "{format} weights have activations to multiply");
    }
    let (i, variant) = variant(p);
    let blocks = match p.gated {
        0 => segments.iter().map(|s| (s.rows as u32).div_ceil(ROWS * plan.tiles)).sum(),
        _ => (segments[0].rows as u32).div_ceil(GATED_ROWS),
    };
    let params = MatmulParams { tiles: plan.tiles as i32, ..*p };
    let grid = Grid::plane(blocks, (p.columns as u32).div_ceil(variant.columns), 32 * plan.warps);
    // SAFETY: the kernel takes these parameters (compared by a test of `params`), whose addresses are on the device.
    unsafe { stream.launch(if same { kernels.product[i] } else { "product_mixed" }, grid, &params) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::twin;

    #[test]
    fn the_kernels_have_the_same() {
        twin::constants([
            ("matrix_product::MOST_TILES", VARIANTS[0].tiles as usize),
            ("matrix_product::MOST_WARPS", VARIANTS[0].warps as usize),
        ]);
    }

    /// Shapes of gemma-3-1b on 40, 84 and 132 multiprocessors.
    #[test]
    fn records_divide_among_warps() {
        let plans = |columns: usize, rows: &[u32], in_row, gated| {
            [40, 84, 132].map(|sm| plan(&VARIANTS[columns], rows, in_row, gated, sm)).map(|p| (p.tiles, p.warps))
        };
        assert_eq!(plans(0, &[262_144], 9, false), [(8, 4), (8, 4), (8, 4)], "head");
        assert_eq!(plans(0, &[6912, 6912], 9, true), [(4, 4), (4, 9), (4, 12)], "gate and up");
        assert_eq!(plans(0, &[1152], 54, false), [(1, 9), (1, 14), (1, 14)], "down");
        assert_eq!(plans(0, &[1024, 256, 256], 9, false), [(1, 9), (1, 9), (1, 9)], "q, k, v");
        for variant in &VARIANTS {
            for in_row in 1..100 {
                let cut = plan(variant, &[160], in_row, in_row % 2 == 0, 84);
                assert!(cut.warps >= 1 && cut.warps <= variant.warps && cut.tiles <= variant.tiles);
            }
        }
    }
}
