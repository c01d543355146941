//! Several sequences: each has its row, its parameters, and what it has seen for itself.

use qrun::sampler::SamplerParams;
use qrun_cuda::{Result, ops::sample::SampleSteps};
use qrun_emulator::Config;

use super::{Rig, SHAPES, checked, on, params};

#[test]
fn rows_of_one_launch_are_sequences_of_their_own() {
    on(checked().take(3), |name, machine| {
        const ROWS: usize = 4;
        let mut rig = Rig::new(machine, 700, ROWS)?;
        let seq = [2, -1, 0, 3];
        rig.put(rig.rows.seq, &seq)?;
        let mut samplers =
            (0..ROWS).map(|s| rig.start(s, &params(50 + s as u64, 700), &[5, 6, 5])).collect::<Result<Vec<_>>>()?;
        for step in 0..6 {
            rig.put_logits(|row, i| SHAPES[row].logit(step, i))?;
            rig.sample(SampleSteps::All)?;
            rig.stream.synchronize()?;
            for (row, s) in seq.into_iter().enumerate().filter(|(_, s)| *s >= 0) {
                let s = s as usize;
                let expected = samplers[s].sample(&rig.logits[row * 700..(row + 1) * 700]);
                let drawn = rig.drawn(s);
                assert_eq!(drawn, expected, "{name}: step {step}, row {row}");
                let token = expected.expect("a token");
                samplers[s].accept(token);
                assert_eq!(rig.get(rig.rows.token)?[row], token as i32, "{name}");
            }
            assert!(rig.state.drawn(1, 1).is_none(), "{name}: an idle sequence");
            assert_eq!(rig.get(rig.rows.token)?[1], -7, "{name}: an idle row");
            assert_eq!(rig.get(rig.rows.pos)?, [101 + step as i32, 100, 101 + step as i32, 101 + step as i32]);
        }
        Ok(())
    });
}

#[test]
fn sequences_count_tokens_and_keep_biases_for_themselves() {
    on([Config::checked()], |name, machine| {
        const VOCAB: usize = 300;
        let mut rig = Rig::new(machine, VOCAB, 2)?;
        let greedy = SamplerParams { temperature: 0.0, ..SamplerParams::default() };
        let penalised = SamplerParams { frequency_penalty: 0.01, repeat_last_n: 3, ..greedy.clone() };
        // Sequence 1 has seen token 0 three times. What sequence 0 has seen besides is no token: it must not count as one, of
        // sequence 1 least of all.
        let mut second = rig.start(1, &SamplerParams { repeat_last_n: 64, ..penalised.clone() }, &[0, 0, 0])?;
        let seen: [u32; 3] = [VOCAB as u32, VOCAB as u32 + 7, 5];
        let mut first = rig.start(0, &penalised, &seen)?;
        // Token 0 is drawn where it was seen three times, and where it was seen less often.
        for step in 0..4 {
            let other = [0.969, 0.971][step % 2];
            let logits: Vec<f32> = (0..VOCAB).map(|i| [1.0, other, 0.5][i.min(2)]).collect();
            rig.put_logits(|_, i| logits[i])?;
            rig.sample(SampleSteps::Greedy)?;
            rig.stream.synchronize()?;
            for (sequence, sampler) in [&mut first, &mut second].into_iter().enumerate() {
                let token = sampler.sample(&logits).expect("a token");
                assert_eq!(rig.drawn(sequence), Ok(token), "{name}: step {step}, sequence {sequence}");
                sampler.accept(token);
            }
            if step == 1 {
                second = rig.start(1, &penalised, &[0, 0, 0])?;
                first = rig.start(0, &penalised, &seen)?;
            }
        }
        // A list of biases that is shorter than the one before it.
        for biases in [vec![(5, 1.0), (5, 2.0)], vec![(5, 1.0)]] {
            let params = SamplerParams { logit_bias: biases, ..greedy.clone() };
            let mut sampler = rig.start(0, &params, &[])?;
            rig.put_logits(|_, i| if i == 6 { 1.5 } else { 0.0 })?;
            rig.sample(SampleSteps::Greedy)?;
            rig.stream.synchronize()?;
            let expected = sampler.sample(&rig.logits[..VOCAB]);
            assert_eq!(rig.drawn(0), expected, "{name}: {:?}", params.logit_bias);
            rig.drawn(1).expect("a token");
        }
        Ok(())
    });
}
