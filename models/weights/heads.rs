//! Matrices of the heads of latent attention, from the one that has for each head the rows of its key and those of its value:
//! `[heads · (n_nope + n_value)][rank]`.

use qrun_quant::{Bytes, GgmlType, cpu::Matrix};

use crate::layer::LatentPlan;

/// What takes queries to where the cached vectors are, `[heads · rank][n_nope]`: the rows of the keys, turned. In f32, for a
/// turned block has no scale: exact, at up to seven times the bytes of what was a part of the file.
pub fn keys(both: &Matrix, plan: &LatentPlan) -> Matrix {
    let each = plan.n_nope + plan.n_value;
    let heads = both.rows() / each;
    let (mut turned, mut row) = (vec![0f32; heads * plan.rank * plan.n_nope], vec![0.0; plan.rank]);
    for (head, turned) in turned.chunks_exact_mut(plan.rank * plan.n_nope).enumerate() {
        for i in 0..plan.n_nope {
            both.row(head * each + i, &mut row);
            for (turned, x) in turned.chunks_exact_mut(plan.n_nope).zip(&row) {
                turned[i] = *x;
            }
        }
    }
    let bytes: Vec<u8> = turned.iter().flat_map(|x| x.to_le_bytes()).collect();
    Matrix::new(GgmlType::F32, heads * plan.rank, plan.n_nope, Bytes::new(bytes))
}

/// What makes values of cached vectors, `[heads · n_value][rank]`: the rows of the values as they are.
pub fn values(both: &Matrix, plan: &LatentPlan) -> Matrix {
    let row = both.ty().bytes_of(plan.rank);
    let heads = both.file_bytes().chunks_exact((plan.n_nope + plan.n_value) * row);
    let bytes: Vec<u8> = heads.flat_map(|head| &head[plan.n_nope * row..]).copied().collect();
    Matrix::new(both.ty(), bytes.len() / row, plan.rank, Bytes::new(bytes))
}
