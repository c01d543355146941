//! Masks on the device: what is drawn under them is what the CPU sampler draws.

use qrun::sampler::{SamplerError, SamplerParams};
use qrun_cuda::{Result, ops::sample::SampleSteps};
use qrun_emulator::Config;

use super::{Rig, SHAPES, Shape, checked, on, params, pick};
use crate::sampler::mix;

/// What a mask allows.
#[derive(Debug, Clone, Copy)]
enum Kind {
    All,
    Half,
    /// One in 40, or one at least.
    Few,
    One,
    /// All but one.
    ButOne,
    /// The first ones: the mask has fewer words than there are tokens.
    Short,
    Nothing,
}

const KINDS: [Kind; 6] = [Kind::All, Kind::Half, Kind::Few, Kind::One, Kind::ButOne, Kind::Short];

impl Kind {
    fn words(self, seed: u64, n: usize) -> Vec<u32> {
        let chosen = (mix(seed, 1 << 40) % n as u64) as usize;
        let allows = |i: usize| match self {
            Self::All => true,
            Self::Half => mix(seed, i as u64) & 1 == 1 || i == chosen,
            Self::Few => mix(seed, i as u64).is_multiple_of(40) || i == chosen,
            Self::One => i == chosen,
            Self::ButOne => i != chosen || n == 1,
            Self::Short => true,
            Self::Nothing => false,
        };
        let mut words = vec![0u32; n.div_ceil(32)];
        (0..n).filter(|&i| allows(i)).for_each(|i| words[i / 32] |= 1 << (i % 32));
        if matches!(self, Self::Short) {
            words.truncate(n.div_ceil(64));
        }
        words
    }
}

impl Rig {
    /// Has the next step take the masks of these rows.
    fn mask(&mut self, masks: &[(usize, Vec<u32>)]) -> Result<()> {
        let masked = self.arena.part::<i32>("masked").expect("rows with masks");
        let mut rows = vec![-1; self.rows.rows as usize];
        for (place, (row, words)) in masks.iter().enumerate() {
            self.state.stage_mask(place, words);
            rows[place] = *row as i32;
        }
        self.put(masked, &rows)?;
        // SAFETY: what the state and the rows point to lies in the rig's arena, in these shapes.
        unsafe { self.state.mask(&self.stream, self.rows.logits, masked, masks.len()) }
    }

    /// Draws of sequence 0 under a mask each, beside those of the CPU.
    fn compare_masked(&mut self, place: &str, params: &SamplerParams, shape: Shape, kinds: &[Kind]) -> Result<()> {
        let (seed, n) = (mix(params.seed, 98), self.n_vocab);
        let history: Vec<u32> = (0..seed % 50).map(|i| (mix(seed, i % 30) % n as u64) as u32).collect();
        let mut sampler = self.start(0, params, &history)?;
        // One launch is enough for greedy ones.
        let greedy = params.temperature <= 0.0 && seed.is_multiple_of(2);
        for (step, kind) in kinds.iter().enumerate() {
            let words = kind.words(seed + step as u64, n);
            sampler.restrict(Some(&words));
            self.put_logits(|_, i| shape.logit(seed + step as u64, i))?;
            self.mask(&[(0, words)])?;
            self.sample(if greedy { SampleSteps::Greedy } else { SampleSteps::All })?;
            self.stream.synchronize()?;
            let expected = sampler.sample(&self.logits[..n]);
            let place = format!("{place}: {n} tokens, {shape:?}, step {step}, {kind:?}, {params:?}");
            assert_eq!(self.drawn(0), expected, "{place}");
            if let Ok(token) = expected {
                sampler.accept(token);
            }
        }
        Ok(())
    }
}

#[test]
fn what_is_drawn_under_a_mask_is_what_the_cpu_draws() {
    on(checked(), |name, machine| {
        for (n, cases) in [(1, 6), (2, 10), (31, 40), (33, 40), (257, 60), (1000, 60)] {
            let mut rig = Rig::new(machine, n, 1)?;
            for c in 0..cases {
                let kinds = [pick(&KINDS, c, 20), pick(&KINDS, c, 21)];
                rig.compare_masked(name, &params(c + 300 * n as u64, n), pick(&SHAPES, c, 22), &kinds)?;
            }
        }
        Ok(())
    });
}

#[test]
fn masks_of_large_vocabularies() {
    on([Config::default()], |name, machine| {
        for (n, cases) in [(4097, 60), (32_001, 40), (262_208, 8)] {
            let mut rig = Rig::new(machine, n, 1)?;
            for c in 0..cases {
                let kinds = [pick(&KINDS, c, 20), pick(&KINDS, c, 21)];
                rig.compare_masked(name, &params(c + 3 * n as u64, n), pick(&SHAPES, c, 22), &kinds)?;
            }
        }
        Ok(())
    });
}

#[test]
fn a_mask_that_allows_everything_is_none() {
    on(checked().take(2), |name, machine| {
        let mut rig = Rig::new(machine, 700, 1)?;
        for c in 0..20 {
            let (params, shape) = (params(c + 9000, 700), pick(&SHAPES, c, 23));
            let mut draws = Vec::new();
            for masked in [false, true] {
                rig.start(0, &params, &[4, 5, 4])?;
                rig.put_logits(|_, i| shape.logit(c, i))?;
                if masked {
                    rig.mask(&[(0, Kind::All.words(c, 700))])?;
                }
                rig.sample(SampleSteps::All)?;
                rig.stream.synchronize()?;
                draws.push(rig.drawn(0));
            }
            assert_eq!(draws[0], draws[1], "{name}: {params:?}");
        }
        Ok(())
    });
}

#[test]
fn a_mask_that_allows_nothing_leaves_no_token() {
    on(checked().take(2), |name, machine| {
        let mut rig = Rig::new(machine, 600, 1)?;
        for temperature in [0.0, 1.0] {
            let params = SamplerParams { temperature, ..SamplerParams::default() };
            // And then a good one: the failure leaves nothing behind.
            rig.compare_masked(name, &params, Shape::Bell, &[Kind::Nothing, Kind::Half])?;
            rig.start(0, &params, &[])?;
            let (token, pos) = (rig.get(rig.rows.token)?, rig.get(rig.rows.pos)?);
            rig.put_logits(|_, i| Shape::Bell.logit(3, i))?;
            rig.mask(&[(0, Vec::new())])?;
            rig.sample(SampleSteps::All)?;
            rig.stream.synchronize()?;
            assert_eq!(rig.drawn(0), Err(SamplerError::NoToken), "{name}");
            assert_eq!((rig.get(rig.rows.token)?, rig.get(rig.rows.pos)?), (token, pos), "{name}: no token, no step");
        }
        Ok(())
    });
}

#[test]
fn an_excluded_logit_still_has_to_be_a_number() {
    on(checked().take(2), |name, machine| {
        let mut rig = Rig::new(machine, 600, 1)?;
        for bad in [f32::NAN, f32::INFINITY] {
            let params = SamplerParams { temperature: 1.0, ..SamplerParams::default() };
            let mut sampler = rig.start(0, &params, &[])?;
            sampler.restrict(Some(&[1]));
            rig.put_logits(|_, i| if i == 40 || i == 599 { bad } else { 0.5 })?;
            rig.mask(&[(0, vec![1])])?;
            rig.sample(SampleSteps::All)?;
            rig.stream.synchronize()?;
            let expected = sampler.sample(&rig.logits);
            assert!(matches!(expected, Err(SamplerError::NotFinite { token: 40, .. })));
            // The error's value may be a NaN, which equals nothing.
            assert_eq!(format!("{:?}", rig.drawn(0)), format!("{expected:?}"), "{name}");
        }
        Ok(())
    });
}

#[test]
fn rows_with_masks_beside_rows_without() {
    const ROWS: usize = 5;
    const N: usize = 701;
    on(checked().take(3), |name, machine| {
        let mut rig = Rig::new(machine, N, ROWS)?;
        let seq = [2, -1, 0, 3, 4];
        rig.put(rig.rows.seq, &seq)?;
        let mut samplers =
            (0..ROWS).map(|s| rig.start(s, &params(70 + s as u64, N), &[5, 6, 5])).collect::<Result<Vec<_>>>()?;
        for step in 0..6 {
            // Rows 4 and 2 always have one, row 3 sometimes, row 0 never.
            let rows = [4, 2, 3].into_iter().take(2 + step % 2);
            let masks: Vec<_> = rows.map(|row| (row, KINDS[(row + step) % 3 + 1].words(step as u64, N))).collect();
            rig.put_logits(|row, i| SHAPES[row].logit(step as u64, i))?;
            rig.mask(&masks)?;
            rig.sample(SampleSteps::All)?;
            rig.stream.synchronize()?;
            for (row, s) in seq.into_iter().enumerate().filter(|(_, s)| *s >= 0) {
                let mask = masks.iter().find(|(masked, _)| *masked == row);
                let sampler = &mut samplers[s as usize];
                sampler.restrict(mask.map(|(_, words)| &words[..]));
                let expected = sampler.sample(&rig.logits[row * N..(row + 1) * N]);
                assert_eq!(rig.drawn(s as usize), expected, "{name}: step {step}, row {row}");
                // A mask may leave nothing of what there is.
                if let Ok(token) = expected {
                    sampler.accept(token);
                }
            }
            assert!(rig.state.drawn(1, 1).is_none(), "{name}: an idle sequence");
        }
        Ok(())
    });
}
