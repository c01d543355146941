//! Small launches of shipped kernels, with what they have to give: on these, planted faults must show.

use qrun_emulator::{Order, isa::Module};

use crate::isa::{
    fragments::{self, MMA, Product},
    harness::{Memory, Random},
    products::{few, gemv, matmul, product},
    records::{BF16, F16, F32, MXFP4, Q4_K, Q5_0, Q8_0, repack},
    references::{from_16_bits, to_16_bits},
    trial::{IDLE, Params, Trial, close, floats, image_of, number},
};

/// A kernel, and how it is tried: the text that holds it, an order; how something wrong shows.
pub struct Subject {
    pub module: &'static str,
    pub kernel: &'static str,
    pub attempt: fn(&Trial<'_>) -> Result<(), String>,
}

pub static SUBJECTS: &[Subject] = &[
    Subject { module: "fragments", kernel: "fragments", attempt: every_fragment },
    Subject { module: "norm", kernel: "rms_norm", attempt: rms_norm },
    Subject { module: "repack", kernel: "repack_q5_0", attempt: |t| repack(t, Q5_0) },
    Subject { module: "repack", kernel: "repack_q8_0", attempt: |t| repack(t, Q8_0) },
    Subject { module: "repack", kernel: "repack_q4_k", attempt: |t| repack(t, Q4_K) },
    Subject { module: "repack", kernel: "repack_mxfp4", attempt: |t| repack(t, MXFP4) },
    Subject { module: "product", kernel: "product_1_q5_0", attempt: |t| product(t, Q5_0, 1) },
    Subject { module: "product", kernel: "product_1_q8_0", attempt: |t| product(t, Q8_0, 1) },
    Subject { module: "product", kernel: "product_1_mxfp4", attempt: |t| product(t, MXFP4, 1) },
    Subject { module: "product", kernel: "product_8_q8_0", attempt: |t| product(t, Q8_0, 8) },
    Subject { module: "product", kernel: "product_16_q4_k", attempt: |t| product(t, Q4_K, 16) },
    Subject { module: "gemv", kernel: "gemv_f32", attempt: |t| gemv(t, F32) },
    Subject { module: "gemv", kernel: "gemv_f16", attempt: |t| gemv(t, F16) },
    Subject { module: "gemm", kernel: "gemm_few_bf16", attempt: |t| few(t, BF16) },
    Subject { module: "gemm", kernel: "gemm_q8_0", attempt: |t| matmul(t, Q8_0, ([70, 37, 160], 0, [2, 1, 128])) },
    Subject { module: "attention_rows", kernel: "attention_rows_f16_64", attempt: attention },
    Subject { module: "sample", kernel: "sample_scan", attempt: sample_scan },
    Subject { module: "sample_mask", kernel: "sample_mask", attempt: sample_mask },
];

/// The subject of this name.
pub fn subject(kernel: &str) -> &'static Subject {
    SUBJECTS.iter().find(|s| s.kernel == kernel).expect("a subject")
}

impl Subject {
    /// The head of its module and this kernel alone.
    pub fn excerpt(&self, text: &str) -> String {
        let head = &text[..text.find("\t// .globl").expect("the first kernel")];
        // Declarations of a module stand before the kernel that needs them.
        let of_modules =
            text.lines().filter(|l| l.starts_with(".extern") && !head.contains(*l)).collect::<Vec<_>>().join("\n");
        let start = text.find(&format!(".visible .entry {}(", self.kernel)).expect("the kernel");
        let end = start + text[start..].find("\n}\n").expect("its end") + 3;
        format!("{head}{of_modules}\n{}", &text[start..end])
    }

    /// Runs it in the orders until something is wrong.
    pub fn judge(&self, text: &str, orders: &[Order]) -> Result<(), String> {
        let module = Module::parse(text).map_err(|e| format!("refused: {e}"))?;
        orders.iter().try_for_each(|&order| (self.attempt)(&Trial::new(&module, self.kernel, order)))
    }
}

/// Every operation of the kernel.
fn every_fragment(trial: &Trial<'_>) -> Result<(), String> {
    let mut random = Random(5);
    let rows: Vec<u32> = (0..128).map(|_| random.next() as u32).collect();
    let given: Vec<usize> = (0..32).map(|i| (i * 11 + 5) % 32).collect();
    for op in 0..=10 {
        let what = |e: String| format!("operation {op}: {e}");
        let (mut a, mut b, mut c, mut expected) = (rows.clone(), vec![0; 64], vec![7; 128], vec![7; 128]);
        match op {
            5 if !trial.bf16() => (),
            0..=5 => {
                let Product { lanes, expected: results } = MMA[op as usize].product();
                for (lane, [of_a, of_b, of_c]) in lanes.iter().enumerate() {
                    a[4 * lane..][..of_a.len()].copy_from_slice(of_a);
                    b[2 * lane..][..of_b.len()].copy_from_slice(of_b);
                    c[4 * lane..][..of_c.len()].copy_from_slice(of_c);
                    expected[4 * lane..][..of_c.len()].copy_from_slice(&results[lane]);
                }
            }
            6..=9 => {
                b = given.iter().flat_map(|&row| [row as u32, 0]).collect();
                let matrices = if op < 8 { 2 } else { 4 };
                for (i, word) in expected.iter_mut().enumerate().filter(|(i, _)| i % 4 < matrices) {
                    *word = fragments::dealt(&rows, &given, op % 2 == 1, i / 4, i % 4);
                }
            }
            _ => {
                b = given.iter().enumerate().flat_map(|(i, &row)| [row as u32, u32::from(i % 3 != 0)]).collect();
                for (i, word) in expected.iter_mut().enumerate() {
                    let lane = if i < 64 { 15 - i / 4 } else { 47 - i / 4 };
                    *word = if lane % 3 == 0 { 0 } else { rows[4 * given[lane] + i % 4] };
                }
            }
        }
        let mut memory = Memory::default();
        let (a, b, c) = (memory.put(&a), memory.put(&b), memory.put(&c));
        let params = Params::new("fragments::FragmentsParams").set("op", op).set("a", a).set("b", b).set("c", c);
        trial.run(&memory, &params.bytes, [1; 3], 32, 0).map_err(what)?;
        let found = memory.get::<u32>(c);
        if found != expected {
            return Err(what("wrong".to_owned()));
        }
    }
    Ok(())
}

/// Three rows, one of them idle, that something with weights of its own joins; as numbers and as an image.
fn rms_norm(trial: &Trial<'_>) -> Result<(), String> {
    const N: usize = 544;
    let mut random = Random(6);
    let (x, add) = (floats(3 * N, &mut random), floats(3 * N, &mut random));
    let (post, weight) = (floats(N, &mut random), floats(N, &mut random));
    let mut memory = Memory::default();
    let (at_x, at_add, at_post, at_weight) = (memory.put(&x), memory.put(&add), memory.put(&post), memory.put(&weight));
    let (seq, y) = (memory.put(&[0, -1, 4]), memory.put(&[IDLE; 3 * N]));
    let (q, d, s) = (memory.put(&[99i8; 3 * N]), memory.put(&[IDLE; 3 * N / 32]), memory.put(&[IDLE; 3 * N / 16]));
    let params = Params::new("NormParams")
        .set("x", at_x)
        .set("add", at_add)
        .set("post", at_post)
        .set("weight", at_weight)
        .set("x_out", at_x)
        .set("seq", seq)
        .set("y", y)
        .set("image.QuantizedActivations.q", q)
        .set("image.QuantizedActivations.d", d)
        .set("image.QuantizedActivations.s", s)
        .set("n", N as i32)
        .set("eps", 1e-3f32)
        .set("post_eps", 1e-2f32)
        .set("scale", 0.75f32)
        .set("x_scale", 0.5f32)
        .set("share", 1.0 / N as f32);
    trial.run(&memory, &params.bytes, [3, 1, 1], 512, 0)?;
    let (mut sums, mut normed) = (vec![], vec![]);
    for row in 0..3 {
        let of = |v: &[f32]| v[row * N..][..N].iter().map(|&v| f64::from(v)).collect::<Vec<_>>();
        let (x, add) = (of(&x), of(&add));
        let factor =
            |v: &[f64], eps: f32| 1.0 / (v.iter().map(|v| v * v).sum::<f64>() / N as f64 + f64::from(eps)).sqrt();
        let of_add = 0.75 * factor(&add, 1e-2);
        let sum: Vec<f64> = (0..N).map(|i| x[i] + add[i] * of_add * f64::from(post[i])).collect();
        let of_sum = factor(&sum, 1e-3);
        normed.extend((0..N).map(|i| if row == 1 { f64::from(IDLE) } else { sum[i] * of_sum * f64::from(weight[i]) }));
        sums.extend(if row == 1 { x } else { sum.iter().map(|sum| 0.5 * sum).collect() });
    }
    close(&memory.get(at_x), &sums, 1e-6).map_err(|e| format!("x {e}"))?;
    let y = memory.get::<f32>(y);
    close(&y, &normed, 1e-6).map_err(|e| format!("y {e}"))?;
    // The image of what y holds.
    let idle = |block: usize| block * 32 / N == 1;
    image_of(&y, &idle, &memory.get(q), &memory.get(d), &memory.get(s))
}

/// Two heads over one of keys and values, head_dim 64, at positions in the first and second page; an idle row; two
/// splits.
fn attention(trial: &Trial<'_>) -> Result<(), String> {
    const DIM: usize = 64;
    const PAGE: usize = 64;
    const ROWS: &[(i32, i32)] = &[(0, 69), (-1, 3), (1, 40)];
    const TABLE: [i32; 4] = [2, 0, 3, 1];
    let mut random = Random(8);
    let half = |random: &mut Random| {
        floats(4 * PAGE * DIM, random).iter().map(|&v| to_16_bits(v, 5) as u16).collect::<Vec<_>>()
    };
    let (k, v, q) = (half(&mut random), half(&mut random), floats(ROWS.len() * 2 * DIM, &mut random));
    let at = |plane: &[u16], seq: i32, position: usize, d: usize| {
        let page = TABLE[2 * seq as usize + position / PAGE] as usize;
        from_16_bits(plane[(page * PAGE + position % PAGE) * DIM + d].into(), 5)
    };
    let mut expected = vec![f64::from(IDLE); q.len()];
    for (row, &(seq, last)) in ROWS.iter().enumerate().filter(|(_, row)| row.0 >= 0) {
        for head in 0..2 {
            let q = &q[(2 * row + head) * DIM..][..DIM];
            let score = |p| (0..DIM).map(|d| f64::from(q[d]) * at(&k, seq, p, d)).sum::<f64>() * 0.125;
            let weights: Vec<f64> = (0..=last as usize).map(|p| f64::exp(score(p))).collect();
            let total: f64 = weights.iter().sum();
            for d in 0..DIM {
                let sum: f64 = weights.iter().enumerate().map(|(p, w)| w * at(&v, seq, p, d)).sum();
                expected[(2 * row + head) * DIM + d] = sum / total;
            }
        }
    }
    let mut memory = Memory::default();
    let out = memory.put(&vec![IDLE; q.len()]);
    let (seq, pos): (Vec<i32>, Vec<i32>) = ROWS.iter().copied().unzip();
    let params = Params::new("AttentionParams")
        .set("q", memory.put(&q))
        .set("pos", memory.put(&pos))
        .set("seq", memory.put(&seq))
        .set("cache.Cache.k", memory.put(&k))
        .set("cache.Cache.v", memory.put(&v))
        .set("cache.Cache.table", memory.put(&TABLE))
        .set("cache.Cache.pages", 2)
        .set("out", out)
        .set("partial", memory.put(&vec![f32::NAN; 2 * q.len()]))
        .set("state", memory.put(&[f32::NAN; 8 * ROWS.len()]))
        .set("tickets", memory.put(&[0u32; 2 * ROWS.len()]))
        .set("rows", ROWS.len() as i32)
        .set("n_head", 2)
        .set("n_head_kv", 1)
        .set("group", 2)
        .set("head_dim", DIM as i32)
        .set("value_dim", DIM as i32)
        .set("heads_per_tile", 2)
        .set("rows_per_tile", 1)
        .set("tiles_of_kv", 1)
        .set("place_factor", 1 << 15)
        .set("splits", 2)
        .set("parts", 2)
        .set("scale", 0.125f32);
    let dynamic = number("shared attention_rows_f16_64 sm_80") as u32;
    trial.run(&memory, &params.bytes, [1, ROWS.len() as u32, 2], 256, dynamic)?;
    close(&memory.get(out), &expected, 5e-6)
}

/// A row that takes the best of its logits and tells the host, and an idle one.
fn sample_scan(trial: &Trial<'_>) -> Result<(), String> {
    const VOCAB: usize = 1300;
    const BEST: usize = 777;
    let mut random = Random(9);
    let mut logits = floats(2 * VOCAB, &mut random);
    logits[BEST] = 3.5;
    let sampling = Params::new("sample::Sampling").set("position", 40_u64).set("top_p", 1f32).set("repeat", 1f32);
    let mut memory = Memory::default();
    let (token, pos, ring) = (memory.put(&[-7, -7]), memory.put(&[40, 50]), memory.put(&[0u32; 8]));
    let sampling = memory.put(&sampling.bytes);
    let params = Params::new("sample::SampleParams")
        .set("logits", memory.put(&logits))
        .set("token", token)
        .set("pos", pos)
        .set("seq", memory.put(&[0, -1]))
        .set("sampling", sampling)
        .set("work", memory.put(&vec![0u8; number("sizeof(sample::Work)")]))
        .set("counts", memory.put(&[0u32; VOCAB]))
        .set("ring", ring)
        .set("vocab", VOCAB as i32)
        .set("ring_len", 2);
    for step in 1..=3_u32 {
        trial.run(&memory, &params.bytes, [3, 2, 1], 256, 0)?;
        let entry = ring + 16 * u64::from((step - 1) % 2);
        let place = (entry - ring) as usize / 4;
        let told = std::mem::take(&mut *memory.published.borrow_mut());
        let found = (memory.get::<i32>(token), memory.get::<i32>(pos), memory.get::<u64>(sampling)[1], told);
        let expected = (
            vec![BEST as i32, -7],
            vec![40 + step as i32, 50],
            40 + u64::from(step),
            vec![Some(entry), None, Some(entry)],
        );
        if found != expected {
            return Err(format!("wrong: expected {expected:?}, found {found:?}"));
        }
        if memory.get::<u32>(ring)[place..place + 4] != [step, BEST as u32, 0, 3.5f32.to_bits()] {
            return Err("wrong: the entry of the ring".to_owned());
        }
    }
    Ok(())
}

/// Two of three rows under a mask, with what stays whatever a mask says.
fn sample_mask(trial: &Trial<'_>) -> Result<(), String> {
    const VOCAB: usize = 1300;
    const ROWS: [i32; 2] = [2, 0];
    let mut random = Random(11);
    let mut logits = floats(3 * VOCAB, &mut random);
    (0..3)
        .for_each(|row| logits[row * VOCAB + 40..][..3].copy_from_slice(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY]));
    let masks: Vec<u32> = (0..2 * VOCAB.div_ceil(32)).map(|_| random.next() as u32).collect();
    let mut expected = logits.clone();
    for (mask, row) in masks.chunks(VOCAB.div_ceil(32)).zip(ROWS) {
        for (i, logit) in expected[row as usize * VOCAB..][..VOCAB].iter_mut().enumerate() {
            if mask[i / 32] >> (i % 32) & 1 == 0 && *logit < f32::INFINITY {
                *logit = f32::NEG_INFINITY;
            }
        }
    }
    let mut memory = Memory::default();
    let at = memory.put(&logits);
    let params = Params::new("sample_mask::MaskParams")
        .set("logits", at)
        .set("mask", memory.put(&masks))
        .set("row", memory.put(&ROWS))
        .set("vocab", VOCAB as i32)
        .set("masks", 2);
    trial.run(&memory, &params.bytes, [2, 2, 1], 256, 0)?;
    let found: Vec<f32> = memory.get(at);
    match found.iter().zip(&expected).position(|(found, expected)| found.to_bits() != expected.to_bits()) {
        None => Ok(()),
        Some(i) => Err(format!("wrong: logit {i} is {}, expected {}", found[i], expected[i])),
    }
}
