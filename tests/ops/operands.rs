//! Weights and activations as matmul kernels take them, and the values that they stand for.

use half::f16;
use qrun_cuda::ops::{
    formats as kernels,
    upload::{Source, Staging, bytes_on_device, upload},
};
use qrun_quant::GgmlType;

use crate::{
    blocks,
    harness::{Buffer, Device, Random},
};

/// All formats that have kernels.
pub fn formats() -> impl Iterator<Item = GgmlType> {
    kernels::FORMATS.iter().map(|f| f.format)
}

/// Blocks of a format.
pub struct Weights {
    pub bytes: Vec<u8>,
    /// What `quant` reads from them.
    pub values: Vec<f32>,
}

impl Weights {
    /// `n` normal numbers times `factor`, quantized; random blocks where qrun only reads the format.
    pub fn random(random: &mut Random, format: GgmlType, n: usize, factor: f32) -> Self {
        let f = format.format();
        let mut bytes = vec![0; format.bytes_of(n)];
        match f.quantize {
            Some(quantize) => {
                let values: Vec<f32> = random.normals(n).into_iter().map(|v| v * factor).collect();
                quantize(&values, &mut bytes);
            }
            None => {
                bytes = random.bytes(bytes.len());
                blocks::set_scales(f, &mut bytes, || f16::from_f64(0.01 + 0.01 * random.uniform()));
            }
        }
        let mut values = vec![0.0; n];
        (f.dequantize)(&bytes, &mut values);
        Self { bytes, values }
    }
}

/// A matrix on the device as products want it: dense rows as they are, quantized ones in tile records.
pub fn matrix(device: &Device, format: GgmlType, bytes: &[u8], k: usize) -> Buffer<u8> {
    let shape = [bytes.len() / format.bytes_of(k), k];
    let (buffer, room) = (device.empty(bytes_on_device(format, shape)), device.empty::<u8>(bytes.len()));
    let staging = Staging::at(room.ptr, bytes.len());
    let source = Source::Matrix(buffer.ptr, bytes, format, shape);
    // SAFETY: buffers for the matrix and for all of its bytes, which live until it is there.
    unsafe { upload(&device.gpu, &device.stream, staging, &[source], &mut |_, _| ()) }.expect("an upload");
    // Products ask for weights before the kernels before them have ended.
    device.stream.synchronize().expect("an upload");
    buffer
}

/// Whether weights in this format multiply activations as they are, not their image.
pub fn is_dense(format: GgmlType) -> bool {
    format.format().block == 1
}

/// Columns of activations and their int8 image (kernels/image.cuh).
pub struct Activations {
    pub values: Vec<f32>,
    /// In octet order.
    pub q: Vec<i8>,
    pub d: Vec<f32>,
    pub s: Vec<f32>,
    /// What the image stands for.
    pub image: Vec<f64>,
}

impl Activations {
    /// Columns are whole blocks of 32, so their number does not matter; what is behind the last whole block has no image.
    pub fn new(values: Vec<f32>) -> Self {
        let n = values.len();
        // A last block that is not whole belongs to dense weights, which have no use for the image.
        let (mut q, mut d, mut s, mut image) = (vec![0_i8; n.next_multiple_of(32)], vec![], vec![], vec![0.0; n]);
        for (b, block) in values.chunks_exact(32).enumerate() {
            let scale = block.iter().fold(0.0_f32, |most, v| most.max(v.abs())) / 127.0;
            let mut sums = [0_i32; 2];
            for (e, &v) in block.iter().enumerate() {
                let rounded = if scale > 0.0 { (v / scale).round_ties_even() as i8 } else { 0 };
                let place = e % 16 / 4 * 8 + e / 16 * 4 + e % 4;
                q[32 * b + place] = rounded;
                sums[e / 16] += i32::from(rounded);
                image[32 * b + e] = f64::from(scale) * f64::from(rounded);
            }
            d.push(scale);
            s.extend(sums.map(|sum| scale * sum as f32));
        }
        Self { values, q, d, s, image }
    }
}
