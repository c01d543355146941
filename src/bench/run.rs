//! Runs configurations: warm-ups, trials, and the machine's limits before and after.

use super::{
    limits::{CostModel, Limits},
    machine,
    report::{Measured, Report},
    suite::{self, Config},
    trial::{Job, Trial},
};
use crate::{
    engine::{Backend, Engine},
    generate::{GenerateError, Session},
    text::tokenizer::TokenizeError,
};

/// Tokens that a warm-up generates at most: what is to be warm is warm then.
const WARMUP_TOKENS: usize = 16;
/// Prompt tokens that take about as long as one step, for an estimate of the time left.
pub(super) const PROMPT_PER_STEP: usize = 8;

/// What is run on a session.
pub struct Plan {
    /// `quick`, `standard`, `full` or `custom`.
    pub suite: String,
    /// Untimed runs before each configuration.
    pub warmup_runs: usize,
    /// Timed runs of each.
    pub trials: usize,
    /// Milliseconds that loading took.
    pub load_ms: f64,
    jobs: Vec<(Config, Vec<u32>)>,
}

/// What happens meanwhile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Progress<'a> {
    /// A configuration begins.
    Config(&'a str),
    /// So many more of [`Plan::steps`] are done.
    Steps(usize),
}

impl Plan {
    /// Configurations, each with a prompt of its length cut from `text`; a text that cannot be repeated gives a
    /// shorter one.
    ///
    /// # Errors
    /// As [`crate::text::tokenizer::Tokenizer::encode`].
    pub fn new(engine: &Engine, suite: &str, configs: Vec<Config>, text: &str) -> Result<Self, TokenizeError> {
        let job = |config: Config| {
            let prompt = suite::prompt(engine, text, config.n_prompt)?;
            Ok((Config { n_prompt: prompt.len(), ..config }, prompt))
        };
        let jobs = configs.into_iter().map(job).collect::<Result<_, _>>()?;
        Ok(Self { suite: suite.into(), warmup_runs: 2, trials: 3, load_ms: 0.0, jobs })
    }

    /// The whole work in steps that take about equally long.
    pub fn steps(&self) -> usize {
        let whole = |(config, prompt): &(Config, Vec<u32>)| {
            let run = |n_gen: usize| prompt.len() / PROMPT_PER_STEP + n_gen;
            self.warmup_runs * run(config.n_gen.min(WARMUP_TOKENS)) + self.trials * run(config.n_gen)
        };
        self.jobs.iter().map(whole).sum()
    }

    /// Runs it all.
    ///
    /// # Errors
    /// As [`Session::generate`].
    pub fn run(&self, session: &mut Session, watch: &mut dyn FnMut(Progress)) -> Result<Report, GenerateError> {
        let engine = session.engine().clone();
        let mut report = Report::new(&self.suite, &engine, (self.trials, self.warmup_runs), self.load_ms);
        report.info.limits = Limits::measure(&engine);
        for (config, prompt) in &self.jobs {
            watch(Progress::Config(&config.name));
            report.configs.push(self.measure(session, (config, prompt), watch)?);
        }
        report.info.limits = report.info.limits.best(Limits::measure(&engine));
        let demand = CostModel::new(&engine);
        report.configs.iter_mut().for_each(|measured| measured.set_roofline(&demand, &report.info.limits));
        Ok(report)
    }

    /// One configuration.
    fn measure(
        &self,
        session: &mut Session,
        (config, prompt): (&Config, &[u32]),
        watch: &mut dyn FnMut(Progress),
    ) -> Result<Measured, GenerateError> {
        let mut run = |n_gen: usize| {
            let job = Job { prompt: prompt.to_vec(), depth: 0, n_gen, params: config.sampler() };
            let trial = Trial::run(session, &job, &mut || watch(Progress::Steps(1)));
            watch(Progress::Steps(prompt.len() / PROMPT_PER_STEP));
            trial
        };
        machine::forget_peak_memory();
        for _ in 0..self.warmup_runs {
            run(config.n_gen.min(WARMUP_TOKENS))?;
        }
        let trials = (0..self.trials).map(|_| run(config.n_gen)).collect::<Result<Vec<_>, _>>()?;
        Ok(Measured::new(config, &trials, peak_memory(session.engine())))
    }
}

/// Of this process where the model runs on the CPU, else what was planned on the GPU and taken.
fn peak_memory(engine: &Engine) -> Option<u64> {
    match engine.place() {
        Backend::Cpu { .. } => machine::peak_memory(),
        Backend::Gpu { .. } => Some(engine.plan().bytes.total()),
    }
}
