//! What `/metrics` tells: the scheduler's numbers, and times as clients see them, under the names that llama-server's and
//! vLLM's dashboards know.

use std::{
    collections::VecDeque,
    fmt::Write,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use prometheus::{Histogram, HistogramOpts, IntCounterVec, Opts, Registry, TextEncoder};

use crate::generate::{Finish, Stats, Timings};

/// Upper ends of the buckets of times, in seconds.
const TIMES: [f64; 14] = [0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0];

/// Answers whose time says how long the next ones will take.
const LAST: usize = 32;

/// What requests have been, since the start.
pub struct Metrics {
    registry: Registry,
    /// From a request to its first token.
    first_token: Histogram,
    /// From one token to the next.
    inter_token: Histogram,
    /// From a request to its end.
    end_to_end: Histogram,
    /// Answers by why they ended.
    ended: IntCounterVec,
    /// Requests that were refused, by why.
    shed: IntCounterVec,
    /// Answers that nobody waited for to their end.
    cancelled: AtomicUsize,
    sums: Mutex<Sums>,
}

/// Of the answers that have ended.
#[derive(Default)]
struct Sums {
    timings: Timings,
    longest: usize,
    /// Milliseconds that the last ones took once they had begun.
    last: VecDeque<f64>,
}

impl Metrics {
    /// # Errors
    /// The names are not fit for metrics.
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let histogram = |name: &str, help: &str| {
            let histogram = Histogram::with_opts(HistogramOpts::new(name, help).buckets(TIMES.to_vec()))?;
            registry.register(Box::new(histogram.clone()))?;
            Ok::<_, prometheus::Error>(histogram)
        };
        let counter = |name: &str, help: &str, label: &str| {
            let counter = IntCounterVec::new(Opts::new(name, help), &[label])?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        Ok(Self {
            first_token: histogram("vllm:time_to_first_token_seconds", "From a request to its first token.")?,
            inter_token: histogram("vllm:inter_token_latency_seconds", "From one token to the next.")?,
            end_to_end: histogram("vllm:e2e_request_latency_seconds", "From a request to its end.")?,
            ended: counter("vllm:request_success_total", "Answers by why they ended.", "finished_reason")?,
            shed: counter("qrun:shed_total", "Requests that were refused, by why.", "reason")?,
            cancelled: AtomicUsize::new(0),
            sums: Mutex::default(),
            registry,
        })
    }

    /// A token came `since` the one before it, or since the request.
    pub fn token(&self, first: bool, since: Duration) {
        let histogram = if first { &self.first_token } else { &self.inter_token };
        histogram.observe(since.as_secs_f64());
    }

    /// An answer has ended, `since` its request.
    pub fn end(&self, finish: &Finish, timings: &Timings, since: Duration) {
        let reason = match finish {
            Finish::Eos | Finish::Stop(_) => "stop",
            Finish::Limit | Finish::Context => "length",
            Finish::Interrupted => "abort",
        };
        self.ended.with_label_values(&[reason]).inc();
        self.end_to_end.observe(since.as_secs_f64());
        let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        let all = &mut sums.timings;
        all.cache_n += timings.cache_n;
        all.prompt_n += timings.prompt_n;
        all.prompt_ms += timings.prompt_ms;
        all.predicted_n += timings.predicted_n;
        all.predicted_ms += timings.predicted_ms;
        sums.longest = sums.longest.max(timings.cache_n + timings.prompt_n + timings.predicted_n);
        if sums.last.len() == LAST {
            sums.last.pop_front();
        }
        sums.last.push_back(timings.prompt_ms + timings.predicted_ms);
    }

    /// Seconds after which a request may be tried again, where `waiting` others are before it and `at_once` run together.
    pub fn retry_after(&self, waiting: usize, at_once: usize) -> u64 {
        let sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        let mean = sums.last.iter().sum::<f64>() / sums.last.len().max(1) as f64;
        retry_after(waiting, at_once, mean / 1e3)
    }

    /// A request was refused.
    pub fn shed(&self, reason: &str) {
        self.shed.with_label_values(&[reason]).inc();
    }

    /// `n` answers were given up before their end.
    pub fn cancelled(&self, n: usize) {
        self.cancelled.fetch_add(n, Relaxed);
    }

    /// The text of `/metrics`.
    pub fn text(&self, stats: &Stats) -> String {
        let (timings, longest) = {
            let sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
            (sums.timings, sums.longest)
        };
        let pages = stats.pages;
        let used = pages.total.saturating_sub(pages.free.saturating_add(pages.evictable));
        let each = |n: u64, of: u64| if of == 0 { 0.0 } else { n as f64 / of as f64 };
        #[rustfmt::skip]
        let rows: &[(&str, &str, &str, f64)] = &[
            ("llamacpp:prompt_tokens_total", "counter", "Prompt tokens that were computed.", timings.prompt_n as f64),
            ("llamacpp:prompt_tokens_cached_total", "counter", "Prompt tokens that the prefix cache had.", timings.cache_n as f64),
            ("llamacpp:prompt_seconds_total", "counter", "Time for prompts.", timings.prompt_ms / 1e3),
            ("llamacpp:tokens_predicted_total", "counter", "Tokens generated.", timings.predicted_n as f64),
            ("llamacpp:tokens_predicted_seconds_total", "counter", "Time for them.", timings.predicted_ms / 1e3),
            ("llamacpp:n_decode_total", "counter", "Steps through the layers.", stats.steps as f64),
            ("llamacpp:n_tokens_max", "counter", "The longest prompt with its answer, in tokens.", longest as f64),
            ("llamacpp:spec_decode_num_draft_tokens_total", "counter", "Tokens guessed ahead (--spec-type).", stats.drafted as f64),
            ("llamacpp:spec_decode_num_accepted_tokens_total", "counter", "Those that were chosen then.", stats.accepted as f64),
            ("llamacpp:spec_decode_num_drafts_total", "counter", "Steps of a sequence with guesses.", stats.drafts as f64),
            ("llamacpp:prompt_tokens_seconds", "gauge", "Prompt tokens per second.", timings.prompt_per_second()),
            ("llamacpp:predicted_tokens_seconds", "gauge", "Decode steps per second of one answer.", timings.predicted_per_second()),
            ("llamacpp:requests_processing", "gauge", "Requests that run.", stats.running as f64),
            ("llamacpp:requests_deferred", "gauge", "Requests that wait.", stats.waiting as f64),
            ("llamacpp:n_busy_slots_per_decode", "gauge", "Rows of decoding per step.", each(stats.decode_rows, stats.steps)),
            ("vllm:num_requests_running", "gauge", "Requests that run.", stats.running as f64),
            ("vllm:num_requests_waiting", "gauge", "Requests that wait.", stats.waiting as f64),
            ("vllm:kv_cache_usage_perc", "gauge", "Share of the KV pages that running requests hold.", each(used as u64, pages.total as u64)),
            ("vllm:prefix_cache_queries_total", "counter", "Prompt tokens that the prefix cache was asked for.", stats.prefix_queries as f64),
            ("vllm:prefix_cache_hits_total", "counter", "Those that it had.", stats.prefix_hits as f64),
            ("vllm:num_preemptions_total", "counter", "Requests put back for want of pages.", stats.preempted as f64),
            ("qrun:engine_restarts_total", "counter", "Decoders replaced after their device or the engine had failed.", stats.recovered as f64),
            ("qrun:cancelled_total", "counter", "Answers given up before their end.", self.cancelled.load(Relaxed) as f64),
        ];
        let mut text = String::new();
        for (name, kind, help, value) in rows {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
        }
        let config = "vllm:cache_config_info";
        let _ = writeln!(text, "# HELP {config} Tokens of a page and number of pages.\n# TYPE {config} gauge");
        let _ =
            writeln!(text, "{config}{{block_size=\"{}\",num_gpu_blocks=\"{}\"}} 1", qrun_models::kv::PAGE, pages.total);
        let (times, rows) = (&Stats::STEP_SECONDS[..], &Stats::STEP_ROWS[..]);
        let (seconds, tokens) = (stats.step_time.as_secs_f64(), stats.prompt_rows + stats.decode_rows);
        histogram(&mut text, ["qrun:step_seconds", "Time of a step."], (times, &stats.step_seconds), seconds);
        let help = "Tokens that go through the layers in a step.";
        histogram(&mut text, ["qrun:step_rows", help], (rows, &stats.step_rows), tokens as f64);
        // Fails only where a name is not fit, which `new` has seen.
        let _ = TextEncoder::new().encode_utf8(&self.registry.gather(), &mut text);
        text
    }
}

/// A histogram: how many numbers are in buckets that end at `ends`, and behind them in a last one; and their sum.
fn histogram(text: &mut String, [name, help]: [&str; 2], (ends, counts): (&[f64], &[u64]), sum: f64) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} histogram");
    let mut below = 0;
    for (end, count) in ends.iter().zip(counts) {
        below += count;
        let _ = writeln!(text, "{name}_bucket{{le=\"{end}\"}} {below}");
    }
    let all: u64 = counts.iter().sum();
    let _ = writeln!(text, "{name}_bucket{{le=\"+Inf\"}} {all}\n{name}_sum {sum}\n{name}_count {all}");
}

/// Whole seconds, from 1 to 120, after which those that wait now and one more will have begun, where `at_once` run together
/// and take `mean` seconds each.
fn retry_after(waiting: usize, at_once: usize, mean: f64) -> u64 {
    let seconds = (waiting + 1) as f64 * mean / at_once.max(1) as f64;
    // NaN becomes 0.
    (seconds.ceil() as u64).clamp(1, 120)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_may_be_tried_again_when_those_before_have_begun() {
        for (waiting, at_once, mean, expected) in [
            // Nothing has been measured.
            (0, 1, 0.0, 1),
            (64, 16, 0.0, 1),
            (0, 1, 0.2, 1),
            (0, 1, 2.0, 2),
            (0, 1, 2.1, 3),
            (3, 1, 2.0, 8),
            (3, 4, 2.0, 2),
            (64, 16, 5.0, 21),
            (64, 16, 60.0, 120),
            (usize::MAX - 1, 1, 1.0, 120),
            (0, 0, 2.0, 2),
            (0, 1, f64::NAN, 1),
            (0, 1, f64::INFINITY, 120),
        ] {
            assert_eq!(retry_after(waiting, at_once, mean), expected, "{waiting} before, {at_once} at once, {mean} s");
        }
    }

    /// Only the last answers count, by the time that they ran.
    #[test]
    fn the_last_answers_say_how_long_one_takes() {
        let metrics = Metrics::new().expect("metrics");
        assert_eq!(metrics.retry_after(9, 1), 1);
        let end = |ms: f64| {
            let timings = Timings { prompt_ms: ms / 4.0, predicted_ms: ms * 0.75, ..Timings::default() };
            metrics.end(&Finish::Eos, &timings, Duration::from_secs(1000));
        };
        (0..LAST).for_each(|_| end(40_000.0));
        assert_eq!(metrics.retry_after(1, 2), 40);
        (0..LAST).for_each(|_| end(3_000.0));
        assert_eq!(metrics.retry_after(1, 2), 3);
    }

    #[test]
    fn buckets_of_a_histogram_add_up() {
        let mut text = String::new();
        histogram(&mut text, ["qrun:x", "Help."], (&[0.001, 0.5, 8.0], &[2, 0, 3, 1]), 40.5);
        let expected = "\
# HELP qrun:x Help.
# TYPE qrun:x histogram
qrun:x_bucket{le=\"0.001\"} 2
qrun:x_bucket{le=\"0.5\"} 2
qrun:x_bucket{le=\"8\"} 5
qrun:x_bucket{le=\"+Inf\"} 6
qrun:x_sum 40.5
qrun:x_count 6
";
        assert_eq!(text, expected);
    }
}
