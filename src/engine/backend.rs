//! Where a model runs: on the GPU where that works, else on the CPU, and why.

use std::{str::FromStr, sync::Arc};

use qrun_cuda::{DeviceError, Gpu, device};
use qrun_models::{CpuDecoder, EventHandler, Forward, GpuDecoder, LoadEvent, Model, Options};
use qrun_quant::cpu::Arithmetic;

use super::{
    BackendError, LoadCause,
    plan::{self, Plan, TooLarge},
};

/// The shortest context that is chosen on a GPU without being asked for, in tokens.
const LEAST_CONTEXT: usize = 2048;

/// Where the user wants a model to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DevicePreference {
    /// On the best GPU ([`device::best`]) if the model runs there, else on the CPU.
    #[default]
    Auto,
    /// On the CPU; GPUs are not looked for.
    Cpu,
    /// On the GPU of this ordinal, or where none is named on the best one; or not at all.
    Cuda(Option<i32>),
}

impl FromStr for DevicePreference {
    type Err = String;

    /// `auto`, `cpu` (or `none`), `cuda` (the best GPU), or `cudaN` (or `cuda:N`), the N-th as `qrun devices` counts; in any
    /// case.
    fn from_str(name: &str) -> Result<Self, String> {
        let ordinal = |name: &str| -> Option<i32> {
            let digits = name.strip_prefix("cuda")?;
            let digits = digits.strip_prefix(':').unwrap_or(digits);
            // A number alone may have a sign.
            digits.parse().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit()))
        };
        let name = name.to_ascii_lowercase();
        match name.as_str() {
            "auto" => Ok(Self::Auto),
            "cpu" | "none" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(None)),
            _ => match ordinal(&name) {
                Some(n) => Ok(Self::Cuda(Some(n))),
                None => Err("expected auto, cuda, cpu, or cuda0, cuda1 … as `qrun devices` lists them".into()),
            },
        }
    }
}

/// Where a model runs.
pub enum Backend {
    /// On the CPU; the reason where a GPU was looked for.
    Cpu {
        /// Why not on a GPU.
        reason: Option<BackendError>,
    },
    /// On a GPU, with all layers.
    Gpu {
        /// The opened GPU, shared with the decoder.
        gpu: Arc<Gpu>,
        /// Whether the CPU takes over when it fails.
        fallback: bool,
    },
}

impl Backend {
    /// Chooses, and plans the memory there.
    ///
    /// # Errors
    /// [`DevicePreference::Cuda`] where it cannot be; a model that the CPU's memory does not hold.
    pub fn choose(model: &Model, options: &Options, preference: DevicePreference) -> Result<(Self, Plan), LoadCause> {
        let reason = match preference {
            DevicePreference::Cpu => None,
            DevicePreference::Auto if options.arithmetic == Arithmetic::Exact => Some(BackendError::Exact),
            DevicePreference::Cuda(_) if options.arithmetic == Arithmetic::Exact => {
                return Err(BackendError::Exact.into());
            }
            DevicePreference::Auto => match on_gpu(None, model, options) {
                Ok((gpu, plan)) => return Ok((Self::Gpu { gpu, fallback: true }, plan)),
                Err(error) => Some(error),
            },
            DevicePreference::Cuda(ordinal) => {
                let (gpu, plan) = on_gpu(ordinal, model, options)?;
                return Ok((Self::Gpu { gpu, fallback: false }, plan));
            }
        };
        let plan = plan::fit(model, options, plan::available_memory())?;
        Ok((Self::Cpu { reason }, plan))
    }

    /// What a listing calls it.
    pub fn name(&self) -> String {
        match self {
            Self::Cpu { .. } => "CPU".to_owned(),
            Self::Gpu { gpu, .. } => format!("GPU {} ({})", gpu.properties().ordinal, gpu.properties().name),
        }
    }

    /// Loads a model here: a decoder with an empty cache. `plan` is what [`Backend::choose`] planned; `on_event` hears
    /// how loading goes, and if the GPU is given up for the CPU. A GPU that fails later is not given up: the caller gets
    /// its errors, and [`Backend::spare`].
    ///
    /// # Errors
    /// The device's, where nothing else was allowed; no threads.
    pub fn decoder(
        &self,
        model: &Model,
        options: &Options,
        plan: &Plan,
        on_event: &mut EventHandler,
    ) -> Result<LoadedDecoder, LoadCause> {
        if let Self::Gpu { gpu, fallback } = self {
            match load(gpu, model, (options, plan), on_event) {
                Ok(decoder) => return Ok(LoadedDecoder { forward: Box::new(decoder), on_gpu: true }),
                Err(error) if *fallback => {
                    on_event(LoadEvent::FellBack(&format!("GPU: {error}; the CPU takes over")));
                }
                Err(error) => return Err(error.into()),
            }
        }
        let progress = &mut |done, total| on_event(LoadEvent::Loading { done, total });
        let decoder = CpuDecoder::load(model.clone(), options.clone(), progress)?;
        Ok(LoadedDecoder { forward: Box::new(decoder), on_gpu: false })
    }

    /// The CPU's decoder, after a GPU that may be given up has failed with `error`. `None` where it may not, or where the
    /// system gives no threads.
    pub fn spare(
        &self,
        model: &Model,
        options: &Options,
        error: &DeviceError,
        on_event: &mut EventHandler,
    ) -> Option<Box<dyn Forward>> {
        if !matches!(self, Self::Gpu { fallback: true, .. }) {
            return None;
        }
        on_event(LoadEvent::FellBack(&format!("GPU: {error}; the CPU goes on")));
        Some(Box::new(CpuDecoder::new(model.clone(), options.clone()).ok()?))
    }
}

fn load(
    gpu: &Arc<Gpu>,
    model: &Model,
    (options, plan): (&Options, &Plan),
    on_event: &mut EventHandler,
) -> Result<GpuDecoder, DeviceError> {
    let progress = &mut |done, total| on_event(LoadEvent::Loading { done, total });
    let decoder = GpuDecoder::load(gpu, model, options, progress)?;
    debug_assert_eq!(decoder.memory_plan(), plan.bytes, "what was said before is what is taken");
    Ok(decoder)
}

fn on_gpu(ordinal: Option<i32>, model: &Model, options: &Options) -> Result<(Arc<Gpu>, Plan), BackendError> {
    let ordinal = ordinal.map_or_else(device::best_ordinal, Ok).map_err(DeviceError::from)?;
    let gpu = Gpu::open(ordinal)?;
    GpuDecoder::supports(model, options).map_err(BackendError::Unsupported)?;
    let need = |n_ctx| GpuDecoder::plan(model, &Options { n_ctx, ..options.clone() });
    let room = gpu.free_for_models()?;
    let plan = plan::fit_need(model, options.n_ctx, room, need).map_err(BackendError::Memory)?;
    // A context that nobody asked for is not worth a GPU that hardly holds any.
    let least = LEAST_CONTEXT.min(model.config.n_ctx_train);
    if options.n_ctx == 0 && plan.n_ctx < least {
        let short = TooLarge { n_ctx: least, bytes: need(least), available: room, fits: plan.n_ctx };
        return Err(BackendError::Memory(short));
    }
    Ok((gpu, plan))
}

/// A decoder with an empty cache, and where it is.
pub struct LoadedDecoder {
    /// The decoder, with an empty cache.
    pub forward: Box<dyn Forward>,
    /// Whether it is a GPU's.
    pub on_gpu: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_counted() {
        let device = |name: &str| name.parse::<DevicePreference>();
        assert_eq!(device("CUDA1"), Ok(DevicePreference::Cuda(Some(1))));
        assert_eq!(device("cuda"), Ok(DevicePreference::Cuda(None)));
        assert_eq!(device("cuda:1"), device("cuda1"));
        for wrong in ["cuda-1", "cuda+1", "cuda:", "cudax", "gpu", "", "cuda99999999999"] {
            assert!(device(wrong).is_err(), "{wrong}");
        }
    }
}
