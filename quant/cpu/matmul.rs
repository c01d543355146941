//! `y[token][row] = Σ_col w[row][col] · x[token][col]`.

use super::{Activations, Matrix, par};

/// One product: a matrix and where its outputs go, `y[tokens][w.rows()]`.
pub struct Job<'a> {
    /// The weights.
    pub w: &'a Matrix,
    /// The outputs, token-major.
    pub y: &'a mut [f32],
}

/// Pointer to outputs that several threads write at disjoint places.
#[derive(Clone, Copy)]
struct Out(*mut f32);
// SAFETY: each (token, row) is written by exactly one chunk of the parallel loop.
unsafe impl Send for Out {}
// SAFETY: as above.
unsafe impl Sync for Out {}
impl Out {
    /// # Safety
    /// `i` is in bounds and no other thread writes it.
    unsafe fn write(self, i: usize, v: f32) {
        // SAFETY: the caller's promise.
        unsafe { *self.0.add(i) = v }
    }
}

/// Runs several products of the same activations as one parallel region each.
pub fn matmul(x: &Activations, jobs: &mut [Job]) {
    for job in jobs {
        let (w, rows) = (job.w, job.w.rows());
        assert_eq!(w.cols(), x.cols);
        assert_eq!(job.y.len(), x.tokens * rows);
        let y = Out(job.y.as_mut_ptr());
        par::for_chunks(rows, 16, |range| {
            let mut row = vec![0.0; x.cols];
            for r in range {
                w.row(r, &mut row);
                for t in 0..x.tokens {
                    let x = &x.f32[t * x.cols..(t + 1) * x.cols];
                    let sum: f32 = row.iter().zip(x).map(|(a, b)| a * b).sum();
                    // SAFETY: t < tokens and r < rows, and this chunk alone has row r.
                    unsafe { y.write(t * rows + r, sum) };
                }
            }
        });
    }
}
