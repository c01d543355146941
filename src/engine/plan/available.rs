//! Memory that this process can still get: the least of what the system has, what its control groups leave, and what its
//! own limits leave.

use std::{fs, path::Path};

/// Bytes that this process can still get; `None` where the system does not say.
pub fn available_memory() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    [system(), group_room(Path::new("/sys/fs/cgroup"), &groups), address_space()].into_iter().flatten().min()
}

/// `MemAvailable` of Linux, in bytes.
#[cfg(not(any(windows, target_os = "macos")))]
fn system() -> Option<u64> {
    mem_available(&fs::read_to_string("/proc/meminfo").ok()?)
}

/// What the system has: memory, and what this process may still reserve of memory and page file.
#[cfg(windows)]
fn system() -> Option<u64> {
    use windows_sys::Win32::System::SystemInformation::{GlobalMemoryStatusEx, MEMORYSTATUSEX};
    let mut status = MEMORYSTATUSEX { dwLength: size_of::<MEMORYSTATUSEX>() as u32, ..Default::default() };
    // SAFETY: a valid pointer to a structure that says its own size, which is all that the call reads or writes.
    let told = unsafe { GlobalMemoryStatusEx(&mut status) };
    (told != 0).then(|| status.ullAvailPhys.min(status.ullAvailPageFile).min(status.ullAvailVirtual))
}

/// What the system has: memory that is neither wired nor compressed, to a hundredth of all.
#[cfg(target_os = "macos")]
fn system() -> Option<u64> {
    let bytes: u64 = sysctl(c"hw.memsize")?;
    let percent: i32 = sysctl(c"kern.memorystatus_level")?;
    Some(bytes / 100 * u64::try_from(percent).ok()?)
}

/// A number that the system calls so; `None` where it has none of the name, or one of another size than `T`.
#[cfg(target_os = "macos")]
fn sysctl<T: Default + Copy>(name: &std::ffi::CStr) -> Option<T> {
    use nix::libc::sysctlbyname;
    let (mut value, mut size) = (T::default(), size_of::<T>());
    // SAFETY: the name ends with 0; at most `size` bytes are written to `value`, which has so many; every pattern of bytes
    // is a value of the integers that T stands for here.
    let failed = unsafe { sysctlbyname(name.as_ptr(), (&raw mut value).cast(), &mut size, std::ptr::null_mut(), 0) };
    (failed == 0 && size == size_of::<T>()).then_some(value)
}

#[cfg(any(test, not(any(windows, target_os = "macos"))))]
fn mem_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

/// What the control groups of this process leave: of its own group and all above it the least. `groups` is
/// /proc/self/cgroup; `root` is where the groups are mounted (v2, or v1 with a folder per controller). In a container
/// the path may be the host's, which is not there: then the root is the own group.
fn group_room(root: &Path, groups: &str) -> Option<u64> {
    let path_of = |line: &'_ str| -> Option<(bool, String)> {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let v1 = controllers.split(',').any(|c| c == "memory");
        (v1 || controllers.is_empty()).then(|| (v1, path.trim_start_matches('/').to_owned()))
    };
    let mut found = groups.lines().filter_map(path_of).collect::<Vec<_>>();
    // A system may have both, and only one of them limits memory; without a list the roots are asked.
    found.extend([(false, String::new()), (true, String::new())]);
    let rooms = found.into_iter().flat_map(|(v1, path)| {
        let (base, names) = if v1 { (root.join("memory"), V1) } else { (root.to_owned(), V2) };
        let own = base.join(path);
        own.ancestors().take_while(|folder| folder.starts_with(&base)).filter_map(|f| room(f, names)).min()
    });
    rooms.min()
}

/// Names of limit, use, and the use by cached files in a group's folder.
type Names = [&'static str; 3];
const V2: Names = ["memory.max", "memory.current", "file"];
const V1: Names = ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache"];

/// Limit minus use of one group. Page cache counts as use there and can be given back, so it is added again.
fn room(folder: &Path, [limit, used, cached]: Names) -> Option<u64> {
    let number = |name: &str| fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
    let stat = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let files = stat.lines().find_map(|l| l.strip_prefix(cached)?.strip_prefix(' ')?.parse().ok()).unwrap_or(0);
    Some(number(limit)?.saturating_sub(number(used)?.saturating_sub(files)))
}

/// Address space that threads and the allocator reserve without using it.
#[cfg(unix)]
const RESERVED: u64 = 64 << 20;

/// What the limit of the address space (`ulimit -v`) leaves.
#[cfg(unix)]
fn address_space() -> Option<u64> {
    use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
    let (limit, _) = getrlimit(Resource::RLIMIT_AS).ok().filter(|(soft, _)| *soft != RLIM_INFINITY)?;
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmSize:"))?;
    let used = line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10;
    Some(limit.saturating_sub(used).saturating_sub(RESERVED))
}

#[cfg(not(unix))]
fn address_space() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(any(target_os = "linux", target_os = "macos", windows))]
    fn the_system_says_what_is_free() {
        let bytes = available_memory().expect("a number of bytes");
        assert!((1 << 20..1 << 50).contains(&bytes), "{bytes}");
    }

    #[test]
    fn meminfo_is_read_in_bytes() {
        let text = "MemTotal:       24678 kB\nMemAvailable:   12345 kB\n";
        assert_eq!(mem_available(text), Some(12345 << 10));
        assert_eq!(mem_available("MemTotal: 1 kB\n"), None);
    }

    #[test]
    fn the_tightest_group_counts() {
        let root = tempfile::tempdir().expect("a folder");
        let group = |path: &str, files: &[(&str, &str)]| {
            let folder = root.path().join(path);
            fs::create_dir_all(&folder).expect("a group");
            files.iter().for_each(|(name, text)| fs::write(folder.join(name), text).expect("a file"));
        };
        group("", &[("memory.max", "max\n")]);
        group("a", &[("memory.max", "1000\n"), ("memory.current", "400\n"), ("memory.stat", "anon 1\nfile 300\n")]);
        group("a/b", &[("memory.max", "5000"), ("memory.current", "10")]);
        group("memory/c", &[("memory.limit_in_bytes", "700"), ("memory.usage_in_bytes", "0")]);
        let room = |groups: &str| group_room(root.path(), groups);
        assert_eq!(room("0::/a/b\n"), Some(900));
        assert_eq!(room("0::/\n"), None);
        assert_eq!(room("4:cpu,memory:/c\n0::/\n"), Some(700));
        assert_eq!(room("0::/not/there\n"), None);
        assert_eq!(room(""), None);
    }
}
