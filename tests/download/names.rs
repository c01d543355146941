//! From names to files: what is chosen, where it lies, who else has models.

use std::sync::Arc;

use qrun::download::{DownloadError, Wanted};
use serde_json::json;

use super::{
    DEMO, Home, assert_bytes, gguf,
    stub::{COMMIT, Files, Plan, sha256},
};

fn repo() -> Plan {
    Plan::of(&[("x-Q4_K_M.gguf", DEMO), ("x-Q8_0.gguf", &gguf("llama", 5000)), ("mmproj-F16.gguf", b"GGUF")])
}

#[test]
fn the_cache_is_the_hubs() {
    let hub = repo().start();
    let home = Home::new(&hub);
    assert_eq!(home.find("u/r"), None);
    let path = home.fetch("u/r").expect("fetched");
    assert_bytes(&path, DEMO);
    let sum = sha256(DEMO);
    assert_eq!(
        home.files(),
        [
            format!("models--u--r/blobs/{sum} {}", DEMO.len()),
            "models--u--r/refs/main 40".to_owned(),
            format!("models--u--r/snapshots/{COMMIT}/x-Q4_K_M.gguf -> ../../blobs/{sum}"),
        ]
    );
    assert!(home.cache().join(format!(".locks/models--u--r/{sum}.lock")).is_file());
    assert_eq!(std::fs::read_to_string(home.cache().join("models--u--r/refs/main")).expect("a ref"), COMMIT);
    // Once more: the hub is asked what is new, and no byte of the file comes again.
    assert_eq!(home.fetch("u/r").expect("there"), path);
    assert_eq!(hub.sent(), DEMO.len() as u64);
    let requests = hub.seen().len();
    assert_eq!(home.find("u/r"), Some(path.clone()));
    assert_eq!(home.find("hf:u/r:Q4_K_M"), Some(path));
    assert_eq!((home.find("u/r:Q8_0"), home.find("u/other")), (None, None));
    assert_eq!(hub.seen().len(), requests, "find asks nobody");
}

#[test]
fn tags_files_and_revisions() {
    let hub = repo().start();
    let home = Home::new(&hub);
    let name = |name: &str| home.fetch(name).map(|path| path.file_name().map(|n| n.to_string_lossy().into_owned()));
    for (asked, file) in [("u/r:q8_0", "x-Q8_0.gguf"), ("u/r:x-Q8_0.gguf", "x-Q8_0.gguf"), ("u/r", "x-Q4_K_M.gguf")] {
        assert_eq!(name(asked).expect(asked).as_deref(), Some(file), "{asked}");
    }
    let wanted = Wanted { file: Some("X-Q8_0.gguf".into()), ..Wanted::named("u/r:Q4_K_M") };
    assert!(home.fetch_as(&wanted).expect("a file wins over a tag").ends_with("x-Q8_0.gguf"));
    let said = name("u/r:Q5_K_M").expect_err("no such tag").to_string();
    assert_eq!(said, "u/r: no file with the tag \"Q5_K_M\"; there are: Q4_K_M, Q8_0");
    let wanted = Wanted { revision: Some("v9".into()), ..Wanted::named("u/r") };
    let error = home.fetch_as(&wanted).expect_err("no such revision");
    assert_eq!(error.to_string(), "u/r: no revision \"v9\"");
    let wanted = Wanted::named("gemma-3-1b-itt");
    let said = home.fetch_as(&wanted).expect_err("no name").to_string();
    assert!(said.contains("did you mean gemma-3-1b-it?"), "{said}");
}

#[test]
fn all_shards_come() {
    let (one, two) = (gguf("llama", 70_000), gguf("llama", 50_001));
    let hub = Plan::of(&[("BF16/y-00002-of-00002.gguf", &two), ("BF16/y-00001-of-00002.gguf", &one)]).start();
    let home = Home::new(&hub);
    let path = home.fetch("u/r:BF16").expect("fetched");
    assert!(path.ends_with("BF16/y-00001-of-00002.gguf"));
    assert_bytes(&path, &one);
    assert_bytes(&path.with_file_name("y-00002-of-00002.gguf"), &two);
    let cached = home.store().cached(None).expect("a cache");
    assert_eq!((cached.len(), cached[0].bytes, cached[0].name.as_str()), (1, 120_001, "u/r"));
    // Without one of them the model is not there.
    std::fs::remove_file(path.with_file_name("y-00002-of-00002.gguf")).expect("removed");
    assert_eq!(home.find("u/r:BF16"), None);
}

#[test]
fn offline_means_the_cache() {
    let hub = repo().start();
    let home = Home::new(&hub);
    let offline = |name: &str| Wanted { offline: true, ..Wanted::named(name) };
    let said = home.fetch_as(&offline("u/r")).expect_err("nothing there").to_string();
    assert!(said.contains("u/r: not in the cache") && said.contains("--offline"), "{said}");
    assert_eq!(hub.seen().len(), 0);
    let path = home.fetch("u/r").expect("fetched");
    let requests = hub.seen().len();
    assert_eq!(home.fetch_as(&offline("u/r")).expect("there"), path);
    assert_eq!(hub.seen().len(), requests);
    // A hub that is away is as good as offline.
    let mut away = home.settings.clone();
    away.endpoint = "http://127.0.0.1:9".into();
    let away = qrun::download::Store::new(away);
    let mut watch = |_| std::ops::ControlFlow::Continue(());
    assert_eq!(away.fetch(&Wanted::named("u/r"), &mut watch).expect("there"), path);
    let said = away.fetch(&Wanted::named("u/r:Q8_0"), &mut watch).expect_err("not there").to_string();
    assert!(said.contains("127.0.0.1:9") && said.contains("refused"), "{said}");
}

#[test]
fn files_are_removed_with_their_blobs() {
    let hub = repo().start();
    let home = Home::new(&hub);
    home.fetch("u/r").expect("fetched");
    home.fetch("u/r:Q8_0").expect("fetched");
    let cached: Vec<String> = home.store().cached(None).expect("a cache").into_iter().map(|c| c.file).collect();
    assert_eq!(cached, ["x-Q4_K_M.gguf", "x-Q8_0.gguf"]);
    // What another program is fetching meanwhile.
    let others = home.cache().join("models--u--r/blobs/0123.downloadInProgress");
    std::fs::write(&others, "half").expect("written");
    let removed = home.store().remove("u/r:Q8_0", None).expect("removed");
    assert_eq!((removed.files, removed.bytes), (1, 5000));
    assert!(home.find("u/r").is_some() && home.find("u/r:Q8_0").is_none());
    assert!(matches!(home.store().remove("u/r:Q8_0", None), Err(DownloadError::NotFound { .. })));
    assert!(others.exists());
    assert_eq!(home.store().remove("u/r", None).expect("removed").bytes, DEMO.len() as u64 + 4);
    assert_eq!(home.files(), [""; 0]);
    assert!(matches!(home.store().remove("u/r", None), Err(DownloadError::NotFound { .. })));
}

/// A listing that would write outside of the cache, or under names that are none, is not followed.
#[test]
fn a_hostile_listing_stays_inside() {
    let files: Files = ["../../../x-Q4_K_M.gguf", "/etc/x.gguf", "a/../../b.gguf"]
        .map(|path| (path.to_owned(), Arc::new(DEMO.to_vec())))
        .into();
    let listing = super::stub::model("u/r", &files);
    let mut odd = listing.clone();
    odd["sha"] = json!("../../..");
    for (listing, said) in [(listing, "no GGUF file"), (odd, "a commit of 40")] {
        let hub = Plan::default()
            .answers(move |seen| seen.path.starts_with("/api").then(|| (200, vec![], listing.to_string())))
            .start();
        let home = Home::new(&hub);
        let found = home.fetch("u/r").expect_err("hostile").to_string();
        assert!(found.contains(said), "{found}");
        assert_eq!(home.files(), [""; 0]);
    }
}

#[test]
fn an_architecture_that_qrun_lacks_is_refused_after_the_head() {
    let other = gguf("mamba", 64 << 20);
    let hub = Plan::of(&[("other-Q4_K_M.gguf", &other)]).start();
    let home = Home::new(&hub);
    let said = home.fetch("u/other").expect_err("mamba").to_string();
    assert!(said.contains("an architecture that qrun runs (llama") && said.contains("found \"mamba\""), "{said}");
    assert!(hub.sent() <= 2 << 20, "{} bytes were sent", hub.sent());
    assert_eq!(home.find("u/other"), None);
}

#[test]
fn modelscope_ollama_and_urls() {
    let sum = sha256(DEMO);
    let scope = json!({ "Code": 200, "Data": { "Files": [
        { "Path": "x-Q4_K_M.gguf", "Size": DEMO.len(), "Sha256": sum, "Type": "blob" },
        { "Path": "dir", "Size": 0, "Type": "tree" },
    ] } });
    let manifest = json!({ "layers": [
        { "mediaType": "application/vnd.ollama.image.license", "digest": format!("sha256:{}", "0".repeat(64)), "size": 1 },
        { "mediaType": "application/vnd.ollama.image.model", "digest": format!("sha256:{sum}"), "size": DEMO.len() },
    ] });
    let stored = manifest.clone();
    let hub = Plan::of(&[("m/x.gguf", DEMO)])
        .answers(move |seen| {
            let away = |path: &str| Some((302, vec![("Location", path.to_owned())], String::new()));
            match seen.path.as_str() {
                "/api/v1/models/u/r/repo/files?Revision=master&Recursive=true" => {
                    Some((200, vec![], scope.to_string()))
                }
                "/api/v1/models/u/r/repo?Revision=master&FilePath=x-Q4_K_M.gguf" => away("/resolve/m/x.gguf"),
                "/v2/library/llama3.2/manifests/1b" => Some((200, vec![], manifest.to_string())),
                path if path.starts_with("/v2/library/llama3.2/blobs/sha256:") => away("/resolve/m/x.gguf"),
                _ => None,
            }
        })
        .start();
    let mut home = Home::new(&hub);
    home.settings.modelscope = hub.url();
    home.settings.ollama = hub.url();
    let url = format!("{}/resolve/m/x.gguf?a=b", hub.url());
    for name in ["ms:u/r", "ollama://llama3.2:1b", &url] {
        let path = home.fetch(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_bytes(&path, DEMO);
        assert_eq!(home.find(name), Some(path), "{name}");
    }
    assert_eq!(home.find("u/r"), None, "ModelScope's repository is not the hub's");
    let names: Vec<String> = home.store().cached(None).expect("a cache").into_iter().map(|c| c.name).collect();
    assert!(names.contains(&"ms:u/r".into()) && names.contains(&"ollama://llama3.2".into()), "{names:?}");
    // What an Ollama on this machine has is not fetched.
    let store = home.cache().join("ollama");
    let manifests = store.join("manifests/registry.ollama.ai/library/mine");
    std::fs::create_dir_all(&manifests).expect("a folder");
    std::fs::create_dir_all(store.join("blobs")).expect("a folder");
    std::fs::write(manifests.join("latest"), stored.to_string()).expect("a manifest");
    let blob = store.join(format!("blobs/sha256-{sum}"));
    std::fs::write(&blob, DEMO).expect("a blob");
    home.settings.ollama_stores = vec![store];
    let requests = hub.seen().len();
    assert_eq!(home.find("ollama://mine"), Some(blob.clone()));
    assert_eq!(home.fetch("ollama://mine").expect("there"), blob);
    assert_eq!(hub.seen().len(), requests);
}
