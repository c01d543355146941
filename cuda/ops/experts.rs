//! Experts: which of them each row takes, the rows of each, and what a row gets from them. Their products are those of
//! [`super::product`] and [`super::gemm`], of columns in lists.

use qrun_quant::GgmlType;

use super::{
    formats::{self, Layout},
    norm::{self, NormParams},
    params::{ExpertTile, MatmulParams, Segment},
    product,
};
use crate::{ArenaLayout, Grid, Params, Ptr, Result, Stream};

/// Most experts of a layer.
pub const MAX_EXPERTS: usize = 512;
/// Most experts of a row.
pub const MAX_CHOICES: usize = 32;
/// Most groups of experts.
pub const MAX_GROUPS: usize = 32;
/// Gating: softmax over all experts.
pub const SOFTMAX: i32 = 1;
/// The sigmoid of each logit.
pub const SIGMOID: i32 = 2;
/// Softmax over the chosen experts; they are chosen by their logits.
pub const SOFTMAX_OF_CHOSEN: i32 = 3;
/// Rows of a block of `route`, or logits of the only row: one per warp.
const ROUTE_ROWS: u32 = 8;
/// Most chunks of a row whose norm it makes.
const ROUTE_MOST_CHUNKS: usize = 96;
const GROUP_THREADS: u32 = 512;
const JOIN_THREADS: u32 = 256;

/// Up to so many rows of an expert on average [`super::product`] multiplies them, beyond [`super::gemm`], 64 at a time.
const FEW: usize = product::MOST_COLUMNS;

/// Which experts rows take. A choice is the place `[row][slot]` of an expert; what experts give lies by choice.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Route {
    /// `[rows][n_expert]`: logits of the router.
    pub logits: Ptr<f32>,
    /// `[n_expert]`: added where experts are chosen, not in their weights; or null.
    pub bias: Ptr<f32>,
    /// `[n_expert]`: a factor on the weights of each; or null.
    pub factor: Ptr<f32>,
    /// `[rows]`: rows below 0 choose nothing; null: all choose.
    pub seq: Ptr<i32>,
    /// Where the chosen experts, their weights and the lists of rows go.
    pub choices: Choices,
    /// Rows of the launch.
    pub rows: i32,
    /// Experts of the layer, at most [`MAX_EXPERTS`].
    pub n_expert: i32,
    /// Experts of a row, at most [`MAX_CHOICES`].
    pub n_used: i32,
    /// [`SOFTMAX`], [`SIGMOID`] or [`SOFTMAX_OF_CHOSEN`].
    pub gating: i32,
    /// 1: the weights of a row are divided by their sum.
    pub norm: i32,
    /// Factor on all weights.
    pub scale: f32,
    /// Tiles that are written: [`Route::tiles`] sets it.
    pub n_tiles: i32,
    /// Logarithm of the most columns of a tile: [`Route::tiles`] sets it.
    pub width_log2: i32,
    /// Groups of consecutive experts, at most [`MAX_GROUPS`]; 0: none.
    pub groups: i32,
    /// Groups that experts are chosen from: those whose best scores have the largest sum.
    pub groups_used: i32,
    /// How many scores of a group that are.
    pub best_of_group: i32,
    /// Padding that the struct of the kernels has, too; zero.
    pub pad: i32,
}
// SAFETY: RouteParams in kernels/experts.cu; the test below compares size and offsets.
unsafe impl Params for Route {}

/// What rows choose, and by expert.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Choices {
    /// `[rows][n_used]`: experts, best first, of equal ones the lower number; −1: the row is idle.
    pub chosen: Ptr<i32>,
    /// `[rows][n_used]`: what their outputs are multiplied by.
    pub weights: Ptr<f32>,
    /// Columns that take the same expert.
    pub tiles: Ptr<ExpertTile>,
    /// `[rows · n_used]`: the row of each column of the tiles.
    pub rows_of: Ptr<i32>,
    /// `[rows · n_used]`: and its choice.
    pub choices_of: Ptr<i32>,
    /// `[rows · n_used]`: scratch.
    pub ranks: Ptr<i32>,
}

impl Choices {
    /// Takes memory for up to `rows` rows.
    pub fn take(layout: &mut ArenaLayout, name: &str, [rows, n_expert, n_used]: [usize; 3]) -> Self {
        let n = rows * n_used;
        Self {
            chosen: layout.take(format!("{name}.chosen"), n),
            weights: layout.take(format!("{name}.weights"), n),
            tiles: layout.take(format!("{name}.tiles"), most_tiles(n, n_expert)),
            rows_of: layout.take(format!("{name}.rows_of"), n),
            choices_of: layout.take(format!("{name}.choices_of"), n),
            ranks: layout.take(format!("{name}.ranks"), n),
        }
    }
}

/// Tiles that up to `n` choices fill: tiles narrower than [`FEW`] are those of so few rows that each expert has one.
fn most_tiles(n: usize, n_expert: usize) -> usize {
    n.min(n_expert + n / FEW)
}

/// Most columns of a tile for so many rows.
fn width(rows: usize, n_expert: usize, n_used: usize) -> usize {
    match rows {
        1 => 1,
        2..=8 => 8,
        _ if rows * n_used <= FEW * n_expert => FEW,
        _ => 64,
    }
}

impl Route {
    /// Columns of a tile and how many tiles there are, at most.
    fn tiles(&self) -> [usize; 2] {
        let [rows, n_expert, n_used] = [self.rows, self.n_expert, self.n_used].map(|n| n as usize);
        let (n, width) = (rows * n_used, width(rows, n_expert, n_used));
        // Each expert has one tile that is not full; no row takes one twice.
        [width, n.min(n_expert + if rows > width { n / width } else { 0 })]
    }

    /// As the kernels take it.
    fn checked(&self) -> Self {
        let Self { n_expert, n_used, groups, .. } = *self;
        assert!(n_expert as usize <= MAX_EXPERTS && n_used as usize <= MAX_CHOICES && n_used <= n_expert);
        let size = n_expert / groups.max(1);
        assert!(
            groups == 0 || groups as usize <= MAX_GROUPS && groups * size == n_expert && self.best_of_group <= size
        );
        let [width, tiles] = self.tiles();
        Self { n_tiles: tiles as i32, width_log2: width.ilog2() as i32, ..*self }
    }

    /// A product of the chosen experts with the rows: `y` is `[choice][…]`. No segments yet.
    pub fn of_rows(&self, product: MatmulParams) -> MatmulParams {
        self.product(product, self.choices.rows_of)
    }

    /// A product of the chosen experts with what each choice has, `[choice][k]`.
    pub fn of_choices(&self, product: MatmulParams) -> MatmulParams {
        self.product(product, self.choices.choices_of)
    }

    fn product(&self, product: MatmulParams, x_columns: Ptr<i32>) -> MatmulParams {
        let ([width, tiles], c) = (self.tiles(), &self.choices);
        MatmulParams {
            columns: width as i32,
            expert_tiles: tiles as i32,
            experts: c.tiles,
            x_columns,
            y_columns: c.choices_of,
            seq: Ptr::NULL,
            ..product
        }
    }
}

/// Chooses experts for each row and lists the rows of each: one launch for one row, else two.
///
/// # Errors
/// The driver refuses the launch, or an earlier launch has failed.
///
/// # Safety
/// The contract of [`ops`](crate::ops): the addresses in `p` and its choices have the sizes that their fields name, `tiles`
/// that of [`Choices::take`].
pub unsafe fn route(stream: &Stream, p: &Route) -> Result<()> {
    let p = p.checked();
    let blocks = (p.rows as u32).div_ceil(ROUTE_ROWS);
    // SAFETY: the kernels take these parameters (compared by the test below); the caller answers for the rest.
    unsafe {
        stream.launch(
            "route",
            Grid::linear(blocks, 32 * ROUTE_ROWS),
            &NormRoute { route: p, ..NormRoute::default() },
        )?;
        if p.rows > 1 { stream.launch("group", Grid::linear(1, GROUP_THREADS), &p) } else { Ok(()) }
    }
}

/// The twin of NormRouteParams in kernels/experts.cu.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct NormRoute {
    norm: NormParams,
    segment: [Segment; 2],
    route: Route,
    ticket: Ptr<u32>,
    segments: i32,
    ahead: i32,
}
// SAFETY: NormRouteParams in kernels/experts.cu; the test below compares size and offsets.
unsafe impl Params for NormRoute {}

/// Whether [`norm_route`] takes rows of `n` elements and a router in this format.
pub fn norm_route_takes(n: usize, router: GgmlType) -> bool {
    let dense = formats::kernels(router as i32).layout == Layout::File;
    dense && n.is_multiple_of(4) && n <= ROUTE_MOST_CHUNKS * norm::CHUNK
}

/// [`norm::norm`] of one row, an RMSNorm, the products of `segments` with it and the [`route`] of the logits that the first of them
/// gives, in one launch: the same bits. All are dense; one or two, the first a router that [`norm_route_takes`]. Of `norm`, `x_out`
/// is apart from `x`, and nothing is picked by `index`. Whether the row is idle says `route`. `ticket` is 0, and is so again afterwards.
///
/// # Errors
/// The driver refuses the launch, or an earlier launch has failed.
///
/// # Safety
/// As for [`norm::norm`], [`matmul::gemv`](super::matmul::gemv) and [`route`].
pub unsafe fn norm_route(
    stream: &Stream,
    norm: &NormParams,
    segments: &[Segment],
    route: &Route,
    ticket: Ptr<u32>,
) -> Result<()> {
    let (route, n) = (route.checked(), norm.n as usize);
    assert!((1..=2).contains(&segments.len()) && route.rows == 1, "{} products, {} rows", segments.len(), route.rows);
    assert!(segments.iter().all(|s| norm_route_takes(n, formats::kernels(s.format).format)), "rows of {n} elements");
    assert!(segments[0].rows == route.n_expert && segments[0].y.address() == route.logits.address(), "logits");
    assert!(norm.index.is_null() && !norm.weight.is_null() && norm.bias.is_null(), "an RMSNorm of the only row");
    assert!(norm.x_out.is_null() || norm.x_out.address() != norm.x.address(), "other blocks still read the stream");
    assert!(norm.image.q.is_null() || n.is_multiple_of(32), "an image of {n} elements");
    let blocks = (segments.iter().map(|s| s.rows).sum::<i32>() as u32).div_ceil(ROUTE_ROWS);
    let mut both = [Segment::default(); 2];
    both[..segments.len()].copy_from_slice(segments);
    let p = NormRoute {
        norm: norm.with_share(),
        segment: both,
        route,
        ticket,
        segments: segments.len() as i32,
        ahead: product::ahead(stream, blocks),
    };
    let grid = Grid { shared: 4 * n as u32, ..Grid::linear(blocks, 32 * ROUTE_ROWS) };
    // SAFETY: the kernel takes these parameters (compared by the test below); the caller answers for the rest.
    unsafe { stream.launch_dependent("route", grid, &p) }
}

/// Matrices of heads as those of experts of which each row takes all: head `h` takes expert `h`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct AllHeads {
    tiles: Ptr<ExpertTile>,
    choices_of: Ptr<i32>,
    rows: i32,
    n_head: i32,
    width_log2: i32,
    pad: i32,
}
// SAFETY: AllHeadsParams in kernels/experts.cu; the test below compares size and offsets.
unsafe impl Params for AllHeads {}

impl AllHeads {
    /// Takes memory for up to `rows` rows.
    pub fn take(layout: &mut ArenaLayout, name: &str, [rows, n_head]: [usize; 2]) -> Self {
        Self {
            tiles: layout.take(format!("{name}.tiles"), most_tiles(rows * n_head, n_head)),
            choices_of: layout.take(format!("{name}.choices_of"), rows * n_head),
            ..Self::default()
        }
    }

    /// For this many rows of `n_head` heads.
    pub fn of(&self, rows: usize, n_head: usize) -> Self {
        let width = width(rows, n_head, n_head);
        Self { rows: rows as i32, n_head: n_head as i32, width_log2: width.ilog2() as i32, ..*self }
    }

    /// A product of each head's matrix with what it has: `x` is `[rows][n_head][k]`, `y` `[rows][n_head][…]`. No segments yet.
    pub fn product(&self, product: MatmulParams) -> MatmulParams {
        let width = 1 << self.width_log2;
        MatmulParams {
            columns: width,
            expert_tiles: self.n_head * (self.rows as u32).div_ceil(width as u32) as i32,
            experts: self.tiles,
            x_columns: self.choices_of,
            y_columns: self.choices_of,
            seq: Ptr::NULL,
            ..product
        }
    }
}

/// Lists what these products take.
///
/// # Errors
/// The driver refuses the launch, or an earlier launch has failed.
///
/// # Safety
/// The contract of [`ops`](crate::ops): `p` was taken for as many rows and heads, or more.
pub unsafe fn all_heads(stream: &Stream, p: &AllHeads) -> Result<()> {
    // SAFETY: the kernel takes these parameters (compared by the test below); the caller answers for the rest.
    unsafe { stream.launch("all_heads", Grid::linear(1, GROUP_THREADS), p) }
}

/// What each row gets from its experts.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Join {
    /// `[rows][n_used][n]`: what each choice gives.
    pub x: Ptr<f32>,
    /// `[rows][n_used]`: [`Choices::weights`].
    pub weights: Ptr<f32>,
    /// `[rows][n]`: what all rows get besides, or null.
    pub shared: Ptr<f32>,
    /// `[rows]`: that is multiplied by the sigmoid of this; or null.
    pub gate: Ptr<f32>,
    /// `[rows]`: rows below 0 are left as they are; null: none is.
    pub seq: Ptr<i32>,
    /// `[rows][n]`: `Σ weights · x`, best first, and then `shared`.
    pub y: Ptr<f32>,
    /// Experts of a row.
    pub n_used: i32,
    /// Elements of a row.
    pub n: i32,
}
// SAFETY: JoinParams in kernels/experts.cu; the test below compares size and offsets.
unsafe impl Params for Join {}

/// Adds up what the experts of each of `rows` rows give.
///
/// # Errors
/// The driver refuses the launch, or an earlier launch has failed.
///
/// # Safety
/// The contract of [`ops`](crate::ops): the addresses in `p` have the sizes that its fields name, for `rows` rows.
pub unsafe fn join(stream: &Stream, rows: usize, p: &Join) -> Result<()> {
    let grid = Grid::plane((p.n as u32).div_ceil(JOIN_THREADS), rows as u32, JOIN_THREADS);
    // SAFETY: the kernel takes these parameters (compared by the test below); the caller answers for the rest.
    unsafe { stream.launch("join_experts", grid, p) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::twin;

    #[test]
    fn the_kernels_have_the_same() {
        twin::fields!(Route as "experts::RouteParams" {
            logits, bias, factor, seq, choices, rows, n_expert, n_used, gating, norm, scale, n_tiles, width_log2,
            groups, groups_used, best_of_group, pad,
        });
        twin::fields!(NormRoute as "experts::NormRouteParams" { norm, segment, route, ticket, segments, ahead });
        twin::fields!(Choices as "experts::Choices" { chosen, weights, tiles, rows_of, choices_of, ranks });
        twin::fields!(AllHeads as "experts::AllHeadsParams" { tiles, choices_of, rows, n_head, width_log2, pad });
        twin::fields!(Join as "experts::JoinParams" { x, weights, shared, gate, seq, y, n_used, n });
        twin::constants([
            ("experts::MAX_EXPERTS", MAX_EXPERTS),
            ("experts::MAX_CHOICES", MAX_CHOICES),
            ("experts::SOFTMAX", SOFTMAX as usize),
            ("experts::SIGMOID", SIGMOID as usize),
            ("experts::SOFTMAX_OF_CHOSEN", SOFTMAX_OF_CHOSEN as usize),
            ("experts::ROUTE_WARPS", ROUTE_ROWS as usize),
            ("experts::ROUTE_MOST_CHUNKS", ROUTE_MOST_CHUNKS),
            ("experts::GROUP_THREADS", GROUP_THREADS as usize),
            ("experts::JOIN_THREADS", JOIN_THREADS as usize),
        ]);
    }

    /// A row takes an expert once; 10 rows of 4 choices among 8 experts fill 8 tiles.
    #[test]
    fn there_are_tiles_enough() {
        let tiles = |rows, n_expert, n_used| Route { rows, n_expert, n_used, ..Route::default() }.tiles();
        assert_eq!(tiles(1, 128, 8), [1, 8]);
        assert_eq!(tiles(3, 128, 8), [8, 24]);
        assert_eq!(tiles(8, 8, 4), [8, 8]);
        assert_eq!(tiles(16, 128, 8), [16, 128]);
        assert_eq!(tiles(256, 128, 8), [16, 128 + 128]);
        assert_eq!(tiles(512, 128, 8), [64, 128 + 64]);
        for [n_expert, n_used] in [[4, 2], [8, 8], [128, 8], [512, 10]] {
            for rows in 1..600 {
                let [_, n] = tiles(rows, n_expert, n_used);
                let room = most_tiles(600 * n_used as usize, n_expert as usize);
                assert!(n <= room, "{rows} rows, {n_used} of {n_expert} experts: {n} tiles, room for {room}");
            }
        }
    }
}
