//! Times of launches on cards, summed.

use std::collections::BTreeMap;

use qrun_emulator::isa::cost::{Card, Estimate};
use serde_json::{Map, Value, json};

/// By card, in the order of the table.
#[derive(Debug, Default)]
pub struct Times(BTreeMap<&'static str, Sum>);

/// Of one card.
#[derive(Debug, Default)]
struct Sum {
    floor: f64,
    low: f64,
    high: f64,
    /// Microseconds of high by what binds there.
    by: BTreeMap<String, f64>,
}

impl Times {
    /// A launch that comes so often.
    pub fn add(&mut self, card: &'static Card, found: &Estimate, times: f64) {
        self.sum(card, [found.floor.us, found.low.us, found.high.us], found, times);
    }

    /// The same with what a node of a graph costs: nothing where the kernel takes longer than that, or all of it.
    pub fn add_launched(&mut self, card: &'static Card, found: &Estimate, times: f64) {
        let Estimate { floor, low, high, .. } = found;
        self.sum(card, [floor.us.max(card.node), low.us.max(card.node), high.us + card.node], found, times);
    }

    fn sum(&mut self, card: &'static Card, [floor, low, high]: [f64; 3], found: &Estimate, times: f64) {
        let sum = self.0.entry(card.name).or_default();
        sum.floor += floor * times;
        sum.low += low * times;
        sum.high += high * times;
        *sum.by.entry(found.high.by.to_string()).or_default() += high * times;
    }

    /// Tokens per second by card, so many each time: at the high end of the times, and at the low one.
    pub fn per_second(&self, tokens: u32) -> Value {
        let of = |us: f64| (1e7 * f64::from(tokens) / us).round() / 10.0;
        let sums = self.0.iter().map(|(card, sum)| ((*card).to_owned(), json!([of(sum.high), of(sum.low)])));
        Value::Object(sums.collect())
    }

    /// Microseconds by card: low, high.
    pub fn ends(&self) -> Value {
        let round = |us: f64| (us * 10.0).round() / 10.0;
        let sums = self.0.iter().map(|(card, sum)| ((*card).to_owned(), json!([round(sum.low), round(sum.high)])));
        Value::Object(sums.collect())
    }

    /// Floor, low, high in microseconds, and what binds for which part of the high one.
    pub fn to_json(&self) -> Value {
        let round = |x: f64, digits: f64| (x * digits).round() / digits;
        let of = |sum: &Sum| {
            let part = |(by, us): (&String, &f64)| (by.clone(), json!(round(us / sum.high, 100.0)));
            let binds: Map<String, Value> = sum.by.iter().map(part).collect();
            json!({
                "floor": round(sum.floor, 10.0),
                "low": round(sum.low, 10.0),
                "high": round(sum.high, 10.0),
                "binds": binds,
            })
        };
        Value::Object(self.0.iter().map(|(card, sum)| ((*card).to_owned(), of(sum))).collect())
    }
}
