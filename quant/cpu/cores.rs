//! How many threads computing is worth.

/// Physical cores that this process may use: a second thread on a core shares its arithmetic.
pub fn physical_cores() -> usize {
    let logical = std::thread::available_parallelism().map_or(1, |n| n.get());
    let siblings = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list");
    let shared = siblings.is_ok_and(|list| list.trim().contains([',', '-']));
    if shared && logical > 2 { logical / 2 } else { logical }
}
