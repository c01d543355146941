//! Requests. Redirects are followed here: the token goes to the hub's own host and to no other.

use std::{
    io::{self, ErrorKind, Read},
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use ureq::{
    Agent,
    http::{HeaderMap, StatusCode, header},
    tls::{RootCerts, TlsConfig},
};

use super::{settings::Settings, token::Token};

/// Redirects of one request that are too many.
const MOST_REDIRECTS: usize = 10;
/// Longest text of an answer that is not a file.
const LONGEST_TEXT: u64 = 32 << 20;
/// Longest part of a server's own words in a message.
const LONGEST_SAID: usize = 200;

/// Makes requests; shared by all threads of a download.
pub struct Http {
    /// With the system's roots of trust, and with bundled ones.
    agents: [OnceLock<Agent>; 2],
    /// The system has no roots (an empty container).
    bundled: AtomicBool,
    silence: Duration,
    /// Where the token may go, as `scheme://host:port`.
    home: Option<String>,
    token: Option<Token>,
}

/// Why there is no answer, or not the wanted one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The server was not reached: no such host, refused, no trust.
    Unreachable { host: String, reason: String },
    /// The connection ended or was silent in the middle.
    Cut { host: String, reason: String },
    /// A status that is neither success nor redirect.
    Status(Refusal),
    /// The server does not give the range that it was asked for.
    NoRanges { host: String },
    /// The file is another one than it was.
    Changed { host: String, expected: String, found: String },
}

/// An answer with a status of 400 or more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub host: String,
    /// The host that was asked first: another one where it has led here.
    pub asked: String,
    /// Whether the token went to `host`.
    pub token: bool,
    pub status: u16,
    pub retry_after: Option<Duration>,
    /// The hub's `X-Error-Code`: GatedRepo, RepoNotFound, RevisionNotFound, EntryNotFound.
    pub code: String,
    /// What it says, in one short line without the token.
    pub said: String,
}

/// An answer with status 200 or 206, its body still to be read.
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    /// Where it came from in the end.
    pub url: String,
    pub body: Box<dyn Read + Send>,
}

impl Answer {
    /// A header, where it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
    /// The length that the server announces.
    pub fn length(&self) -> Option<u64> {
        self.header("content-length")?.trim().parse().ok()
    }
}

impl Http {
    pub fn new(settings: &Settings) -> Self {
        Http {
            agents: Default::default(),
            bundled: AtomicBool::new(false),
            silence: settings.patience.silence,
            home: origin(&settings.endpoint),
            token: settings.token.clone(),
        }
    }

    /// Gets a URL, wherever it leads. `range`: the value of the header.
    ///
    /// # Errors
    /// [`Fault::Unreachable`], also after more than [`MOST_REDIRECTS`] redirects; [`Fault::Cut`]; [`Fault::Status`]
    /// where the answer is neither a success nor leads on.
    pub fn get(&self, url: &str, range: Option<&str>, accept: Option<&str>) -> Result<Answer, Fault> {
        let asked = host(url);
        let mut url = url.to_owned();
        for _ in 0..=MOST_REDIRECTS {
            let answer = self.once(&url, range, accept)?;
            let status = StatusCode::from_u16(answer.status).unwrap_or_default();
            if status.is_success() {
                return Ok(answer);
            }
            match answer.header("location").and_then(|to| join(&url, to)) {
                Some(to) if status.is_redirection() => url = to,
                _ => return Err(Fault::Status(self.refusal(asked, answer))),
            }
        }
        Err(Fault::Unreachable { host: host(&url), reason: format!("more than {MOST_REDIRECTS} redirects") })
    }

    /// The text at a URL, less than [`LONGEST_TEXT`] bytes.
    ///
    /// # Errors
    /// As of [`Http::get`]; a text that is longer, breaks off, or is not UTF-8.
    pub fn text(&self, url: &str, accept: Option<&str>) -> Result<String, Fault> {
        let answer = self.get(url, None, accept)?;
        let (host, mut text) = (host(&answer.url), String::new());
        match answer.body.take(LONGEST_TEXT).read_to_string(&mut text) {
            Ok(n) if (n as u64) < LONGEST_TEXT => Ok(text),
            Ok(_) => Err(Fault::Unreachable { host, reason: format!("more than {LONGEST_TEXT} bytes of text") }),
            Err(error) => Err(self.cut(&host, &error)),
        }
    }

    /// One request, no redirect followed.
    fn once(&self, url: &str, range: Option<&str>, accept: Option<&str>) -> Result<Answer, Fault> {
        loop {
            let bundled = self.bundled.load(Relaxed);
            let mut request = self.agent(bundled).get(url).header("accept-encoding", "identity");
            if let Some(range) = range {
                request = request.header("range", range);
            }
            if let Some(accept) = accept {
                request = request.header("accept", accept);
            }
            if let Some(header) = self.authorization(url) {
                request = request.header(header::AUTHORIZATION, header);
            }
            match request.call() {
                Ok(response) => {
                    let (parts, body) = response.into_parts();
                    let body = Box::new(body.into_with_config().limit(u64::MAX).reader());
                    return Ok(Answer {
                        status: parts.status.as_u16(),
                        headers: parts.headers,
                        url: url.to_owned(),
                        body,
                    });
                }
                // What the verifier says when it finds no roots; of a bad certificate it speaks otherwise.
                Err(ureq::Error::Rustls(error)) if !bundled && error.to_string().contains("No CA certificates") => {
                    self.bundled.store(true, Relaxed);
                }
                Err(error) => return Err(self.fault(url, &error)),
            }
        }
    }

    /// The token, for its own host.
    fn authorization(&self, url: &str) -> Option<String> {
        let at_home = self.home.is_some() && origin(url) == self.home;
        self.token.as_ref().filter(|_| at_home).and_then(Token::header)
    }

    fn agent(&self, bundled: bool) -> &Agent {
        self.agents[usize::from(bundled)].get_or_init(|| {
            let roots = if bundled { RootCerts::WebPki } else { RootCerts::PlatformVerifier };
            Agent::config_builder()
                .tls_config(TlsConfig::builder().root_certs(roots).build())
                .http_status_as_error(false)
                .max_redirects(0)
                .max_redirects_will_error(false)
                .user_agent(concat!("qrun/", env!("CARGO_PKG_VERSION")))
                .timeout_resolve(Some(self.silence))
                .timeout_connect(Some(self.silence))
                .timeout_per_read(Some(self.silence))
                .timeout_per_write(Some(self.silence))
                .build()
                .new_agent()
        })
    }

    fn fault(&self, url: &str, error: &ureq::Error) -> Fault {
        use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, TimedOut, UnexpectedEof};
        let host = host(url);
        match error {
            ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve) => {
                let reason = format!("no connection within {}", seconds(self.silence));
                Fault::Unreachable { host, reason }
            }
            ureq::Error::Timeout(_) => Fault::Cut { host, reason: format!("silent for {}", seconds(self.silence)) },
            ureq::Error::Io(error) => match error.kind() {
                UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe | TimedOut => self.cut(&host, error),
                ConnectionRefused => Fault::Unreachable { host, reason: "connection refused".to_owned() },
                _ => Fault::Unreachable { host, reason: self.without_token(&error.to_string()) },
            },
            ureq::Error::HostNotFound => {
                Fault::Unreachable { host, reason: "no such host (is there a network?)".to_owned() }
            }
            ureq::Error::Protocol(error) => Fault::Cut { host, reason: format!("not as HTTP says: {error}") },
            error => Fault::Unreachable { host, reason: self.without_token(&error.to_string()) },
        }
    }

    fn refusal(&self, asked: String, answer: Answer) -> Refusal {
        let seconds = answer.header("retry-after").and_then(|after| after.trim().parse().ok());
        let code = answer.header("x-error-code").unwrap_or_default().to_owned();
        let message = answer.header("x-error-message").map(str::to_owned);
        let (host, status, token) = (host(&answer.url), answer.status, self.authorization(&answer.url).is_some());
        let said = message.unwrap_or_else(|| {
            let mut text = Vec::new();
            let _ = answer.body.take(4096).read_to_end(&mut text);
            error_of(&String::from_utf8_lossy(&text))
        });
        let said: String = said.chars().filter(|c| !c.is_control()).take(LONGEST_SAID).collect();
        let said = self.without_token(&said);
        let retry_after = seconds.map(Duration::from_secs);
        Refusal { host, asked, token, status, retry_after, code, said }
    }

    /// What a failed read means.
    pub fn cut(&self, host: &str, error: &io::Error) -> Fault {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<ureq::Error>());
        let silent = matches!(inner, Some(ureq::Error::Timeout(_))) || error.kind() == ErrorKind::TimedOut;
        let reason = match error.kind() {
            _ if silent => format!("silent for {}", seconds(self.silence)),
            ErrorKind::UnexpectedEof => "the connection was cut".to_owned(),
            _ => self.without_token(&error.to_string()),
        };
        Fault::Cut { host: host.to_owned(), reason }
    }

    fn without_token(&self, text: &str) -> String {
        self.token.as_ref().map_or_else(|| text.to_owned(), |token| token.hidden(text))
    }
}

fn seconds(time: Duration) -> String {
    if time.as_millis() < 1000 { format!("{} ms", time.as_millis()) } else { format!("{} s", time.as_secs()) }
}

/// The words of the hub, of ModelScope, of a registry; others send a page, of which nothing is shown.
fn error_of(text: &str) -> String {
    let json: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    let places = ["/error", "/Message", "/errors/0/message"];
    places.into_iter().find_map(|place| json.pointer(place)?.as_str()).unwrap_or_default().to_owned()
}

/// `scheme://host:port` of a URL, the port written out.
fn origin(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    let authority = rest.split(['/', '?', '#']).next()?.to_ascii_lowercase();
    let plain = authority.rsplit('@').next()?;
    let port = plain.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
    let default = if scheme == "https" { ":443" } else { ":80" };
    Some(format!("{scheme}://{plain}{}", if port { "" } else { default }))
}

/// The host of a URL with its port, for messages.
pub fn host(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit('@').next().unwrap_or_default().to_owned()
}

/// Where a redirect leads; `None` where that is nothing of HTTP.
fn join(base: &str, to: &str) -> Option<String> {
    let (scheme, rest) = base.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let lower = to.to_ascii_lowercase();
    if lower.starts_with("http://") || lower.starts_with("https://") {
        return Some(to.to_owned());
    }
    if let Some(rest) = to.strip_prefix("//") {
        return Some(format!("{scheme}://{rest}"));
    }
    if to.starts_with('/') {
        return Some(format!("{scheme}://{authority}{to}"));
    }
    if to.split(['/', '?', '#']).next()?.contains(':') {
        return None;
    }
    let path = rest[authority.len()..].split(['?', '#']).next()?;
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    Some(format!("{scheme}://{authority}{folder}/{to}"))
}

/// A path as a part of a URL: what is not plain is written as `%XX`, the slashes stay.
pub fn escaped(path: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~/".contains(&b);
    path.bytes().map(|b| if plain(b) { (b as char).to_string() } else { format!("%{b:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_tell_hosts_apart() {
        for (a, b, same) in [
            ("https://h.co/x", "https://H.co:443/y?z", true),
            ("http://h.co", "https://h.co", false),
            ("http://h.co:1", "http://h.co:2", false),
            ("https://h.co", "https://h.co.evil.com", false),
            ("https://h.co", "https://h.co@evil.com", false),
            ("http://[::1]:80/", "http://[::1]", true),
        ] {
            assert_eq!(origin(a) == origin(b), same, "{a} {b}");
        }
        assert_eq!(host("https://me:pw@h.co:1/x"), "h.co:1");
    }

    #[test]
    fn redirects_lead_somewhere() {
        let base = "https://h.co/a/b?c";
        for (to, wanted) in [
            ("http://x/y", Some("http://x/y")),
            ("//x/y", Some("https://x/y")),
            ("/y?z", Some("https://h.co/y?z")),
            ("y", Some("https://h.co/a/y")),
            ("ftp://x", None),
            ("javascript:x", None),
        ] {
            assert_eq!(join(base, to).as_deref(), wanted, "{to}");
        }
        assert_eq!(escaped("a b/ä+c.gguf"), "a%20b/%C3%A4%2Bc.gguf");
    }
}
