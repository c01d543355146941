//! Who may read what, and where requests go.

use std::sync::{Arc, Mutex};

use qrun::download::{DownloadError, Wanted};

use super::{
    DEMO, Home, assert_bytes,
    stub::{Plan, Seen},
};

const TOKEN: &str = "hf_abcdefghijklmnopqrstuvwxyz0123456789";

fn demo() -> Plan {
    Plan::of(&[("x-Q4_K_M.gguf", DEMO)])
}

type Answer = Option<(u16, Vec<(&'static str, String)>, String)>;

/// Sends whoever wants a file to another host, as the hub does.
fn leads_to(host: String) -> impl Fn(&Seen) -> Answer + Send + Sync {
    move |seen| {
        let away = seen.path.contains("/resolve/").then(|| format!("{host}{}?signed=1", seen.path));
        away.map(|to| (302, vec![("Location", to)], String::new()))
    }
}

/// Refuses whatever it is asked without this token.
fn locked(status: u16, code: &'static str, said: &'static str) -> impl Fn(&Seen) -> Answer + Send + Sync {
    move |seen| {
        let headers = vec![("X-Error-Code", code.to_owned()), ("X-Error-Message", said.to_owned())];
        let opened = seen.authorization.as_deref() == Some(&format!("Bearer {TOKEN}"));
        (!opened).then(|| (status, headers, String::new()))
    }
}

#[test]
fn gated_private_and_unknown_repositories() {
    let cases = [
        (401, "GatedRepo", "Access to model u/r is restricted", "accept its licence on", "no token was sent"),
        (403, "GatedRepo", "Access to model u/r is restricted", "set HF_TOKEN", "no token was sent"),
        (401, "RepoNotFound", "Repository not found", "no such repository", "set HF_TOKEN"),
        (404, "RepoNotFound", "Repository not found", "no such repository", "is the name right"),
        (401, "", "", "no such repository", "set HF_TOKEN"),
        (403, "", "gated", "accept its licence", "no token was sent"),
    ];
    for (status, code, said, one, other) in cases {
        let hub = demo().answers(locked(status, code, said)).start();
        let mut home = Home::new(&hub);
        let found = home.fetch("u/r").expect_err("locked").to_string();
        assert!(found.contains(one) && found.contains(other) && found.contains("u/r"), "{status} {code}: {found}");
        assert!(!one.contains("licence") || found.contains(&format!("on {}/u/r, then", hub.url())), "{found}");
        assert_eq!(hub.seen().len(), 1, "{status} {code}: nothing is tried again");
        // The wrong token: other words, and never the token.
        home.settings.token =
            qrun::download::Settings::read(|name| (name == "HF_TOKEN").then(|| "hf_wrong".into())).token;
        let found = home.fetch("u/r").expect_err("locked").to_string();
        assert!(!found.contains("hf_wrong"), "{found}");
        assert!(code != "GatedRepo" || found.contains("the token that was sent may not read it"), "{found}");
        // The right one.
        let wanted = Wanted { token: Some(TOKEN.into()), ..Wanted::named("u/r") };
        assert_bytes(&home.fetch_as(&wanted).expect("opened"), DEMO);
    }
}

/// Each kind of server: what it was asked, what it answered, what to do. None of these got the token, and none has a
/// page where a licence is accepted.
#[test]
fn a_no_is_told_as_its_server_means_it() {
    let cases: [(u16, &str, &[&str]); 8] = [
        (401, "/m/x.gguf", &["/m/x.gguf: ", "found 401", "sends no token there", "name its path"]),
        (403, "/m/x.gguf", &["/m/x.gguf: ", "found 403", "sends no token there", "name its path"]),
        (404, "/m/x.gguf", &["/m/x.gguf: ", "has no such file", "is the address right?"]),
        (410, "/m/x.gguf", &["/m/x.gguf: ", "has no such file", "is the address right?"]),
        (403, "ms:u/r", &["ms:u/r: ", "found 403: no entry", "sends no token there", "public"]),
        (404, "ms:u/r", &["ms:u/r: ", "has no such repository", "ms:USER/REPO"]),
        (401, "ollama://llama3.2:1b", &["ollama://llama3.2:1b: ", "found 401: no entry", "public"]),
        (404, "ollama://llama3.2:1b", &["ollama://llama3.2:1b: ", "has no such model", "ollama://NAME:TAG"]),
    ];
    let hub = demo().start();
    for (status, name, parts) in cases {
        let said = if name.starts_with("ms:") {
            r#"{"Code":1,"Message":"no entry"}"#
        } else {
            r#"{"errors":[{"code":"X","message":"no entry"}]}"#
        };
        let elsewhere = demo().answers(move |_| Some((status, vec![], said.to_owned()))).start();
        let mut home = Home::with(&hub, &[("HF_TOKEN", TOKEN)]);
        (home.settings.modelscope, home.settings.ollama) = (elsewhere.url(), elsewhere.url());
        let url = format!("{}{name}", elsewhere.url());
        let found = home.fetch(if name.starts_with('/') { &url } else { name }).expect_err("a no").to_string();
        for part in parts {
            assert!(found.contains(part), "{status} {name}: {part:?} is not in {found}");
        }
        assert!(found.contains(&format!("127.0.0.1:{}", elsewhere.port)), "{found}");
        for part in ["licence", "that was sent", "(USER/REPO", "does not accept"] {
            assert!(!found.contains(part), "{status} {name}: {part:?} is in {found}");
        }
        assert!(elsewhere.seen().iter().all(|seen| seen.authorization.is_none()), "{name}");
    }
    assert_eq!(hub.seen().len(), 0);
}

/// A server that answers with the token itself does not get it into a message.
#[test]
fn the_token_stands_in_no_message() {
    let echo = |seen: &Seen| {
        let said = seen.authorization.clone().unwrap_or_default();
        Some((418, vec![], format!("{{\"error\":\"{said}\"}}")))
    };
    let hub = demo().answers(echo).start();
    let home = Home::with(&hub, &[("HF_TOKEN", TOKEN)]);
    let error = home.fetch("u/r").expect_err("a teapot");
    let (said, debug) = (error.to_string(), format!("{error:?} {:?}", home.settings));
    assert!(said.contains("Bearer …") && !said.contains("abcdef") && !debug.contains("abcdef"), "{said} {debug}");
    let wanted = Wanted { token: Some(TOKEN.into()), ..Wanted::named("u/r") };
    assert!(!format!("{wanted:?}").contains("abcdef"));
    // One that no header can carry.
    let wanted = Wanted { token: Some("hf_two\nlines".into()), ..Wanted::named("u/r") };
    let said = home.fetch_as(&wanted).expect_err("no token").to_string();
    assert!(said.contains("HF_TOKEN") && !said.contains("two"), "{said}");
}

#[test]
fn a_renamed_repository_is_followed() {
    let hub = demo()
        .answers(|seen| {
            let moved = seen.path.strip_prefix("/api/models/old/r").map(|rest| format!("/api/models/new/r{rest}"));
            let moved = moved.or_else(|| seen.path.strip_prefix("/old/r").map(|rest| format!("/new/r{rest}")));
            moved.map(|to| (307, vec![("Location", to)], String::new()))
        })
        .start();
    let home = Home::with(&hub, &[("HF_TOKEN", TOKEN)]);
    let path = home.fetch("old/r").expect("followed");
    assert_bytes(&path, DEMO);
    assert!(path.to_string_lossy().contains("models--old--r"), "found again by the name that was typed");
    // The host is the same: the token goes along.
    assert!(hub.seen().iter().all(|seen| seen.authorization.is_some()), "{:?}", hub.seen());
}

#[test]
fn the_token_goes_to_no_other_host() {
    let elsewhere = Arc::new(demo().start());
    let hub = demo().answers(leads_to(elsewhere.url())).start();
    let home = Home::with(&hub, &[("HF_TOKEN", TOKEN)]);
    assert_bytes(&home.fetch("u/r").expect("fetched"), DEMO);
    assert!(hub.seen().iter().all(|seen| seen.authorization.is_some()));
    assert!(!elsewhere.seen().is_empty() && elsewhere.seen().iter().all(|seen| seen.authorization.is_none()));
    // A URL that is not the hub's gets none either.
    let before = elsewhere.seen().len();
    home.fetch(&format!("{}/resolve/x-Q4_K_M.gguf", elsewhere.url())).expect("fetched");
    assert!(elsewhere.seen()[before..].iter().all(|seen| seen.authorization.is_none()));
}

/// The address behind a redirect grows old in the middle: the hub is asked for another one.
#[test]
fn an_address_that_expires_is_asked_for_again() {
    let asked = Arc::new(Mutex::new(0));
    let counter = asked.clone();
    let elsewhere = Arc::new(
        demo()
            .answers(|seen| {
                let old = seen.path.contains("ticket=1") && seen.range.is_none_or(|range| range.0 > 0);
                old.then(|| (403, vec![], "expired".to_owned()))
            })
            .start(),
    );
    let to = elsewhere.url();
    let hub = demo()
        .answers(move |seen| {
            seen.path.contains("/resolve/").then(|| {
                let mut asked = counter.lock().expect("a counter");
                *asked += 1;
                (302, vec![("Location", format!("{to}{}?ticket={asked}", seen.path))], String::new())
            })
        })
        .start();
    assert_bytes(&Home::new(&hub).fetch("u/r").expect("fetched"), DEMO);
    assert_eq!(*asked.lock().expect("a counter"), 2);
}

/// One that has always expired: it is no page of the hub, and the token was not sent there.
#[test]
fn an_address_that_never_works_is_told_with_who_gave_it() {
    let elsewhere = demo().answers(|_| Some((403, vec![], "expired".to_owned()))).start();
    let hub = demo().answers(leads_to(elsewhere.url())).start();
    let home = Home::with(&hub, &[("HF_TOKEN", TOKEN)]);
    let found = home.fetch("u/r").expect_err("expired").to_string();
    let place = format!("u/r: x-Q4_K_M.gguf: 127.0.0.1:{}: ", elsewhere.port);
    assert!(found.starts_with(&place) && found.contains("found 403"), "{found}");
    assert!(found.contains(&format!("127.0.0.1:{} has led there: try again", hub.port)), "{found}");
    assert!(!found.contains("licence") && !found.contains("token"), "{found}");
}

#[test]
fn endpoints_are_the_environments() {
    let (one, two) = (demo().start(), demo().start());
    let home = Home::with(&one, &[("MODEL_ENDPOINT", &format!("{}/", two.url()))]);
    home.fetch("u/r").expect("fetched");
    assert_eq!(one.seen().len(), 0, "MODEL_ENDPOINT wins, as in llama.cpp");
    let mut home = Home::new(&one);
    home.fetch("u/r").expect("fetched");
    assert!(!one.seen().is_empty());
    home.settings.endpoint = "huggingface.co".into();
    assert!(matches!(home.fetch("u/r"), Err(DownloadError::Setting { .. })));
}

/// Without roots of trust on the system the bundled ones serve: what fails is the other side, which speaks no TLS.
#[test]
fn a_system_without_roots_of_trust() {
    let hub = demo().start();
    let url = format!("https://127.0.0.1:{}", hub.port);
    for roots in [true, false] {
        let mut command = super::program::qrun(&hub, None);
        if !roots {
            command.env("SSL_CERT_FILE", "/nowhere").env("SSL_CERT_DIR", "/nowhere");
        }
        let output = command.env("HF_ENDPOINT", &url).args(["pull", "u/r"]).output().expect("qrun starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(6), "{said}");
        assert!(!said.contains("No CA certificates") && said.contains("127.0.0.1"), "{roots}: {said}");
    }
}
