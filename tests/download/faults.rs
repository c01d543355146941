//! Answers that break HTTP, and statuses that ask for patience.

use std::{sync::Arc, time::Instant};

use qrun::download::DownloadError;

use super::{
    DEMO, Home, assert_bytes,
    stub::{COMMIT, Fault, Plan, sha256},
};

/// What is wrong with the second request for bytes (the first 1 MiB is there); the bytes are right in the end.
#[test]
fn odd_answers_to_ranges() {
    let status = |status, headers: &[(&'static str, &str)]| {
        Fault::Status(status, headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect())
    };
    let cases = [
        ("200 to a range", Fault::Whole),
        ("206 without Content-Range", Fault::NoContentRange),
        ("206 from the beginning", Fault::Elsewhere(0)),
        ("206 from further on", Fault::Elsewhere(2_000_000)),
        ("416", status(416, &[("Content-Range", "bytes */5")])),
        ("429 with Retry-After", status(429, &[("Retry-After", "1")])),
        ("503 with Retry-After", status(503, &[("Retry-After", "0")])),
        ("503", status(503, &[])),
        ("500", status(500, &[])),
        ("502 with a date", status(502, &[("Retry-After", "Fri, 31 Dec 1999 23:59:59 GMT")])),
    ];
    for (what, fault) in cases {
        let waits = matches!(&fault, Fault::Status(429, _));
        let hub = Plan::of(&[("x-Q4_K_M.gguf", DEMO)]).faults(move |nth| (nth == 1).then(|| fault.clone())).start();
        let home = Home::new(&hub);
        let started = Instant::now();
        let path = home.fetch("u/r").unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_bytes(&path, DEMO);
        assert!(!waits || started.elapsed().as_millis() >= 1000, "{what}: Retry-After is kept");
        assert!(hub.fetched().len() >= 2, "{what}");
    }
}

/// The same for ever: an error in the end, never wrong bytes.
#[test]
fn servers_that_never_get_better() {
    let status = |status, headers: Vec<(&'static str, String)>| Fault::Status(status, headers);
    let cases = [
        ("cut before the first byte", Fault::Cut(0), "the connection was cut"),
        ("500", status(500, vec![]), "found 500"),
        ("429 for an hour", status(429, vec![("Retry-After", "3600".into())]), "try again in 3600 s"),
        ("404", status(404, vec![]), "has no such file; its listing has it"),
        ("a teapot", status(418, vec![]), "found 418"),
        (
            "in circles",
            status(302, vec![("Location", "/u/r/resolve/main/x-Q4_K_M.gguf".into())]),
            "more than 10 redirects",
        ),
        ("to nowhere", status(302, vec![("Location", "ftp://x/y".into())]), "found 302"),
    ];
    for (what, fault, said) in cases {
        let hub = Plan::of(&[("x-Q4_K_M.gguf", DEMO)]).faults(move |_| Some(fault.clone())).start();
        let home = Home::new(&hub);
        let found = home.fetch("u/r").expect_err(what).to_string();
        assert!(found.contains(said), "{what}: {found}");
        assert_eq!(home.find("u/r"), None, "{what}");
        assert!(hub.fetched().len() <= 12, "{what}: {} requests", hub.fetched().len());
    }
}

/// Servers that never give ranges still give files, cut or not.
#[test]
fn no_ranges_at_all() {
    for cut in [false, true] {
        let hub = Plan::of(&[("x-Q4_K_M.gguf", DEMO)])
            .faults(move |nth| if cut && nth == 2 { Some(Fault::Cut(2_500_000)) } else { Some(Fault::Whole) })
            .start();
        let home = Home::new(&hub);
        assert_bytes(&home.fetch("u/r").expect("fetched"), DEMO);
    }
}

#[test]
fn wrong_bytes_never_get_their_name() {
    let sum = sha256(DEMO);
    // Always wrong: both tries, then nothing is left under any name but the locks'.
    let hub = Plan::of(&[("x-Q4_K_M.gguf", DEMO)]).faults(|nth| (nth % 2 == 1).then_some(Fault::Wrong)).start();
    let home = Home::new(&hub);
    let error = home.fetch("u/r").expect_err("wrong bytes");
    let DownloadError::WrongBytes { expected, found, .. } = &error else { panic!("{error}") };
    assert!(*expected == sum && *found != sum && error.to_string().contains("x-Q4_K_M.gguf"), "{error}");
    assert_eq!(home.files(), [""; 0]);
    assert_eq!(hub.sent(), 2 * DEMO.len() as u64);
    // Wrong once: the second try is right.
    let hub = Plan::of(&[("x-Q4_K_M.gguf", DEMO)]).faults(|nth| (nth == 1).then_some(Fault::Wrong)).start();
    let home = Home::new(&hub);
    assert_bytes(&home.fetch("u/r").expect("fetched"), DEMO);
    // Wrong on this disk, from an earlier run: found out, and fetched anew.
    let hub = Plan::of(&[("x-Q4_K_M.gguf", DEMO)]).start();
    let home = Home::new(&hub);
    let blobs = home.cache().join("models--u--r/blobs");
    std::fs::create_dir_all(&blobs).expect("a folder");
    let mut half = DEMO[..2_000_000].to_vec();
    half[1_500_000] ^= 1;
    std::fs::write(blobs.join(format!("{sum}.qrun.incomplete")), half).expect("written");
    assert_bytes(&home.fetch("u/r").expect("fetched"), DEMO);
    // A page in place of a file.
    let hub = Plan::of(&[("x-Q4_K_M.gguf", b"<!DOCTYPE html>")]).start();
    let said = Home::new(&hub).fetch("u/r").expect_err("a page").to_string();
    assert!(said.contains("expected a GGUF file"), "{said}");
}

/// A file of another size than the hub lists is not the file.
#[test]
fn another_size_than_listed() {
    let files = vec![("x-Q4_K_M.gguf".to_owned(), Arc::new(DEMO[..DEMO.len() - 7].to_vec()))];
    let listing = super::stub::model("u/r", &files);
    let hub = Plan::of(&[("x-Q4_K_M.gguf", DEMO)])
        .answers(move |seen| seen.path.starts_with("/api").then(|| (200, vec![], listing.to_string())))
        .start();
    let said = Home::new(&hub).fetch("u/r").expect_err("another size").to_string();
    assert!(said.contains("as listed") && said.contains(&format!("{} bytes", DEMO.len())), "{said}");
}

/// A blob with the right name and another size, as a broken program may leave it, is not taken for the file.
#[test]
fn a_short_blob_is_fetched_again() {
    let hub = Plan::of(&[("x-Q4_K_M.gguf", DEMO)]).start();
    let home = Home::new(&hub);
    let path = home.fetch("u/r").expect("fetched");
    let blob = home.cache().join(format!("models--u--r/blobs/{}", sha256(DEMO)));
    std::fs::write(&blob, &DEMO[..1000]).expect("written");
    assert_eq!(home.fetch("u/r").expect("fetched"), path);
    assert_bytes(&path, DEMO);
    assert!(path.to_string_lossy().contains(COMMIT));
}
