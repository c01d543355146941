//! The kernels that are made for each format of weights.

use qrun_quant::GgmlType;

/// The kernels of a format.
#[derive(Debug, PartialEq, Eq)]
pub struct FormatKernels {
    /// The weight format as GGUF names it.
    pub format: GgmlType,
    /// Matrix times one column, or few ([`super::matmul::gemv`]).
    pub gemv: &'static str,
    /// The gated half of a feed-forward layer ([`super::matmul::glu`]).
    pub glu: &'static str,
    /// Matrix times many columns ([`super::gemm::gemm`]).
    pub gemm: &'static str,
    /// Matrix times up to 32 columns, on tensor cores too.
    pub gemm_few: &'static str,
}

macro_rules! formats {
    ($($format:ident $name:literal,)*) => {
        &[$(FormatKernels {
            format: GgmlType::$format,
            gemv: concat!("gemv_", $name),
            glu: concat!("glu_", $name),
            gemm: concat!("gemm_", $name),
            gemm_few: concat!("gemm_few_", $name),
        }),*]
    };
}

/// The rows of `FORMATS` in kernels/formats.cuh.
pub static FORMATS: &[FormatKernels] = formats![
    F32 "f32",
    F16 "f16",
    BF16 "bf16",
    Q4_0 "q4_0",
    Q4_1 "q4_1",
    Q5_0 "q5_0",
    Q5_1 "q5_1",
    Q8_0 "q8_0",
    Q2_K "q2_k",
    Q3_K "q3_k",
    Q4_K "q4_k",
    Q5_K "q5_k",
    Q6_K "q6_k",
    IQ4_NL "iq4_nl",
    IQ4_XS "iq4_xs",
    MXFP4 "mxfp4",
];

/// Whether there are kernels for a format that `quant` reads.
pub fn has_kernels(format: GgmlType) -> bool {
    FORMATS.iter().any(|f| f.format == format)
}

/// The kernels of the format with this ggml type number. Panics where there are none: see [`has_kernels`].
pub fn kernels(number: i32) -> &'static FormatKernels {
    FORMATS.iter().find(|f| f.format as i32 == number).expect("a ggml type with kernels")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_are_those_of_the_kernels() {
        let text = include_str!("../kernels/formats.cuh");
        let rows = text.split("#define FORMATS(X)").nth(1).expect("the list");
        let rows: Vec<Vec<&str>> =
            rows.split("X(").skip(1).filter_map(|row| Some(row.split_once(')')?.0.split(", ").collect())).collect();
        let ours: Vec<[String; 3]> = FORMATS
            .iter()
            .map(|f| [(f.format as i32).to_string(), f.gemv["gemv_".len()..].into(), f.format.name().into()])
            .collect();
        assert_eq!(rows, ours, "cuda/kernels/formats.cuh and cuda/ops/formats.rs: number, name in kernels, struct");
    }

    #[test]
    fn every_format_has_kernels_but_those_of_grids() {
        for format in GgmlType::all() {
            let of_grid = ["IQ2", "IQ3"].iter().any(|begin| format.name().starts_with(begin));
            assert_eq!(has_kernels(format), !of_grid, "{format}");
        }
    }
}
