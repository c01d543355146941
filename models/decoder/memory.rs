//! Everything that the decoder keeps on the device, as parts of one arena.
//!
//! The first part of a name says what for: `weights/`, `kv/`, `activations/`, `state/`. The plan that users see
//! is the sum of these parts, so it is what is allocated.

mod activations;
mod draft_head;
mod experts;
mod latent;
mod operand;
mod sizes;

use std::f32::consts::FRAC_1_SQRT_2;

use qrun_cuda::{
    ArenaLayout, Ptr,
    ops::{
        cache::{Cache, CacheType},
        gemm,
        recurrent::{States, head_len},
        rope_kv,
        sample::{SampleBuffers, SampleShape},
        upload::{Source, Staging, bytes_on_device},
    },
};
use qrun_quant::{Bytes, GgmlType};

use crate::{
    Config, Gives, KvType, LayerPlan, Model, Options,
    kv::{Kind, Shape, kinds},
    layer::{Mixer, Rope},
    spec::EmbeddingScale,
    tensors::{ByRole, Role},
    weights::{self, Linear, NormWeights, Weights},
};

pub use activations::{Activations, Recurrent};
pub use draft_head::{DraftHead, draft_shape};
pub use operand::Operand;
pub use sizes::{STEP_ROWS, given, n_draft, output_rows, rows, step_rows};

/// Numbers for each row with an output: its place; what the sampler looks at; one that has a mask.
pub const MARKS: usize = 5;

/// Biased tokens of a sequence that the device keeps; more than these are left to the host.
const BIASES: usize = 4096;

/// A matrix on the device, in the layout of its format: as in the file, or in tile records.
#[derive(Clone, Copy)]
pub struct Weight {
    pub at: Ptr<u8>,
    pub ty: GgmlType,
    pub rows: usize,
    pub cols: usize,
    /// `[rows]`, or null.
    pub bias: Ptr<f32>,
    /// `[1]`, of experts `[experts]`, or null.
    pub scale: Ptr<f32>,
}

/// Weights of a norm, null where there is none; and its bias, null where it has none.
#[derive(Clone, Copy)]
pub struct NormWeight {
    pub weight: Ptr<f32>,
    pub bias: Ptr<f32>,
}

impl NormWeight {
    pub const NONE: Self = Self { weight: Ptr::NULL, bias: Ptr::NULL };
}

/// Device addresses of one layer's weights.
pub struct Layer {
    vectors: ByRole<Ptr<f32>>,
    norm_biases: ByRole<Ptr<f32>>,
    matrices: ByRole<Weight>,
    /// What the weights of chosen experts are multiplied by, `[experts]`, or null.
    pub choice_scale: Ptr<f32>,
    /// Keys and values; of a recurrent layer none.
    pub cache: Cache,
    /// Of a recurrent layer; `pos`, `seq`, `rows` and `sequences` are those of a step.
    pub states: States,
    /// A state for each sequence: what a step that is taken back brings back, `[n_seq][len]`.
    pub before: Ptr<f32>,
    /// What projections give a recurrent layer in a step with guesses, `[step_rows]`; those that were right need it once more.
    pub guessed: Recurrent,
    /// Angle per position of each pair of this layer's RoPE, `[n_rot / 2]`.
    pub frequencies: Ptr<u64>,
    /// What the layer's output is multiplied by.
    pub output_scale: f32,
}

impl Layer {
    /// A vector, or null where the architecture lacks it.
    pub fn vector(&self, role: Role) -> Ptr<f32> {
        self.vectors.get(role).copied().unwrap_or(Ptr::NULL)
    }
    /// A norm of the residual stream.
    pub fn norm(&self, role: Role) -> NormWeight {
        let bias = self.norm_biases.get(role).copied().unwrap_or(Ptr::NULL);
        NormWeight { weight: self.vector(role), bias }
    }
    pub fn matrices<const N: usize>(&self, roles: [Role; N]) -> [Weight; N] {
        roles.map(|role| self.matrices[role])
    }
    /// Gate, where there is one, up and down.
    pub fn feed_forward(&self, [gate, up, down]: [Role; 3]) -> (Option<Weight>, [Weight; 2]) {
        (self.matrices.get(gate).copied(), self.matrices([up, down]))
    }
}

/// What joins embeddings of tokens, as far as the architecture has it.
pub struct Input {
    /// First row of `token_types`, `[n_embd]`, or null.
    pub token_type: Ptr<f32>,
    /// A row for each position.
    pub positions: Option<Weight>,
    /// Norm of the sum.
    pub norm: NormWeight,
}

/// What the rows of a launch are, `[rows]` each.
#[derive(Clone, Copy)]
pub struct Rows {
    /// Token ids; positions and sequences follow them.
    pub token: Ptr<i32>,
    pub pos: Ptr<i32>,
    /// Below 0: an idle row.
    pub seq: Ptr<i32>,
    /// Tokens of each row's text, where tokens see those behind them; else null.
    pub end: Ptr<i32>,
}

impl Rows {
    fn at(token: Ptr<i32>, rows: usize) -> Self {
        Self { token, pos: token.add(rows), seq: token.add(2 * rows), end: Ptr::NULL }
    }
}

/// Every address that a step's kernels take: weights, caches, activations, sampler.
pub struct Memory {
    pub token_embd: Weight,
    pub layers: Vec<Layer>,
    /// Kinds of layers, and the kind of each.
    pub kinds: Vec<Kind>,
    pub kind_of_layer: Vec<usize>,
    /// By kind: the page of each slot of each sequence, `[n_seq][slots]`.
    pub tables: Vec<Ptr<i32>>,
    /// Weights of the norm of embeddings, all 1; null where there is none.
    pub embedding_norm: Ptr<f32>,
    pub input: Input,
    pub output_norm: NormWeight,
    pub head: Weight,
    /// Where it guesses; the last two of the layers are its.
    pub draft_head: Option<DraftHead>,
    /// From a token's embedding to that for each layer, and the norm of what it gives; `None` where there are none.
    pub per_layer: Option<(Weight, Ptr<f32>)>,
    /// Rows that the host waits for: prompts, and steps that do not run ahead.
    pub rows: Rows,
    /// Which of them have an output, `[output_rows]`; the next two follow.
    pub marked: Ptr<i32>,
    /// Those of them that the sampler looks at, `[output_rows]`.
    pub sampled: Rows,
    /// Places among them of those that have a mask, `[output_rows]`.
    pub masked: Ptr<i32>,
    /// Rows of steps that run ahead, `[STEP_ROWS]`.
    pub ahead: Rows,
    /// Guesses that have turned out right, in their places in the step that took them, `[step_rows]`.
    pub accepted: Rows,
    pub activations: Activations,
    pub sampling: SampleBuffers,
    /// What has to be copied where before the first step, and where it passes through.
    pub uploads: Vec<Upload>,
    pub staging: Staging,
}

/// Bytes on their way to the device.
pub struct Upload {
    to: Ptr<u8>,
    bytes: Bytes,
    /// Format, rows and columns of a matrix.
    matrix: Option<(GgmlType, [usize; 2])>,
}

impl Upload {
    pub fn source(&self) -> Source<'_> {
        match self.matrix {
            Some((ty, shape)) => Source::Matrix(self.to, &self.bytes, ty, shape),
            None => Source::Bytes(self.to, &self.bytes),
        }
    }
}

/// Takes parts and notes what belongs there.
struct Loader<'a> {
    layout: &'a mut ArenaLayout,
    uploads: Vec<Upload>,
}

impl Loader<'_> {
    fn bytes(&mut self, name: String, bytes: Bytes) -> Ptr<u8> {
        let at = self.layout.take(name, bytes.len());
        self.uploads.push(Upload { to: at, bytes, matrix: None });
        at
    }

    fn values<T: Copy, const N: usize>(&mut self, name: String, values: &[T], le: fn(T) -> [u8; N]) -> Ptr<T> {
        let bytes: Vec<u8> = values.iter().flat_map(|&v| le(v)).collect();
        self.bytes(name, Bytes::new(bytes)).cast()
    }

    fn vector(&mut self, name: String, values: &[f32]) -> Ptr<f32> {
        self.values(name, values, f32::to_le_bytes)
    }

    fn optional(&mut self, name: String, values: &Option<Vec<f32>>) -> Ptr<f32> {
        values.as_ref().map_or(Ptr::NULL, |v| self.vector(name, v))
    }

    fn matrix(&mut self, name: &str, w: &qrun_quant::cpu::Matrix) -> Weight {
        let (ty, rows, cols) = (w.ty(), w.rows(), w.cols());
        let at = self.layout.take(format!("weights/{name}.weight"), bytes_on_device(ty, [rows, cols]));
        self.uploads.push(Upload { to: at, bytes: w.file_bytes().clone(), matrix: Some((ty, [rows, cols])) });
        Weight { at, ty, rows, cols, bias: Ptr::NULL, scale: Ptr::NULL }
    }

    fn norm(&mut self, name: &str, norm: &NormWeights) -> NormWeight {
        let weight = self.vector(format!("weights/{name}.weight"), &norm.weight);
        NormWeight { weight, bias: self.optional(format!("weights/{name}.bias"), &norm.bias) }
    }

    fn linear(&mut self, name: &str, linear: &Linear) -> Weight {
        let weight = self.matrix(name, &linear.w);
        let bias = self.optional(format!("weights/{name}.bias"), &linear.bias);
        let scale = self.optional(format!("weights/{name}.scale"), &linear.scale);
        Weight { bias, scale, ..weight }
    }
}

impl Memory {
    /// The layers of the model itself.
    pub fn own_layers(&self) -> &[Layer] {
        let of_draft_head = if self.draft_head.is_some() { 2 } else { 0 };
        &self.layers[..self.layers.len() - of_draft_head]
    }

    /// Lays out a model. Takes the same parts every time.
    pub fn lay_out(layout: &mut ArenaLayout, model: &Model, o: &Options) -> Self {
        let (c, w) = (&model.config.as_cached(o), &*model.weights);
        let mut loader = Loader { layout, uploads: Vec::new() };
        let token_embd = loader.matrix("token_embd", &w.token_embd);
        let embedding_norm = match c.arch.embedding_scale {
            EmbeddingScale::RmsNorm => loader.vector("weights/embedding_norm".into(), &vec![1.0; c.n_embd]),
            EmbeddingScale::One | EmbeddingScale::SqrtEmbd | EmbeddingScale::Key => Ptr::NULL,
        };
        let input = Input {
            token_type: loader.optional("weights/token_types.weight".into(), &w.input.token_type),
            positions: w.input.positions.as_ref().map(|positions| loader.matrix("position_embd", positions)),
            norm: w.input.norm.as_ref().map_or(NormWeight::NONE, |norm| loader.norm("token_embd_norm", norm)),
        };
        let frequencies = frequencies(&mut loader, c, w, o.n_ctx);
        let (kinds, kind_of_layer) = kinds(c, o, rows(o));
        let mut table = |(i, kind): (usize, &Kind)| {
            loader.layout.take(format!("kv/{}.{i}.table", reach(kind)), o.n_seq * kind.slots)
        };
        let tables: Vec<Ptr<i32>> = kinds.iter().enumerate().map(&mut table).collect();
        let of_head = w.draft_head.as_ref().filter(|_| c.draft_head.is_some());
        // Behind the layers the hidden states that a draft head keeps, which have no weights, and its block.
        let of_draft_head = of_head.iter().flat_map(|head| [None, Some(&head.block)]);
        let layers = w.layers.iter().map(Some).chain(of_draft_head).enumerate().map(|(il, layer)| {
            let kind = kind_of_layer[il];
            let (plan, at) = (&c.layers[il], (il, tables[kind]));
            let (mut kept, mut states, mut before) = (Cache::default(), States::default(), Ptr::NULL);
            match state_len(plan) {
                0 => kept = cache(loader.layout, Shape::new(plan, o), &kinds[kind], at),
                len => (states, before) = states_of(loader.layout, len, &kinds[kind], at, o.n_seq),
            }
            let (mut vectors, mut norm_biases, mut matrices) = Default::default();
            let (mut guessed, mut choice_scale, mut output_scale) = (Recurrent::NONE, Ptr::NULL, 1.0);
            if let Some(layer) = layer {
                guessed = Recurrent::guessed(loader.layout, (il, plan), o);
                (vectors, norm_biases, matrices) = weights_of(&mut loader, il, layer, c.n_embd);
                choice_scale = loader.optional(format!("weights/blk.{il}.ffn_down_exps.scale"), &layer.choice_scale);
                output_scale = layer.vectors.get(Role::LayerOutputScale).map_or(1.0, |scale| scale[0]);
            }
            let frequencies = frequencies[il];
            Layer {
                vectors,
                norm_biases,
                matrices,
                choice_scale,
                cache: kept,
                states,
                before,
                guessed,
                frequencies,
                output_scale,
            }
        });
        let layers: Vec<Layer> = layers.collect();
        // Logits are as large as what their norm gives: there is their scale.
        let scale = if o.gives == Gives::Logits { c.logit_scale } else { 1.0 };
        let scaled = |values: &[f32]| values.iter().map(|x| x * scale).collect::<Vec<_>>();
        let output_norm = w.output_norm.as_ref().map_or(NormWeight::NONE, |norm| {
            let bias = norm.bias.as_deref().map(scaled);
            loader.norm("output_norm", &NormWeights { weight: scaled(&norm.weight), bias })
        });
        let output = w.output.as_ref().filter(|_| o.gives == Gives::Logits);
        let head_weight = output.map_or(token_embd, |output| {
            let bias = output.bias.as_deref().map(scaled);
            loader.linear("output", &Linear { bias, ..output.clone() })
        });
        let per_layer = w.per_layer.as_ref().map(|per_layer| {
            let proj = loader.linear("per_layer_model_proj", &per_layer.model_proj);
            // Both halves of the sum have its factor.
            let norm: Vec<f32> = per_layer.proj_norm.iter().map(|x| x * FRAC_1_SQRT_2).collect();
            (proj, loader.vector("weights/per_layer_proj_norm.weight".into(), &norm))
        });
        let draft_head =
            of_head.map(|head| DraftHead::take(&mut loader, (c, o), head, (token_embd, output_norm, head_weight)));
        let n = rows(o);
        let state = |layout: &mut ArenaLayout, name: &str, len| layout.take(format!("state/{name}"), len);
        let end = if c.is_bidirectional() { state(loader.layout, "ends", n) } else { Ptr::NULL };
        let rows = Rows { end, ..Rows::at(state(loader.layout, "rows", 3 * n), n) };
        let n = output_rows(o);
        let marked = state(loader.layout, "marked", MARKS * n);
        let sampled = Rows::at(marked.add(n), n);
        let masked = marked.add((MARKS - 1) * n);
        let ahead = Rows::at(state(loader.layout, "ahead", 3 * STEP_ROWS), STEP_ROWS);
        let n = if n_draft(o) > 0 { step_rows(o) } else { 0 };
        let accepted = Rows::at(state(loader.layout, "accepted", 3 * n), n);
        let matrices = loader.uploads.iter().filter_map(|upload| upload.matrix);
        let widest = matrices.filter(|(ty, _)| gemm::wants_terms(*ty)).map(|(_, [_, cols])| cols).max();
        let activations = activations::activations(loader.layout, c, o, widest.unwrap_or(0));
        let buffers = sample_shape(c, o).take(loader.layout);
        let uploads = loader.uploads;
        let matrices = uploads.iter().filter_map(|upload| upload.matrix);
        let staging = Staging::take(layout, "activations/upload", matrices);
        Self {
            token_embd,
            layers,
            kinds,
            kind_of_layer,
            tables,
            embedding_norm,
            input,
            output_norm,
            head: head_weight,
            draft_head,
            per_layer,
            rows,
            marked,
            sampled,
            masked,
            ahead,
            accepted,
            activations,
            sampling: buffers,
            uploads,
            staging,
        }
    }
}

/// The weights of a layer, in the order of their roles.
fn weights_of(
    t: &mut Loader,
    il: usize,
    w: &weights::Layer,
    n_embd: usize,
) -> (ByRole<Ptr<f32>>, ByRole<Ptr<f32>>, ByRole<Weight>) {
    let (mut vectors, mut norm_biases, mut matrices) = (ByRole::default(), ByRole::default(), ByRole::default());
    for role in Role::ALL {
        let name = format!("blk.{il}.{}", role.name());
        if let Some(values) = w.vectors.get(role) {
            // The router's input is divided by the root of its width besides.
            let factor = if role == Role::FfnGateInpScale { 1.0 / (n_embd as f32).sqrt() } else { 1.0 };
            let values: Vec<f32> = values.iter().map(|x| x * factor).collect();
            vectors.set(role, t.vector(format!("weights/{name}.weight"), &values));
        }
        if let Some(bias) = w.norm_biases.get(role) {
            norm_biases.set(role, t.vector(format!("weights/{name}.bias"), bias));
        }
        if let Some(linear) = w.matrices.get(role) {
            matrices.set(role, t.linear(&name, linear));
        }
    }
    (vectors, norm_biases, matrices)
}

/// One table per kind of RoPE; returns the table of each layer.
fn frequencies(t: &mut Loader, c: &Config, w: &Weights, n_ctx: usize) -> Vec<Ptr<u64>> {
    let mut kinds: Vec<(Rope, Ptr<u64>)> = Vec::new();
    let of_layer = c.layers.iter().map(|l| {
        if let Some((_, table)) = kinds.iter().find(|(rope, _)| *rope == l.rope) {
            return *table;
        }
        let radians = l.rope.frequencies(w.rope_factors.of(&l.rope, n_ctx));
        let values: Vec<u64> = radians.into_iter().map(rope_kv::turns).collect();
        let table = t.values(format!("weights/rope.{}", kinds.len()), &values, u64::to_le_bytes);
        kinds.push((l.rope, table));
        table
    });
    of_layer.collect()
}

/// What a kind of layer keeps, as the names of parts have it.
fn reach(kind: &Kind) -> &'static str {
    match kind.window {
        _ if kind.recurrent => "states",
        Some(_) => "window",
        None => "global",
    }
}

/// Floats of the state of a layer as the kernels have it; 0 of attention. Each head with a matrix has what it needs for itself:
/// inputs of keys that heads share lie there several times.
pub fn state_len(l: &LayerPlan) -> usize {
    match l.mixer {
        Mixer::DeltaNet(d) => d.n_head_v * head_len([d.dim_k, d.dim_v, d.taps]),
        Mixer::Mamba2(m) => m.n_head * head_len([m.n_state, m.head_dim, m.taps]),
        Mixer::Attention | Mixer::ShortConv { .. } | Mixer::None => l.state_len(),
    }
}

/// The pages of a recurrent layer, and what its steps take back.
fn states_of(
    layout: &mut ArenaLayout,
    len: usize,
    kind: &Kind,
    (il, table): (usize, Ptr<i32>),
    n_seq: usize,
) -> (States, Ptr<f32>) {
    let pages = layout.take(format!("kv/states.blk.{il}"), kind.pages * len);
    let before = layout.take(format!("kv/states.blk.{il}.before"), n_seq * len);
    (States { pages, table, slots: kind.slots as i32, len: len as i32, ..States::default() }, before)
}

/// The pages of one layer.
fn cache(layout: &mut ArenaLayout, shape: Shape, kind: &Kind, (il, table): (usize, Ptr<i32>)) -> Cache {
    let ty = cache_type(shape.type_k);
    let (elements, scales) = ty.page_bytes(shape.head_dim);
    let heads = kind.pages * shape.n_head_kv;
    let mut planes = |name: &str| {
        let part = format!("kv/{}.blk.{il}.{name}", reach(kind));
        let elements = layout.take(part.clone(), heads * elements);
        let scales = if scales > 0 { layout.take(format!("{part}_scale"), heads * scales / 2) } else { Ptr::NULL };
        (elements, scales)
    };
    let (k, k_scale) = planes("k");
    // Of latent attention values are the front of keys.
    let (v, v_scale) = if shape.type_v.is_some() { planes("v") } else { (k, k_scale) };
    Cache { k, v, k_scale, v_scale, table, pages: kind.slots as i32, kind: ty }
}

/// What the device needs to sample: room for a state per sequence.
pub fn sample_shape(c: &Config, o: &Options) -> SampleShape {
    SampleShape { sequences: o.n_seq, vocab: given(c, o), history: o.n_ctx, biases: BIASES }
}

/// The kernels' name of a type that [`super::GpuDecoder::supports`].
pub fn cache_type(ty: KvType) -> CacheType {
    if ty == KvType::Q8_0 { CacheType::Q8_0 } else { CacheType::F16 }
}
