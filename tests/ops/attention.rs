//! Attention over the paged cache against a softmax in f64.

mod case;

use qrun_cuda::ops::{attention::Tiling, cache::CacheType};
use qrun_emulator::Config;

use crate::harness::{Device, everywhere};
use case::{BASE, Case, MIXED, PROMPT, TEXTS, WINDOW_EDGES, prompt};

fn check(cases: &[Case]) {
    for (i, case) in cases.iter().enumerate() {
        let what = format!("case {i}, head_dim {}, {} heads on {}", case.head_dim, case.n_head, case.n_head_kv);
        everywhere(|device| case.run(device), |found| case.judge(found, &what));
    }
}

/// Runs two cases on every device and has `compare` look at both results.
fn compare(cases: [Case; 2], compare: impl Fn(&[f32], &[f32])) {
    everywhere(
        |device| cases.iter().flat_map(|case| case.run(device)).collect(),
        |found| {
            let (a, b) = found.split_at(found.len() / 2);
            compare(a, b);
        },
    );
}

#[test]
fn every_ratio_of_heads_and_every_size_of_them() {
    check(&[
        BASE,
        Case { n_head: 3, n_head_kv: 3, head_dim: 16, ..BASE },
        Case { n_head: 6, n_head_kv: 2, head_dim: 80, splits: 0, ..BASE },
        Case { n_head: 4, head_dim: 256, image: true, ..BASE },
        Case { n_head: 5, head_dim: 96, image: true, splits: 3, ..BASE },
        Case { n_head: 7, head_dim: 128, kind: CacheType::Q8_0, ..BASE },
        Case { n_head: 16, n_head_kv: 2, head_dim: 32, splits: 2, ..BASE },
        Case { n_head: 20, head_dim: 16, rows: &[(0, 70)], ..BASE },
        Case { n_head: 4, head_dim: 512, image: true, splits: 3, ..BASE },
        Case { n_head: 3, head_dim: 288, ..BASE },
    ]);
}

#[test]
fn q8_0_heads_that_end_within_a_block() {
    check(&[
        Case { kind: CacheType::Q8_0, head_dim: 16, ..BASE },
        Case { kind: CacheType::Q8_0, head_dim: 80, n_head_kv: 2, ..BASE },
        // Where the first page of sequence 1 is the last of the pool.
        Case { kind: CacheType::Q8_0, head_dim: 80, n_head_kv: 2, rows: &[(1, 127)], ..BASE },
        Case { kind: CacheType::Q8_0, head_dim: 256, image: true, splits: 4, ..BASE },
        Case { kind: CacheType::Q8_0, head_dim: 512, n_head: 8, n_head_kv: 2, splits: 4, ..BASE },
        Case { kind: CacheType::Q8_0, head_dim: 64, tiling: Tiling::Prompt, rows: MIXED, ..BASE },
    ]);
}

#[test]
fn windows_end_where_they_should_and_rings_wrap() {
    let windowed = Case { window: 40, rows: WINDOW_EDGES, ..BASE };
    check(&[
        windowed,
        Case { splits: 0, ..windowed },
        Case { splits: 4, kind: CacheType::Q8_0, ..windowed },
        Case { tiling: Tiling::Prompt, rows: PROMPT, ..windowed },
        Case { tiling: Tiling::Prompt, window: 9, rows: MIXED, head_dim: 128, ..windowed },
        Case { window: 1, ..windowed },
    ]);
}

#[test]
fn prompts_and_what_is_mixed_with_them() {
    let prompt = Case { tiling: Tiling::Prompt, rows: PROMPT, ..BASE };
    check(&[
        prompt,
        Case { rows: MIXED, n_head: 6, n_head_kv: 2, image: true, ..prompt },
        Case { rows: MIXED, n_head: 5, head_dim: 128, kind: CacheType::Q8_0, ..prompt },
        Case { head_dim: 256, n_head: 4, ..prompt },
        Case { head_dim: 512, n_head: 4, ..prompt },
        Case { rows: MIXED, n_head: 3, head_dim: 512, kind: CacheType::Q8_0, ..prompt },
        Case { n_head: 70, head_dim: 16, rows: &[(0, 3), (0, 4)], ..prompt },
        // Blocks that have nothing to do.
        Case { rows: &[(-1, 3), (-2, 4)], ..prompt },
    ]);
}

/// Whole texts, and the front of some; windows wider and narrower than a tile, odd and even.
#[test]
fn rows_see_what_lies_behind_them() {
    let whole = Case { tiling: Tiling::Prompt, behind: Some(0), rows: TEXTS, ..BASE };
    check(&[
        whole,
        Case { behind: Some(70), n_head: 6, n_head_kv: 2, image: true, ..whole },
        Case { window: 40, head_dim: 128, ..whole },
        Case { window: 5, behind: Some(3), n_head: 3, n_head_kv: 3, head_dim: 32, ..whole },
        Case { window: 7, kind: CacheType::Q8_0, head_dim: 256, n_head: 4, ..whole },
        Case { behind: Some(9), kind: CacheType::Q8_0, head_dim: 80, ..whole },
        Case { head_dim: 512, n_head: 4, ..whole },
        Case { head_dim: 80, latent: 64, n_head: 3, behind: Some(1), ..whole },
        Case { rows: &[(0, 0)], ..whole },
    ]);
    // The last row sees what one does that sees up to itself.
    let last = Case { rows: &[(0, 69)], ..whole };
    compare([last, Case { behind: None, ..last }], |a, b| assert!(a == b, "the last row"));
}

/// Those of DeepSeek V3 and of Mistral Small 4, and smaller ones: keys that end within 32 elements.
#[test]
fn latent_attention_has_values_in_its_keys() {
    let deepseek = Case { head_dim: 576, latent: 512, n_head: 20, image: true, ..BASE };
    let small = Case { head_dim: 80, latent: 64, n_head: 3, ..BASE };
    let prompt = Case { tiling: Tiling::Prompt, rows: MIXED, ..small };
    check(&[
        Case { splits: 3, rows: &[(0, 130), (-1, 3), (1, 40)], ..deepseek },
        Case { kind: CacheType::Q8_0, rows: &[(0, 70)], ..deepseek },
        Case { head_dim: 320, latent: 256, n_head: 9, growth: (0.5, 30), ..deepseek },
        small,
        Case { kind: CacheType::Q8_0, splits: 2, head_dim: 48, latent: 32, ..small },
        Case { rows: &[(0, 62), (0, 63), (0, 64)], tiling: Tiling::Prompt, n_head: 18, ..deepseek },
        Case { kind: CacheType::Q8_0, head_dim: 320, latent: 256, image: true, ..prompt },
        Case { n_head: 5, ..prompt },
    ]);
    for (kind, head_dim, latent, rows) in
        [(CacheType::F16, 576, 512, ENDS), (CacheType::Q8_0, 80, 64, MIXED), (CacheType::F16, 320, 256, PROMPT)]
    {
        let prompt = Case { kind, head_dim, latent, rows, tiling: Tiling::Prompt, ..small };
        compare([prompt, Case { tiling: Tiling::Rows, splits: 5, ..prompt }], |a, b| assert!(a == b, "{head_dim}"));
    }
}

#[test]
fn soft_caps_gates_and_queries_of_any_size() {
    check(&[
        Case { softcap: 2.0, ..BASE },
        Case { queries: 8e37, ..BASE },
        Case { queries: 1e-30, tiling: Tiling::Prompt, rows: MIXED, ..BASE },
        Case { growth: (0.5, 30), gates: 2, image: true, ..BASE },
        Case { growth: (0.1, 1), gates: 1, tiling: Tiling::Prompt, rows: MIXED, head_dim: 80, n_head: 4, ..BASE },
        Case { gates: 2, splits: 3, kind: CacheType::Q8_0, head_dim: 256, ..BASE },
        Case { softcap: 0.5, tiling: Tiling::Prompt, rows: MIXED, kind: CacheType::Q8_0, head_dim: 128, ..BASE },
    ]);
}

#[test]
fn sinks_take_their_share() {
    let sinks = Case { sinks: Some((-3.0, 1.5)), n_head: 6, n_head_kv: 2, ..BASE };
    check(&[
        sinks,
        Case { splits: 5, kind: CacheType::Q8_0, image: true, ..sinks },
        Case { window: 40, rows: WINDOW_EDGES, splits: 2, ..sinks },
        Case { tiling: Tiling::Prompt, rows: MIXED, head_dim: 128, ..sinks },
        Case { tiling: Tiling::Prompt, rows: PROMPT, gates: 1, ..sinks },
        // Nothing is left beside the one, nothing is taken by the other.
        Case { sinks: Some((30.0, 0.0)), head_dim: 256, ..sinks },
        Case { sinks: Some((-1e4, 0.0)), rows: ENDS, splits: 3, ..sinks },
    ]);
    let prompt = Case { rows: MIXED, tiling: Tiling::Prompt, ..sinks };
    compare([prompt, Case { tiling: Tiling::Rows, splits: 4, ..prompt }], |a, b| assert!(a == b, "decode and prefill"));
}

/// The ends of contexts of one part, of whole pages, of several parts of a page, and of a window.
const ENDS: &[(i32, i32)] = &[(0, 300), (1, 17), (2, 128), (3, 63), (4, 64)];

/// Where a window of 90 leaves the first page.
const LATE: &[(i32, i32)] = &prompt::<12>(1, 148);

#[test]
fn how_many_blocks_share_a_row_is_not_in_the_bits() {
    use CacheType::*;
    for (kind, head_dim, window, splits) in [
        (F16, 64, 0, 2),
        (F16, 64, 0, 64),
        (F16, 80, 100, 3),
        (Q8_0, 128, 0, 3),
        (Q8_0, 64, 40, 8),
        (F16, 256, 0, 5),
        (F16, 512, 0, 7),
    ] {
        let one = Case { kind, head_dim, window, n_head: 4, rows: ENDS, ..BASE };
        compare([one, Case { splits, ..one }], |a, b| assert!(a == b, "{splits} splits, a window of {window}"));
    }
    // As many tickets as there are heads and rows.
    let one = Case { n_head: 3, n_head_kv: 3, rows: ENDS, ..BASE };
    compare([one, Case { splits: 3, ..one }], |a, b| assert!(a == b, "3 splits, a head of k and v for each of q"));
}

#[test]
fn a_row_is_the_same_to_the_bit_alone_and_in_any_company() {
    for (kind, head_dim) in
        [(CacheType::F16, 64), (CacheType::Q8_0, 128), (CacheType::F16, 256), (CacheType::Q8_0, 512)]
    {
        for (rows, window, splits) in [(MIXED, 0, 1), (PROMPT, 40, 5), (ENDS, 0, 64), (LATE, 90, 2)] {
            let prompt = Case { kind, head_dim, rows, window, tiling: Tiling::Prompt, n_head: 3, ..BASE };
            compare([prompt, Case { tiling: Tiling::Rows, splits, ..prompt }], |a, b| {
                assert!(a == b, "decode and prefill");
            });
        }
    }
}

/// Rows whose parts are larger than a page, and where they become so.
#[test]
fn sixty_four_splits_at_position_5000() {
    const FAR: &[(i32, i32)] = &[(0, 5000), (1, 1023), (2, 4095), (2, 4096), (2, 4097)];
    // One order is enough: whether orders matter is asked above.
    for (sm, kind) in [(75, CacheType::F16), (80, CacheType::Q8_0)] {
        let case = Case { kind, n_head: 4, splits: 64, rows: FAR, ..BASE };
        let device = Device::new(Config { sm, ..Config::default() });
        let rows = case.run(&device);
        case.judge(&rows, &format!("sm_{sm}, 64 splits"));
        for (tiling, splits) in [(Tiling::Rows, 1), (Tiling::Rows, 7), (Tiling::Prompt, 1)] {
            assert!(rows == Case { tiling, splits, ..case }.run(&device), "sm_{sm}, {tiling:?}, {splits} splits");
        }
        let window = Case { window: 512, ..case };
        window.judge(&window.run(&device), &format!("sm_{sm}, 64 splits, a window of 512"));
    }
}

#[test]
fn forty_heads_on_two() {
    let many = Case { n_head: 40, n_head_kv: 2, head_dim: 32, rows: &[(0, 70), (1, 5)], ..BASE };
    check(&[
        many,
        Case { splits: 3, image: true, kind: CacheType::Q8_0, ..many },
        Case { tiling: Tiling::Prompt, rows: MIXED, ..many },
    ]);
}
