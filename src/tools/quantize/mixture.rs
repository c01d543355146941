//! Which format each tensor gets: the mixtures of llama.cpp, with their fall-backs.
//!
//! A file type such as Q4_K_M is not one format but a recipe. Tensors that suffer most from rounding
//! (the output matrix, values, the way down in the first, last and every third layer) get more bits;
//! rows that are not a multiple of 256 cannot be K-quants and get the next larger format of block 32.
//! The rules are those of llama.cpp's quantizer (commit 0c1e570); mixture-of-experts and Falcon rules are left out.

use std::{fmt, str::FromStr};

use qrun_quant::GgmlType;

/// A recipe for a whole file, the value of `general.file_type`.
#[allow(non_camel_case_types, missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum FileType {
    F32 = 0,
    F16 = 1,
    Q4_0 = 2,
    Q4_1 = 3,
    Q8_0 = 7,
    Q5_0 = 8,
    Q5_1 = 9,
    Q4_K_S = 14,
    Q4_K_M = 15,
    Q5_K_S = 16,
    Q5_K_M = 17,
    Q6_K = 18,
    BF16 = 32,
    TQ1_0 = 36,
    TQ2_0 = 37,
    MXFP4_MOE = 38,
    Q1_0 = 40,
    Q2_0 = 41,
}

/// Every file type with its name and the format that most of its tensors have.
const FILE_TYPES: [(FileType, &str, GgmlType); 18] = [
    (FileType::Q1_0, "Q1_0", GgmlType::Q1_0),
    (FileType::TQ1_0, "TQ1_0", GgmlType::TQ1_0),
    (FileType::TQ2_0, "TQ2_0", GgmlType::TQ2_0),
    (FileType::Q2_0, "Q2_0", GgmlType::Q2_0),
    (FileType::MXFP4_MOE, "MXFP4_MOE", GgmlType::MXFP4),
    (FileType::Q4_0, "Q4_0", GgmlType::Q4_0),
    (FileType::Q4_1, "Q4_1", GgmlType::Q4_1),
    (FileType::Q5_0, "Q5_0", GgmlType::Q5_0),
    (FileType::Q5_1, "Q5_1", GgmlType::Q5_1),
    (FileType::Q4_K_S, "Q4_K_S", GgmlType::Q4_K),
    (FileType::Q4_K_M, "Q4_K_M", GgmlType::Q4_K),
    (FileType::Q5_K_S, "Q5_K_S", GgmlType::Q5_K),
    (FileType::Q5_K_M, "Q5_K_M", GgmlType::Q5_K),
    (FileType::Q6_K, "Q6_K", GgmlType::Q6_K),
    (FileType::Q8_0, "Q8_0", GgmlType::Q8_0),
    (FileType::BF16, "BF16", GgmlType::BF16),
    (FileType::F16, "F16", GgmlType::F16),
    (FileType::F32, "F32", GgmlType::F32),
];

impl FileType {
    /// All file types, smallest first.
    pub fn all() -> impl Iterator<Item = FileType> {
        FILE_TYPES.iter().map(|row| row.0)
    }
    /// By name in any case, by its short name (`Q4_K` is Q4_K_M) or by its number in the file.
    pub fn from_name(name: &str) -> Option<Self> {
        let long = match name.to_ascii_uppercase().as_str() {
            "Q4_K" => "Q4_K_M".to_owned(),
            "Q5_K" => "Q5_K_M".to_owned(),
            other => other.to_owned(),
        };
        Self::all().find(|t| t.name() == long || long.parse() == Ok(t.number()))
    }
    /// By its number in the file (`general.file_type`).
    pub fn from_number(number: u32) -> Option<Self> {
        Self::all().find(|t| t.number() == number)
    }
    /// Value of `general.file_type`.
    pub fn number(self) -> u32 {
        self as u32
    }
    /// Name as llama.cpp prints it.
    pub fn name(self) -> &'static str {
        self.row().1
    }
    /// The format of tensors that no rule singles out.
    pub fn default_format(self) -> GgmlType {
        self.row().2
    }
    fn row(self) -> &'static (FileType, &'static str, GgmlType) {
        FILE_TYPES.iter().find(|row| row.0 == self).expect("every FileType has a row in FILE_TYPES")
    }
}

impl FromStr for FileType {
    type Err = String;

    /// As [`FileType::from_name`].
    fn from_str(name: &str) -> Result<Self, String> {
        let names = || Self::all().map(Self::name).collect::<Vec<_>>().join(", ");
        Self::from_name(name).ok_or_else(|| format!("expected one of {}", names()))
    }
}

impl fmt::Display for FileType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The rules of one file type for one model.
#[derive(Debug, Clone, Copy)]
pub struct Mixture {
    file_type: FileType,
    n_layer: usize,
    tied: bool,
    shared_values: bool,
}

impl Mixture {
    /// Rules for a model of `n_layer` layers; `tied` says that it has no `output.weight` and uses the
    /// token embedding in its place.
    pub fn new(file_type: FileType, n_layer: usize, tied: bool) -> Self {
        Self { file_type, n_layer, tied, shared_values: false }
    }

    /// Rules for the 70B shape of Llama (80 layers, eight heads per value head): `attn_v` is so small
    /// there that it gets Q5_K where others get Q4_K.
    pub fn with_shared_values(self) -> Self {
        Self { shared_values: true, ..self }
    }

    /// The recipe that these rules follow, as [`Mixture::new`] got it.
    pub fn file_type(&self) -> FileType {
        self.file_type
    }

    /// Whether a tensor takes part at all. Vectors, norms, expert routers and positional tables are
    /// small and sensitive: they stay as they are (F32 in any file a converter wrote).
    pub fn quantizes(name: &str, shape: &[u64]) -> bool {
        const KEPT: [&str; 5] = ["_norm.weight", "ffn_gate_inp.weight", "position_embd", "token_types", "ssm_conv1d"];
        let is_matrix = shape.iter().skip(1).any(|&n| n > 1);
        is_matrix && name.ends_with("weight") && !KEPT.iter().any(|part| name.contains(part))
    }

    /// The format of tensor `name` with dimensions `shape` (fastest first); F32 for what is not
    /// quantized.
    pub fn choose(&self, name: &str, shape: &[u64]) -> GgmlType {
        if !Self::quantizes(name, shape) {
            return GgmlType::F32;
        }
        let default = self.file_type.default_format();
        if matches!(default, GgmlType::F32 | GgmlType::F16 | GgmlType::BF16) {
            return default;
        }
        fit(self.preferred(name, shape[0], default), shape[0])
    }

    /// The format that [`choose`](Self::choose) would have taken, were the rows whole blocks of it;
    /// `None` where they are.
    pub fn fallen_back_from(&self, name: &str, shape: &[u64]) -> Option<GgmlType> {
        let chosen = self.choose(name, shape);
        let wanted = self.preferred(name, shape[0], self.file_type.default_format());
        (Self::quantizes(name, shape) && chosen != wanted).then_some(wanted)
    }

    /// The format by the tensor's role, before looking whether its rows can have it.
    fn preferred(&self, name: &str, cols: u64, default: GgmlType) -> GgmlType {
        use GgmlType::*;
        // Experts alone are in the small format: they are most of the bytes, and trained in it.
        if self.file_type == FileType::MXFP4_MOE {
            return if name.contains("_exps") { MXFP4 } else { Q8_0 };
        }
        if name == "output.weight" || self.tied && name == "token_embd.weight" {
            let whole = cols.is_multiple_of(default.format().block as u64);
            return if whole && default != Q8_0 { Q6_K } else { Q8_0 };
        }
        // The rows of ternary models' layers are ternary, not those of their embedding.
        if name == "token_embd.weight" && matches!(default, TQ1_0 | TQ2_0) {
            return Q4_K;
        }
        let Some(layer) = layer(name) else { return default };
        let early = layer < self.n_layer / 8;
        let more = use_more_bits(layer, self.n_layer);
        // A fused attn_qkv holds values too and is treated like them.
        if name.contains("attn_v.weight") || name.contains("attn_qkv.weight") {
            return match self.file_type {
                FileType::Q4_K_M | FileType::Q5_K_M if more => Q6_K,
                FileType::Q4_K_S if layer < 4 => Q5_K,
                _ if default == Q4_K && self.shared_values => Q5_K,
                _ => default,
            };
        }
        if name.contains("ffn_down") {
            return match self.file_type {
                FileType::Q4_K_M | FileType::Q5_K_M if more => Q6_K,
                FileType::Q4_K_S if early => Q5_K,
                _ => default,
            };
        }
        default
    }
}

/// The layers whose rounding hurts most: the first eighth, the last eighth, and every third between.
fn use_more_bits(layer: usize, n_layer: usize) -> bool {
    let eighth = n_layer / 8;
    // The last eighth is rounded up: it begins at 7·n/8 rounded down.
    layer < eighth || layer >= n_layer - n_layer.div_ceil(8) || (layer - eighth) % 3 == 2
}

/// The number N of `blk.N.…`.
fn layer(name: &str) -> Option<usize> {
    name.strip_prefix("blk.")?.split('.').next()?.parse().ok()
}

/// `ty`, or where rows of `cols` weights are not whole blocks of it, the next format that fits.
fn fit(ty: GgmlType, cols: u64) -> GgmlType {
    let fits = |ty: GgmlType| cols.is_multiple_of(ty.format().block as u64);
    let smaller_block = match ty {
        GgmlType::Q4_K => GgmlType::Q5_0,
        GgmlType::Q5_K => GgmlType::Q5_1,
        GgmlType::Q6_K => GgmlType::Q8_0,
        GgmlType::TQ1_0 | GgmlType::TQ2_0 | GgmlType::Q1_0 | GgmlType::Q2_0 => GgmlType::Q4_0,
        other => other,
    };
    [ty, smaller_block].into_iter().find(|&ty| fits(ty)).unwrap_or(GgmlType::F16)
}
