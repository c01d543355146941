//! Several programs at once, and one that is killed.

use std::{process::Stdio, thread, time::Duration};

use super::{
    DEMO, Home, assert_bytes,
    program::{qrun, text},
    stub::{Fault, Plan, sha256},
};

#[test]
fn programs_at_once_fetch_once() {
    for programs in [2, 6] {
        // Slow enough that all of them want it at the same time.
        let slow = |nth| (nth < 2).then_some(Fault::Late(Duration::from_millis(300)));
        let hub = Plan::of(&[("x-Q4_K_M.gguf", DEMO)]).faults(slow).start();
        let home = Home::new(&hub);
        let start = |_| {
            let mut command = qrun(&hub, Some(&home));
            command.args(["pull", "u/r"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("qrun starts")
        };
        let children: Vec<_> = (0..programs).map(start).collect();
        let outputs: Vec<_> = children.into_iter().map(|child| child.wait_with_output().expect("qrun ends")).collect();
        for output in &outputs {
            assert!(output.status.success(), "{}", text(&output.stderr));
            assert_bytes(text(&output.stdout).trim_end().as_ref(), DEMO);
        }
        assert_eq!(hub.sent(), DEMO.len() as u64, "{programs} programs, one download");
        assert_eq!(home.files().len(), 3, "{:?}", home.files());
    }
}

#[test]
fn killed_and_resumed() {
    let hub = Plan::of(&[("x-Q4_K_M.gguf", DEMO)])
        .faults(|nth| (nth == 1).then_some(Fault::Silent(700_000, Duration::from_secs(60))))
        .start();
    let home = Home::new(&hub);
    let mut child = qrun(&hub, Some(&home)).args(["pull", "u/r"]).stderr(Stdio::null()).spawn().expect("qrun starts");
    let partial = home.cache().join(format!("models--u--r/blobs/{}.qrun.incomplete", sha256(DEMO)));
    let have = || partial.metadata().map_or(0, |meta| meta.len());
    // All that was sent is on the disk, up to the last block.
    let mut turns = 0;
    while have() < (1 << 20) + 400_000 {
        thread::sleep(Duration::from_millis(20));
        turns += 1;
        assert!(turns < 3000 && child.try_wait().expect("a child").is_none(), "{} bytes", have());
    }
    child.kill().expect("killed");
    child.wait().expect("ended");
    let kept = have();
    let before = hub.sent();
    let output = qrun(&hub, Some(&home)).args(["pull", "u/r"]).output().expect("qrun starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_bytes(text(&output.stdout).trim_end().as_ref(), DEMO);
    assert_eq!(hub.sent() - before, DEMO.len() as u64 - kept, "only what was missing");
}

#[cfg(unix)]
#[test]
fn an_interrupt_keeps_what_came() {
    use nix::{sys::signal, unistd::Pid};
    let hub = Plan::of(&[("x-Q4_K_M.gguf", DEMO)])
        .faults(|nth| (nth == 1).then_some(Fault::Silent(700_000, Duration::from_secs(60))))
        .start();
    let home = Home::new(&hub);
    let mut command = qrun(&hub, Some(&home));
    let mut child = command.args(["pull", "u/r"]).stderr(Stdio::piped()).spawn().expect("qrun starts");
    let partial = home.cache().join(format!("models--u--r/blobs/{}.qrun.incomplete", sha256(DEMO)));
    let have = || partial.metadata().map_or(0, |meta| meta.len());
    let mut turns = 0;
    while have() < 1 << 20 {
        thread::sleep(Duration::from_millis(20));
        turns += 1;
        assert!(turns < 3000 && child.try_wait().expect("a child").is_none(), "{} bytes", have());
    }
    signal::kill(Pid::from_raw(child.id() as i32), signal::Signal::SIGINT).expect("sent");
    assert_eq!(child.wait().expect("ended").code(), Some(130));
    assert!(have() >= 1 << 20);
    let output = qrun(&hub, Some(&home)).args(["pull", "u/r"]).output().expect("qrun starts");
    assert_bytes(text(&output.stdout).trim_end().as_ref(), DEMO);
}
