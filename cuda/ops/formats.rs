//! The kernels that are made for each format of weights.

use qrun_quant::GgmlType;

/// Where the weights of a format lie on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Rows as in the file.
    File,
    /// Tile records of 16 rows × `columns` in `bytes` (see kernels/formats.cuh).
    Records {
        /// 128 or 256.
        columns: usize,
        /// A multiple of 32.
        bytes: usize,
        /// Whether one product may have segments in this format and in others of which this is true.
        mixes: bool,
    },
}

/// Names of the kernels for one format of weights.
#[derive(Debug, PartialEq, Eq)]
pub struct FormatKernels {
    /// The weight format as GGUF names it.
    pub format: GgmlType,
    /// The format whose records its weights lie in, and whose products take them: mostly this one.
    pub records: GgmlType,
    /// Where its weights lie.
    pub layout: Layout,
    /// Quantized matrix times 1, up to 8, or up to 16 columns ([`super::product`]).
    pub product: [&'static str; 3],
    /// Quantized matrix times one column that it norms first ([`super::product::norm_product`]).
    pub norm_product: &'static str,
    /// Rows of the file into records ([`super::upload::repack`]).
    pub repack: &'static str,
    /// Dense matrix times one column, or few ([`super::matmul::gemv`]).
    pub gemv: &'static str,
    /// The gated half of a dense feed-forward layer ([`super::matmul::glu`]).
    pub glu: &'static str,
    /// Matrix times many columns ([`super::gemm::gemm`]).
    pub gemm: &'static str,
    /// The same of f16 and bf16 on SM 8.0+: what makes the terms of activations.
    pub gemm_split: &'static str,
    /// And products of them, in large, medium and small tiles.
    pub gemm_tiles: [&'static str; 3],
    /// Dense matrix times up to 32 columns, on tensor cores too.
    pub gemm_few: &'static str,
}

macro_rules! formats {
    ($($format:ident $name:literal $(as $records:ident $of:literal)? $layout:expr,)*) => {
        &[$(FormatKernels {
            format: GgmlType::$format,
            records: records_of!($format $($records)?),
            layout: $layout,
            product: [named!("product_1_" $name $($of)?), named!("product_8_" $name $($of)?), named!("product_16_" $name $($of)?)],
            norm_product: named!("norm_product_" $name $($of)?),
            repack: concat!("repack_", $name),
            gemv: concat!("gemv_", $name),
            glu: concat!("glu_", $name),
            gemm: named!("gemm_" $name $($of)?),
            gemm_split: concat!("gemm_split_", $name),
            gemm_tiles: [concat!("gemm_large_", $name), concat!("gemm_medium_", $name), concat!("gemm_small_", $name)],
            gemm_few: concat!("gemm_few_", $name),
        }),*]
    };
}

/// A kernel's name with that of the records which it takes.
macro_rules! named {
    ($kernel:literal $name:literal) => {
        concat!($kernel, $name)
    };
    ($kernel:literal $name:literal $of:literal) => {
        concat!($kernel, $of)
    };
}

macro_rules! records_of {
    ($format:ident) => {
        GgmlType::$format
    };
    ($format:ident $records:ident) => {
        GgmlType::$records
    };
}

const fn records(columns: usize, bytes: usize) -> Layout {
    Layout::Records { columns, bytes, mixes: true }
}

/// Of a format that few files have: its kernels are in a module of their own.
const fn rare(columns: usize, bytes: usize) -> Layout {
    Layout::Records { columns, bytes, mixes: false }
}

/// The rows of `FORMATS` in kernels/formats.cuh.
pub static FORMATS: &[FormatKernels] = formats![
    F32 "f32" Layout::File,
    F16 "f16" Layout::File,
    BF16 "bf16" Layout::File,
    Q4_0 "q4_0" records(128, 1152),
    Q4_1 "q4_1" records(128, 1280),
    Q5_0 "q5_0" records(128, 1408),
    Q5_1 "q5_1" records(128, 1536),
    Q8_0 "q8_0" records(128, 2176),
    Q2_K "q2_k" records(256, 1344),
    Q3_K "q3_k" records(256, 1824),
    Q4_K "q4_k" records(256, 2304),
    Q5_K "q5_k" records(256, 2816),
    Q6_K "q6_k" records(256, 3360),
    IQ4_NL "iq4_nl" records(128, 1152),
    IQ4_XS "iq4_xs" records(256, 2208),
    MXFP4 "mxfp4" records(128, 1088),
    IQ2_XXS "iq2_xxs" rare(256, 1120),
    IQ2_XS "iq2_xs" rare(256, 1248),
    IQ2_S "iq2_s" rare(256, 1312),
    IQ3_XXS "iq3_xxs" rare(256, 1632),
    IQ3_S "iq3_s" rare(256, 1760),
    IQ1_M "iq1_m" rare(256, 928),
    NVFP4 "nvfp4" rare(128, 1152),
    Q1_0 "q1_0" rare(128, 288),
    Q2_0 "q2_0" rare(128, 576),
    IQ1_S "iq1_s" as IQ1_M "iq1_m" rare(256, 928),
    TQ1_0 "tq1_0" as Q2_0 "q2_0" rare(128, 576),
    TQ2_0 "tq2_0" as Q2_0 "q2_0" rare(128, 576),
];

/// The kernels of the format with this ggml type number.
pub fn kernels(number: i32) -> &'static FormatKernels {
    FORMATS.iter().find(|f| f.format as i32 == number).expect("every ggml type that `quant` reads has kernels")
}

/// Whether products take a scale for a whole matrix beside those of its blocks ([`Segment::scale`](super::params::Segment)).
pub fn takes_scale(format: GgmlType) -> bool {
    matches!(kernels(format as i32).records, GgmlType::NVFP4 | GgmlType::Q2_0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::twin;

    #[test]
    fn the_rows_are_those_of_the_kernels() {
        let text = include_str!("../kernels/formats.cuh");
        let rows = text.split("#define DENSE_FORMATS(X)").nth(1).expect("the lists");
        let rows: Vec<Vec<&str>> =
            rows.split("X(").skip(1).filter_map(|row| Some(row.split_once(')')?.0.split(", ").collect())).collect();
        let ours: Vec<[String; 3]> = FORMATS
            .iter()
            .map(|f| [(f.format as i32).to_string(), f.gemv["gemv_".len()..].into(), f.format.name().into()])
            .collect();
        assert_eq!(rows, ours, "cuda/kernels/formats.cuh and cuda/ops/formats.rs: number, name in kernels, struct");
        for kernels in FORMATS {
            if let Layout::Records { columns, bytes, .. } = kernels.layout {
                let name = kernels.format.name();
                twin::constants([(&format!("{name}::COLUMNS"), columns), (&format!("{name}::RECORD"), bytes)]);
            }
        }
    }

    #[test]
    fn every_format_has_kernels_and_records_that_products_take() {
        for format in GgmlType::all() {
            let (of, records) = (kernels(format as i32), kernels(kernels(format as i32).records as i32));
            assert_eq!([of.layout, records.layout], [of.layout; 2], "{format}");
            assert_eq!((of.product, records.records), (records.product, of.records), "{format}");
        }
    }
}
