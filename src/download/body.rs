//! The answer to a request for the bytes from some place on, whatever kind of answer it is.

use std::{
    io::Read,
    ops::Range,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use super::http::{Answer, Fault, Http, host};

/// A file on a server, for all requests of one download.
pub struct Origin {
    pub url: String,
    /// Bytes of the whole file, where that is known.
    pub size: Option<u64>,
    /// Where the last answer came from after its redirects: the next requests go there at once.
    direct: Mutex<Option<String>>,
    /// The server has shown that it gives no ranges.
    whole_only: AtomicBool,
    /// Bytes have come.
    pub reached: AtomicBool,
}

/// Bytes on their way, from the place on that was asked for.
pub struct Body {
    reader: Box<dyn Read + Send>,
    pub host: String,
    /// Bytes of the whole file, as this answer has them.
    pub total: Option<u64>,
    /// It ends where the range ends that was asked for.
    ends: bool,
}

impl Origin {
    pub fn new(url: impl Into<String>, size: Option<u64>) -> Self {
        let (direct, whole_only, reached) = Default::default();
        Origin { url: url.into(), size, direct, whole_only, reached }
    }

    /// Whether the server gives ranges, as far as is known.
    pub fn gives_ranges(&self) -> bool {
        !self.whole_only.load(Relaxed)
    }

    /// Asks for the bytes of a range; `to` of `None` is the end of the file. A server that has other ideas is taken as it
    /// is where `whole` allows to read past what comes before the range.
    ///
    /// # Errors
    /// [`Fault::NoRanges`] where the server gives none and `whole` is not set; [`Fault::Changed`] where the file has
    /// another size than was listed; else as of [`Http::get`].
    pub fn open(&self, http: &Http, from: u64, to: Option<u64>, whole: bool) -> Result<Body, Fault> {
        if self.gives_ranges() {
            let end = to.map_or(String::new(), |to| (to - 1).to_string());
            let range = (from > 0 || to.is_some_and(|to| Some(to) != self.size)).then(|| format!("bytes={from}-{end}"));
            match self.get(http, range.as_deref()) {
                Ok(answer) => match self.judge(&answer, from)? {
                    Some(total) => return Ok(self.body(answer, total)),
                    // A whole file in place of a range: of no use to one lane of several.
                    None if answer.status == 200 && whole => return self.behind(http, answer, from),
                    None => {}
                },
                Err(Fault::Status(refusal)) if refusal.status == 416 => {}
                Err(fault) => return Err(fault),
            }
            self.whole_only.store(true, Relaxed);
        }
        if !whole {
            return Err(Fault::NoRanges { host: host(&self.url) });
        }
        let answer = self.get(http, None)?;
        self.behind(http, answer, from)
    }

    /// Whether an answer begins at `from`, and the size of the whole file that it names; `None` where it does not.
    fn judge(&self, answer: &Answer, from: u64) -> Result<Option<Option<u64>>, Fault> {
        let total = match answer.status {
            206 => match answer.header("content-range").and_then(content_range) {
                Some((range, total)) if range.start == from => total,
                _ => return Ok(None),
            },
            200 if from == 0 => answer.length(),
            _ => return Ok(None),
        };
        self.same_size(answer, total)?;
        Ok(Some(total))
    }

    fn same_size(&self, answer: &Answer, total: Option<u64>) -> Result<(), Fault> {
        match (self.size, total) {
            (Some(size), Some(total)) if size != total => Err(Fault::Changed {
                host: host(&answer.url),
                expected: format!("{size} bytes, as listed"),
                found: format!("{total} bytes"),
            }),
            _ => Ok(()),
        }
    }

    /// The body of a whole file without its first bytes.
    fn behind(&self, http: &Http, mut answer: Answer, from: u64) -> Result<Body, Fault> {
        self.whole_only.store(from > 0 || !self.gives_ranges(), Relaxed);
        let total = answer.length();
        self.same_size(&answer, total)?;
        let host = host(&answer.url);
        let skipped = std::io::copy(&mut answer.body.by_ref().take(from), &mut std::io::sink());
        match skipped {
            Ok(n) if n == from => Ok(self.body(answer, total)),
            Ok(n) => Err(Fault::Cut { host, reason: format!("it ended after {n} bytes, {from} are there already") }),
            Err(error) => Err(http.cut(&host, &error)),
        }
    }

    fn body(&self, answer: Answer, total: Option<u64>) -> Body {
        let ends = answer.status == 206 && answer.length().is_some();
        Body { host: host(&answer.url), reader: answer.body, total: total.or(self.size), ends }
    }

    /// Where the server that the hub sent us to says no, its address may be old: the hub is asked again.
    fn get(&self, http: &Http, range: Option<&str>) -> Result<Answer, Fault> {
        let direct = self.direct.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(direct) = direct {
            match http.get(&direct, range, None) {
                Err(Fault::Status(refusal)) if (400..500).contains(&refusal.status) && refusal.status != 429 => {}
                answer => {
                    if answer.is_ok() {
                        self.remember(direct);
                    }
                    return answer;
                }
            }
        }
        let answer = http.get(&self.url, range, None)?;
        if answer.url != self.url {
            self.remember(answer.url.clone());
        }
        Ok(answer)
    }

    fn remember(&self, direct: String) {
        *self.direct.lock().unwrap_or_else(PoisonError::into_inner) = Some(direct);
    }
}

impl Body {
    /// Reads the end of a range that is whole, so that its connection serves the next one.
    pub fn finish(mut self, http: &Http) {
        if self.ends {
            let _ = self.read(http, &mut [0]);
        }
    }

    /// Some bytes; none at the end.
    ///
    /// # Errors
    /// [`Fault::Cut`]: the connection has ended before the body, or was silent for too long.
    pub fn read(&mut self, http: &Http, block: &mut [u8]) -> Result<usize, Fault> {
        loop {
            match self.reader.read(block) {
                Ok(n) => return Ok(n),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(http.cut(&self.host, &error)),
            }
        }
    }
}

/// `bytes 5-9/10` or `bytes 5-9/*`.
fn content_range(value: &str) -> Option<(Range<u64>, Option<u64>)> {
    let (range, total) = value.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.trim().split_once('-')?;
    let total = match total.trim() {
        "*" => None,
        total => Some(total.parse().ok()?),
    };
    let last: u64 = last.parse().ok()?;
    Some((first.parse().ok()?..last.checked_add(1)?, total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read() {
        assert_eq!(content_range("bytes 5-9/10"), Some((5..10, Some(10))));
        assert_eq!(content_range(" bytes 0-0/* "), Some((0..1, None)));
        for odd in ["", "bytes */10", "bytes 5-/10", "items 5-9/10", "bytes 5-9", "bytes 5-18446744073709551615/1"] {
            assert_eq!(content_range(odd), None, "{odd}");
        }
    }
}
