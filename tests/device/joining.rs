//! Sequences join and leave while others run ahead: what that costs in calls of the driver, and that no text changes.

use qrun::sampler::{Sampler, SamplerParams};
use qrun_emulator::{Config, Counters, Order, Streams};
use qrun_models::{Entry, Forward, Model, Options, Output, Row};

use super::{Device, has_states, models, options, request, sampling::params, sampling::prompt_of};
use crate::tiny::{Tiny, prompt};

/// A sequence: the step in which it joins, tokens of its prompt and of its answer, and whether the host samples it, as it
/// does where scores are wanted.
type Guest = (usize, usize, usize, bool);

const DEVICE: bool = false;
const HOST: bool = true;

/// Never more than four at once: each text is what it is alone. Answers go over the ends of pages (64 tokens), places are
/// taken over from any row, by one or by two at once, and once all leave together.
const FEW: [Guest; 10] = [
    (0, 5, 40, DEVICE),
    (0, 62, 9, DEVICE),
    (1, 17, 30, HOST),
    (2, 60, 12, DEVICE),
    (10, 1, 21, DEVICE),
    (15, 33, 16, DEVICE),
    (32, 120, 3, HOST),
    (33, 8, 8, DEVICE),
    (36, 3, 5, DEVICE),
    (43, 7, 4, DEVICE),
];

/// Steps of every size that is recorded, down to five rows: beyond four the kernels are the same for all.
fn many() -> Vec<Guest> {
    let first = (0..12).map(|i| (0, 2 + 5 * i, if i < 6 { 24 } else { 2 + i }, DEVICE));
    first.chain((0..20).map(|i| (1 + i / 7, 1 + 3 * i, 4 + i % 11, DEVICE))).collect()
}

/// A guest who has joined.
struct Running {
    guest: usize,
    prompt: Vec<u32>,
    text: Vec<u32>,
    sampler: Sampler,
}

/// One step, and what it took.
struct Taken {
    /// Sequences that left since the last step, that bring a prompt, and that decode and the host samples.
    left: usize,
    joined: usize,
    hosts: usize,
    /// Rows that decode.
    rows: usize,
    calls: Counters,
}

impl Taken {
    fn calls(&self, name: &str) -> u64 {
        self.calls.driver_calls.get(name).copied().unwrap_or(0)
    }
}

fn params_of(guest: usize) -> SamplerParams {
    SamplerParams { seed: guest as u64, ..params().swap_remove(guest % 5) }
}

/// Runs these guests to their ends; their texts, and the steps. `on_host`: all are sampled there.
fn run(
    model: &Model,
    tiny: Tiny,
    (o, config): (&Options, Config),
    guests: &[(usize, Guest)],
    on_host: bool,
) -> (Vec<Vec<u32>>, Vec<Taken>) {
    let mut device = Device::new(model, o, config);
    let mut texts = vec![Vec::new(); guests.len()];
    let mut places: Vec<Option<Running>> = (0..o.n_seq).map(|_| None).collect();
    let (mut taken, mut left) = (Vec::new(), 0);
    let mut waiting: Vec<usize> = (0..guests.len()).collect();
    for step in 0.. {
        if let Some(machine) = device.machine() {
            machine.reset_counters();
        }
        let (mut batch, mut joined, mut hosts) = (Vec::new(), 0, 0);
        for seq in 0..o.n_seq {
            if let Some(running) = &places[seq] {
                let token = running.text[running.text.len() - 1];
                batch.push(Entry {
                    token,
                    pos: device.len(seq as u32),
                    seq: seq as u32,
                    output: Output::Token,
                    drafted: false,
                });
                hosts += usize::from(on_host || guests[running.guest].1.3);
                continue;
            }
            if let Some(at) = waiting.iter().position(|&i| guests[i].1.0 <= step) {
                let guest = waiting.remove(at);
                let (name, (_, n, _, by_host)) = guests[guest];
                let (prompt, params) = (prompt(&format!("guest {name}"), n, tiny.n_vocab), params_of(name));
                let mut sampler = Sampler::new(params.clone(), tiny.n_vocab).expect("good parameters");
                sampler.reset(&prompt);
                if !(on_host || by_host) {
                    assert!(device.set_sampling(seq as u32, &request(&params, &prompt)).expect("a device"));
                }
                batch.extend(prompt_of(&prompt, 0, seq as u32, Output::Token));
                places[seq] = Some(Running { guest, prompt, text: Vec::new(), sampler });
                joined += 1;
            }
        }
        if batch.is_empty() && waiting.is_empty() {
            return (texts, taken);
        }
        let rows = places.iter().flatten().count() - joined;
        let outputs = device.step(&batch[..].into()).unwrap_or_else(|e| panic!("step {step}: {e}"));
        for (e, row) in batch.iter().filter(|e| e.output == Output::Token).zip(outputs.iter()) {
            let running = places[e.seq as usize].as_mut().expect("who was asked");
            let by_host = on_host || guests[running.guest].1.3;
            let token = match row {
                Row::Token(sampled) if !by_host => Sampler::outcome(&sampled).expect("a token"),
                Row::Logits(logits) if by_host => running.sampler.sample(logits).expect("a token"),
                other => panic!("step {step}, sequence {}: {other:?}", e.seq),
            };
            running.sampler.accept(token);
            running.text.push(token);
        }
        let calls = device.machine().map(|machine| machine.counters()).unwrap_or_default();
        taken.push(Taken { left, joined, hosts, rows, calls });
        left = 0;
        for seq in 0..o.n_seq {
            if let Some(running) = places[seq].take_if(|r| r.text.len() == guests[r.guest].1.2) {
                device.release(seq as u32, &running.prompt);
                texts[running.guest] = running.text;
                left += 1;
            }
        }
    }
    unreachable!("all guests leave")
}

fn config(i: usize) -> Config {
    let streams = if i.is_multiple_of(2) { Streams::Delayed } else { Streams::Immediate };
    Config { sm: [75, 80][i % 2], streams, order: Order::Forward, ..Config::default() }
}

/// What a step may cost where nobody brings a prompt: nothing is waited for but tokens, and the logits of those that the
/// host samples, sixteen at a time.
fn assert_cheap(what: &str, step: usize, taken: &Taken, n_vocab: usize) {
    let (left, hosts, turns) = (taken.left as u64, taken.hosts, taken.hosts.div_ceil(16) as u64);
    let what = format!("{what}, step {step} of {} rows, {hosts} on the host, {left} left", taken.rows);
    assert_eq!(taken.calls("cuStreamSynchronize"), 0, "{what}");
    // What the rows are and what is wanted of them goes in, once their last copies are over; the logits come out.
    let (waits, copies) = if turns == 0 { (0, 0) } else { (1 + 2 * turns, 1 + turns) };
    assert!(taken.calls.syncs <= waits, "{what}: {} waits", taken.calls.syncs);
    assert_eq!(taken.calls("cuMemcpyHtoDAsync"), copies, "{what}");
    assert_eq!(taken.calls("cuMemcpyDtoHAsync"), turns, "{what}");
    assert_eq!(taken.calls.bytes_out, (4 * hosts * n_vocab) as u64, "{what}");
    // Where one leaves, another row takes its place; pages: their numbers, per kind of layer.
    assert!(taken.calls("cuMemcpyDtoDAsync") <= 2 * left, "{what}");
    assert!(taken.calls("cuMemsetD32Async") <= 2 * left + 2 * taken.rows as u64, "{what}");
}

/// Models whose steps run ahead: those whose layers all attend.
fn ahead() -> impl Iterator<Item = Tiny> {
    models().filter(|tiny| !has_states(tiny) && tiny.n_embd_per_layer == 0)
}

#[test]
fn who_joins_or_leaves_waits_for_nobody_and_changes_no_text() {
    for (i, tiny) in ahead().enumerate().step_by(3) {
        let (model, o) = (tiny.model(), options());
        let guests: Vec<(usize, Guest)> = FEW.into_iter().enumerate().collect();
        let (texts, taken) = run(&model, tiny, (&o, config(i)), &guests, false);
        for &(name, (_, prompt, answer, by_host)) in &guests {
            let (alone, _) = run(&model, tiny, (&o, config(i)), &[(name, (0, prompt, answer, by_host))], false);
            assert_eq!(texts[name], alone[0], "{}: guest {name}", tiny.arch);
        }
        if crate::card::is_real() {
            continue;
        }
        let quiet = |(_, taken): &(usize, &Taken)| taken.joined == 0;
        for (step, taken) in taken.iter().enumerate().filter(quiet) {
            assert_cheap(tiny.arch, step, taken, tiny.n_vocab);
        }
        let left: usize = taken.iter().filter(|taken| taken.joined == 0).map(|taken| taken.left).sum();
        assert!(left >= 4, "{left} left in steps without a prompt");
        // A prompt is waited for itself, and staged like rows that the host samples.
        let most = taken.iter().filter(|taken| taken.joined > 0).map(|taken| taken.calls.syncs).max();
        assert!(most <= Some(10), "{}: {most:?} waits", tiny.arch);
    }
}

#[test]
fn steps_of_up_to_32_rows_sample_on_the_device_as_the_host_does() {
    for (i, tiny) in ahead().enumerate().skip(1).step_by(3) {
        let (model, o) = (tiny.model(), Options { n_seq: 32, ..options() });
        let guests: Vec<(usize, Guest)> = many().into_iter().enumerate().collect();
        let (texts, taken) = run(&model, tiny, (&o, config(i)), &guests, false);
        let (want, _) = run(&model, tiny, (&o, config(i)), &guests, true);
        assert_eq!(texts, want, "{}", tiny.arch);
        assert!(taken.iter().any(|taken| taken.rows > 24), "steps are small");
        if !crate::card::is_real() {
            let quiet = taken.iter().enumerate().filter(|(_, taken)| taken.joined == 0);
            quiet.for_each(|(step, taken)| assert_cheap(tiny.arch, step, taken, tiny.n_vocab));
        }
    }
}
