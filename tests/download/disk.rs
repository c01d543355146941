//! Caches that cannot be written, disks that are full.

use std::{path::Path, process::Command, time::Duration};

use qrun::download::DownloadError;

use super::{
    DEMO, Home, assert_bytes, gguf,
    stub::{Fault, Plan, sha256},
};
use crate::skip;

/// A file system of its own; unmounted when it is dropped.
struct Mount(tempfile::TempDir);

impl Mount {
    fn new(options: &str) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(folder.path());
        let mounted = mount.output().is_ok_and(|output| output.status.success());
        mounted.then(|| Mount(folder))
    }
    fn path(&self) -> &Path {
        self.0.path()
    }
    fn read_only(&self) {
        let done = Command::new("mount").args(["-o", "remount,ro"]).arg(self.path()).status().expect("mount runs");
        assert!(done.success());
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

#[test]
fn a_cache_that_cannot_be_written() {
    let hub = Plan::of(&[("x-Q4_K_M.gguf", DEMO)]).start();
    let mut home = Home::new(&hub);
    // Below a file there are no folders, for anyone.
    let file = home.cache().with_file_name("file");
    std::fs::write(&file, "").expect("a file");
    home.settings.cache = Some(file.join("hub"));
    let error = home.fetch("u/r").expect_err("no folder");
    let said = error.to_string();
    assert!(matches!(error, DownloadError::Cache { .. }) && said.contains("HF_HUB_CACHE"), "{said}");
    assert_eq!(hub.sent(), 0);
}

#[test]
fn a_read_only_cache_is_read() {
    let Some(mount) = Mount::new("size=16m") else { return skip("mount is not allowed") };
    let hub = Plan::of(&[("x-Q4_K_M.gguf", DEMO), ("x-Q8_0.gguf", &gguf("llama", 5000))]).start();
    let mut home = Home::new(&hub);
    home.settings.cache = Some(mount.path().to_owned());
    home.settings.spare = 0;
    let path = home.fetch("u/r").expect("fetched");
    mount.read_only();
    assert_eq!(home.fetch("u/r").expect("there"), path);
    assert_bytes(&path, DEMO);
    let said = home.fetch("u/r:Q8_0").expect_err("read only").to_string();
    assert!(said.contains("Read-only file system") && said.contains("HF_HUB_CACHE"), "{said}");
}

#[test]
fn a_full_disk_keeps_what_came_and_says_the_numbers() {
    let Some(mount) = Mount::new("size=12m") else { return skip("mount is not allowed") };
    let file = gguf("llama", 8 << 20);
    let other = mount.path().join("other");
    let fill = other.clone();
    // Another program fills the disk in the middle of it.
    let hub = Plan::of(&[("x-Q4_K_M.gguf", &file)])
        .faults(move |nth| {
            if nth == 1 {
                std::fs::write(&fill, vec![0; 6 << 20]).expect("room");
            }
            None
        })
        .start();
    let mut home = Home::new(&hub);
    home.settings.cache = Some(mount.path().join("hub"));
    home.settings.spare = 0;
    let error = home.fetch("u/r").expect_err("a full disk");
    let DownloadError::NoRoom { needed, free, .. } = error else { panic!("{error}") };
    let partial = mount.path().join(format!("hub/models--u--r/blobs/{}.qrun.incomplete", sha256(&file)));
    let have = partial.metadata().expect("kept").len();
    assert!(have > 1 << 20 && needed == file.len() as u64 - have && free < 1 << 20, "{have} {needed} {free}");
    // Before anything is fetched, where it is known beforehand.
    let sent = hub.sent();
    let said = home.fetch("u/r").expect_err("a full disk").to_string();
    assert!(
        said.contains(&format!("needs {} more bytes", file.len() as u64 - have)) && said.contains("free"),
        "{said}"
    );
    assert_eq!(hub.sent(), sent);
    // With room again it goes on behind what is there.
    std::fs::remove_file(&other).expect("removed");
    assert_bytes(&home.fetch("u/r").expect("resumed"), &file);
    assert!(hub.sent() - sent <= file.len() as u64 - have, "{} bytes after {have}", hub.sent() - sent);
}

/// The lock is held by whoever fetches; who waits says how far that is.
#[test]
fn who_waits_for_a_lock_hears_of_it() {
    let slow = |nth| (nth == 1).then_some(Fault::Late(Duration::from_millis(500)));
    let hub = Plan::of(&[("x-Q4_K_M.gguf", DEMO)]).faults(slow).start();
    let home = Home::new(&hub);
    let both = std::thread::scope(|scope| {
        let threads = [(); 2].map(|()| scope.spawn(|| home.fetch("u/r")));
        threads.map(|thread| thread.join().expect("a thread").expect("fetched"))
    });
    assert_eq!(both[0], both[1]);
    assert_bytes(&both[0], DEMO);
    assert_eq!(hub.sent(), DEMO.len() as u64);
}
