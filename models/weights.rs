//! A file's tensors as the weights of a model: names, shapes, fused and tied tensors.

mod heads;

use std::{cell::RefCell, collections::HashSet, ops::Range};

use qrun_quant::{
    GgmlType, Gguf, Result,
    cpu::{Matrix, TILE_ROWS},
    gguf::Tensor,
};

use crate::{
    Gives, Options,
    config::Config,
    layer::{KvSource, Rope, RopeFactors},
    spec::Norm,
    tensors::{self, ByRole, Dims, Fused, Role},
};

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

/// Tensors that files carry and no forward pass needs; `input_scale` is for activations in four bits.
const IGNORED: &[&str] = &["rotary_emb.inv_freq", "attn_rot_embd.weight", ".input_scale"];

impl Weights {
    /// Maps the weights; every tensor of the file must have a place in the model.
    ///
    /// # Errors
    /// A tensor is missing, has another shape or format than the model needs, or has no place in the model; the error
    /// names it, what was expected and what was found.
    pub fn load(g: &Gguf, c: &Config) -> Result<Self> {
        let loader = TensorLoader { g, used: RefCell::default() };
        let layers = (0..c.layers.len()).map(|il| layer(&loader, c, il)).collect::<Result<_>>()?;
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
        loader.refuse_leftovers(c)?;
        Ok(Self { token_embd, layers, input, output_norm, output, rope_factors, per_layer, dense })
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
        let layers = self.layers.iter_mut().flat_map(|l| l.matrices.iter_mut()).chain(&mut self.output).chain(proj);
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

    /// Bytes of all matrices, the embedding table among them.
    pub fn bytes(&self) -> u64 {
        self.matrices().map(|w| w.bytes() as u64).sum()
    }

    /// The same on a CPU: what is repacked, and what stays in the mapped file, which processes share.
    pub fn private_and_mapped_bytes(&self, o: &Options) -> [u64; 2] {
        let has_head = o.gives == Gives::Logits;
        let (mut private, mut mapped) = (0, self.mapped().map(|w| w.bytes() as u64).sum());
        let mut add = |w: &Matrix, repacks: bool| match repacks {
            true => private += w.repacked_bytes() as u64,
            false => mapped += w.bytes() as u64,
        };
        // Without a head only rows of the embedding are read.
        add(&self.token_embd, has_head && o.repacks(&self.token_embd));
        let output = self.output.iter().filter(|_| has_head);
        for linear in self.layer_linears().chain(output) {
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
        norm: input.is_typed().then(|| loader.norm(c, "token_embd_norm")).transpose()?,
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

fn layer(loader: &TensorLoader, c: &Config, il: usize) -> Result<Layer> {
    let list = tensors::of_layer(c.arch, c.n_embd, &c.layers[il]);
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
                let used = c.layers[il].experts().map_or(n, |experts| experts.n_used);
                let mut experts = loader.experts(&own, [n, used], [rows, cols])?;
                if role == Role::FfnDownExps && experts.bias.is_none() {
                    choice_scale = experts.scale.take();
                }
                matrices.set(role, experts);
            }
            Dims::Heads(n, rows, cols) => {
                let (own, both) = (format!("{own}.weight"), name("attn_kv_b.weight"));
                let w = match c.layers[il].kv {
                    // Files from before 2025-04 have both in one.
                    KvSource::Latent(plan) if !loader.has(&own) && loader.has(&both) => {
                        let both = loader.matrix(&both, n * (plan.n_nope + plan.n_value), plan.rank)?;
                        if role == Role::AttnKB { heads::keys(&both, &plan) } else { heads::values(&both, &plan) }
                    }
                    _ => Matrix::from_tensor(loader.tensor(&own, &[cols, rows, n])?),
                };
                matrices.set(role, Linear { w, scale: None, bias: None, experts: Some([n, n]) });
            }
        }
    }
    Ok(Layer { vectors, norm_biases, matrices, choice_scale })
}

/// What makes keys and values.
const OF_KEYS: [&str; 5] = ["attn_k.weight", "attn_k.scale", "attn_k_norm.weight", "attn_v.weight", "attn_v.scale"];

/// Whether a tensor is left where it is: that of a block behind the layers, which predicts further tokens, and keys and
/// values of a layer that attends to the cache of another one.
fn is_spare(c: &Config, name: &str) -> bool {
    let block = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
    let Some((Ok(block), part)) = block.map(|(block, part)| (block.parse::<usize>(), part)) else { return false };
    match c.layers.get(block) {
        None => block < c.layers.len() + c.n_nextn,
        Some(layer) => !layer.kv.is_own() && OF_KEYS.contains(&part),
    }
}

impl Linear {
    fn rows(&self, rows: Range<usize>) -> Self {
        let bias = self.bias.as_ref().map(|b| b[rows.clone()].to_vec());
        Self { w: self.w.slice_rows(rows), scale: self.scale.clone(), bias, experts: None }
    }
}

/// Looks tensors up, checks their shapes and remembers which ones found a place.
struct TensorLoader<'a> {
    g: &'a Gguf,
    used: RefCell<HashSet<String>>,
}

impl TensorLoader<'_> {
    fn has(&self, name: &str) -> bool {
        self.g.tensor(name).is_some()
    }

    fn tensor(&self, name: &str, shape: &[usize]) -> Result<&Tensor> {
        let place = || format!("tensor {name}");
        let t = self.g.tensor(name);
        let t = t.ok_or_else(|| self.g.error(place(), format!("shape {shape:?}"), "no such tensor"))?;
        // Trailing dimensions of 1 mean nothing: some writers leave them out.
        let size = |dims: &[u64], i: usize| dims.get(i).copied().unwrap_or(1);
        let wanted: Vec<u64> = shape.iter().map(|&n| n as u64).collect();
        if (0..t.shape.len().max(wanted.len())).any(|i| size(&t.shape, i) != size(&wanted, i)) {
            return Err(self.g.error(place(), format!("shape {shape:?}"), format!("{:?}", t.shape)));
        }
        self.used.borrow_mut().insert(name.to_owned());
        Ok(t)
    }

    fn matrix(&self, name: &str, rows: usize, cols: usize) -> Result<Matrix> {
        Ok(Matrix::from_tensor(self.tensor(name, &[cols, rows])?))
    }

    fn linear(&self, name: &str, rows: usize, cols: usize) -> Result<Linear> {
        let w = self.matrix(&format!("{name}.weight"), rows, cols)?;
        let scale = self.scale(name, 1)?;
        Ok(Linear { w, scale, bias: self.optional_vector(&format!("{name}.bias"), &[rows])?, experts: None })
    }

    /// The matrices of `n` experts, of which a token takes `used`.
    fn experts(&self, name: &str, [n, used]: [usize; 2], [rows, cols]: [usize; 2]) -> Result<Linear> {
        let w = Matrix::from_tensor(self.tensor(&format!("{name}.weight"), &[cols, rows, n])?);
        let bias = self.optional_vector(&format!("{name}.bias"), &[rows, n])?;
        Ok(Linear { w, scale: self.scale(name, n)?, bias, experts: Some([n, used]) })
    }

    /// What the products of a matrix are multiplied by, or those of each of `n` experts.
    fn scale(&self, name: &str, n: usize) -> Result<Option<Vec<f32>>> {
        // What is beside a router multiplies its input, and has a role of its own.
        match name.ends_with(Role::FfnGateInp.name()) {
            true => Ok(None),
            false => self.optional_vector(&format!("{name}.scale"), &[n]),
        }
    }

    /// A norm outside of the layers.
    fn norm(&self, c: &Config, name: &str) -> Result<NormWeights> {
        let part = |part: &str| self.vector(&format!("{name}.{part}"), c.n_embd);
        let bias = match c.arch.norm {
            Norm::Rms | Norm::Layer => None,
            Norm::LayerBias => Some(part("bias")?),
        };
        Ok(NormWeights { weight: part("weight")?, bias })
    }

    fn vector(&self, name: &str, n: usize) -> Result<Vec<f32>> {
        self.values(name, &[n])
    }

    fn values(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let t = self.tensor(name, shape)?;
        if !matches!(t.ty, GgmlType::F32 | GgmlType::F16 | GgmlType::BF16) {
            return Err(self.g.error(format!("tensor {name}"), "F32, F16 or BF16", t.ty.name()));
        }
        let mut out = vec![0.0; shape.iter().product()];
        (t.ty.format().dequantize)(&t.data, &mut out);
        Ok(out)
    }

    fn optional_vector(&self, name: &str, shape: &[usize]) -> Result<Option<Vec<f32>>> {
        self.has(name).then(|| self.values(name, shape)).transpose()
    }

    /// A tensor without a place would change the result if it were heard: refuse the file.
    fn refuse_leftovers(&self, c: &Config) -> Result<()> {
        let used = self.used.borrow();
        let known = |t: &&Tensor| used.contains(&t.name) || IGNORED.iter().any(|i| t.name.ends_with(i));
        let leftover = self.g.tensors().iter().find(|t| !known(t) && !is_spare(c, &t.name));
        match leftover {
            None => Ok(()),
            Some(t) => {
                let expected = format!("only tensors that qrun's {} knows", c.arch.name);
                Err(self.g.error(format!("tensor {}", t.name), expected, "a tensor without a place in the model"))
            }
        }
    }
}
