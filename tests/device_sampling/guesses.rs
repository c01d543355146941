//! Rows of one sequence that follow each other: tokens are drawn as far as guesses are what was drawn before them.

use qrun::sampler::SamplerParams;
use qrun_cuda::ops::sample::{SampleRows, SampleSteps};

use super::{Rig, SHAPES, checked, mix, on, params};

/// Guesses behind the certain row of each sequence.
const GUESSES: usize = 3;

/// Draws a chain of rows per sequence, of which the first `right[s]` guesses of sequence `s` are right, and then goes on.
#[test]
fn guesses_are_followed_as_far_as_they_are_right() {
    on(checked().take(4), |name, machine| {
        const N: usize = 600;
        for (round, right) in [[0, 3], [1, 2], [2, 0], [3, 3]].into_iter().enumerate() {
            // Sequences beside each other, turns behind each other: `[turn][sequence]`.
            let mut rig = Rig::new(machine, N, 2 * (1 + GUESSES))?;
            let greedy = round % 2 == 0;
            let steps = if greedy { SampleSteps::Greedy } else { SampleSteps::All };
            let of = |s: usize| {
                let sampled = params(31 * round as u64 + s as u64, N);
                let temperature = if greedy { 0.0 } else { 0.9 };
                SamplerParams { temperature, top_k: 40, repeat_penalty: 1.2, repeat_last_n: 16, ..sampled }
            };
            let mut samplers = [rig.start(0, &of(0), &[3, 4, 3])?, rig.start(1, &of(1), &[9])?];
            for step in 0..4 {
                let seed = 100 * round as u64 + step;
                let logit = |row: usize, i: usize| SHAPES[row % 3].logit(mix(seed, row as u64), i);
                // What each sequence draws in turn where all guesses are right.
                let mut drawn = vec![Vec::new(); 2];
                for (s, sampler) in samplers.iter_mut().enumerate() {
                    for turn in 0..=right[s] {
                        let logits: Vec<f32> = (0..N).map(|i| logit(2 * turn + s, i)).collect();
                        let token = sampler.sample(&logits).expect("a token");
                        sampler.accept(token);
                        drawn[s].push(token as i32);
                    }
                }
                let fed = |row: usize| {
                    let (turn, s) = (row / 2, row % 2);
                    // Behind a wrong guess what was drawn before, as if it had come once more.
                    let guess = |i: usize| drawn[s].get(i).copied();
                    match turn {
                        0 => 7,
                        _ if turn <= right[s] => guess(turn - 1).expect("drawn"),
                        _ if turn == right[s] + 1 => guess(turn - 1).expect("drawn") ^ 1,
                        _ => guess(right[s]).expect("drawn"),
                    }
                };
                let tokens: Vec<i32> = (0..2 * (1 + GUESSES)).map(fed).collect();
                rig.put(rig.rows.token, &tokens)?;
                rig.put(rig.rows.seq, &[0, 1].repeat(1 + GUESSES))?;
                rig.put_logits(logit)?;
                let mut before = qrun_cuda::Ptr::NULL;
                for turn in 0..=GUESSES {
                    let all = rig.rows;
                    let [token, pos, seq] = [all.token, all.pos, all.seq].map(|at| at.add(2 * turn));
                    let logits = all.logits.add(2 * turn * N);
                    let rows = SampleRows { logits, token, pos, seq, drawn: before, rows: 2 };
                    // SAFETY: what the state and the rows point to lies in the rig's arena, in these shapes.
                    unsafe { rig.state.sample(&rig.stream, &rows, steps)? };
                    before = token;
                }
                rig.stream.synchronize()?;
                for (s, drawn) in drawn.iter().enumerate() {
                    for (turn, token) in drawn.iter().enumerate() {
                        rig.steps[s] += 1;
                        let found = rig.state.drawn(s, rig.steps[s]).map(|drawn| drawn.token() as i32);
                        assert_eq!(found, Some(*token), "{name}: step {step}, sequence {s}, turn {turn} of {right:?}");
                    }
                    assert!(rig.state.drawn(s, rig.steps[s] + 1).is_none(), "{name}: a row behind a wrong guess");
                }
            }
        }
        Ok(())
    });
}

#[test]
fn nothing_follows_a_row_without_a_token() {
    on(checked().take(1), |name, machine| {
        const N: usize = 100;
        for (bad, steps) in [(f32::NAN, SampleSteps::Greedy), (f32::NEG_INFINITY, SampleSteps::All)] {
            let mut rig = Rig::new(machine, N, 2)?;
            rig.start(0, &SamplerParams { temperature: 0.0, ..params(1, N) }, &[])?;
            // The guess is what the row before it was fed, which stays there.
            rig.put(rig.rows.token, &[5, 5])?;
            rig.put(rig.rows.seq, &[0, 0])?;
            rig.put_logits(|row, _| if row == 0 { bad } else { 1.0 })?;
            let all = rig.rows;
            let second = SampleRows {
                logits: all.logits.add(N),
                token: all.token.add(1),
                pos: all.pos.add(1),
                seq: all.seq.add(1),
                drawn: all.token,
                rows: 1,
            };
            for rows in [SampleRows { rows: 1, ..all }, second] {
                // SAFETY: what the state and the rows point to lies in the rig's arena, in these shapes.
                unsafe { rig.state.sample(&rig.stream, &rows, steps)? };
            }
            rig.stream.synchronize()?;
            assert!(rig.drawn(0).is_err(), "{name}: {bad}");
        }
        Ok(())
    });
}
