//! A file's tensors as the weights of a model: names, shapes, fused and tied tensors.

mod draft_head;
mod heads;
mod loader;

use std::ops::Range;

use qrun_quant::{
    GgmlType, Gguf, Result,
    cpu::{Matrix, TILE_ROWS},
    gguf::Tensor,
};

use crate::{
    Gives, Options,
    config::Config,
    layer::{KvSource, LayerPlan, Rope, RopeFactors},
    tensors::{self, ByRole, Dims, Fused, Role},
};
pub use draft_head::DraftHead;
use loader::TensorLoader;

/// All weights of a model. A clone shares the mapped bytes.
#[derive(Clone)]
pub struct Weights {
    /// Token embedding `[n_vocab][n_embd]`; also the head where the file has no `output.weight`.
    pub token_embd: Matrix,
    /// The layers, first to last.
    pub layers: Vec<Layer>,
    /// What joins token embeddings.
    pub input: InputWeights,
    /// Norm before the head; `None` where the last layer ends in one.
    pub output_norm: Option<NormWeights>,
    /// Head `[n_vocab][n_embd]`; `None` where it is tied to the embedding.
    pub output: Option<Linear>,
    /// Divisors of RoPE frequencies.
    pub rope_factors: RopeDivisors,
    /// Embeddings of a token for each layer.
    pub per_layer: Option<PerLayer>,
    /// What the embedding of a text goes through at last, one after the other (`dense_2`, `dense_3`).
    pub dense: Vec<Linear>,
    /// What guesses further tokens, where it was asked for; only a CPU runs it.
    pub draft_head: Option<DraftHead>,
}

/// What joins token embeddings, as far as [`crate::spec::Input`] says.
#[derive(Clone, Default)]
pub struct InputWeights {
    /// The first row of `token_types`, `[n_embd]`.
    pub token_type: Option<Vec<f32>>,
    /// `position_embd`, `[n_ctx_train][n_embd]`.
    pub positions: Option<Matrix>,
    /// Norm of the sum.
    pub norm: Option<NormWeights>,
}

/// A norm outside of the layers.
#[derive(Clone)]
pub struct NormWeights {
    /// `[n_embd]`.
    pub weight: Vec<f32>,
    /// `[n_embd]`, where the architecture's norms have one.
    pub bias: Option<Vec<f32>>,
}

/// What embeddings of tokens for each layer are made of, [`crate::LayerPlan::n_embd_per_layer`] elements for a layer.
#[derive(Clone)]
pub struct PerLayer {
    /// `per_layer_token_embd.weight`, `[n_vocab][layers · elements]`. More than half of some models, of which a token reads
    /// one row: it stays where it is mapped.
    pub token_embd: Matrix,
    /// `per_layer_model_proj`, from the token embedding, `[layers · elements][n_embd]`.
    pub model_proj: Linear,
    /// RMSNorm of what it gives for a layer.
    pub proj_norm: Vec<f32>,
}

/// Divisors of RoPE frequencies, `[n_rot / 2]` each; empty where the file has none.
#[derive(Clone, Default)]
pub struct RopeDivisors {
    /// `rope_freqs.weight` (Llama 3.1 and later).
    freqs: Vec<f32>,
    /// `rope_factors_short.weight` and `rope_factors_long.weight` (Phi).
    by_context: [Vec<f32>; 2],
}

impl RopeDivisors {
    /// Those that apply to a rotary embedding in sessions of `n_ctx` tokens.
    pub fn of(&self, rope: &Rope, n_ctx: usize) -> Option<&[f32]> {
        match rope.factors {
            RopeFactors::None => None,
            RopeFactors::Freqs => Some(&self.freqs),
            RopeFactors::ByContext { original } => Some(&self.by_context[usize::from(n_ctx > original)]),
        }
    }
}

/// A matrix with an optional scale and bias; or those of all experts, or heads, one below the other.
#[derive(Clone)]
pub struct Linear {
    /// `[out][in]`; of experts `[experts · out][in]`.
    pub w: Matrix,
    /// `[1]`; of experts `[experts]`. Products are multiplied by it before a bias is added.
    pub scale: Option<Vec<f32>>,
    /// `[out]`; of experts `[experts · out]`.
    pub bias: Option<Vec<f32>>,
    /// How many experts (or heads) there are, and how many of them a token takes; `None`: one matrix for every token.
    pub experts: Option<[usize; 2]>,
}

/// What is done to the products of a matrix.
#[derive(Clone, Copy)]
pub struct Finish<'a> {
    /// They are multiplied by this.
    pub scale: Option<f32>,
    /// Then this is added, `[out]`.
    pub bias: Option<&'a [f32]>,
}

impl Linear {
    /// Whether nothing is done to its products.
    pub fn is_bare(&self) -> bool {
        self.scale.is_none() && self.bias.is_none()
    }

    /// What is done to its products; of a matrix for every token.
    pub fn finish(&self) -> Finish<'_> {
        Finish { scale: self.scale.as_ref().map(|scale| scale[0]), bias: self.bias.as_deref() }
    }

    /// One expert's, or head's.
    pub fn expert(&self, expert: usize) -> (Matrix, Finish<'_>) {
        let rows = self.w.rows() / self.experts.map_or(1, |[n, _]| n);
        let own = expert * rows..(expert + 1) * rows;
        let finish = Finish {
            scale: self.scale.as_ref().map(|scales| scales[expert]),
            bias: self.bias.as_deref().map(|bias| &bias[own.clone()]),
        };
        (self.w.slice_rows(own), finish)
    }

    /// Bytes that a token reads.
    fn bytes_per_token(&self) -> u64 {
        let bytes = self.w.bytes() as u64;
        self.experts.map_or(bytes, |[n, used]| bytes / n as u64 * used as u64)
    }
}

/// Weights of one layer, in the shapes of [`tensors::of_layer`].
#[derive(Clone)]
pub struct Layer {
    /// Norm weights, biases, and taps of convolutions, as f32.
    pub vectors: ByRole<Vec<f32>>,
    /// Biases of norms, by the role of the weights and as long as these.
    pub norm_biases: ByRole<Vec<f32>>,
    /// Projections. What one tensor of the file holds together is apart.
    pub matrices: ByRole<Linear>,
    /// What the weight of an expert is multiplied by where a token takes it, `[experts]`: the scales of `ffn_down_exps`, so
    /// long as nothing is added to its products.
    pub choice_scale: Option<Vec<f32>>,
}

impl Weights {
    /// Maps the weights; every tensor of the file must have a place in the model.
    ///
    /// # Errors
    /// A tensor is missing, has another shape or format than the model needs, or has no place in the model; the error
    /// names it, what was expected and what was found.
    pub fn load(g: &Gguf, c: &Config) -> Result<Self> {
        let loader = TensorLoader::new(g);
        let layers =
            c.layers.iter().enumerate().map(|(il, plan)| layer(&loader, c, il, plan)).collect::<Result<_>>()?;
        let token_embd = loader.matrix("token_embd.weight", c.n_vocab, c.n_embd)?;
        let output = match g.tensor("output.weight") {
            Some(_) => Some(loader.linear("output", c.n_vocab, c.n_embd)?),
            None => None,
        };
        let rope_factors = rope_divisors(&loader, c)?;
        let per_layer = per_layer(&loader, c)?;
        let input = input(&loader, c)?;
        let output_norm = c.arch.residual.final_norm().then(|| loader.norm(c, c.arch.output_norm)).transpose()?;
        let dense = dense(&loader, c)?;
        let draft_head = c.draft_head.map(|block| DraftHead::load(&loader, c, &block)).transpose()?;
        loader.refuse_leftovers(c)?;
        Ok(Self { token_embd, layers, input, output_norm, output, rope_factors, per_layer, dense, draft_head })
    }

    /// The same for a decoder that gives hidden states: without a head.
    pub fn without_head(&self) -> Self {
        Self { output: None, ..self.clone() }
    }

    /// The head: its own matrix, or the embedding.
    pub fn head(&self) -> &Matrix {
        self.output.as_ref().map_or(&self.token_embd, |o| &o.w)
    }

    /// All matrices that may be repacked, the embedding first, each one once: all but those of experts and heads that do
    /// not begin with a tile, and the table of embeddings for each layer.
    pub fn repackable_mut(&mut self) -> impl Iterator<Item = &mut Matrix> {
        let proj = self.per_layer.as_mut().map(|per_layer| &mut per_layer.model_proj);
        let head = self.draft_head.iter_mut().flat_map(DraftHead::linears_mut);
        let layers = self.layers.iter_mut().flat_map(|l| l.matrices.iter_mut());
        let layers = layers.chain(&mut self.output).chain(proj).chain(head);
        let whole = |l: &&mut Linear| l.experts.is_none_or(|[n, _]| (l.w.rows() / n).is_multiple_of(TILE_ROWS));
        [&mut self.token_embd].into_iter().chain(layers.filter(whole).map(|l| &mut l.w))
    }

    /// Bytes of weights that one token reads: every matrix (of experts those that it takes) but the embedding tables, of
    /// which only one row is read unless one is the head too.
    pub fn bytes_per_token(&self) -> u64 {
        let proj = self.per_layer.as_ref().map(|per_layer| &per_layer.model_proj);
        let layers = self.layers.iter().flat_map(|l| l.matrices.iter()).chain(proj);
        layers.map(Linear::bytes_per_token).sum::<u64>() + self.head().bytes() as u64
    }

    /// The formats of all matrices but the table of embeddings for each layer, one after the other.
    pub fn formats(&self) -> impl Iterator<Item = GgmlType> {
        self.computed().map(Matrix::ty)
    }

    /// Bytes of all matrices, the embedding table among them, but not those of a draft head.
    pub fn bytes(&self) -> u64 {
        self.matrices().map(|w| w.bytes() as u64).sum()
    }

    /// The same on a CPU, with the draft head where it is used: what is repacked, and what stays in the mapped file, which processes share.
    pub fn private_and_mapped_bytes(&self, o: &Options) -> [u64; 2] {
        let has_head = o.gives == Gives::Logits;
        let draft_head = self.draft_head.iter().filter(|_| o.draft_head);
        let tables = self.mapped().chain(draft_head.clone().filter_map(|head| head.token_embd.as_ref()));
        let (mut private, mut mapped) = (0, tables.map(|w| w.bytes() as u64).sum());
        let mut add = |w: &Matrix, repacks: bool| match repacks {
            true => private += w.repacked_bytes() as u64,
            false => mapped += w.bytes() as u64,
        };
        // Without a head only rows of the embedding are read.
        add(&self.token_embd, has_head && o.repacks(&self.token_embd));
        let output = self.output.iter().filter(|_| has_head);
        for linear in self.layer_linears().chain(output).chain(draft_head.flat_map(DraftHead::linears)) {
            add(&linear.w, o.repacks(&linear.w));
        }
        [private, mapped]
    }

    fn matrices(&self) -> impl Iterator<Item = &Matrix> {
        self.computed().chain(self.mapped())
    }

    /// Matrices that stay where they are mapped: a text reads a few rows of tables, and the last ones once.
    fn mapped(&self) -> impl Iterator<Item = &Matrix> {
        let tables = self.per_layer.iter().map(|per_layer| &per_layer.token_embd).chain(&self.input.positions);
        tables.chain(self.dense.iter().map(|linear| &linear.w))
    }

    /// All others.
    fn computed(&self) -> impl Iterator<Item = &Matrix> {
        [&self.token_embd].into_iter().chain(self.linears().map(|linear| &linear.w))
    }

    /// All but the tables of embeddings.
    pub fn linears(&self) -> impl Iterator<Item = &Linear> {
        self.layer_linears().chain(&self.output)
    }

    /// All of these but the head.
    fn layer_linears(&self) -> impl Iterator<Item = &Linear> {
        let proj = self.per_layer.iter().map(|per_layer| &per_layer.model_proj);
        self.layers.iter().flat_map(|l| l.matrices.iter()).chain(proj)
    }
}

/// The divisors that any layer's rotary embedding asks for.
fn rope_divisors(loader: &TensorLoader, c: &Config) -> Result<RopeDivisors> {
    let read = |name: &str, n_rot: usize| {
        let values = loader.vector(name, n_rot / 2)?;
        match values.iter().find(|f| !(f.is_finite() && **f > 0.0)) {
            Some(bad) => Err(loader.g.error(format!("tensor {name}"), "positive divisors", bad.to_string())),
            None => Ok(values),
        }
    };
    let mut out = RopeDivisors::default();
    let Some(rope) = c.layers.iter().map(|l| l.rope).find(|rope| rope.factors != RopeFactors::None) else {
        return Ok(out);
    };
    match rope.factors {
        RopeFactors::None => {}
        RopeFactors::Freqs => out.freqs = read("rope_freqs.weight", rope.n_rot)?,
        RopeFactors::ByContext { .. } => {
            let names = ["rope_factors_short.weight", "rope_factors_long.weight"];
            for (factors, name) in out.by_context.iter_mut().zip(names) {
                *factors = read(name, rope.n_rot)?;
            }
        }
    }
    Ok(out)
}

/// What embeddings for each layer are made of, where the model has such.
fn per_layer(loader: &TensorLoader, c: &Config) -> Result<Option<PerLayer>> {
    let (n, width) = (c.n_embd_per_layer, c.n_embd_per_layer * c.layers.len());
    let read = || {
        Ok(PerLayer {
            token_embd: loader.matrix("per_layer_token_embd.weight", c.n_vocab, width)?,
            model_proj: loader.linear("per_layer_model_proj", width, c.n_embd)?,
            proj_norm: loader.vector("per_layer_proj_norm.weight", n)?,
        })
    };
    (n > 0).then(read).transpose()
}

/// What joins token embeddings.
fn input(loader: &TensorLoader, c: &Config) -> Result<InputWeights> {
    let input = c.arch.input;
    let token_type = || {
        // How many types there are nobody needs to know: a text is of the first.
        let types = loader.g.tensor("token_types.weight").map_or(1, Tensor::rows);
        let mut first = vec![0.0; c.n_embd];
        loader.matrix("token_types.weight", types, c.n_embd)?.row(0, &mut first);
        Ok(first)
    };
    Ok(InputWeights {
        token_type: input.is_typed().then(token_type).transpose()?,
        positions: input
            .is_placed()
            .then(|| loader.matrix("position_embd.weight", c.n_ctx_train, c.n_embd))
            .transpose()?,
        norm: input.is_normed().then(|| loader.norm(c, "token_embd_norm")).transpose()?,
    })
}

/// What the embedding of a text goes through at last, in models that give nothing but embeddings.
fn dense(loader: &TensorLoader, c: &Config) -> Result<Vec<Linear>> {
    let mut out: Vec<Linear> = Vec::new();
    let names = ["dense_2", "dense_3"].into_iter().filter(|_| c.is_bidirectional());
    for (name, tensor) in names.filter_map(|name| Some((name, loader.g.tensor(&format!("{name}.weight"))?))) {
        let cols = out.last().map_or(c.n_embd, |last| last.w.rows());
        out.push(loader.linear(name, tensor.rows(), cols)?);
    }
    Ok(out)
}

fn layer(loader: &TensorLoader, c: &Config, il: usize, plan: &LayerPlan) -> Result<Layer> {
    let list = tensors::of_layer(c.arch, c.n_embd, plan);
    let name = |part: &str| format!("blk.{il}.{part}");
    let (mut vectors, mut norm_biases, mut matrices) = (ByRole::default(), ByRole::default(), ByRole::default());
    let mut choice_scale = None;
    for &(role, dims) in &list {
        let own = name(&role.of_file(c.arch, dims));
        match dims {
            Dims::Vector(n) => vectors.set(role, loader.vector(&own, n)?),
            Dims::Biased(n) => {
                vectors.set(role, loader.vector(&own, n)?);
                norm_biases.set(role, loader.vector(&name(&format!("{}.bias", role.name())), n)?);
            }
            Dims::Table(rows, cols) => vectors.set(role, loader.values(&own, &[cols, rows])?),
            Dims::Matrix(rows, cols) => {
                let has = |part: &str| loader.has(&name(&format!("{part}.weight")));
                let fused = Fused::of(role).filter(|fused| has(fused.name) && !has(fused.parts[0].name()));
                let linear = match fused {
                    None => loader.linear(&own, rows, cols)?,
                    Some(fused) => {
                        let (own, all) = fused.rows(role, &list);
                        loader.linear(&name(fused.name), all, cols)?.rows(own)
                    }
                };
                matrices.set(role, linear);
            }
            Dims::Experts(n, rows, cols) => {
                let used = plan.experts().map_or(n, |experts| experts.n_used);
                let mut experts = loader.experts(&own, [n, used], [rows, cols])?;
                if role == Role::FfnDownExps && experts.bias.is_none() {
                    choice_scale = experts.scale.take();
                }
                matrices.set(role, experts);
            }
            Dims::Heads(n, rows, cols) => {
                let (own, both) = (format!("{own}.weight"), name("attn_kv_b.weight"));
                let w = match plan.kv {
                    // Files from before 2025-04 have both in one.
                    KvSource::Latent(latent) if !loader.has(&own) && loader.has(&both) => {
                        let both = loader.matrix(&both, n * (latent.n_nope + latent.n_value), latent.rank)?;
                        if role == Role::AttnKB { heads::keys(&both, &latent) } else { heads::values(&both, &latent) }
                    }
                    _ => Matrix::from_tensor(loader.tensor(&own, &[cols, rows, n])?),
                };
                matrices.set(role, Linear { w, scale: None, bias: None, experts: Some([n, n]) });
            }
        }
    }
    Ok(Layer { vectors, norm_biases, matrices, choice_scale })
}

impl Linear {
    fn rows(&self, rows: Range<usize>) -> Self {
        let bias = self.bias.as_ref().map(|b| b[rows.clone()].to_vec());
        Self { w: self.w.slice_rows(rows), scale: self.scale.clone(), bias, experts: None }
    }
}
