//! Layers with states in f64, token by token, and numbers for them.

use std::ops::Range;

use qrun_cuda::ops::recurrent::head_len;

use crate::harness::Random;

/// Joins the squares of queries and keys, and their mean in the norm of a result.
pub const EPS: f32 = 1e-6;

/// What kind of layer, and its sizes.
#[derive(Clone, Copy)]
pub enum Layer {
    /// Heads of keys and of values, elements of a key and of a value, taps, and whether value heads of a key head follow each other.
    Delta {
        heads: [usize; 2],
        dims: [usize; 2],
        taps: usize,
        grouped: bool,
    },
    /// Groups and heads, rows of a state and elements of a head, taps, and whether the convolution has a bias.
    Mamba {
        heads: [usize; 2],
        dims: [usize; 2],
        taps: usize,
        bias: bool,
    },
    Conv {
        channels: usize,
        taps: usize,
    },
}

/// Values of a layer: drawn, the same for a token wherever it is computed.
pub struct Data {
    pub conv: Vec<f32>,
    /// Added to what the convolution gives; zeros where there is none.
    pub bias: Vec<f32>,
    /// How much of its value a head of Mamba-2 gives as it is.
    pub d: Vec<f32>,
    pub dt: Vec<f32>,
    pub a: Vec<f32>,
    pub norm: Vec<f32>,
}

/// What goes into a layer for a token.
pub struct Token {
    pub input: Vec<f32>,
    pub z: Vec<f32>,
    pub alpha: Vec<f32>,
    pub beta: Vec<f32>,
}

impl Layer {
    pub fn taps(self) -> usize {
        match self {
            Self::Delta { taps, .. } | Self::Mamba { taps, .. } | Self::Conv { taps, .. } => taps,
        }
    }
    /// Channels of the convolution.
    pub fn channels(self) -> usize {
        match self {
            Self::Delta { heads: [k, v], dims: [dim_k, dim_v], .. }
            | Self::Mamba { heads: [k, v], dims: [dim_k, dim_v], .. } => 2 * k * dim_k + v * dim_v,
            Self::Conv { channels, .. } => channels,
        }
    }
    /// Elements of a result.
    pub fn width(self) -> usize {
        match self {
            Self::Delta { heads: [_, v], dims: [_, dim_v], .. }
            | Self::Mamba { heads: [_, v], dims: [_, dim_v], .. } => v * dim_v,
            Self::Conv { channels, .. } => channels,
        }
    }
    /// Floats of a page.
    pub fn page(self) -> usize {
        match self {
            Self::Delta { heads: [_, v], dims: [dim_k, dim_v], taps, .. }
            | Self::Mamba { heads: [_, v], dims: [dim_k, dim_v], taps, .. } => v * head_len([dim_k, dim_v, taps]),
            Self::Conv { channels, taps } => (taps - 1) * channels,
        }
    }
    pub fn data(self) -> Data {
        let mut r = Random::new(3);
        let (heads, dim_v) = match self {
            Self::Delta { heads: [_, v], dims: [_, dim_v], .. } => (v, dim_v),
            Self::Mamba { heads: [_, v], .. } => (v, 1),
            Self::Conv { .. } => (1, 1),
        };
        let has_bias = matches!(self, Self::Mamba { bias: true, .. });
        let mut normals = |n: usize, mean: f32, std: f32| r.normals(n).iter().map(|x| mean + std * x).collect();
        Data {
            conv: normals(self.channels() * self.taps(), 0.2, 0.4),
            dt: normals(heads, 0.0, 0.5),
            a: normals(heads, -0.3, 0.1),
            norm: normals(dim_v, 1.0, 0.2),
            d: normals(heads, 0.5, 0.5),
            bias: normals(self.channels(), 0.0, if has_bias { 0.3 } else { 0.0 }),
        }
    }
    pub fn token(self, seq: usize, pos: usize) -> Token {
        let mut r = Random::new((seq as u64) << 32 | pos as u64);
        let (input, heads) = match self {
            Self::Delta { heads: [_, v], .. } => (self.channels(), v),
            Self::Mamba { heads: [_, v], .. } => (self.width() + self.channels() + v, 0),
            Self::Conv { channels, .. } => (3 * channels, 0),
        };
        Token { input: r.normals(input), z: r.normals(self.width()), alpha: r.normals(heads), beta: r.normals(heads) }
    }
}

/// A sequence in f64.
pub struct Reference {
    layer: Layer,
    data: Data,
    /// The last inputs of the convolution, oldest first.
    past: Vec<Vec<f64>>,
    /// The state of each head, a row for each element of a key: `[head][dim_k][dim_v]`.
    matrices: Vec<Vec<Vec<f64>>>,
}

impl Layer {
    /// Channels of a head's query, key and value.
    fn of_head(self, head: usize) -> [Range<usize>; 3] {
        let (first, [dim_k, dim_v]) = match self {
            Self::Delta { heads: [n_k, n_v], dims: [dim_k, dim_v], grouped, .. } => {
                let key = if grouped { head / (n_v / n_k) } else { head % n_k };
                ([key * dim_k, (n_k + key) * dim_k, 2 * n_k * dim_k + head * dim_v], [dim_k, dim_v])
            }
            Self::Mamba { heads: [n_group, n_head], dims: [dim_k, dim_v], .. } => {
                let (inner, group) = (n_head * dim_v, head / (n_head / n_group));
                ([inner + (n_group + group) * dim_k, inner + group * dim_k, head * dim_v], [dim_k, dim_v])
            }
            Self::Conv { .. } => unreachable!("it has no heads"),
        };
        [first[0]..first[0] + dim_k, first[1]..first[1] + dim_k, first[2]..first[2] + dim_v]
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

impl Reference {
    pub fn new(layer: Layer) -> Self {
        let matrices = match layer {
            Layer::Delta { heads: [_, v], dims: [dim_k, dim_v], .. }
            | Layer::Mamba { heads: [_, v], dims: [dim_k, dim_v], .. } => vec![vec![vec![0.0; dim_v]; dim_k]; v],
            Layer::Conv { .. } => Vec::new(),
        };
        Self { layer, data: layer.data(), past: vec![vec![0.0; layer.channels()]; layer.taps() - 1], matrices }
    }

    fn convolve(&mut self, input: Vec<f64>) -> Vec<f64> {
        let taps = self.layer.taps();
        self.past.push(input);
        let weighted = |c: usize, j: usize| f64::from(self.data.conv[c * taps + j]) * self.past[j][c];
        let sum = |c: usize| f64::from(self.data.bias[c]) + (0..taps).map(|j| weighted(c, j)).sum::<f64>();
        let out = (0..self.layer.channels()).map(sum).collect();
        self.past.remove(0);
        out
    }

    /// The next token.
    pub fn next(&mut self, token: &Token) -> Vec<f64> {
        let input: Vec<f64> = token.input.iter().map(|&x| f64::from(x)).collect();
        match self.layer {
            Layer::Delta { .. } => self.next_of_delta(token, input),
            Layer::Mamba { .. } => self.next_of_mamba(&input),
            Layer::Conv { channels: n, .. } => {
                let gated = (0..n).map(|c| input[c] * input[2 * n + c]).collect();
                self.convolve(gated).iter().zip(&input[n..]).map(|(x, c)| x * c).collect()
            }
        }
    }

    fn next_of_mamba(&mut self, input: &[f64]) -> Vec<f64> {
        let (z, rest) = input.split_at(self.layer.width());
        let (channels, steps) = rest.split_at(self.layer.channels());
        let mixed: Vec<f64> = self.convolve(channels.to_vec()).into_iter().map(|x| x * sigmoid(x)).collect();
        let mut out = Vec::new();
        for (head, s) in self.matrices.iter_mut().enumerate() {
            let [c, b, x] = self.layer.of_head(head).map(|range| &mixed[range]);
            let step = (steps[head] + f64::from(self.data.dt[head])).exp().ln_1p();
            let decay = (step * f64::from(self.data.a[head])).exp();
            for (row, b) in s.iter_mut().zip(b) {
                row.iter_mut().zip(x).for_each(|(s, x)| *s = *s * decay + b * step * x);
            }
            let d = f64::from(self.data.d[head]);
            out.extend((0..x.len()).map(|j| s.iter().zip(c).map(|(row, c)| row[j] * c).sum::<f64>() + d * x[j]));
        }
        out.iter().zip(z).map(|(y, z)| y * z * sigmoid(*z)).collect()
    }

    fn next_of_delta(&mut self, token: &Token, input: Vec<f64>) -> Vec<f64> {
        let Layer::Delta { heads: [_, n_v], dims: [dim_k, dim_v], .. } = self.layer else {
            unreachable!("asked before")
        };
        let mixed: Vec<f64> = self.convolve(input).into_iter().map(|x| x * sigmoid(x)).collect();
        let unit = |x: &[f64]| {
            let length = (x.iter().map(|x| x * x).sum::<f64>() + f64::from(EPS)).sqrt();
            x.iter().map(|x| x / length).collect::<Vec<f64>>()
        };
        let mut out = Vec::new();
        for head in 0..n_v {
            let [q, k, v] = self.layer.of_head(head).map(|range| &mixed[range]);
            let (q, k) = (unit(q), unit(k));
            let x = f64::from(token.alpha[head]) + f64::from(self.data.dt[head]);
            let decay = (x.exp().ln_1p() * f64::from(self.data.a[head])).exp();
            let beta = sigmoid(f64::from(token.beta[head]));
            let s = &mut self.matrices[head];
            s.iter_mut().flatten().for_each(|x| *x *= decay);
            let found: Vec<f64> = (0..dim_v).map(|j| (0..dim_k).map(|i| s[i][j] * k[i]).sum()).collect();
            for i in 0..dim_k {
                (0..dim_v).for_each(|j| s[i][j] += k[i] * beta * (v[j] - found[j]));
            }
            let root = (dim_k as f64).sqrt();
            let given: Vec<f64> = (0..dim_v).map(|j| (0..dim_k).map(|i| s[i][j] * q[i]).sum::<f64>() / root).collect();
            let rms = (given.iter().map(|x| x * x).sum::<f64>() / dim_v as f64 + f64::from(EPS)).sqrt();
            for (j, x) in given.iter().enumerate() {
                let z = f64::from(token.z[head * dim_v + j]);
                out.push(x / rms * f64::from(self.data.norm[j]) * z * sigmoid(z));
            }
        }
        out
    }

    /// The state as a page has it.
    pub fn page(&self) -> Vec<f64> {
        if self.matrices.is_empty() {
            return self.past.concat();
        }
        let mut page = Vec::new();
        for (head, s) in self.matrices.iter().enumerate() {
            (0..s[0].len()).for_each(|j| page.extend(s.iter().map(|row| row[j])));
            for past in &self.past {
                self.layer.of_head(head).into_iter().for_each(|range| page.extend_from_slice(&past[range]));
            }
        }
        page
    }
}
