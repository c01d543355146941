//! Connections that end early: what came is kept, and no byte comes twice.

use std::{ops::ControlFlow, time::Duration};

use qrun::download::{DownloadError, Wanted};

use super::{
    DEMO, Home, assert_bytes, gguf,
    stub::{Fault, Plan, sha256},
};

/// Bytes that may come twice: the last block before a cut.
const BLOCK: u64 = 256 << 10;

#[test]
fn cut_at_twenty_places_and_resumed() {
    let size = DEMO.len() as u64;
    for i in 0..20 {
        // From the first byte to the last but one, on either side of what comes first.
        let place = i * (size - 1) / 19;
        let hub = Plan::of(&[("x-Q4_K_M.gguf", DEMO)]).faults(cut_at(place)).start();
        let home = Home::new(&hub);
        let path = home.fetch("u/r").unwrap_or_else(|error| panic!("cut at {place}: {error}"));
        assert_bytes(&path, DEMO);
        assert!((size..=size + BLOCK).contains(&hub.sent()), "cut at {place}: {} bytes for {size}", hub.sent());
        assert!(hub.fetched().len() >= 2 + usize::from(place > 0), "cut at {place}: {:?}", hub.fetched());
    }
}

/// Ends the connection once, before this byte of the file.
fn cut_at(place: u64) -> impl Fn(usize) -> Option<Fault> + Send + Sync {
    // What comes first is 1 MiB; the rest is one request.
    let first = 1 << 20;
    let (nth, n) = if place < first { (0, place) } else { (1, place - first) };
    move |seen| (seen == nth).then_some(Fault::Cut(n))
}

/// One run after the other, each of which gets a little.
#[test]
fn what_a_run_has_the_next_one_goes_on_behind() {
    let hub = Plan::of(&[("x-Q4_K_M.gguf", DEMO)]).faults(|_| Some(Fault::Cut(300_000))).start();
    let mut home = Home::new(&hub);
    home.settings.patience.tries = 1;
    let mut kept = 0;
    let path = loop {
        match home.fetch("u/r") {
            Ok(path) => break path,
            Err(error) => {
                let said = error.to_string();
                assert!(matches!(error, DownloadError::Network { .. }) && said.contains("are kept"), "{said}");
                let partial = home.cache().join(format!("models--u--r/blobs/{}.qrun.incomplete", sha256(DEMO)));
                let have = partial.metadata().expect("kept").len();
                assert!(have >= kept + 300_000, "{have} after {kept}: {said}");
                assert!(said.contains(&format!("{have} bytes")), "{said}");
                kept = have;
            }
        }
    };
    assert_bytes(&path, DEMO);
    assert_eq!(hub.sent(), DEMO.len() as u64);
    assert_eq!(home.files().len(), 3, "{:?}", home.files());
}

#[test]
fn without_content_length_the_size_tells_a_cut() {
    for fault in [Fault::CutWithoutLength(100_000), Fault::NoLength] {
        let hub = Plan::of(&[("x-Q4_K_M.gguf", DEMO)]).faults(move |nth| (nth % 2 == 0).then(|| fault.clone())).start();
        let home = Home::new(&hub);
        assert_bytes(&home.fetch("u/r").expect("fetched"), DEMO);
        assert_eq!(hub.sent(), DEMO.len() as u64);
    }
}

/// Of a URL nothing is known but what the server says; whatever it leaves out, the bytes are whole.
#[test]
fn urls_are_resumed_too() {
    let file = gguf("llama", 3 << 20);
    let hub =
        Plan::of(&[("m/x.gguf", &file)]).faults(|nth| (nth == 1 || nth == 2).then_some(Fault::Cut(500_000))).start();
    let home = Home::new(&hub);
    assert_bytes(&home.fetch(&format!("{}/resolve/m/x.gguf", hub.url())).expect("fetched"), &file);
    // One byte more: the request that asks what there is.
    assert_eq!(hub.sent(), file.len() as u64 + 1);
}

#[test]
fn silence_is_a_cut() {
    let silent = Fault::Silent(200_000, Duration::from_secs(3));
    let hub = Plan::of(&[("x-Q4_K_M.gguf", DEMO)]).faults(move |nth| (nth == 1).then(|| silent.clone())).start();
    let mut home = Home::new(&hub);
    // What people have, and what the test has the time for.
    assert_eq!(home.settings.patience.silence, Duration::from_secs(30));
    home.settings.patience.silence = Duration::from_millis(400);
    assert_bytes(&home.fetch("u/r").expect("fetched"), DEMO);
    assert!((DEMO.len() as u64..=DEMO.len() as u64 + BLOCK).contains(&hub.sent()), "{}", hub.sent());
    // For ever: an error that says so.
    let hub = Plan::of(&[("x-Q4_K_M.gguf", DEMO)]).faults(|_| Some(Fault::Silent(0, Duration::from_secs(3)))).start();
    let mut home = Home::new(&hub);
    home.settings.patience.tries = 2;
    home.settings.patience.silence = Duration::from_millis(100);
    let said = home.fetch("u/r").expect_err("silent").to_string();
    assert!(said.contains("silent for 100 ms") && said.contains(&format!("127.0.0.1:{}", hub.port)), "{said}");
}

#[test]
fn a_callback_ends_it_also_in_silence() {
    let hub = Plan::of(&[("x-Q4_K_M.gguf", DEMO)])
        .faults(|nth| (nth == 1).then_some(Fault::Silent(200_000, Duration::from_secs(5))))
        .start();
    let mut home = Home::new(&hub);
    home.settings.patience.silence = Duration::from_secs(60);
    let mut heard = 0;
    let mut stop = |progress: qrun::download::Progress| {
        heard = heard.max(progress.done);
        if progress.done >= 1_200_000 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let error = home.store().fetch(&Wanted::named("u/r"), &mut stop).expect_err("interrupted");
    assert!(matches!(error, DownloadError::Interrupted), "{error}");
    assert!(heard >= 1_200_000);
    home.settings.patience.silence = Duration::from_millis(400);
    assert_bytes(&home.fetch("u/r").expect("resumed"), DEMO);
}

#[test]
fn parallel_ranges_give_the_same_bytes() {
    let file = gguf("llama", (50 << 20) + 12_345);
    // Lanes are cut too, and each goes on by itself.
    let hub =
        Plan::of(&[("x-Q4_K_M.gguf", &file)]).faults(|nth| (nth % 3 == 1).then_some(Fault::Cut(5_000_000))).start();
    let mut home = Home::new(&hub);
    home.settings.parallel_from = 20 << 20;
    let mut last = 0;
    let mut watch = |progress: qrun::download::Progress| {
        assert!(progress.done >= last && progress.total == Some((50 << 20) + 12_345) || progress.total.is_none());
        last = progress.done;
        ControlFlow::Continue(())
    };
    let path = home.store().fetch(&Wanted::named("u/r"), &mut watch).expect("fetched");
    assert_bytes(&path, &file);
    assert_eq!(last, file.len() as u64);
    let size = file.len() as u64;
    assert!((size..=size + 4 * BLOCK).contains(&hub.sent()), "{} bytes for {size}", hub.sent());
    let begins: std::collections::BTreeSet<u64> = hub.fetched().iter().filter_map(|s| s.range.map(|r| r.0)).collect();
    assert!(begins.contains(&((1 << 20) + (16 << 20))) && begins.contains(&((1 << 20) + (32 << 20))), "{begins:?}");
    // A server that stops giving ranges in the middle: one connection goes through the file.
    let hub = Plan::of(&[("x-Q4_K_M.gguf", &file)]).faults(|nth| (nth >= 3).then_some(Fault::Whole)).start();
    let mut home = Home::new(&hub);
    home.settings.parallel_from = 20 << 20;
    assert_bytes(&home.fetch("u/r").expect("fetched"), &file);
}
