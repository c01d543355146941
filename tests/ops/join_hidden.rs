//! The hidden state before each row beside its embedding, and what sequences keep of it.

use qrun_cuda::{
    Ptr,
    ops::recurrent::{JoinHidden, States, join_hidden},
};

use crate::harness::{Device, everywhere};

const UNTOUCHED: f32 = -777.0;
const SEQUENCES: usize = 3;
/// Blocks of 64 positions of a sequence.
const SLOTS: usize = 3;

/// The page of a block; no two sequences have theirs in a row.
fn page(seq: usize, block: usize) -> usize {
    (block + SLOTS * seq) * 4 % 9
}

fn embedding(row: usize, i: usize) -> f32 {
    (1000 * row + i) as f32
}

fn hidden(seq: usize, pos: usize, i: usize) -> f32 {
    0.5 + (100_000 * (seq + 1) + 1000 * pos + i) as f32
}

/// Rows `(sequence, position)`.
type Rows = &'static [(i32, usize)];

/// From the beginning, over the end of a block, from the beginning of one; and an idle row.
const ROWS: Rows = &[(2, 62), (2, 63), (2, 64), (2, 65), (-1, 0), (0, 0), (0, 1), (1, 64)];

/// What it gives for all rows, and the pages afterwards.
fn run(d: &Device, n: usize, [sequences, keeps]: [i32; 2], rows: Rows, [moves, given]: [bool; 2]) -> Vec<f32> {
    let mut pages = vec![UNTOUCHED; 9 * n];
    for seq in 0..SEQUENCES {
        let first = rows.iter().filter(|row| row.0 == seq as i32).map(|row| row.1).min().unwrap_or(0);
        if let Some(last) = first.checked_sub(1) {
            (0..n).for_each(|i| pages[page(seq, last / 64) * n + i] = hidden(seq, last, i));
        }
    }
    let table: Vec<i32> = (0..SEQUENCES * SLOTS).map(|i| page(i / SLOTS, i % SLOTS) as i32).collect();
    let all = |f: &dyn Fn(usize, usize) -> f32| -> Vec<f32> {
        (0..rows.len()).flat_map(|row| (0..n).map(move |i| (row, i))).map(|(row, i)| f(row, i)).collect()
    };
    let of_row = |row: usize, i: usize| hidden(rows[row].0.max(0) as usize, rows[row].1, i);
    let before = d.buffer(&all(&|row, i| -of_row(row, i)));
    let (embeddings, of_rows) = (d.buffer(&all(&embedding)), d.buffer(&all(&of_row)));
    let (pages, table) = (d.buffer(&pages), d.buffer(&table));
    let pos = d.buffer(&rows.iter().map(|row| row.1 as i32).collect::<Vec<_>>());
    let seq = d.buffer(&rows.iter().map(|row| row.0).collect::<Vec<_>>());
    let y = d.buffer(&vec![UNTOUCHED; 2 * n * rows.len()]);
    let p = JoinHidden {
        state: States {
            pages: pages.ptr,
            table: table.ptr,
            pos: pos.ptr,
            seq: seq.ptr,
            slots: SLOTS as i32,
            len: n as i32,
            rows: rows.len() as i32,
            sequences,
            keeps,
            pad: 0,
        },
        embedding: embeddings.ptr,
        hidden: if moves { of_rows.ptr } else { Ptr::NULL },
        before: if given { before.ptr } else { Ptr::NULL },
        y: y.ptr,
        n: n as i32,
        pad: 0,
    };
    // SAFETY: buffers of these shapes, which live until the results are read.
    unsafe { join_hidden(&d.stream, &p) }.expect("a launch");
    [d.read(&y), d.read(&pages)].concat()
}

#[test]
fn the_hidden_state_before_a_row_stands_beside_its_embedding() {
    // A prompt or a step with guesses, of which the first row alone stays; and guesses of a draft, each of a sequence of its own.
    const ALONE: Rows = &[(1, 64), (-1, 0), (0, 0), (2, 9)];
    for n in [128, 200] {
        for (keeps, rows, moves, given) in
            [(0, ROWS, true, false), (1, ROWS, true, false), (0, ALONE, false, false), (0, ALONE, false, true)]
        {
            let sequences = if moves { SEQUENCES as i32 } else { 0 };
            let judge = |found: &[f32]| {
                let (y, pages) = found.split_at(2 * n * rows.len());
                let mut expected = vec![UNTOUCHED; 9 * n];
                for (row, (y, &(seq, pos))) in y.chunks_exact(2 * n).zip(rows).enumerate() {
                    let what = format!("{n} elements, row {row}, {keeps} stay, moves: {moves}, given: {given}");
                    let Ok(seq) = usize::try_from(seq) else {
                        assert!(y.iter().all(|y| *y == UNTOUCHED), "{what}");
                        continue;
                    };
                    let first = !rows[..row].iter().any(|other| other.0 == seq as i32);
                    let last = !rows[row + 1..].iter().any(|other| other.0 == seq as i32);
                    for i in 0..n {
                        assert_eq!(y[i], embedding(row, i), "{what}");
                        let before = match pos.checked_sub(1) {
                            _ if given => -hidden(seq, pos, i),
                            None => 0.0,
                            Some(before) => hidden(seq, before, i),
                        };
                        assert_eq!(y[n + i], before, "{what}");
                        if let (true, Some(before)) = (first, pos.checked_sub(1)) {
                            expected[page(seq, before / 64) * n + i] = hidden(seq, before, i);
                        }
                        let stays = if keeps == 1 { first } else { last || pos % 64 == 63 };
                        if moves && stays {
                            expected[page(seq, pos / 64) * n + i] = hidden(seq, pos, i);
                        }
                    }
                }
                assert_eq!(pages, expected, "{n} elements, {keeps} stay, moves: {moves}");
            };
            everywhere(|d| run(d, n, [sequences, keeps], rows, [moves, given]), judge);
        }
    }
}
